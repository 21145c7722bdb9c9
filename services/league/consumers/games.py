"""Facts of games: what finished games brought to who played them, and which attempts at a daily were the first."""

from collections.abc import Sequence
from datetime import date, tzinfo
from typing import Final

from levata.table.v1 import facts_pb2, table_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session, uuid_of
from chassis.facts import GAMES, Consumer, Fact, FactsOwner, publish
from rules.calendar import day_of, week_of
from services.league.app.standings import Moved, nobody_is_told
from services.league.consumers.effects import LiveEffects
from services.league.domain.games import FinishedGame, Mode, Seat
from services.league.domain.terms import Terms
from services.league.domain.weeks import Close, counted_week
from services.league.projections import scores
from services.league.projections.builds import live_build
from services.league.projections.games import Added, Attempt, Played, add_attempts, add_games
from services.league.projections.loading import load_games
from services.league.projections.scores import Touched
from services.league.store.closes import closes_before_now
from services.league.store.facts import advances
from services.league.store.names import GAMES_CONSUMER

_FINISHED: Final = "levata.games.finished."
_CREATED: Final = "levata.games.created."
_MODES: Final = {
    table_pb2.MODE_QUICK_PLAY: Mode.QUICK_PLAY,
    table_pb2.MODE_FRIENDLY: Mode.FRIENDLY,
    table_pb2.MODE_SOLO: Mode.SOLO,
    table_pb2.MODE_DAILY: Mode.DAILY,
}


def consumer(
    owner: FactsOwner, pool: Pool, nats: Client, effects: "Effects", moved: Moved = nobody_is_told
) -> Consumer:
    """The league's consumer of the games' facts."""
    return Consumer(
        GAMES_CONSUMER,
        GAMES,
        owner,
        pool,
        nats,
        effects.apply_one,
        apply_all=effects.apply,
        committed=lambda: moved(effects.take_moved()),
    )


class Effects(LiveEffects):
    """What facts of games do."""

    def __init__(self, zone: tzinfo, terms: Terms) -> None:
        """Weeks are of this time zone."""
        super().__init__()
        self._zone = zone
        self._terms = terms

    async def apply(self, session: Session, facts: Sequence[Fact]) -> None:
        """Give facts their effects on the live build, and tell others what came of them."""
        build = await live_build(session)
        added = await self.add(session, build, facts, await closes_before_now(session))
        await scores.refresh(session, build, added.touched)
        self._moved |= {advance.account_id for advance in added.advances}
        told = advances(added.advances, self._terms)
        if told:
            await publish(session, told)

    async def add(self, session: Session, build: int, facts: Sequence[Fact], closed: Sequence[Close]) -> Added:
        """Add what facts tell to a build, scores left as they are."""
        played, attempts = self._told(facts, closed)
        added = await add_games(session, build, played, self._terms)
        added.touched.update(await add_attempts(session, build, attempts))
        return added

    async def add_again(self, session: Session, build: int, facts: Sequence[Fact], closed: Sequence[Close]) -> Touched:
        """The same for a build that is made anew: nobody is told of what comes of it."""
        return (await self.add(session, build, facts, closed)).touched

    async def load(self, session: Session, build: int, facts: Sequence[Fact], closed: Sequence[Close]) -> None:
        """Put what facts tell into a build of which no table has been opened."""
        played, attempts = self._told(facts, closed)
        await load_games(session, build, played, attempts, self._terms)

    def _told(self, facts: Sequence[Fact], closed: Sequence[Close]) -> tuple[list[Played], list[Attempt]]:
        heard = [(close.week, close.games) for close in closed]
        played, attempts = [], []
        for fact in facts:
            if fact.subject.startswith(_FINISHED):
                game = finished_game(fact, self._zone)
                week = counted_week(week_of(game.finished_on), fact.number, heard)
                played.append(Played(game, week))
            elif fact.subject.startswith(_CREATED):
                attempts += attempts_at_dailies(fact)
        return played, attempts


def finished_game(fact: Fact, zone: tzinfo) -> FinishedGame:
    """The finished game that a fact tells of; its day is of this time zone."""
    message = facts_pb2.GameFact.FromString(fact.payload)
    finished = message.finished
    seats = tuple(
        Seat(
            result.place,
            uuid_of(result.holder.account_id) if result.holder.account_id else None,
            result.holder.guest,
            result.total,
            result.own_deals,
            result.eligible,
            tuple(map(uuid_of, result.left_account_ids)),
        )
        for result in finished.seats
    )
    return FinishedGame(
        uuid_of(message.game_id),
        finished.game_type,
        _MODES[finished.mode],
        seats,
        fact.number,
        fact.at_us,
        day_of(fact.at_us, zone),
        date.fromisoformat(finished.day) if finished.day else None,
    )


def attempts_at_dailies(fact: Fact) -> list[Attempt]:
    """Who began a daily, if the fact tells of one."""
    message = facts_pb2.GameFact.FromString(fact.payload)
    created = message.created
    if created.mode != table_pb2.MODE_DAILY:
        return []
    day = date.fromisoformat(created.day)
    return [
        Attempt(uuid_of(seat.account_id), day, created.game_type, uuid_of(message.game_id), fact.number)
        for seat in created.seats
        if seat.account_id and not seat.guest
    ]
