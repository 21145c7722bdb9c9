"""What mails say, in each language that there is.

Plain HTML without anything to fetch: nobody learns whether or where a mail is read. The code stands in the subject, so
that a notification shows it (docs/decisions/mail.md).
"""

from html import escape
from typing import Final, NamedTuple

DEFAULT_LANGUAGE: Final = "en"


class Letter(NamedTuple):
    """A mail's content."""

    language: str
    subject: str
    text: str
    html: str


class _CodeWords(NamedTuple):
    subject: str
    intro: str
    valid_for: str
    valid_for_one: str
    tell_nobody: str
    not_asked_for: str


_CODE_WORDS: Final = {
    "en": _CodeWords(
        subject="{code} is your Levata code",
        intro="Your code to sign in to Levata:",
        valid_for="It is valid for {minutes} minutes and can be used once.",
        valid_for_one="It is valid for one more minute and can be used once.",
        tell_nobody="Give it to nobody: we never ask for it by phone or mail.",
        not_asked_for="If you did not ask for a code, you need not do anything.",
    ),
    "hi": _CodeWords(
        subject="{code} आपका Levata कोड है",
        intro="Levata में साइन इन करने के लिए आपका कोड:",
        valid_for="यह {minutes} मिनट तक मान्य है और केवल एक बार इस्तेमाल हो सकता है।",
        valid_for_one="यह एक मिनट और मान्य है और केवल एक बार इस्तेमाल हो सकता है।",
        tell_nobody="यह कोड किसी को न बताएँ: हम इसे फ़ोन या ईमेल पर कभी नहीं पूछते।",
        not_asked_for="अगर आपने कोड नहीं माँगा था, तो आपको कुछ करने की ज़रूरत नहीं है।",
    ),
}

_HTML: Final = """\
<!DOCTYPE html>
<html lang="{language}">
<head><meta charset="utf-8"><title>{subject}</title></head>
<body style="font-family: sans-serif; font-size: 16px; line-height: 1.5">
<p>{intro}</p>
<p style="font-size: 32px; font-weight: bold; letter-spacing: 4px">{code}</p>
<p>{valid_for}</p>
<p>{tell_nobody}</p>
<p>{not_asked_for}</p>
</body>
</html>
"""


def code_letter(code: str, seconds_left: float, language: str) -> Letter:
    """The mail that brings a code to sign in with."""
    language = _spoken(language)
    words = _CODE_WORDS[language]
    # A mail that was delayed promises less.
    minutes = max(1, round(seconds_left / 60))
    valid_for = words.valid_for_one if minutes == 1 else words.valid_for.format(minutes=minutes)
    subject = words.subject.format(code=code)
    text = "\n\n".join((words.intro, f"    {code}", valid_for, words.tell_nobody, words.not_asked_for)) + "\n"
    html = _HTML.format(
        language=language,
        subject=escape(subject),
        intro=escape(words.intro),
        code=escape(code),
        valid_for=escape(valid_for),
        tell_nobody=escape(words.tell_nobody),
        not_asked_for=escape(words.not_asked_for),
    )
    return Letter(language, subject, text, html)


def _spoken(wanted: str) -> str:
    """The language that a BCP 47 tag asks for, found as in RFC 4647 (3.4): `hi-Deva-IN`, `hi-Deva`, `hi`."""
    subtags = wanted.lower().split("-")
    while subtags:
        tag = "-".join(subtags)
        if tag in _CODE_WORDS:
            return tag
        subtags.pop()
    return DEFAULT_LANGUAGE
