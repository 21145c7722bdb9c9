"""Whose deals were whose, and who has therefore earned what a game pays (platform.md, "Turns and connections").

Judged once, by the table service, and recorded in the game's last event; everybody else reads it there.
"""

from collections.abc import Sequence

from rules.values import value


@value
class Involvement:
    """What came to a seat in one deal, and how much of it the seat's holder decided in person."""

    calls: int = 0
    own_calls: int = 0
    # Cards (played or discarded) that left a choice.
    choices: int = 0
    own_choices: int = 0


def is_own_deal(involvement: Involvement, *, cards_count: bool, away: bool) -> bool:
    """Whether the deal was the holder's own. `away`: whether the holder was away when it was scored."""
    counted_choices = involvement.choices if cards_count else 0
    if not involvement.calls and not counted_choices:
        return not away
    return involvement.own_calls == involvement.calls and 2 * involvement.own_choices >= counted_choices


def is_eligible(own_deals: Sequence[bool], *, quick_play: bool) -> bool:
    """Whether enough of a game's deals, in order, were the holder's own.

    Two thirds of a quick-play game, three quarters elsewhere, rounded up, and one of the last three.
    """
    numerator, denominator = (2, 3) if quick_play else (3, 4)
    needed = -(-len(own_deals) * numerator // denominator)
    return sum(own_deals) >= needed and any(own_deals[-3:])
