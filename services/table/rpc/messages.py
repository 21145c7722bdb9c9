"""What clients are sent: tables and commits as API messages, encoded once for each distinct content.

This is the only place where a hidden card could slip out: all that is private to a seat comes from the engine's
`view` for that seat, and two games that differ only in cards hidden from a viewer give that viewer the same bytes.
Every kind of WatchResponse is in PlayResponse under the same field number, so both streams send the same bytes.
"""

from functools import cache
from typing import Final

from levata.table.v1 import play_pb2, table_pb2

from rules.cards import members
from rules.game import MOVED, NO_SEAT, DealRecord, Dealt, Phase, Seat, Trick, View
from rules.moves import (
    ALL_BIDS,
    BID,
    CARD_END,
    DISCARD,
    MOVE_END,
    NAME_TRUMP,
    NAME_TRUMP_ALONE,
    ORDER_UP,
    ORDER_UP_ALONE,
    PASS,
    Move,
    bid,
    discard,
    name_trump,
)
from services.table.app.ports import ChatLine
from services.table.domain import (
    OPEN,
    SPECTATOR,
    Cancelled,
    ClockResumed,
    Commit,
    Created,
    DealScored,
    Decider,
    Event,
    Finished,
    Moved,
    Occupant,
    SeatChanged,
    Table,
    Viewer,
)


def _move_message(move: Move) -> play_pb2.Move | None:
    if move < CARD_END:
        return play_pb2.Move(play_card=_card(move))
    if move >= DISCARD:
        return play_pb2.Move(discard=_card(move - DISCARD))
    if BID <= move < BID + 14:
        return play_pb2.Move(place_bid=move - BID)
    if NAME_TRUMP_ALONE <= move < NAME_TRUMP_ALONE + 4:
        return play_pb2.Move(name_trump=play_pb2.NameTrump(suit=_suit(move - NAME_TRUMP_ALONE), alone=True))
    if NAME_TRUMP <= move < NAME_TRUMP + 4:
        return play_pb2.Move(name_trump=play_pb2.NameTrump(suit=_suit(move - NAME_TRUMP)))
    if move in (ORDER_UP, ORDER_UP_ALONE):
        return play_pb2.Move(order_up=play_pb2.OrderUp(alone=move == ORDER_UP_ALONE))
    if move == PASS:
        passing = play_pb2.Move()
        # `pass` is a keyword here.
        getattr(passing, "pass").SetInParent()
        return passing
    return None


def _card(card: int | None) -> play_pb2.Card.ValueType:
    return play_pb2.CARD_UNSPECIFIED if card is None else play_pb2.Card.ValueType(card + 1)


def _suit(suit: int | None) -> play_pb2.Suit.ValueType:
    return play_pb2.SUIT_UNSPECIFIED if suit is None else play_pb2.Suit.ValueType(suit + 1)


