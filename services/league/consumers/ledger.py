"""Facts of the ledger: prizes that count in a week of the league, and those that were taken back."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from levata.ledger.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import LEDGER, Consumer, Fact, FactsOwner
from services.league.app.standings import Moved, nobody_is_told
from services.league.consumers.effects import LiveEffects
from services.league.domain.weeks import Close, counted_week
from services.league.projections import scores
from services.league.projections.builds import live_build
from services.league.projections.loading import load_prizes
from services.league.projections.prizes import Prize, add_prizes, drop_prizes
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


class Told(NamedTuple):
    """What facts tell of prizes."""

    paid: list[Prize]
    went_back: list[Prize]


async def add(session: Session, build: int, facts: Sequence[Fact], closed: Sequence[Close]) -> Touched:
    """Add what facts tell to a build, scores left as they are."""
    paid, went_back = told(facts, closed)
    return await add_prizes(session, build, paid) | await drop_prizes(session, build, went_back)


async def load(session: Session, build: int, facts: Sequence[Fact], closed: Sequence[Close]) -> None:
    """Put what facts tell into a build of which no table has been opened."""
    await load_prizes(session, build, *told(facts, closed))


def told(facts: Sequence[Fact], closed: Sequence[Close]) -> Told:
    """Prizes in the weeks in which they count; one that went back does so while its fact counts in the same week."""
    heard = [(close.week, close.ledger) for close in closed]
    paid, went_back = [], []
    # A rebuild spends much of its time here: each part of a message that is looked at takes some.
    for fact in facts:
        message = facts_pb2.LedgerFact.FromString(fact.payload)
        kind = message.WhichOneof("kind")
        if kind == "prize_paid":
            won = message.prize_paid
            if not won.guest:
                week = counted_week(date.fromisoformat(won.week), fact.number, heard)
                paid.append(
                    Prize(won.game_id, won.seat, message.account_id, week, won.coins, won.finished_at_us, fact.number)
                )
        elif kind == "refunded":
            lost = message.refunded
            if lost.prize:
                week = counted_week(date.fromisoformat(lost.week), fact.number, heard)
                went_back.append(
                    Prize(
                        lost.game_id, lost.seat, message.account_id, week, lost.prize, lost.finished_at_us, fact.number
                    )
                )
    return Told(paid, went_back)
