"""What is left of a line of chat: readable in every script, and harmless to those who read it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.chat import LINE_CHARACTERS_MAX, cleaned_line

ZWJ, ZWNJ, VS16 = "\u200d", "\u200c", "\ufe0f"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"

KEPT = {
    "plain": "Good luck, everybody!",
    "markup": "<script>alert('x')</script> **bold** [a](http://b) &amp;",
    "inner spaces": "a   b",
    "Hebrew in English": "they said שלום twice",
    "Arabic with a number sign": "العدد \u0600\u0661\u0662",
    "Persian with a non-joiner": f"نمی{ZWNJ}خواهم",
    "Devanagari with a joiner": f"क्{ZWJ}ष राहुल",
    "a family": ZWJ.join("👨👩👧👦"),
    "a heart with its selector": f"❤{VS16}",
    "a thumb with a skin": "👍🏽",
    "a keycap": f"7{VS16}\u20e3",
    "a flag of letters": "🇷🇴",
    "a flag of tags": SCOTLAND,
    "an emoji that is newer than we are": "\U0001fadf",
    "marks without a composed form": "x\u0323\u0302",
}

CLEANED = {
    "a NUL": ("a\0b", "ab"),
    "an escape sequence": ("\x1b[31mred", "[31mred"),
    "line feeds become a space": ("one\r\n\ntwo", "one two"),
    "so does a tab": ("one\ttwo", "one two"),
    "line separators of Unicode": ("one\u2028two\u2029three\u0085four", "one two three four"),
    "a right-to-left override": ("photo\u202egpj.exe", "photogpj.exe"),
    "isolates and embeddings": ("\u2066a\u2067b\u2068c\u2069\u202ad\u202be\u202c", "abcde"),
    "direction marks": ("a\u200eb\u200fc\u061cd", "abcd"),
    "a zero-width space and a byte order mark": ("a\u200bb\ufeffc\u2060d", "abcd"),
    "a soft hyphen": ("co\u00adop", "coop"),
    "text in tags": ("hi\U000e0068\U000e0069", "hi"),
    "tags without an end": (SCOTLAND[:-1], SCOTLAND[0]),
    "a noncharacter": ("a\uffffb\ufdd0", "ab"),
    "outer spaces": ("\u3000 a \u00a0", "a"),
    "decomposed letters": ("e\u0301", "é"),
    "a letter decomposed across what is taken out": ("e\u200b\u0301", "é"),
}

EMPTY = {
    "nothing": "",
    "spaces": " \t\u3000\u2003",
    "controls": "\0\x01\x1b",
    "joiners": ZWJ + ZWNJ,
    "a Hangul filler": "\u3164\u115f\uffa0",
    "the empty Braille pattern": "\u2800 \u2800",
    "a selector of nothing": VS16,
    "tags": "\U000e0068\U000e007f",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_people_write_is_kept_as_it_is(text: str) -> None:
    assert cleaned_line(text) == text


@pytest.mark.parametrize(("text", "cleaned"), CLEANED.values(), ids=CLEANED)
def test_what_would_disorder_or_hide_a_line_is_taken_out(text: str, cleaned: str) -> None:
    assert cleaned_line(text) == cleaned


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_a_line_of_which_nothing_is_seen_is_empty(text: str) -> None:
    assert cleaned_line(text) == ""


def test_characters_are_counted_after_composition() -> None:
    assert len(cleaned_line("e\u0301" * LINE_CHARACTERS_MAX)) == LINE_CHARACTERS_MAX
    # This letter has no composed form in NFC.
    assert len(cleaned_line("\u0958" * LINE_CHARACTERS_MAX)) == 2 * LINE_CHARACTERS_MAX


FORMATS = "\0\t\n\u0085\u2028\u200b\u200c\u200d\u202e\u2066\u2069\ufeff\ufe0f\u3164\U0001f3f4\U000e0067\U000e007f"
texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(FORMATS)))


@given(texts)
def test_a_cleaned_line_is_clean(text: str) -> None:
    line = cleaned_line(text)
    assert cleaned_line(line) == line
    assert unicodedata.is_normalized("NFC", line)
    assert line == line.strip()
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in line)
    assert not set(line) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_letters_digits_and_signs_are_never_lost(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    assert cleaned_line(text) in (composed, "")
    # Only fillers look like nothing.
    assert cleaned_line(text) or not set(composed) - set("\u115f\u1160\u2800\u3164\uffa0")