def _varint_of_any_size(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# _TAGS[number] begins a length-delimited field; ours have numbers below 16, so that a tag is one byte.
_TAGS: Final = tuple(_varint_of_any_size(number << 3 | 2) for number in range(16))
_SMALL: Final = tuple(_varint_of_any_size(number) for number in range(1 << 14))


def _varint(number: int) -> bytes:
    return _SMALL[number] if number < 1 << 14 else _varint_of_any_size(number)


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field as the wire format has it."""
    return _TAGS[number] + _varint(len(content)) + content


def _number(number: int, content: int) -> bytes:
    """A field with an unsigned number as the wire format has it."""
    return _varint(number << 3) + _varint(content)


_MOVES: Final = tuple(_move_message(move) for move in range(MOVE_END))
HIDDEN_DISCARD: Final = play_pb2.Move(discard=play_pb2.CARD_UNSPECIFIED)
_LEGAL_MOVE: Final = tuple(
    b"" if message is None else _field(play_pb2.Decision.LEGAL_MOVES_FIELD_NUMBER, message.SerializeToString())
    for message in _MOVES
)
_HOOK_TAG: Final = _varint(play_pb2.Decision.HOOK_FORBIDS_FIELD_NUMBER << 3)
_SNAPSHOT: Final = table_pb2.WatchResponse.SNAPSHOT_FIELD_NUMBER
_COMMIT: Final = table_pb2.WatchResponse.COMMIT_FIELD_NUMBER
_COMMIT_VERSION: Final = table_pb2.Commit.VERSION_FIELD_NUMBER
_COMMIT_DECIDED_AT: Final = table_pb2.Commit.DECIDED_AT_MS_FIELD_NUMBER
_COMMIT_EVENTS: Final = table_pb2.Commit.EVENTS_FIELD_NUMBER
_DEADLINE: Final = play_pb2.Decision.DEADLINE_MS_FIELD_NUMBER
_COMMIT_DECISION: Final = table_pb2.Commit.DECISION_FIELD_NUMBER
_COMMIT_COMMAND: Final = table_pb2.Commit.COMMAND_ID_FIELD_NUMBER

for _kind in table_pb2.WatchResponse.DESCRIPTOR.fields:
    assert table_pb2.PlayResponse.DESCRIPTOR.fields_by_number[_kind.number].name == _kind.name


def move_message(move: Move) -> play_pb2.Move:
    """The API's message for a move code; not to be changed, it is made once."""
    message = _MOVES[move]
    assert message is not None
    return message


def move_code(message: play_pb2.Move) -> Move | None:
    """The engines' code of a move; None where no move code says this (the API's validation refuses most of those)."""
    match message.WhichOneof("kind"):
        case "play_card":
            return message.play_card - 1 if 1 <= message.play_card <= 52 else None
        case "place_bid":
            return bid(message.place_bid) if message.place_bid <= 13 else None
        case "pass":
            return PASS
        case "order_up":
            return ORDER_UP_ALONE if message.order_up.alone else ORDER_UP
        case "name_trump":
            suit = message.name_trump.suit
            return name_trump(suit - 1, message.name_trump.alone) if 1 <= suit <= 4 else None
        case "discard":
            return discard(message.discard - 1) if 1 <= message.discard <= 52 else None
        case _:
            return None


@cache
def _moved_event(seat: Seat, move: Move, decider: Decider) -> bytes:
    moved = table_pb2.Moved(seat=seat, move=move_message(move), decider=play_pb2.Decider.ValueType(decider.value))
    return _field(_COMMIT_EVENTS, table_pb2.Event(moved=moved).SerializeToString())


@cache
def _decision_start(seat: Seat, phase: Phase) -> bytes:
    """The fields of an open decision but for the deadline and what only its seat may see."""
    return play_pb2.Decision(seat=seat, phase=play_pb2.Phase.ValueType(int(phase))).SerializeToString()


class CommitMessages:
    """One commit, as each viewer of it is sent it."""

    __slots__ = ("_after", "_before", "_commit", "_private", "_public", "_public_message")

    def __init__(self, before: Table | None, commit: Commit, after: Table) -> None:
        self._before = before
        self._commit = commit
        self._after = after
        # Hands and discards differ by viewer, and the end of a daily; all else is the same for everybody but the open
        # decision's legal moves.
        is_daily = after.created.day is not None
        self._private = any(
            type(event) is Dealt
            or (type(event) is Moved and event.move >= DISCARD)
            or (type(event) is Finished and is_daily)
            for event in commit.events
        )
        self._public: bytes | None = None
        self._public_message: bytes | None = None

    def body(self, viewer: Viewer) -> bytes:
        """The levata.table.v1.Commit for this viewer."""
        if self._private:
            public = self._encode(viewer)
        else:
            if self._public is None:
                self._public = self._encode(SPECTATOR)
            public = self._public
        after = self._after
        if viewer == after.turn and viewer >= 0:
            # A repeated sub-message merges with the one before: the decision gains what only its seat may see.
            return public + _field(_COMMIT_DECISION, _own_decision(after))
        return public

    def message(self, viewer: Viewer) -> bytes:
        """The WatchResponse or PlayResponse for this viewer."""
        if self._private or viewer == self._after.turn:
            return _field(_COMMIT, self.body(viewer))
        if self._public_message is None:
            self._public_message = _field(_COMMIT, self.body(SPECTATOR))
        return self._public_message

    def answer(self, viewer: Viewer, command_id: str) -> bytes:
        """The PlayResponse for the viewer whose command this is."""
        return _field(_COMMIT, self.body(viewer) + _field(_COMMIT_COMMAND, command_id.encode()))

    def _encode(self, viewer: Viewer) -> bytes:
        """What is the same for all viewers of this kind. The fields of every commit are put together by hand: that
        takes a fifth of the time of a message object, and nothing is encoded more often."""
        commit, after = self._commit, self._after
        encoded = _number(_COMMIT_VERSION, commit.version) + _number(_COMMIT_DECIDED_AT, commit.decided_at_us // 1000)
        for event in commit.events:
            if type(event) is Moved and (event.move < DISCARD or viewer in (event.seat, OPEN)):
                encoded += _moved_event(event.seat, event.move, event.decider)
                encoded += self._trick_taken(event.seat, event.move)
            else:
                message = table_pb2.Event()
                self._write_event(message, event, viewer)
                encoded += _field(_COMMIT_EVENTS, message.SerializeToString())
        if after.turn != NO_SEAT:
            decision = _decision_start(after.turn, after.play.phase) + _number(_DEADLINE, after.deadline_us // 1000)
            encoded += _field(_COMMIT_DECISION, decision)
        return encoded

    def _write_event(self, target: table_pb2.Event, event: Event, viewer: Viewer) -> None:
        after = self._after
        match event:
            case Moved(seat, _, decider):
                # Only a discard of somebody else's comes to here.
                target.moved.seat = seat
                target.moved.move.CopyFrom(HIDDEN_DISCARD)
                target.moved.decider = play_pb2.Decider.ValueType(decider.value)
            case Dealt(deal, dealer, _):
                _write_dealt(target.dealt, after, viewer)
                target.dealt.deal = deal
                target.dealt.dealer = dealer
            case DealScored(deal, _, _):
                record = after.game.view(after.play, None).scored[-1]
                assert record.deal == deal
                _write_record(target.deal_scored.points, record)
                target.deal_scored.totals.extend(after.play.totals)
            case SeatChanged(seat, occupant, away):
                target.seat_changed.seat = seat
                target.seat_changed.info.CopyFrom(seat_info(occupant, away, after.is_vacated(seat)))
            case ClockResumed():
                target.clock_resumed.SetInParent()
            case Finished(standings, totals, _):
                target.finished.standings.extend(standings)
                target.finished.totals.extend(totals)
                # Others may still play a daily's deals: its seed is in open replays only, which wait for the day's end.
                if after.created.day is None or viewer == OPEN:
                    target.finished.server_seed = after.created.secret.server_seed
                    target.finished.nonces.extend(after.created.secret.nonces)
            case Created():
                _write_created(target.created, event)
            case Cancelled():
                target.cancelled.SetInParent()

    def _trick_taken(self, seat: Seat, move: Move) -> bytes:
        """If this card completed a trick, the event that tells who took it, and what the sides have now."""
        assert self._before is not None
        game, play = self._before.game, self._before.play
        if play.phase != Phase.PLAYING:
            return b""
        after = game.evolve(play, MOVED[seat][move])
        if len(after.tricks) == len(play.tricks):
            return b""
        event = table_pb2.Event()
        taken = event.trick_taken
        taken.seat = after.winners[-1]
        # Where each plays alone a trick is worth no more than itself.
        if game.partners:
            view = game.view(after, None)
            taken.card_points.extend(view.card_points)
            taken.roem.extend(view.roem)
        return _field(_COMMIT_EVENTS, event.SerializeToString())


def snapshot(table: Table, viewer: Viewer) -> bytes:
    """The WatchResponse or PlayResponse with all that the viewer may know now."""
    created = table.created
    message = table_pb2.Snapshot(
        game_id=game_id_text(created.game_id),
        version=table.version,
        game_type=created.game_type,
        variant=created.setup.variant,
        mode=table_pb2.Mode.ValueType(created.mode.value),
        commitment=created.commitment,
        spectator_delay_seconds=created.spectator_delay_seconds,
    )
    for seat, (occupant, away) in enumerate(zip(table.occupants, table.away, strict=True)):
        message.seats.append(seat_info(occupant, away, table.is_vacated(seat)))
    _write_view(message.view, table.game.view(table.play, viewer if viewer >= 0 else None))
    body = b""
    if table.turn != NO_SEAT:
        _write_decision(message.decision, table)
        if viewer == table.turn:
            body = _field(table_pb2.Snapshot.DECISION_FIELD_NUMBER, _own_decision(table))
    return _field(_SNAPSHOT, message.SerializeToString() + body)


commit_messages: Final = CommitMessages


def watching(spectators: int) -> bytes:
    """The WatchResponse or PlayResponse that says how many people watch."""
    return table_pb2.WatchResponse(watching=table_pb2.Watching(spectators=spectators)).SerializeToString()


def chat_line(line: ChatLine) -> bytes:
    """The WatchResponse or PlayResponse with a line of chat."""
    message = table_pb2.ChatLine(
        line_no=line.line_no, account_id=line.account, text=line.text, at_ms=line.said_at_us // 1000
    )
    return table_pb2.WatchResponse(chat=message).SerializeToString()


def heartbeat(version: int) -> bytes:
    """The WatchResponse or PlayResponse that says: still at this version."""
    return table_pb2.WatchResponse(heartbeat=table_pb2.Heartbeat(version=version)).SerializeToString()


def closing(reason: str, resume_after_version: int) -> bytes:
    """The last message of a stream that the server ends in order."""
    last = table_pb2.Closing(reason=reason, resume_after_version=resume_after_version)
    return table_pb2.WatchResponse(closing=last).SerializeToString()


def game_id_text(game_id: bytes) -> str:
    """A game's id as the API writes it."""
    text = game_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def seat_info(occupant: Occupant, away: bool = False, vacated: bool = False) -> play_pb2.SeatInfo:
    """Who is in a seat."""
    return play_pb2.SeatInfo(
        account_id=occupant.account,
        guest=occupant.guest,
        bot_level=occupant.bot_level,
        away=away,
        vacated=vacated,
    )


def _own_decision(table: Table) -> bytes:
    """What only the seat whose turn it is may see of the open decision, as fields of a Decision."""
    legal = b"".join([_LEGAL_MOVE[move] for move in members(table.legal)])
    hook = hook_forbids(table)
    return legal if hook is None else legal + _HOOK_TAG + _varint(hook)


def hook_forbids(table: Table) -> int | None:
    """The bid that the hook forbids to the seat whose turn it is: the one missing among 0..hand size."""
    bids = (table.legal & ALL_BIDS) >> BID
    if not bids:
        return None
    hand_size = table.created.setup.hand_sizes[table.play.deal]
    missing = ((2 << hand_size) - 1) & ~bids
    return missing.bit_length() - 1 if missing else None


def _write_decision(message: play_pb2.Decision, table: Table) -> None:
    message.seat = table.turn
    message.phase = play_pb2.Phase.ValueType(int(table.play.phase))
    message.deadline_ms = table.deadline_us // 1000


def _write_created(message: table_pb2.Created, created: Created) -> None:
    message.game_type = created.game_type
    message.variant = created.setup.variant
    message.mode = table_pb2.Mode.ValueType(created.mode.value)
    for occupant in created.seats:
        message.seats.append(seat_info(occupant))
    message.rules_version = created.rules_version
    message.bot_version = created.bot_version
    message.commitment = created.commitment
    message.hand_sizes.extend(created.setup.hand_sizes)
    message.game_id = game_id_text(created.game_id)
    if created.day is not None:
        message.day = created.day.isoformat()
    message.spectator_delay_seconds = created.spectator_delay_seconds


def _write_dealt(message: table_pb2.Dealt, table: Table, viewer: Viewer) -> None:
    """The deal as it stands right after dealing: a commit deals last."""
    view = table.game.view(table.play, viewer if viewer >= 0 else None)
    message.hand_size = view.hand_size
    message.hand.extend(_card(card) for card in members(view.hand))
    message.turned = _card(view.turned)
    message.trump = _suit(view.trump)
    if viewer == OPEN:
        for seat in range(view.seats):
            hand = table.game.view(table.play, seat).hand
            message.hands.add().cards.extend(_card(card) for card in members(hand))


def _write_record(message: play_pb2.DealPoints, record: DealRecord) -> None:
    message.deal = record.deal
    message.points.extend(record.points)
    message.tricks_won.extend(record.tricks_won)
    message.bids.extend(record.bids)
    if record.maker is not None:
        message.maker = record.maker
    message.trump = _suit(record.trump)
    message.card_points.extend(record.card_points)
    message.roem.extend(record.roem)


def _write_trick(message: play_pb2.Trick, trick: Trick) -> None:
    if trick.seats:
        message.leader = trick.seats[0]
    message.cards.extend(_card(card) for card in trick.cards)
    message.seats.extend(trick.seats)


def _write_view(message: play_pb2.View, view: View) -> None:
    if view.seat is not None:
        message.seat = view.seat
    message.phase = play_pb2.Phase.ValueType(int(view.phase))
    message.deal = max(view.deal, 0)
    message.deal_count = view.deal_count
    message.dealer = view.dealer
    message.hand_size = view.hand_size
    message.hand.extend(_card(card) for card in members(view.hand))
    message.hand_counts.extend(view.hand_counts)
    message.turned = _card(view.turned)
    message.trump = _suit(view.trump)
    for seat, move in view.calls:
        call = message.calls.add()
        call.seat = seat
        call.move.CopyFrom(move_message(move))
    _write_trick(message.trick, view.trick)
    for trick in view.tricks:
        _write_trick(message.tricks.add(), trick)
    message.tricks_won.extend(view.tricks_won)
    message.totals.extend(view.totals)
    for record in view.scored:
        _write_record(message.scored.add(), record)
    message.standings.extend(view.standings)
    if view.maker is not None:
        message.maker = view.maker
    if view.sitting_out is not None:
        message.sitting_out = view.sitting_out
    message.discarded = _card(view.discarded)
    message.card_points.extend(view.card_points)
    message.roem.extend(view.roem)
