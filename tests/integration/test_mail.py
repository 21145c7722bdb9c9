"""Mails from a real outbox to a real SMTP server: taken once, put off, refused, late, cut off, and never lost."""

import asyncio
import email
import itertools
import json
import mailbox
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.policy import default
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs

from chassis.auth import KeyFiles, Verifier
from chassis.clock import Clock
from chassis.database import open_pool
from chassis.rpc import Server
from services.accounts.mail import maildir, sender
from services.accounts.mail.outbox import Outbox
from services.accounts.mail.sender import Sender
from services.accounts.mail.settings import MailSettings
from tests.conftest import Database
from tests.mail_server import PASSWORD, USER, Certificate, Inbox, MailServer, make_certificate, running, says

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

PATIENCE_SECONDS = 15
ZOE = "zoe@example.com"
CODE = "042137"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(sender, "WATCH_SECONDS", 0.05)


@pytest.fixture
async def rows(module_database: Database) -> AsyncIterator["Rows"]:
    connection = await asyncpg.connect(module_database.dsn("accounts"))
    await connection.execute("delete from mail_outbox")
    yield Rows(connection)
    await connection.close()


class Rows:
    """The outbox as the use cases write it and as an operator sees it."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    async def put(self, address: str = ZOE, language: str = "en", seconds: float = 600) -> UUID:
        """A code and its mail, which replaces the address's code before."""
        code_id = uuid4()
        await self._connection.execute(
            """
            insert into sign_in_code (address, code_id, code_hash, expires_at)
            values ($1, $2, sha256('x'), levata_now() + $3 * interval '1 second')
            on conflict (address) do update set code_id = excluded.code_id, expires_at = excluded.expires_at
            """,
            address,
            code_id,
            seconds,
        )
        mail_id = await self._connection.fetchval(
            """
            insert into mail_outbox (kind, address, language, code_id, expires_at)
            values ('code', $1, $2, $3, levata_now() + $4 * interval '1 second') returning id
            """,
            address,
            language,
            code_id,
            seconds,
        )
        assert isinstance(mail_id, UUID)
        return mail_id

    async def spend(self, address: str) -> None:
        await self._connection.execute("update sign_in_code set spent_by = 'x' where address = $1", address)

    async def all(self) -> list[dict[str, Any]]:
        return [dict(row) for row in await self._connection.fetch("select * from mail_outbox order by created_at")]

    async def claim(self) -> int:
        """Take a mail that is due, and how many blocks of the tables that read."""
        explained = await self._connection.fetchval(
            "explain (analyze, buffers, format json) select * from claim_mail(600, null)"
        )
        plan = json.loads(explained)[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    async def one(self) -> dict[str, Any]:
        (row,) = await self.all()
        return row

    async def are_gone(self) -> bool:
        return not await self.all()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition, which must come true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def sending(
    database: Database, keys: KeyFiles, mail_url: str, timeout_seconds: float = 5, ca: Path | None = None
) -> AsyncIterator[Sender]:
    """A replica's sender, put together as the service does it."""
    settings = MailSettings(
        service_name="accounts",
        postgres_dsn=database.dsn("accounts"),
        jwks_file=keys.jwks,
        mail_url=mail_url,
        mail_ca_file=ca,
        mail_timeout_seconds=timeout_seconds,
        mail_retry_seconds=0.1,
    )
    async with await open_pool(settings.postgres_dsn, "mail") as pool:
        one = Sender(
            Outbox(pool),
            settings.mail_transport(),
            settings.mail_sender(),
            lambda _: CODE,
            Clock(),
            timeout_seconds=settings.mail_timeout_seconds,
            retry_seconds=settings.mail_retry_seconds,
        )
        await one.start(Server(Verifier.from_file(keys.jwks)))
        try:
            yield one
        finally:
            await one.stop()


def outcomes(of: Sender) -> dict[str, float]:
    return {sample.labels["outcome"]: sample.value for sample in next(iter(of.collect())).samples}


@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
async def test_a_mail_goes_out_over_tls_by_who_signed_in(
    module_database: Database, keys: KeyFiles, rows: Rows, certificate: Certificate, scheme: str
) -> None:
    inbox = Inbox()
    mail_id = await rows.put()
    async with running(inbox, scheme, certificate, signs_in=True) as server:
        url = server.url(f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}@")
        async with sending(module_database, keys, url, ca=certificate.path) as one:
            await until(rows.are_gone)
    (taken,) = inbox.taken
    assert (taken.mail_from, taken.rcpt_tos) == ("levata@localhost", [ZOE])
    assert inbox.over_tls == [True]
    (message,) = inbox.messages()
    assert message["Subject"] == f"{CODE} is your Levata code"
    assert message["Message-ID"] == f"<{mail_id}@localhost>"
    assert outcomes(one) == {"sent": 1, "deferred": 0, "undeliverable": 0, "expired": 0}


@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
async def test_no_code_goes_to_a_server_whose_certificate_is_not_trusted(
    module_database: Database, keys: KeyFiles, rows: Rows, certificate: Certificate, scheme: str
) -> None:
    inbox = Inbox()
    await rows.put()
    with capture_logs() as logs:
        async with running(inbox, scheme, certificate) as server, sending(module_database, keys, server.url()):
            await until(lambda: says_so(logs, "mails cannot be sent now"))
    assert not inbox.taken
    assert not (await rows.one())["given_up"]


async def says_so(logs: list[Any], event: str) -> bool:
    return any(entry["event"] == event for entry in logs)


async def test_no_code_goes_in_the_clear_to_a_server_without_starttls(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    inbox = Inbox()
    await rows.put()
    with capture_logs() as logs:
        async with running(inbox) as server:
            url = server.url().replace("smtp:", "smtp+starttls:")
            async with sending(module_database, keys, url):
                await until(lambda: says_so(logs, "mails cannot be sent now"))
    assert not inbox.taken and inbox.asked == 0


async def test_a_wrong_password_delays_and_loses_nothing(
    module_database: Database, keys: KeyFiles, rows: Rows, certificate: Certificate
) -> None:
    inbox = Inbox()
    await rows.put()
    with capture_logs() as logs:
        async with running(inbox, "smtps", certificate, signs_in=True) as server:
            async with sending(module_database, keys, server.url("levata:wrong@"), ca=certificate.path):
                await until(lambda: says_so(logs, "mails cannot be sent now"))
            assert {entry["error"] for entry in logs if "error" in entry} == {"sign-in refused: 535 5.7.8"}
            right = server.url(f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}@")
            async with sending(module_database, keys, right, ca=certificate.path):
                await until(rows.are_gone)
    assert inbox.recipients() == [ZOE]


async def test_a_server_that_is_down_gets_the_mails_when_it_is_back(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    inbox = Inbox()
    async with running(inbox) as server:
        await server.stop()
        with capture_logs() as logs:
            async with sending(module_database, keys, server.url()) as one:
                for number in range(3):
                    await rows.put(f"{number}@example.com")
                await until(lambda: says_so(logs, "mails cannot be sent now"))
                assert len(await rows.all()) == 3
                await server.start()
                await until(rows.are_gone)
    assert sorted(inbox.recipients()) == ["0@example.com", "1@example.com", "2@example.com"]
    assert outcomes(one)["sent"] == 3


async def test_a_mail_that_waits_is_told_in_health_and_its_code_expires_aloud(
    module_database: Database, keys: KeyFiles, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "DELAYED_SECONDS", 0.2)
    async with running(Inbox()) as server:
        await server.stop()
        with capture_logs() as logs:
            async with sending(module_database, keys, server.url()) as one:
                mail_id = await rows.put(seconds=3)
                await until(lambda: says_so(logs, "mail is delayed"))
                await until(lambda: says_so(logs, "a mail has expired unsent"))
                await until(lambda: says_so(logs, "mail is in time"))
    assert [entry["mail"] for entry in logs if entry["event"] == "a mail has expired unsent"] == [str(mail_id)]
    row = await rows.one()
    assert (row["given_up"], row["address"]) == ("expired", "")
    assert outcomes(one)["expired"] == 1


@pytest.mark.parametrize("on", ["on_recipient", "on_content"])
async def test_a_mail_that_is_put_off_is_tried_again_while_others_pass(
    module_database: Database, keys: KeyFiles, rows: Rows, on: str
) -> None:
    inbox = Inbox()
    setattr(inbox, on, says("451 4.7.1 <zoe@example.com>: try again later", "450 4.2.0 greylisted", None))
    await rows.put()
    async with running(inbox) as server, sending(module_database, keys, server.url()) as one:
        await until(rows.are_gone)
    assert inbox.recipients() == [ZOE]
    assert outcomes(one) == {"sent": 1, "deferred": 2, "undeliverable": 0, "expired": 0}


@pytest.mark.parametrize(
    ("on", "reason"), [("on_recipient", "recipient refused: 550 5.1.1"), ("on_content", "content refused: 550 5.1.1")]
)
async def test_a_refused_mail_is_given_up_at_once_and_says_why_without_the_address(
    module_database: Database, keys: KeyFiles, rows: Rows, on: str, reason: str
) -> None:
    inbox = Inbox()
    setattr(inbox, on, says("550 5.1.1 <zoe@example.com>: no such user, 042137", None))
    await rows.put()
    await rows.put("next@example.com")
    with capture_logs() as logs:
        async with running(inbox) as server, sending(module_database, keys, server.url()) as one:
            await until(lambda: one_row(rows))
    # The other one went out, over the same session or another.
    assert inbox.recipients() in (["next@example.com"], [ZOE])
    row = await rows.one()
    assert (row["given_up"], row["address"], row["attempts"]) == (reason, "", 1)
    assert outcomes(one) == {"sent": 1, "deferred": 0, "undeliverable": 1, "expired": 0}
    assert "zoe" not in repr(logs) and CODE not in repr(logs)


async def one_row(rows: Rows) -> bool:
    return len(await rows.all()) == 1 and (await rows.one())["given_up"] is not None


async def test_a_server_that_wants_something_else_of_us_refuses_no_mail(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    inbox = Inbox()
    inbox.on_recipient = says("530 5.7.0 Authentication required", "421 4.3.2 closing", None)
    await rows.put()
    async with running(inbox) as server, sending(module_database, keys, server.url()) as one:
        await until(rows.are_gone)
    assert inbox.recipients() == [ZOE]
    assert outcomes(one) == {"sent": 1, "deferred": 0, "undeliverable": 0, "expired": 0}


async def test_a_slow_server_is_left_in_time(module_database: Database, keys: KeyFiles, rows: Rows) -> None:
    inbox = Inbox()

    async def slow() -> str | None:
        if inbox.asked == 1:
            await asyncio.sleep(PATIENCE_SECONDS)
        return None

    inbox.on_recipient = slow
    await rows.put()
    # Enough for the second time.
    async with running(inbox) as server, sending(module_database, keys, server.url(), timeout_seconds=3):
        await until(rows.are_gone)
    assert inbox.recipients() == [ZOE]
    assert inbox.asked == 2


async def test_a_server_that_never_says_a_word_is_left_in_time(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    silent = await asyncio.start_server(lambda reader, writer: None, "localhost", 0)
    port = silent.sockets[0].getsockname()[1]
    await rows.put()
    with capture_logs() as logs:
        async with sending(module_database, keys, f"smtp://localhost:{port}", timeout_seconds=0.3):
            await until(lambda: says_so(logs, "mails cannot be sent now"))
    silent.close()
    assert not (await rows.one())["given_up"]


async def test_a_connection_cut_in_the_middle_of_a_mail_costs_nothing(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    inbox = Inbox()
    servers: list[MailServer] = []
    times = itertools.count()

    async def cut() -> str | None:
        if next(times) == 0:
            servers[0].cut()
        return None

    inbox.on_recipient = cut
    await rows.put()
    async with running(inbox) as server, sending(module_database, keys, server.url()):
        servers.append(server)
        await until(rows.are_gone)
    assert inbox.recipients() == [ZOE]


async def test_a_lost_answer_may_send_twice_with_the_same_message_id(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    inbox = Inbox()
    servers: list[MailServer] = []

    async def taken_but_not_told() -> str | None:
        if not inbox.taken:
            servers[0].cut()
        return None

    inbox.on_content = taken_but_not_told
    await rows.put()
    async with running(inbox) as server, sending(module_database, keys, server.url()):
        servers.append(server)
        await until(rows.are_gone)
    assert inbox.recipients() == [ZOE, ZOE]
    first, second = inbox.messages()
    assert first["Message-ID"] == second["Message-ID"]


async def test_two_replicas_share_the_work_and_send_each_mail_once(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    inbox, both = Inbox(), asyncio.Event()

    async def wait_for_both() -> None:
        # One alone has no more of them under way.
        if inbox.asked > sender.WORKERS:
            both.set()
        await both.wait()

    inbox.on_recipient = wait_for_both
    addresses = [f"{number}@example.com" for number in range(60)]
    for address in addresses:
        await rows.put(address)
    async with (
        running(inbox) as server,
        sending(module_database, keys, server.url(), timeout_seconds=PATIENCE_SECONDS) as one,
        sending(module_database, keys, server.url(), timeout_seconds=PATIENCE_SECONDS) as two,
    ):
        await until(rows.are_gone)
    assert sorted(inbox.recipients()) == sorted(addresses)
    assert outcomes(one)["sent"] + outcomes(two)["sent"] == 60
    assert min(outcomes(one)["sent"], outcomes(two)["sent"]) > 0


async def test_a_claim_never_reads_all_that_waits(rows: Rows) -> None:
    """Its plan is made while the outbox is empty and reading and sorting all of it looks cheap."""
    for _ in range(8):
        await rows.claim()
    for number in range(300):
        await rows.put(f"{number}@cards.example")
    assert max([await rows.claim() for _ in range(3)]) < 150
    assert sum(row["attempts"] for row in await rows.all()) == 3


async def test_a_mail_of_a_sender_that_died_is_sent_when_its_lease_ends(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    await rows.put()
    async with await open_pool(module_database.dsn("accounts"), "mail") as pool:
        dead = Outbox(pool)
        began = time.monotonic()
        held = await dead.claim(2)
        assert held is not None and await dead.claim(2) is None
        inbox = Inbox()
        async with running(inbox) as server, sending(module_database, keys, server.url()):
            await until(rows.are_gone)
        assert time.monotonic() - began > 1.9
        # It was only stopped, and goes on: what it puts back or gives up is not its business any more.
        await rows.put()
        assert await dead.claim(60) is not None
        await dead.put_back(held, 0)
        await dead.give_up(held, "late")
        assert (await rows.one())["given_up"] is None
    assert inbox.recipients() == [ZOE]


async def test_a_code_that_was_replaced_or_used_is_not_mailed(
    module_database: Database, keys: KeyFiles, rows: Rows
) -> None:
    inbox = Inbox()
    await rows.put()
    newer = await rows.put()
    await rows.put("used@example.com")
    await rows.spend("used@example.com")
    async with running(inbox) as server, sending(module_database, keys, server.url()):
        await until(rows.are_gone)
    assert inbox.recipients() == [ZOE]
    assert inbox.messages()[0]["Message-ID"] == f"<{newer}@localhost>"


async def test_a_mailbox_keeps_mails_that_anybody_can_read(
    module_database: Database, keys: KeyFiles, rows: Rows, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder with spaces" / "mail"
    folder.parent.mkdir()
    for number in range(20):
        await rows.put(f"{number}@example.com", "hi")
    async with sending(module_database, keys, maildir.url_of(folder)):
        await until(rows.are_gone)
    mails = [email.message_from_bytes(mail.as_bytes(), policy=default) for mail in mailbox.Maildir(folder)]
    assert sorted(str(mail["To"]) for mail in mails) == sorted(f"{number}@example.com" for number in range(20))
    assert {mail["Subject"] for mail in mails} == {f"{CODE} आपका Levata कोड है"}


async def test_a_mailbox_that_cannot_be_written_delays(
    module_database: Database, keys: KeyFiles, rows: Rows, tmp_path: Path
) -> None:
    folder = tmp_path / "mail"
    folder.write_text("a file, not a folder")
    await rows.put()
    with capture_logs() as logs:
        async with sending(module_database, keys, maildir.url_of(folder)):
            await until(lambda: says_so(logs, "mails cannot be sent now"))
            folder.unlink()
            await until(rows.are_gone)
    assert len(mailbox.Maildir(folder)) == 1
