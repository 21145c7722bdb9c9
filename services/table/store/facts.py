"""What the table service publishes of a commit: the facts that other services need, without seeds and hands."""

from uuid import UUID

from levata.table.v1 import facts_pb2, table_pb2

from chassis.log import NewFact
from services.table.domain import Cancelled, Commit, Created, DealScored, Finished, Kind, SeatChanged, Table
from services.table.store.codec import day_text, fact_seat, fact_seat_result

SUBJECT = "levata.games.{kind}.{game_id}"
PUBLISHED = Kind.CREATED | Kind.DEAL_SCORED | Kind.SEAT_CHANGED | Kind.FINISHED | Kind.CANCELLED


def facts_of(game_id: UUID, before: Table | None, commit: Commit, after: Table | None) -> tuple[NewFact, ...]:
    """The facts of a commit, in order."""
    facts = []
    for event in commit.events:
        fact = facts_pb2.GameFact(game_id=str(game_id), version=commit.version)
        match event:
            case Created():
                _write_created(fact.created, event)
            case DealScored():
                assert after is not None
                _write_deal_scored(fact.deal_scored, event, after)
            case SeatChanged(seat, occupant, _):
                assert before is not None
                if before.occupants[seat] == occupant:
                    # Being away for a while changes nothing for anybody else.
                    continue
                fact.seat_changed.seat = seat
                fact.seat_changed.now.CopyFrom(fact_seat(occupant))
                fact.seat_changed.left_account_id = before.occupants[seat].account
            case Finished():
                assert after is not None
                _write_finished(fact.finished, event, after.created, len(after.own))
            case Cancelled():
                fact.cancelled.SetInParent()
            case _:
                continue
        kind = fact.WhichOneof("kind")
        assert kind is not None
        subject = SUBJECT.format(kind=kind, game_id=fact.game_id)
        facts.append(NewFact(subject, fact.SerializeToString()))
    return tuple(facts)


def _write_created(message: facts_pb2.CreatedFact, created: Created) -> None:
    message.game_type = created.game_type
    message.variant = created.setup.variant
    message.mode = table_pb2.Mode.ValueType(created.mode.value)
    message.seats.extend(fact_seat(occupant) for occupant in created.seats)
    message.day = day_text(created.day)


def _write_deal_scored(message: facts_pb2.DealScoredFact, event: DealScored, after: Table) -> None:
    record = after.game.view(after.play, None).scored[-1]
    message.deal = event.deal
    message.hand_size = record.hand_size
    message.points.extend(event.points)
    message.tricks_won.extend(record.tricks_won)
    message.bids.extend(record.bids)
    message.own.extend(event.own)


def _write_finished(message: facts_pb2.FinishedFact, event: Finished, created: Created, deal_count: int) -> None:
    message.game_type = created.game_type
    message.variant = created.setup.variant
    message.mode = table_pb2.Mode.ValueType(created.mode.value)
    message.seats.extend(fact_seat_result(result) for result in event.seats)
    message.deal_count = deal_count
    message.day = day_text(created.day)
