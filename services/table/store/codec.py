"""The log's payloads: a commit to bytes and back.

Old payloads must read for ever: fields are only added, and `SCHEMA` grows when a meaning changes.
"""

from datetime import date
from functools import cache
from typing import Final, assert_never

from levata.table.v1 import facts_pb2, log_pb2, play_pb2, table_pb2

from rules.game import Dealt, Setup
from services.table.domain import (
    Cancelled,
    ClockResumed,
    Commit,
    Created,
    DealScored,
    Decider,
    Event,
    Finished,
    Mode,
    Moved,
    Occupant,
    SeatChanged,
    SeatResult,
    Secret,
)
from services.table.domain import Clock as TableClock

SCHEMA: Final = 1


def encode(commit: Commit) -> bytes:
    """The payload of a commit; its version is the row's own column."""
    payload = log_pb2.LogCommit(schema=SCHEMA, decided_at_us=commit.decided_at_us).SerializeToString()
    for event in commit.events:
        # Encoded messages that are joined are one message with the fields of all.
        payload += _moved_payload(event) if type(event) is Moved else _payload(event)
    return payload


def _payload(event: Event) -> bytes:
    message = log_pb2.LogCommit()
    _write_event(message.events.add(), event)
    return message.SerializeToString()


# Nearly all commits are one of a few hundred moves.
_moved_payload = cache(_payload)


def decode(version: int, payload: bytes, game_id: bytes) -> Commit:
    """The commit of a row. ValueError for a payload of a schema that this code does not know."""
    message = log_pb2.LogCommit.FromString(payload)
    if not 1 <= message.schema <= SCHEMA:
        raise ValueError(f"log schema {message.schema}; this code reads up to {SCHEMA}")
    return Commit(version, message.decided_at_us, tuple(_read_event(event, game_id) for event in message.events))


def fact_seat(occupant: Occupant) -> facts_pb2.FactSeat:
    """An occupant as the log and the facts carry it."""
    return facts_pb2.FactSeat(
        account_id=occupant.account,
        guest=occupant.guest,
        bot_level=occupant.bot_level,
        room=occupant.room,
        coins=occupant.coins,
        gold=occupant.gold,
        prize=occupant.prize,
        coffee=occupant.coffee,
    )


def fact_seat_result(result: SeatResult) -> facts_pb2.FinishedSeat:
    """A seat's result as the log and the facts carry it."""
    return facts_pb2.FinishedSeat(
        holder=fact_seat(result.holder),
        place=result.place,
        total=result.total,
        own_deals=result.own_deals,
        eligible=result.eligible,
        left_account_ids=result.left,
    )


def day_text(day: date | None) -> str:
    """A daily's day as the log and the facts carry it; empty for other games."""
    return "" if day is None else day.isoformat()


def _occupant(message: facts_pb2.FactSeat) -> Occupant:
    return Occupant(
        message.account_id,
        message.guest,
        message.bot_level,
        message.room,
        message.coins,
        message.gold,
        message.prize,
        message.coffee,
    )


def _write_event(message: log_pb2.LogEvent, event: Event) -> None:
    match event:
        case Moved(seat, move, decider):
            message.moved.seat = seat
            message.moved.code = move
            message.moved.decider = play_pb2.Decider.ValueType(decider.value)
        case Dealt(deal, dealer, pack):
            message.dealt.deal = deal
            message.dealt.dealer = dealer
            message.dealt.pack = bytes(pack)
        case DealScored(deal, points, own):
            message.deal_scored.deal = deal
            message.deal_scored.points.extend(points)
            message.deal_scored.own.extend(own)
        case SeatChanged(seat, occupant, away):
            message.seat_changed.seat = seat
            message.seat_changed.now.CopyFrom(fact_seat(occupant))
            message.seat_changed.away = away
        case ClockResumed(epoch, host):
            message.clock_resumed.epoch = epoch
            message.clock_resumed.host_id = host
        case Finished(standings, totals, seats):
            message.finished.standings.extend(standings)
            message.finished.totals.extend(totals)
            message.finished.seats.extend(fact_seat_result(seat) for seat in seats)
        case Created():
            _write_created(message.created, event)
        case Cancelled(reason):
            message.cancelled.reason = reason
        case _:
            assert_never(event)


def _write_created(message: log_pb2.LogCreated, event: Created) -> None:
    message.game_type = event.game_type
    message.variant = event.setup.variant
    message.mode = table_pb2.Mode.ValueType(event.mode.value)
    message.rules_version = event.rules_version
    message.bot_version = event.bot_version
    message.seats.extend(fact_seat(occupant) for occupant in event.seats)
    message.commitment = event.commitment
    message.first_dealer = event.setup.first_dealer
    message.hand_sizes.extend(event.setup.hand_sizes)
    message.bid_seconds = event.clock.bid_seconds
    message.card_seconds = event.clock.card_seconds
    message.secret.server_seed = event.secret.server_seed
    message.secret.nonces.extend(event.secret.nonces)
    message.host_id = event.host
    message.day = day_text(event.day)
    message.spectator_delay_seconds = event.spectator_delay_seconds


def _read_event(message: log_pb2.LogEvent, game_id: bytes) -> Event:
    kind = message.WhichOneof("kind")
    match kind:
        case "moved":
            moved = message.moved
            return Moved(moved.seat, moved.code, Decider(moved.decider))
        case "dealt":
            return Dealt(message.dealt.deal, message.dealt.dealer, tuple(message.dealt.pack))
        case "deal_scored":
            scored = message.deal_scored
            return DealScored(scored.deal, tuple(scored.points), tuple(scored.own))
        case "seat_changed":
            changed = message.seat_changed
            return SeatChanged(changed.seat, _occupant(changed.now), changed.away)
        case "clock_resumed":
            return ClockResumed(message.clock_resumed.epoch, message.clock_resumed.host_id)
        case "finished":
            finished = message.finished
            seats = tuple(_seat_result(seat) for seat in finished.seats)
            return Finished(tuple(finished.standings), tuple(finished.totals), seats)
        case "created":
            return _created(message.created, game_id)
        case "cancelled":
            return Cancelled(message.cancelled.reason)
        case None:
            raise ValueError("an event of a kind that this code does not know")
        case _:
            assert_never(kind)


def _seat_result(message: facts_pb2.FinishedSeat) -> SeatResult:
    return SeatResult(
        _occupant(message.holder),
        message.place,
        message.total,
        message.own_deals,
        message.eligible,
        tuple(message.left_account_ids),
    )


def _created(message: log_pb2.LogCreated, game_id: bytes) -> Created:
    seats = tuple(_occupant(seat) for seat in message.seats)
    return Created(
        game_id,
        message.game_type,
        Setup(message.variant, len(seats), message.first_dealer, tuple(message.hand_sizes)),
        Mode(message.mode),
        message.rules_version,
        message.bot_version,
        seats,
        TableClock(message.bid_seconds, message.card_seconds),
        message.commitment,
        Secret(message.secret.server_seed, tuple(message.secret.nonces)),
        message.host_id,
        date.fromisoformat(message.day) if message.day else None,
        message.spectator_delay_seconds,
    )
