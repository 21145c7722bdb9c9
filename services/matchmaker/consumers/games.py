"""Facts of games: who does not play any more may look for another table."""

from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from levata.table.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import GAMES, Consumer, Fact, FactsOwner
from services.matchmaker.store import friendly
from services.matchmaker.store.quick_play import games_over, seat_given_up

CONSUMER: Final = "matchmaker"


def consumer(owner: FactsOwner, pool: Pool, nats: Client, freed: Callable[[Collection[UUID]], None]) -> Consumer:
    """The consumer of the games' log; `freed` hears, after the commit, of players who may look for another table."""
    effects = GameEffects()
    return Consumer(
        CONSUMER,
        GAMES,
        owner,
        pool,
        nats,
        effects.apply_one,
        apply_all=effects.apply,
        committed=lambda: freed(effects.take_freed()),
    )


class GameEffects:
    """What games do to those who play, and for whom that changes something."""

    def __init__(self) -> None:
        # Since these were last taken.
        self._freed: set[UUID] = set()

    async def apply_one(self, session: Session, fact: Fact) -> None:
        """Give a fact its effect."""
        await self.apply(session, [fact])

    async def apply(self, session: Session, facts: Sequence[Fact]) -> None:
        """Give facts their effects: seats change hands, and then games end, as they do in each game."""
        over: list[UUID] = []
        for fact in facts:
            *_, kind, game_id = fact.subject.split(".")
            match kind:
                case "seat_changed":
                    await self._seat_changed(session, facts_pb2.GameFact.FromString(fact.payload))
                case "finished" | "cancelled":
                    over.append(UUID(game_id))
        if over:
            self._freed.update(await games_over(session, over))
            await friendly.games_over(session, over)

    async def _seat_changed(self, session: Session, told: facts_pb2.GameFact) -> None:
        game_id, changed = UUID(told.game_id), told.seat_changed
        if changed.left_account_id:
            left = UUID(changed.left_account_id)
            await seat_given_up(session, left, game_id)
            self._freed.add(left)
        now = UUID(changed.now.account_id) if changed.now.account_id else None
        await friendly.seat_changed(session, game_id, changed.seat, now, changed.now.guest)

    def take_freed(self) -> set[UUID]:
        """Players who do not play any more."""
        freed, self._freed = self._freed, set()
        return freed
