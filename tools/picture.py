"""What a client knows of a game: the snapshot it was sent, with every commit since folded in.

The picture is itself a `Snapshot`, and folding keeps it equal to the one that the server would send at that version. No
rules are needed for it: what one may do comes with the open decision, and everything else is said by the events.
"""

from typing import Final

from levata.table.v1 import play_pb2, table_pb2

Picture = table_pb2.Snapshot

# The open trick before its lead.
NO_CARDS: Final = play_pb2.Trick()


class Gap(Exception):
    """A commit does not follow the picture: something in between was missed."""


def fold(picture: Picture, commit: table_pb2.Commit) -> None:
    """Bring `picture` to the version of `commit`, which must be the next one."""
    if commit.version != picture.version + 1:
        raise Gap(f"commit {commit.version} after version {picture.version}")
    for event in commit.events:
        fold_event(picture, event)
    fold_end(picture, commit)


def fold_end(picture: Picture, commit: table_pb2.Commit) -> None:
    """Once all events of `commit` are folded in: its version, and the decision that is open now."""
    picture.version = commit.version
    picture.ClearField("decision")
    if commit.HasField("decision"):
        picture.decision.CopyFrom(commit.decision)
        picture.view.phase = commit.decision.phase


def fold_event(picture: Picture, event: table_pb2.Event) -> None:
    """One thing that happened, for who shows the events of a commit one after the other; `fold` takes all at once."""
    view = picture.view
    match event.WhichOneof("kind"):
        case "moved":
            _fold_move(view, event.moved)
        case "trick_taken":
            view.tricks.add().CopyFrom(view.trick)
            view.trick.CopyFrom(NO_CARDS)
            view.tricks_won[event.trick_taken.seat] += 1
            view.card_points[:] = event.trick_taken.card_points
            view.roem[:] = event.trick_taken.roem
        case "dealt":
            _fold_deal(view, event.dealt, len(picture.seats))
        case "deal_scored":
            view.scored.add().CopyFrom(event.deal_scored.points)
            view.totals[:] = event.deal_scored.totals
            _clear_table(view, len(picture.seats))
            view.dealer = (view.dealer + 1) % len(picture.seats)
        case "seat_changed":
            picture.seats[event.seat_changed.seat].CopyFrom(event.seat_changed.info)
        case "finished":
            view.phase = play_pb2.PHASE_FINISHED
            view.standings[:] = event.finished.standings
        case "created":
            _fold_creation(picture, event.created)


def _fold_creation(picture: Picture, created: table_pb2.Created) -> None:
    picture.game_type = created.game_type
    picture.variant = created.variant
    picture.mode = created.mode
    picture.commitment = created.commitment
    picture.seats.extend(created.seats)
    picture.view.deal_count = len(created.hand_sizes)
    picture.view.totals[:] = [0] * len(created.seats)


def _fold_deal(view: play_pb2.View, dealt: table_pb2.Dealt, seats: int) -> None:
    _clear_table(view, seats)
    view.deal = dealt.deal
    view.dealer = dealt.dealer
    view.hand_size = dealt.hand_size
    view.hand[:] = dealt.hand
    view.hand_counts[:] = [dealt.hand_size] * seats
    view.turned = dealt.turned
    view.trump = dealt.trump


_OF_ONE_DEAL: Final = (
    "hand_size",
    "hand",
    "turned",
    "trump",
    "calls",
    "tricks",
    "maker",
    "sitting_out",
    "discarded",
)


def _clear_table(view: play_pb2.View, seats: int) -> None:
    for name in _OF_ONE_DEAL:
        view.ClearField(name)
    view.trick.CopyFrom(NO_CARDS)
    view.card_points[:] = [0] * len(view.card_points)
    view.roem[:] = [0] * len(view.roem)
    view.hand_counts[:] = [0] * seats
    view.tricks_won[:] = [0] * seats


def _fold_move(view: play_pb2.View, moved: table_pb2.Moved) -> None:
    match moved.move.WhichOneof("kind"):
        case "play_card":
            _fold_card(view, moved.seat, moved.move.play_card)
        case "discard":
            _lay_away(view, moved.seat, moved.move.discard)
        case _:
            view.calls.add(seat=moved.seat, move=moved.move)
            _fold_call(view, moved.seat, moved.move)


def _fold_card(view: play_pb2.View, seat: int, card: play_pb2.Card.ValueType) -> None:
    if not view.trick.cards:
        view.trick.leader = seat
    view.trick.cards.append(card)
    view.trick.seats.append(seat)
    view.hand_counts[seat] -= 1
    if _is_own(view, seat):
        view.hand.remove(card)


def _lay_away(view: play_pb2.View, seat: int, card: play_pb2.Card.ValueType) -> None:
    view.hand_counts[seat] -= 1
    # Of another's discard the card is not told.
    if _is_own(view, seat):
        view.hand.remove(card)
        view.discarded = card


def _fold_call(view: play_pb2.View, seat: int, move: play_pb2.Move) -> None:
    """What a call says: who named which trump, who sits out, and that the dealer takes what was ordered up."""
    match move.WhichOneof("kind"):
        case "order_up":
            alone = move.order_up.alone
            view.trump = suit_of(view.turned)
            view.hand_counts[view.dealer] += 1
            if _is_own(view, view.dealer):
                view.hand[:] = sorted([*view.hand, view.turned])
        case "name_trump":
            alone = move.name_trump.alone
            view.trump = move.name_trump.suit
        case _:
            return
    view.maker = seat
    if alone:
        view.sitting_out = (seat + 2) % len(view.hand_counts)


def _is_own(view: play_pb2.View, seat: int) -> bool:
    return view.HasField("seat") and view.seat == seat


def suit_of(card: play_pb2.Card.ValueType) -> play_pb2.Suit.ValueType:
    """A card's suit; unspecified for no card."""
    return play_pb2.Suit.ValueType((card - 1) // 13 + 1) if card else play_pb2.SUIT_UNSPECIFIED
