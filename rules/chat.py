"""Lines of a chat: what is left of a text that somebody wrote, and how many one may say.

A line is plain text, shown in one piece. All that could break, reorder or hide a line for its readers is taken out;
what scripts and emoji need stays, and so does markup, which means nothing here.
"""

import re
import unicodedata
from typing import Final

# Code points after NFC, which is what most people would count.
LINE_CHARACTERS_MAX: Final = 280
# Nobody says more than so many lines in so many seconds, wherever it be.
LINES_MAX: Final = 5
LINES_SECONDS: Final = 10
# Nor do all of a side together in a second: nobody could read it, and everybody is sent it.
CROWD_LINES_MAX: Final = 20

# A line feed or a tab between two words must not join them.
_BREAKS: Final = re.compile("[\t\n\v\f\r\u0085\u2028\u2029]+")
# Flags of regions are a black flag, tags that spell the region, and a tag that ends them. Anywhere else tags can only
# hide text.
_TAGGED_FLAG: Final = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f)")
# Format characters that are seen, or that join letters and emoji: the signs that go under or before numbers and verses
# in Arabic, Syriac and Kaithi (Prepended_Concatenation_Mark), and the joiners.
_KEPT_FORMATS: Final = frozenset(
    map(chr, [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, 0x200C, 0x200D])
)
# Nothing is seen of a line of these alone: joiners, fillers, variation selectors, the empty Braille pattern, spaces.
_UNSEEN: Final = re.compile(
    r"[\s\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]*"
)


def cleaned_line(text: str) -> str:
    """What is kept and sent of a text: in NFC, on one line, without what is taken out, and without outer spaces.

    Empty where nothing would be seen. Not cut: whoever takes it compares it with LINE_CHARACTERS_MAX.
    """
    # Splitting at a group gives the flags too, at the odd places.
    parts = _TAGGED_FLAG.split(_BREAKS.sub(" ", text))
    parts[::2] = ["".join(filter(_is_kept, part)) for part in parts[::2]]
    line = unicodedata.normalize("NFC", "".join(parts)).strip()
    return "" if _UNSEEN.fullmatch(line) else line


def _is_kept(character: str) -> bool:
    """Whether it is neither a control nor a surrogate, a noncharacter, or one of the formats that are taken out."""
    code_point = ord(character)
    noncharacter = code_point & 0xFFFE == 0xFFFE or 0xFDD0 <= code_point <= 0xFDEF
    category = unicodedata.category(character)
    return not noncharacter and category not in ("Cc", "Cs") and (category != "Cf" or character in _KEPT_FORMATS)
