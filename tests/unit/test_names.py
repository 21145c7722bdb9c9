"""Names: each rule of platform.md, "Accounts", and what may be taken for what."""

# Letters that look alike are what this is about.
# ruff: noqa: RUF001, RUF003

import pytest

from services.accounts.domain.names import Name, NameFault, chosen_name


def looks(text: str) -> set[str]:
    name = chosen_name(text)
    assert isinstance(name, Name), f"{text!r}: {name}"
    return set(name.looks)


@pytest.mark.parametrize(
    "text",
    [
        "राहुल",
        "Zoë",
        "Zoe\u0308",
        "abc",
        "a" * 20,
        "नमस्ते दुनिया",
        "क्षत्रिय",
        "山田たろう",
        "김철수",
        "王小明",
        "Мария",
        "Ελένη",
        "مُحَمَّد",
        "ไทยแลนด์",
        "O_o",
        "x-2",
        "Anna Maria",
        "123",
        "१२३ राहुल",
        "Müller-Lüdenscheidt",
    ],
)
def test_a_name(text: str) -> None:
    assert isinstance(chosen_name(text), Name)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("O'Neil", NameFault.CHARACTERS),
        ("a\x00bc", NameFault.CHARACTERS),
        ("a\nbc", NameFault.CHARACTERS),
        ("ab\u202ecd", NameFault.CHARACTERS),
        ("ab\u200dcd", NameFault.CHARACTERS),
        ("ab\u200bcd", NameFault.CHARACTERS),
        ("ab\ufe0fcd", NameFault.CHARACTERS),
        ("ab\u034fcd", NameFault.CHARACTERS),
        ("\u3164\u3164\u3164", NameFault.CHARACTERS),
        ("abc😀", NameFault.CHARACTERS),
        ("e\u0489bc", NameFault.CHARACTERS),
        ("abc\ue000", NameFault.CHARACTERS),
        ("abc\U000e0041", NameFault.CHARACTERS),
        ("\u0301abc", NameFault.MARKS),
        ("ab \u0301c", NameFault.MARKS),
        ("ab1\u0301c", NameFault.MARKS),
        ("ab-\u0301c", NameFault.MARKS),
        ("a" + "\u0316" * 5 + "bc", NameFault.MARKS),
        (" abc", NameFault.SPACES),
        ("abc ", NameFault.SPACES),
        ("a  bc", NameFault.SPACES),
        ("a \u00a0bc", NameFault.SPACES),
        ("", NameFault.LENGTH),
        ("ab", NameFault.LENGTH),
        ("क्ष", NameFault.LENGTH),
        ("a" * 21, NameFault.LENGTH),
        ("---", NameFault.LENGTH),
        ("_ _", NameFault.LENGTH),
        # A Cyrillic а, a Cherokee Ꭺ, a mark that is no Latin one.
        ("p\u0430ypal", NameFault.SCRIPT),
        ("\u13aanna", NameFault.SCRIPT),
        ("aнна", NameFault.SCRIPT),
        ("aa\u093eb", NameFault.SCRIPT),
        ("राहुलx", NameFault.SCRIPT),
        ("राहुल 1२", NameFault.SCRIPT),
        ("Guest-1234", NameFault.RESERVED),
        ("GUEST-x", NameFault.RESERVED),
        ("guest_x", NameFault.RESERVED),
        ("Guest x", NameFault.RESERVED),
        ("Ｇｕｅｓｔ-x", NameFault.RESERVED),
    ],
)
def test_no_name(text: str, fault: NameFault) -> None:
    assert chosen_name(text) is fault


def test_a_name_is_kept_in_its_normal_form() -> None:
    name = chosen_name("ﬁ\uff41 Zoe\u0308")
    assert isinstance(name, Name)
    assert name.text == "fia Zoë"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna", "aNNA"),
        ("straße", "STRASSE"),
        # Cyrillic and Latin.
        ("сор", "cop"),
        ("Bob0", "BobO"),
        ("Bob0", "bobo"),
        # A capital I and a small l.
        ("Iago", "lago"),
        ("a1ex", "alex"),
        ("modern", "modem"),
        ("Zoë", "Zoe\u0308"),
    ],
)
def test_names_that_look_alike_share_a_look(one: str, other: str) -> None:
    assert looks(one) & looks(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Anna", "Anne"), ("Zoë", "Zoe"), ("Kai", "Kal"), ("a_b", "a-b"), ("राहुल", "रोहित")]
)
def test_names_that_do_not_share_none(one: str, other: str) -> None:
    assert not looks(one) & looks(other)
