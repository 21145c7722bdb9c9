"""Facts of games: entries are taken or given back, and finished games are paid for, each once."""

from typing import Final
from uuid import UUID

from levata.ledger.v1 import facts_pb2 as ledger_facts_pb2
from levata.table.v1 import facts_pb2, table_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import GAMES, Consumer, Fact, FactsOwner, publish
from chassis.log import NewFact
from rules.calendar import day_of, week_of
from services.ledger.app.entries import game_began, game_cancelled
from services.ledger.app.ports import Moved, nobody_is_told
from services.ledger.consumers.effects import Payer
from services.ledger.domain.catalogue import Edition
from services.ledger.domain.games import (
    CLASSIC,
    Coached,
    FinishedGame,
    Holder,
    Pay,
    ScoredDeal,
    coach_entry,
    coach_pay,
    pay,
)
from services.ledger.domain.journal import Currency
from services.ledger.store import games
from services.ledger.store.entries import end_game

CONSUMER: Final = "ledger"
_PRIZE_PAID: Final = "levata.ledger.prize_paid."


def consumer(owner: FactsOwner, pool: Pool, nats: Client, edition: Edition, moved: Moved = nobody_is_told) -> Consumer:
    """The ledger's consumer of the games' facts."""
    return Effects(edition).consumer(CONSUMER, GAMES, owner, pool, nats, moved)


class Effects(Payer):
    """What facts of games do, by the catalogue of now."""

    def __init__(self, edition: Edition) -> None:
        super().__init__()
        self._edition = edition

    async def apply(self, session: Session, fact: Fact) -> None:
        """Give a fact its effect on the ledger."""
        message = facts_pb2.GameFact.FromString(fact.payload)
        game_id = UUID(message.game_id)
        match message.WhichOneof("kind"):
            case "created":
                await self._begin(session, game_id, message.created)
            case "deal_scored":
                await games.add_deal(session, game_id, message.deal_scored.deal, scored_deal(message.deal_scored))
            case "finished":
                await self._settle(session, game_id, message.finished, fact)
            case "cancelled":
                await games.forget_deals(session, game_id)
                await self.put_down_all(session, game_cancelled(game_id, await end_game(session, game_id, began=False)))
            case "analysed":
                await self._pay_coached(session, game_id, message.analysed)

    async def _begin(self, session: Session, game_id: UUID, created: facts_pb2.CreatedFact) -> None:
        if created.mode != table_pb2.MODE_QUICK_PLAY:
            return
        of = created.game_type, created.variant
        if of == CLASSIC:
            await games.begin_classic(session, game_id)
        seated = {UUID(seat.account_id) for seat in created.seats if seat.account_id}
        held = await end_game(session, game_id, began=True, seated=seated, of=of)
        await self.put_down_all(session, game_began(game_id, held, seated))

    async def _settle(self, session: Session, game_id: UUID, finished: facts_pb2.FinishedFact, fact: Fact) -> None:
        """Pay for a game; another time does nothing."""
        if finished.mode != table_pb2.MODE_QUICK_PLAY:
            return
        catalogue = self._edition.catalogue
        game = finished_game(game_id, finished, fact.at_us, self._edition)
        deals = await games.deals_of(session, game_id) if game.is_classic else []
        await games.forget_deals(session, game_id)
        if not await games.begin_settling(session, game, fact.at_us, self._edition):
            return
        pays = pay(game, deals, await games.earlier_games(session, game), catalogue)
        await self.put_down_all(session, [entry for each in pays for entry in each.entries(game)])
        await games.add_seats(session, game, pays)
        guests = {seat for seat, result in enumerate(finished.seats) if result.holder.guest}
        prizes = [_prize_paid(game, each, fact, guest=each.holder.seat in guests) for each in pays if each.prize]
        if prizes:
            await publish(session, prizes)

    async def _pay_coached(self, session: Session, game_id: UUID, analysed: facts_pb2.AnalysedFact) -> None:
        by_seat = {seat.seat: coached(seat) for seat in analysed.seats}
        entries = []
        for seat, account in await games.begin_coach_pay(session, game_id, self._edition):
            found = by_seat.get(seat)
            amounts = coach_pay(found, self._edition.catalogue.good_play) if found is not None else ()
            if amounts:
                entries.append(coach_entry(game_id, seat, account, amounts))
        await self.put_down_all(session, entries)


def finished_game(game_id: UUID, finished: facts_pb2.FinishedFact, at_us: int, edition: Edition) -> FinishedGame:
    """The finished game that a fact of this time tells of."""
    holders = tuple(
        Holder(
            seat,
            UUID(result.holder.account_id),
            result.holder.room,
            result.holder.prize,
            Currency(result.holder.coffee) if result.holder.coffee else None,
            result.place,
            result.eligible,
        )
        for seat, result in enumerate(finished.seats)
        if result.holder.account_id
    )
    places = tuple(result.place for result in finished.seats)
    day = day_of(at_us, edition.catalogue.zone)
    return FinishedGame(game_id, finished.game_type, finished.variant, day, places, holders)


def scored_deal(deal: facts_pb2.DealScoredFact) -> ScoredDeal:
    """The deal that a fact tells of."""
    return ScoredDeal(deal.hand_size, tuple(deal.bids), tuple(deal.tricks_won), tuple(deal.own))


def coached(seat: facts_pb2.AnalysedSeat) -> Coached:
    """What the coach found, as a fact tells it."""
    return Coached(seat.seat, seat.score, seat.moves, seat.moves_without_hint)


def _prize_paid(game: FinishedGame, each: Pay, fact: Fact, *, guest: bool) -> NewFact:
    holder = each.holder
    paid = ledger_facts_pb2.PrizePaidFact(
        game_id=str(game.game_id),
        seat=holder.seat,
        place=holder.place,
        room=holder.room,
        coins=each.prize,
        finished_at_us=fact.at_us,
        day=game.day.isoformat(),
        week=week_of(game.day).isoformat(),
        games_fact=fact.number,
        guest=guest,
    )
    message = ledger_facts_pb2.LedgerFact(account_id=str(holder.account), prize_paid=paid)
    return NewFact(f"{_PRIZE_PAID}{holder.account}", message.SerializeToString())
