"""Facts of the ledger: prizes that count in a week of the league, and those that were taken back."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from uuid import UUID

from levata.ledger.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import LEDGER, Consumer, Fact, FactsOwner
from services.league.app.standings import Moved, nobody_is_told
from services.league.consumers.effects import LiveEffects
from services.league.domain.weeks import Close, counted_week, still_counts
from services.league.projections import scores
from services.league.projections.builds import live_build
from services.league.projections.prizes import Prize, add_prizes, counted_weeks, drop_prizes
from services.league.projections.scores import Touched
from services.league.store.closes import closes_before_now
from services.league.store.names import LEDGER_CONSUMER


def consumer(owner: FactsOwner, pool: Pool, nats: Client, moved: Moved = nobody_is_told) -> Consumer:
    """The league's consumer of the ledger's facts."""
    effects = Effects()
    return Consumer(
        LEDGER_CONSUMER,
        LEDGER,
        owner,
        pool,
        nats,
        effects.apply_one,
        apply_all=effects.apply,
        committed=lambda: moved(effects.take_moved()),
    )


class Effects(LiveEffects):
    """What facts of the ledger do."""

    async def apply(self, session: Session, facts: Sequence[Fact]) -> None:
        """Give facts their effects on the live build."""
        build = await live_build(session)
        touched = await add(session, build, facts, await closes_before_now(session))
        await scores.refresh(session, build, touched)
        self._moved |= {score.account_id for score in touched}


async def add(session: Session, build: int, facts: Sequence[Fact], closed: Sequence[Close]) -> Touched:
    """Add what facts tell to a build, scores left as they are."""
    heard = [(close.week, close.ledger) for close in closed]
    paid: list[Prize] = []
    went_back: list[Prize] = []
    for fact in facts:
        message = facts_pb2.LedgerFact.FromString(fact.payload)
        match message.WhichOneof("kind"):
            case "prize_paid" if not message.prize_paid.guest:
                prize = _prize(message.account_id, message.prize_paid, message.prize_paid.coins, fact)
                paid.append(replace(prize, week=counted_week(prize.week, fact.number, heard)))
            case "refunded" if message.refunded.prize:
                went_back.append(_prize(message.account_id, message.refunded, message.refunded.prize, fact))
    weeks = {(prize.game_id, prize.seat): prize.week for prize in paid}
    weeks |= await counted_weeks(session, build, went_back)
    dropped = []
    for prize in went_back:
        # Its own, unless the prize was heard of so late that it counts in another.
        week = weeks.get((prize.game_id, prize.seat)) or counted_week(prize.week, prize.fact, heard)
        if still_counts(week, prize.fact, heard):
            dropped.append(replace(prize, week=week))
    return await add_prizes(session, build, paid) | await drop_prizes(session, build, dropped)


def _prize(account_id: str, told: facts_pb2.PrizePaidFact | facts_pb2.RefundedFact, coins: int, fact: Fact) -> Prize:
    week = date.fromisoformat(told.week)
    return Prize(UUID(told.game_id), told.seat, UUID(account_id), coins, told.finished_at_us, week, fact.number)
