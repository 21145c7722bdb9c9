"""Names of any characters: what is accepted keeps every promise, and its other spellings are found."""

import unicodedata

import regex
from hypothesis import example, given
from hypothesis import strategies as st

from services.accounts.domain.confusables import skeleton
from services.accounts.domain.names import CHARACTERS_MAX, CHARACTERS_MIN, Name, chosen_name

WRITING = st.one_of(
    st.text(min_size=1, max_size=30),
    # Where most names come from, and most of what must be refused.
    st.text(
        st.sampled_from("abcIl10Oo _-a\u0430e\u0435o\u043ep\u0440\u0301\u093eराहुल漢かカ한\u200d\u202e\u00a0"),
        max_size=24,
    ),
    st.text(st.characters(categories=["L", "Mn", "Mc", "Nd"]), min_size=3, max_size=20),
)


@given(WRITING)
@example("Zoë")
@example("राहुल")
@example("ﬃﬃﬃ")
@example("\u0130stanbul")
def test_a_name_that_is_accepted(text: str) -> None:
    name = chosen_name(text)
    if not isinstance(name, Name):
        return
    assert CHARACTERS_MIN <= len(regex.findall(r"\X", name.text)) <= CHARACTERS_MAX
    assert unicodedata.normalize("NFKC", name.text) == name.text
    assert all(
        each in " _-" or unicodedata.category(each) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd")
        for each in name.text
    )
    assert name.text == " ".join(name.text.split(" ")).strip()
    assert "  " not in name.text
    # Asked for again as it is shown, it is the same name.
    assert chosen_name(name.text) == name


@given(WRITING)
def test_a_name_is_taken_by_all_its_spellings(text: str) -> None:
    """In other letters' case, decomposed or in compatibility forms it shares a look, where it is a name at all."""
    name = chosen_name(text)
    if not isinstance(name, Name):
        return
    for other_text in (name.text.upper(), name.text.lower(), name.text.swapcase(), unicodedata.normalize("NFD", text)):
        other = chosen_name(other_text)
        if isinstance(other, Name):
            assert set(other.looks) & set(name.looks), other_text


@given(WRITING)
def test_a_skeleton_is_its_own_skeleton(text: str) -> None:
    assert skeleton(skeleton(text)) == skeleton(text)
