"""What mails say and look like, and how their settings are read."""

import email
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chassis.settings import SettingsError, read_settings
from services.accounts.mail import maildir, smtp
from services.accounts.mail.delivery import Undeliverable
from services.accounts.mail.letters import code_letter
from services.accounts.mail.message import compose, sender_from
from services.accounts.mail.settings import MailSettings

MAIL_ID = UUID("0192a0b0-0000-7000-8000-000000000001")
AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
HEADERS = sorted(
    [
        "To",
        "From",
        "Subject",
        "Date",
        "Message-ID",
        "Auto-Submitted",
        "Content-Language",
        "Content-Type",
        "MIME-Version",
    ]
)
SENDER = sender_from("Levata <levata@example.org>")


def composed(recipient: str = "zoe@example.com", language: str = "en") -> EmailMessage:
    sent = compose(code_letter("042137", 600, language), SENDER, recipient, MAIL_ID, AT)
    read = email.message_from_bytes(sent.content, policy=default)
    assert isinstance(read, EmailMessage)
    return read


def text_of(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    return str(part.get_content())


class Tags(HTMLParser):
    """Which elements are open at the end, and every attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: dict[str, str | None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.update(attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    ("wanted", "spoken"),
    [("", "en"), ("en-GB", "en"), ("hi", "hi"), ("HI-deva-IN", "hi"), ("hif", "en"), ("de", "en"), ("x-hi", "en")],
)
def test_the_language_is_the_nearest_that_there_is(wanted: str, spoken: str) -> None:
    assert code_letter("042137", 600, wanted).language == spoken


@pytest.mark.parametrize(
    ("seconds_left", "said"), [(600, "10 minutes"), (598.7, "10 minutes"), (200, "3 minutes"), (5, "one more minute")]
)
def test_a_delayed_mail_promises_less_time(seconds_left: float, said: str) -> None:
    assert said in code_letter("042137", seconds_left, "en").text


@pytest.mark.parametrize("language", ["en", "hi"])
def test_text_and_html_bring_the_code_and_nothing_from_elsewhere(language: str) -> None:
    message = composed(language=language)
    assert message.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert message["Content-Language"] == language
    html = text_of(message, "html")
    assert "042137" in message["Subject"] and "042137" in text_of(message, "plain") and "042137" in html
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert tags.attributes["lang"] == language
    assert not {"src", "href"} & set(tags.attributes) and "//" not in html and "url(" not in html


def test_the_hindi_mail_is_in_hindi() -> None:
    message = composed(language="hi-IN")
    assert message["Subject"] == "042137 आपका Levata कोड है"
    assert "Levata में साइन इन करने के लिए आपका कोड:" in text_of(message, "plain")
    assert "10 मिनट" in text_of(message, "html")


def test_headers_say_who_when_and_which() -> None:
    message = composed()
    assert message["From"] == "Levata <levata@example.org>"
    assert message["To"] == "zoe@example.com"
    assert message["Date"].datetime == AT
    assert message["Message-ID"] == f"<{MAIL_ID}@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["MIME-Version"] == "1.0"


def test_the_wire_has_short_ascii_lines_that_end_in_cr_lf() -> None:
    content = compose(code_letter("042137", 600, "hi"), SENDER, "zoe@example.com", MAIL_ID, AT).content
    assert content.isascii()
    assert all(len(line) <= 998 for line in content.split(b"\r\n"))
    assert b"\n" not in content.replace(b"\r\n", b"")


@pytest.mark.parametrize(
    "recipient",
    [
        "",
        "nobody",
        "zoe@",
        "zoe@example.com\r\nBcc: all@example.com",
        "a@b\nc@d",
        "zoe@example.com\0",
        "a b@example.com",
        "zoe@[",
        "zoe@[1",
    ],
)
def test_what_is_no_address_is_undeliverable_and_is_not_repeated(recipient: str) -> None:
    with pytest.raises(Undeliverable) as caught:
        composed(recipient)
    assert str(caught.value) == "the address is malformed"


@example("[")
@given(st.text(max_size=40))
def test_no_address_can_add_a_header(text: str) -> None:
    for recipient in (text, f"{text}@example.com", f"zoe@{text}"):
        try:
            content = compose(code_letter("042137", 600, "en"), SENDER, recipient, MAIL_ID, AT).content
        except Undeliverable:
            continue
        read = email.message_from_bytes(content, policy=default)
        assert sorted(read.keys()) == HEADERS
        assert len(read["To"].addresses) == 1


@pytest.mark.parametrize(
    "text", ["", "Levata", "Levata <>", "levata@", "Levata <le vata@example.org>", "ü@example.org"]
)
def test_a_sender_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no mail address"):
        sender_from(text)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtps://mail.example.org", ("smtps", "mail.example.org", 465, None, None)),
        ("smtp+starttls://me%40x:p%2Fw@mail.example.org", ("smtp+starttls", "mail.example.org", 587, "me@x", "p/w")),
        ("smtp://127.0.0.1:2525/", ("smtp", "127.0.0.1", 2525, None, None)),
    ],
)
def test_a_mail_server_is_read_from_its_url(url: str, server: tuple[object, ...]) -> None:
    assert smtp.server_from(url) == server


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example.org",
        "http://mail.example.org",
        "smtp://u:secret@mail.example.org",
        "smtps://u:secret@h/p",
        "smtps://",
    ],
)
def test_other_urls_are_refused_without_telling_the_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"mail server|in the clear") as caught:
        smtp.server_from(url)
    assert "secret" not in str(caught.value)


def test_a_folder_comes_back_from_its_url() -> None:
    folder = Path("/a folder/with % and #/mail")
    assert maildir.folder_from(maildir.url_of(folder)) == folder


@pytest.mark.parametrize("url", ["maildir://host/path", "maildir:relative", "maildir:"])
def test_a_mailbox_has_an_absolute_path(url: str) -> None:
    with pytest.raises(ValueError, match="absolute"):
        maildir.folder_from(url)


def test_settings_name_what_is_wrong_and_tell_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVATA_POSTGRES_DSN", "postgresql://x")
    monkeypatch.setenv("LEVATA_JWKS_FILE", "jwks.json")
    monkeypatch.setenv("LEVATA_MAIL_URL", "smtp://me:secret@mail.example.org")
    with pytest.raises(SettingsError, match="in the clear") as caught:
        read_settings(MailSettings, "accounts")
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("LEVATA_MAIL_URL", "smtps://me:secret@mail.example.org")
    assert isinstance(read_settings(MailSettings, "accounts").mail_transport(), smtp.SmtpTransport)
