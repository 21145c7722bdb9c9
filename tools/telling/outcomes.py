"""What became of the makers of a deal, in the words of euchre and klaverjas; read off the score, not computed."""

from typing import Final

from levata.table.v1 import play_pb2

_EUCHRE_TRICKS: Final = 5
_KLAVERJAS_TRICKS: Final = 8


def of_makers(points: play_pb2.DealPoints) -> str:
    """`makes it with 3 of 5`, `is nat`: goes on after the makers' name."""
    took = side_tricks(points, points.maker)
    failed = points.points[points.maker] == 0
    if points.card_points:
        pit = {_KLAVERJAS_TRICKS: ", pit", 0: ", with pit against it"}.get(took, "")
        return ("is nat" if failed else "makes it") + pit
    verb = "is euchred" if failed else "marches" if took == _EUCHRE_TRICKS else "makes it"
    return f"{verb} with {took} of {_EUCHRE_TRICKS}"


def in_short(points: play_pb2.DealPoints) -> str:
    """`euchred`, `nat`: for a column; empty where the makers just made it."""
    took = side_tricks(points, points.maker)
    failed = points.points[points.maker] == 0
    if points.card_points:
        pit = ["pit"] if took in (0, _KLAVERJAS_TRICKS) else []
        return ", ".join(["nat"] * failed + pit)
    return "euchred" if failed else "march" if took == _EUCHRE_TRICKS else ""


def side_tricks(points: play_pb2.DealPoints, seat: int) -> int:
    """Tricks of a seat and its partner."""
    return points.tricks_won[seat] + points.tricks_won[(seat + 2) % 4]
