"""What became of the makers of a deal, in the words of euchre and klaverjas; read off the score, not computed."""

from typing import Final

from levata.table.v1 import play_pb2

_PIT: Final = 8
_MARCH: Final = 5


def of_makers(points: play_pb2.DealPoints) -> str:
    """`euchred`, `nat`, `made it`: for a sentence."""
    return _klaverjas(points) if points.card_points else _euchre(points)


def side_tricks(points: play_pb2.DealPoints, seat: int) -> int:
    """Tricks of a seat and its partner."""
    return points.tricks_won[seat] + points.tricks_won[(seat + 2) % 4]


def _euchre(points: play_pb2.DealPoints) -> str:
    took = side_tricks(points, points.maker)
    if not points.points[points.maker]:
        return f"euchred, with {took} of {_MARCH} tricks"
    return f"all {_MARCH} tricks" if took == _MARCH else f"made it, with {took} tricks"


def _klaverjas(points: play_pb2.DealPoints) -> str:
    if not points.points[points.maker]:
        others_took_all = side_tricks(points, points.maker) == 0
        return "nat, and pit for the others" if others_took_all else "nat, all points go to the others"
    return "pit, all tricks" if side_tricks(points, points.maker) == _PIT else "made it"
