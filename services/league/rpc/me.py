"""What the league tells accounts of what they have reached: `levata.me.v1.Snapshots`, and updates for their streams."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from levata.me.v1 import me_pb2, updates_pb2

from chassis import snapshots
from chassis.bus import Outbox
from chassis.rpc import Access, Server
from services.league.app.standings import League, Rank
from services.league.store.facts import STREAKS


def serve(server: Server, league: League) -> None:
    """Add the service to a server."""

    async def read(accounts: Sequence[UUID]) -> Iterable[Sequence[updates_pb2.Update]]:
        return [[update_of(rank)] for rank in await league.ranks(accounts)]

    snapshots.serve(server, read, Access.by("accounts"))


class NatsPlayers:
    """The clients of accounts, over NATS: whoever watches."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def tell(self, rank: Rank) -> None:
        """Publish it for the streams of the account. Does not wait, and may be lost."""
        self._outbox.send(f"levata.me.{rank.account_id}", update_of(rank).SerializeToString())


def update_of(rank: Rank) -> updates_pb2.Update:
    """Where an account stands, as it goes over the wire."""
    standing = me_pb2.Standing(
        xp=rank.xp,
        level=rank.level,
        level_xp=rank.level_xp,
        next_level_xp=rank.next_level_xp,
        streak=STREAKS[rank.streak],
        week=rank.week.isoformat(),
        place=rank.place,
        points=rank.points,
    )
    # A word of Python's.
    setattr(standing, "class", rank.league_class.label)
    return updates_pb2.Update(number=rank.number, standing=standing)
