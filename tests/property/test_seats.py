"""Games whose people come, go, fall silent and are replaced: who earned what, and that every game comes to its end."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from rules.cards import members
from rules.game import Dealt, Game, Seat
from rules.moves import is_card
from services.table import domain
from services.table.domain import DealScored, Decider, Finished, Mode, Moved, SeatChanged, Step, Table
from tests.random_tables import opened, play_on

GAMES = [
    ("romanian_whist", "quick", 6),
    ("oh_hell", "standard", 3),
    ("euchre", "standard", 4),
    ("klaverjas", "amsterdam", 4),
]
every_game = pytest.mark.parametrize(("game_type", "variant", "seats"), GAMES)
# A daily has a day of its own, and is like solo in all else.
every_mode = pytest.mark.parametrize("mode", [Mode.FRIENDLY, Mode.QUICK_PLAY, Mode.SOLO])
# More than any of these games has decisions.
DECISIONS_MAX = 5_000


@dataclass
class Came:
    """What came to a seat in one deal: the holders of the seat at each decision, and who decided."""

    # (account in the seat, whether the person decided)
    calls: list[tuple[str, bool]] = field(default_factory=list)
    # Cards that left a choice, likewise.
    choices: list[tuple[str, bool]] = field(default_factory=list)

    def is_own(self, game: Game, account: str, is_away: bool) -> bool:
        """The platform's rule, word for word, for who holds the seat when the deal is scored."""
        choices = self.choices if game.game_type in ("euchre", "klaverjas") else []
        if not self.calls and not choices:
            return not is_away
        decided_every_call = all(holder == account and personally for holder, personally in self.calls)
        own_choices = sum(holder == account and personally for holder, personally in choices)
        return decided_every_call and own_choices >= len(choices) / 2


class Bookkeeper:
    """An account of a game's own deals that is kept from the events alone, the slow and plain way."""

    def __init__(self, game: Game, mode: Mode, holders: list[str]) -> None:
        self.game = game
        self.mode = mode
        # By seat: whoever holds it, numbered anew with each coming, so that who returns is somebody else.
        self.holders = [f"{account}#0" if account else "" for account in holders]
        self.away = [False] * len(holders)
        self.deal = [Came() for _ in holders]
        # By deal and seat: whose own deal it was, if anybody's.
        self.owners: list[list[str]] = []
        self.comings = 0
        self.finished: Finished | None = None

    def take(self, step: Step, before: Table | None) -> None:
        """One more commit."""
        for each in step.commit.events:
            match each:
                case Dealt():
                    self.deal = [Came() for _ in self.holders]
                case Moved(seat, move, decider):
                    assert before is not None
                    mine = self.holders[seat], decider is Decider.PERSON
                    if not is_card(move):
                        self.deal[seat].calls.append(mine)
                    elif before.game.legal_moves(before.play).bit_count() > 1:
                        self.deal[seat].choices.append(mine)
                case SeatChanged(seat, occupant, away):
                    self.away[seat] = away
                    if occupant.account != self.holders[seat].partition("#")[0]:
                        self.comings += 1
                        self.holders[seat] = f"{occupant.account}#{self.comings}" if occupant.account else ""
                case DealScored(_, _, own):
                    self.owners.append([self._owner(seat) for seat in range(len(self.holders))])
                    assert own == tuple(bool(owner) for owner in self.owners[-1])
                case Finished():
                    self.finished = each

    def _owner(self, seat: Seat) -> str:
        holder = self.holders[seat]
        return holder if holder and self.deal[seat].is_own(self.game, holder, self.away[seat]) else ""

    def own_deals(self, seat: Seat) -> list[bool]:
        """By deal, whether it was the last holder's own."""
        return [bool(owners[seat]) and owners[seat] == self.holders[seat] for owners in self.owners]

    def is_eligible(self, seat: Seat) -> bool:
        """Two thirds of the deals of a quick-play game, three quarters elsewhere, one of them among the last three."""
        own = self.own_deals(seat)
        share = 2 / 3 if self.mode is Mode.QUICK_PLAY else 3 / 4
        # A solo game that the bot played out pays nothing.
        played_out = self.mode is Mode.SOLO and self.away[seat]
        return bool(self.holders[seat]) and sum(own) >= share * len(own) and True in own[-3:] and not played_out


def decided(table: Table, chance: random.Random) -> Step:
    """Nothing but the next decision, by whose it is."""
    decider = Decider.BOT if table.server_decides else Decider.PERSON
    step = domain.move(table, table.turn, chance.choice(list(members(table.legal))), decider, table.opened_at_us + 1)
    assert isinstance(step, Step)
    return step


@every_game
@every_mode
@settings(max_examples=12)
@given(course=st.integers(0, 2**32))
def test_own_deals_and_eligibility_are_those_of_the_platforms_rule(
    game_type: str, variant: str, seats: int, mode: Mode, course: int
) -> None:
    chance = random.Random(course)
    calm = chance.random() ** 0.2
    step, before = opened(game_type, variant, seats, bytes(32), mode), None
    book = Bookkeeper(step.table.game, mode, [occupant.account for occupant in step.table.occupants])
    while True:
        book.take(step, before)
        if step.table.over:
            break
        before = step.table
        step = play_on(before, chance) if chance.random() > calm else decided(before, chance)
    assert book.finished is not None
    for seat, result in enumerate(book.finished.seats):
        assert result.own_deals == sum(book.own_deals(seat))
        assert result.eligible == book.is_eligible(seat)
        if result.holder.account:
            event(f"{'eligible' if result.eligible else 'not eligible'}{', taken over' if result.left else ''}")


def played_for_a_while(game_type: str, variant: str, seats: int, mode: Mode, course: int) -> Table:
    """Somewhere in a random game, perhaps at its end."""
    chance = random.Random(course)
    table = opened(game_type, variant, seats, course.to_bytes(32, "big"), mode).table
    for _ in range(chance.randrange(300)):
        if table.over:
            break
        table = play_on(table, chance).table
    return table


@every_game
@every_mode
@settings(max_examples=6)
@given(course=st.integers(0, 2**32))
def test_with_all_people_gone_every_game_comes_to_its_end(
    game_type: str, variant: str, seats: int, mode: Mode, course: int
) -> None:
    """Nobody says anything any more: what is left are bots, and times that a game waits for."""
    table = played_for_a_while(game_type, variant, seats, mode, course)
    for _ in range(DECISIONS_MAX):
        if table.over:
            break
        if table.server_decides:
            step = domain.move(table, table.turn, table.bot_move(), Decider.BOT, table.opened_at_us)
        elif table.deadline_us:
            assert table.deadline_us > table.opened_at_us
            step = domain.move(table, table.turn, table.bot_move(), Decider.CLOCK, table.deadline_us)
        else:
            assert table.abandoned_at_us > table.opened_at_us
            step = domain.go_away(table, [table.turn], table.abandoned_at_us)
        assert isinstance(step, Step)
        table = step.table
    assert table.finished is not None
