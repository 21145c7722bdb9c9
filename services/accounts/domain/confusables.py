"""Skeletons: two texts with the same skeleton are easily taken for each other (Unicode Technical Standard 39, 4).

The table is the standard's own, in `unicode/confusables.txt`, unchanged.
"""

import unicodedata
from functools import cache
from importlib.resources import files
from typing import Final

import regex

_IGNORABLE: Final = regex.compile(r"\p{Default_Ignorable_Code_Point}+")


@cache
def _prototypes() -> dict[int, str]:
    """Each confusable character, and what stands for it."""
    table = files("services.accounts.domain").joinpath("unicode", "confusables.txt").read_text("utf-8-sig")
    prototypes = {}
    for line in table.splitlines():
        fields = line.partition("#")[0].split(";")
        if len(fields) == 3:
            source, target, _ = fields
            prototypes[int(source, 16)] = "".join(chr(int(code, 16)) for code in target.split())
    return prototypes


def skeleton(text: str) -> str:
    """What stands for all that looks like `text`. For texts in one direction: nothing is put into display order."""
    decomposed = _IGNORABLE.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFD", decomposed.translate(_prototypes()))
