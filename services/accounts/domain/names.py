"""Names that are chosen: what one may be, and which ones could be taken for one another (platform.md, "Accounts")."""

import unicodedata
from enum import Enum
from typing import Final

import regex

from rules.values import value
from services.accounts.domain.account import GUEST_PREFIX
from services.accounts.domain.confusables import skeleton

CHARACTERS_MIN: Final = 3
CHARACTERS_MAX: Final = 20
# No script needs more on one letter; stacks of them run into the lines above and below.
_MARKS_MAX: Final = 4

# Scripts in living use: tables 5 and 7 of Unicode Standard Annex 31.
_SCRIPTS: Final = [
    "Adlm",
    "Arab",
    "Armn",
    "Bali",
    "Bamu",
    "Batk",
    "Beng",
    "Cakm",
    "Cans",
    "Cham",
    "Cher",
    "Cyrl",
    "Deva",
    "Ethi",
    "Geor",
    "Grek",
    "Gujr",
    "Guru",
    "Hebr",
    "Hmnp",
    "Java",
    "Kali",
    "Khmr",
    "Knda",
    "Lana",
    "Laoo",
    "Latn",
    "Lepc",
    "Limb",
    "Lisu",
    "Mand",
    "Miao",
    "Mlym",
    "Mtei",
    "Mymr",
    "Newa",
    "Nkoo",
    "Olck",
    "Orya",
    "Osge",
    "Rohg",
    "Saur",
    "Sinh",
    "Sund",
    "Sylo",
    "Syrc",
    "Tale",
    "Talu",
    "Taml",
    "Tavt",
    "Telu",
    "Tfng",
    "Thaa",
    "Thai",
    "Tibt",
    "Vaii",
    "Wcho",
    "Yiii",
]
# What counts as one script together: Chinese with Bopomofo, Japanese, Korean (UTS 39, section 5.1).
_SCRIPTS_TOGETHER: Final = ("Hani Bopo", "Hani Hira Kana", "Hani Hang")


def _written_in(scripts: str) -> str:
    """Characters that may stand in a text of these scripts."""
    own = "".join(rf"\p{{Script_Extensions={script}}}" for script in scripts.split())
    return rf"[{own}\p{{Script_Extensions=Zyyy}}\p{{Script_Extensions=Zinh}}]*"


_ONE_SCRIPT: Final = regex.compile("|".join(map(_written_in, (*_SCRIPTS, *_SCRIPTS_TOGETHER))))
# Marks that are invisible or enclose their letter belong to none.
_ALLOWED: Final = regex.compile(r"(?:(?!\p{DI})[\p{L}\p{Mn}\p{Mc}\p{Nd} _-])*+")
_MARKS_BELONG: Final = regex.compile(rf"(?:\p{{L}}\p{{M}}{{0,{_MARKS_MAX}}}+|[^\p{{L}}\p{{M}}])*+")
_LETTER_OR_DIGIT: Final = regex.compile(r"[\p{L}\p{Nd}]")
_STRAY_SPACE: Final = regex.compile(r"^ |  | $")
_GRAPHEME: Final = regex.compile(r"\X")
# The separators of names stand for one another here.
_RESERVED: Final = regex.compile(regex.escape(skeleton(GUEST_PREFIX.rstrip("-").casefold())) + "[ _-]")


class NameFault(Enum):
    """The rule that a name breaks."""

    CHARACTERS = "Letters, digits, spaces, _ and - make a name, and nothing else."
    MARKS = "A mark must belong to a letter, and only so many fit on one."
    SPACES = "Spaces stand alone, and neither first nor last."
    LENGTH = f"A name has {CHARACTERS_MIN} to {CHARACTERS_MAX} characters, one of them a letter or digit."
    SCRIPT = "All letters must be of one script, and all digits of one kind."
    RESERVED = f"Names that look like {GUEST_PREFIX} are for guests."


@value
class Name:
    """A name that may be chosen, unless another account has one of its looks."""

    # In normal form NFKC, as it is shown.
    text: str
    # What it could be taken for, in order.
    looks: tuple[str, ...]


def chosen_name(wish: str) -> Name | NameFault:
    """The name that is wished for, or the first rule that it breaks."""
    text = unicodedata.normalize("NFKC", wish)
    # A character that this Python does not know yet may have another normal form in the next one.
    if not _ALLOWED.fullmatch(text) or any(unicodedata.category(each) == "Cn" for each in text):
        return NameFault.CHARACTERS
    if not _MARKS_BELONG.fullmatch(text):
        return NameFault.MARKS
    if _STRAY_SPACE.search(text):
        return NameFault.SPACES
    if not CHARACTERS_MIN <= len(_GRAPHEME.findall(text)) <= CHARACTERS_MAX or not _LETTER_OR_DIGIT.search(text):
        return NameFault.LENGTH
    if not _ONE_SCRIPT.fullmatch(text) or len(_zeros(text)) > 1:
        return NameFault.SCRIPT
    folded = _folded_look(text)
    if _RESERVED.match(folded):
        return NameFault.RESERVED
    return Name(text, tuple(sorted({folded, skeleton(text)})))


def _zeros(text: str) -> set[int]:
    """The zero of each kind of digits in a text."""
    return {ord(each) - unicodedata.decimal(each) for each in text if unicodedata.category(each) == "Nd"}


def _folded_look(text: str) -> str:
    """The skeleton whatever the case of the letters; as some capitals stand for small letters, folded until it stays.

    The skeleton of the text as it is shown tells more: a capital I is a small l there, and a small i here.
    """
    look, before = text, ""
    while look != before:
        look, before = skeleton(unicodedata.normalize("NFKC", look).casefold()), look
    return look
