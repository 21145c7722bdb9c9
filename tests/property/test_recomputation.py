"""What games should have moved: followed fact by fact, and computed in another way from what was played.

Many games run at the same time, some for days. The other way looks at each game as a whole, with the amounts of the
platform page; then things are done to the books, and exactly those are found.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from typing import Final
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from services.ledger.domain.entries import Entrant, RoomTerms
from services.ledger.domain.games import Coached, FinishedGame, Holder, ScoredDeal
from services.ledger.domain.journal import Currency, House, Transfer
from services.ledger.domain.recomputation import Expected, Recomputation, differing
from tests.ledger import CATALOGUE, CLASSIC

ENTRIES, PRIZES, REWARDS = House.ENTRIES.value, House.PRIZES.value, House.REWARDS.value
COIN, GOLD = Currency.COIN, Currency.GOLD
FIRST_DAY: Final = date(2026, 11, 10)
PEOPLE: Final = [UUID(int=number, version=4) for number in range(1, 5)]
# Of some rooms: coins, gold and prize.
ROOMS: Final = {1: (0, 0, 300), 2: (200, 0, 500), 5: (2_500, 0, 6_250), 11: (250_000, 10, 625_000)}
TIMES: Final[dict[Currency | None, Fraction]] = {
    None: Fraction(1),
    Currency.COFFEE_1_5: Fraction(3, 2),
    Currency.COFFEE_2: Fraction(2),
    Currency.COFFEE_3: Fraction(3),
    Currency.COFFEE_5: Fraction(5),
}
# What is won where, in per cent: by seats, and for pairs.
KINDS: Final[dict[tuple[str, str], tuple[int, tuple[int, ...]]]] = {
    CLASSIC: (6, (100, 70, 55)),
    ("romanian_whist", "quick"): (6, (100, 70, 55)),
    ("oh_hell", "standard"): (4, (100, 50)),
    ("euchre", "standard"): (4, (75, 75)),
}


@dataclass
class Seat:
    """Somebody who entered a game, and how it ended for them."""

    account: UUID
    room: int
    coffee: Currency | None
    eligible: bool
    # Gone before the end: a bot holds the seat then.
    left: bool
    # The coach's score, moves, and those without a hint.
    coached: tuple[int, int, int]


@dataclass
class Game:
    """A game as it was played, or not to its end."""

    game_id: UUID
    kind: tuple[str, str]
    seats: dict[int, Seat]
    places: tuple[int, ...]
    # finished, cancelled, running, or never: cancelled before it began.
    end: str
    analysed: bool
    # By deal: how many cards, and by seat whether it was a good one: own, and bid exactly.
    deals: list[tuple[int, list[bool], list[bool]]] = field(default_factory=list)
    finished_on: date | None = None

    def steps(self) -> Iterator[str]:
        """What is told of it, in order."""
        if self.end != "never":
            yield "began"
            yield from (f"deal {number}" for number in range(len(self.deals)))
        if self.end != "running":
            yield "cancelled" if self.end == "never" else self.end
        if self.end == "finished" and self.analysed:
            yield "analysed"


def some_game(chance: random.Random, number: int) -> Game:
    kind = chance.choice(list(KINDS))
    count = KINDS[kind][0]
    people = chance.sample(PEOPLE, chance.randint(1, len(PEOPLE)))
    where = chance.sample(range(count), len(people))
    seats = {
        seat: Seat(
            account,
            chance.choice(list(ROOMS)),
            chance.choice(list(TIMES)),
            eligible=chance.random() < 0.8,
            left=chance.random() < 0.1,
            coached=(chance.choice((50, 79, 80, 89, 90, 100)), 20, chance.choice((0, 9, 10, 20))),
        )
        for seat, account in zip(where, people, strict=True)
    }
    places: tuple[int, ...]
    if kind[0] == "euchre":
        places = chance.choice([(1, 3, 1, 3), (3, 1, 3, 1), (1, 1, 1, 1)])
    else:
        points = [chance.randint(0, 4) for _ in range(count)]
        places = tuple(1 + sum(other > own for other in points) for own in points)
    game = Game(
        UUID(int=number + 1_000_000),
        kind,
        seats,
        places,
        end=chance.choice(("finished", "finished", "finished", "cancelled", "running", "never")),
        analysed=chance.random() < 0.6,
    )
    luck = chance.choice((0.5, 0.9, 0.97))
    for _ in range(chance.randint(0, 24)):
        exact = [chance.random() < luck for _ in range(count)]
        own = [chance.random() < 0.95 for _ in range(count)]
        game.deals.append((chance.choice((1, 2, 8, 8)), exact, own))
    return game


# Fact by fact.


def recomputed(chance: random.Random, games: list[Game]) -> tuple[Expected, list[Game]]:
    """What the recomputation says, the games told of in any order; and those that finished, in theirs."""
    recomputation = Recomputation()
    found: Expected = {}
    finished: list[Game] = []
    today = FIRST_DAY
    open_games = [(game, game.steps()) for game in games]
    while open_games:
        game, steps = chance.choice(open_games)
        today += timedelta(days=chance.random() < 0.02)
        match step := next(steps, None):
            case None:
                open_games.remove((game, steps))
            case "began":
                recomputation.began(game.game_id, game.kind, [entrant(seat) for seat in game.seats.values()])
            case "finished":
                game.finished_on = today
                finished.append(game)
                of_game, of_day = recomputation.finished(as_finished(game, today), CATALOGUE)
                assert not of_game.keys() & found.keys()
                # Whichever game of the day was the first: the entry is the same.
                assert all(found.get(key, transfers) == transfers for key, transfers in of_day.items())
                found |= of_game | of_day
            case "cancelled":
                found |= recomputation.cancelled(game.game_id)
            case "analysed":
                seats = [Coached(seat, *each.coached) for seat, each in game.seats.items()]
                found |= recomputation.analysed(game.game_id, seats, dict.fromkeys(game.seats, CATALOGUE))
            case _:
                hand_size, exact, own = game.deals[int(step.removeprefix("deal "))]
                bids = tuple(1 for _ in exact)
                won = tuple(1 if each else 2 for each in exact)
                recomputation.deal_scored(game.game_id, ScoredDeal(hand_size, bids, won, tuple(own)))
    for of_game in recomputation.running().values():
        found |= of_game
    return found, finished


def entrant(seat: Seat) -> Entrant:
    return Entrant(seat.account, seat.room, seat.coffee, RoomTerms(*ROOMS[seat.room]))


def as_finished(game: Game, day: date) -> FinishedGame:
    holders = tuple(
        Holder(number, seat.account, seat.room, ROOMS[seat.room][2], seat.coffee, game.places[number], seat.eligible)
        for number, seat in game.seats.items()
        if not seat.left
    )
    return FinishedGame(game.game_id, *game.kind, day, game.places, holders)


# As a whole.


def computed(games: list[Game], finished: list[Game]) -> Expected:
    """The same in another way."""
    books: Expected = {}
    for game in games:
        for seat in game.seats.values() if game.end != "never" else ():
            price = entry_price(seat)
            if price:
                paid = [Transfer(seat.account, ENTRIES, currency, amount) for currency, amount in price]
                books[f"entered:{game.game_id}:{seat.account}"] = tuple(paid)
                if game.end == "cancelled":
                    back = [Transfer(ENTRIES, seat.account, currency, amount) for currency, amount in price]
                    books[f"returned:{game.game_id}:{seat.account}"] = tuple(back)
    classic_games: Counter[tuple[UUID, date | None]] = Counter()
    for game in finished:
        for number, seat in game.seats.items():
            if seat.left:
                continue
            first_room_again = False
            if game.kind == CLASSIC and seat.room == 1:
                classic_games[seat.account, game.finished_on] += 1
                first_room_again = classic_games[seat.account, game.finished_on] > 3
            if not seat.eligible:
                continue
            books[f"first_game:{game.finished_on}:{seat.account}"] = rewards(seat, {GOLD: 5})
            prize = prize_of(game, number, seat)
            if prize:
                books[f"prize:{game.game_id}:{number}"] = (Transfer(PRIZES, seat.account, COIN, prize),)
            if game.kind != CLASSIC or first_room_again:
                continue
            rows = rows_of_seven(game, number)
            if rows:
                amounts = {GOLD: 2 * rows, Currency.COFFEE_1_5: rows}
                books[f"good_play:{game.game_id}:{number}"] = rewards(seat, amounts)
            coach = coach_amounts(seat) if game.analysed else {}
            if coach:
                books[f"coach:{game.game_id}:{number}"] = rewards(seat, coach)
    return books


def entry_price(seat: Seat) -> list[tuple[Currency, int]]:
    coins, gold, _ = ROOMS[seat.room]
    price = [(COIN, coins), (GOLD, gold)] + ([] if seat.coffee is None else [(seat.coffee, 1)])
    return [(currency, amount) for currency, amount in price if amount]


def prize_of(game: Game, number: int, seat: Seat) -> int:
    podium = KINDS[game.kind][1]
    place = game.places[number]
    # All seats in order of place take the podium's percentages; those of one place share theirs.
    takes = [podium[rank] if rank < len(podium) else 0 for rank in range(len(game.places))]
    of_place = [take for take, each in zip(takes, sorted(game.places), strict=True) if each == place]
    return int(ROOMS[seat.room][2] * TIMES[seat.coffee] * sum(of_place) / (100 * len(of_place)))


def rows_of_seven(game: Game, number: int) -> int:
    line = "".join(
        "g" if exact[number] and own[number] else "-" for hand_size, exact, own in game.deals if hand_size > 1
    )
    return len(re.findall("g{7}", line))


def coach_amounts(seat: Seat) -> dict[Currency, int]:
    score, moves, without_hint = seat.coached
    if without_hint < moves / 2 or score < 80:
        return {}
    return {Currency.COFFEE_2: 1, GOLD: 2} if score >= 90 else {Currency.COFFEE_1_5: 1}


def rewards(seat: Seat, amounts: dict[Currency, int]) -> tuple[Transfer, ...]:
    return tuple(Transfer(REWARDS, seat.account, currency, amount) for currency, amount in amounts.items())


# Both, and what is done to the books.


@given(st.integers(0, 1 << 32))
@settings(max_examples=150)
def test_two_ways_to_the_same_books_and_whatever_is_done_to_them_is_found(seed: int) -> None:
    chance = random.Random(seed)
    games = [some_game(chance, number) for number in range(chance.randint(1, 14))]
    expected, finished = recomputed(chance, games)
    found = computed(games, finished)
    assert differing(expected, found) == []

    doctored = dict(found)
    touched: set[str] = set()
    for _ in range(chance.randint(1, 4)):
        key = chance.choice([*found, "prize:of nobody:0"])
        if key in touched:
            continue
        touched.add(key)
        doctored[key] = forged(chance, found.get(key, ()))
        if not doctored[key]:
            del doctored[key]
    # The order of an entry's transfers says nothing.
    doctored = {key: tuple(reversed(transfers)) for key, transfers in doctored.items()}
    assert differing(expected, doctored) == sorted(touched)


def forged(chance: random.Random, transfers: tuple[Transfer, ...]) -> tuple[Transfer, ...]:
    """Something else than this; nothing, for an entry that is gone."""
    forgery = Transfer(PRIZES, chance.choice(PEOPLE), COIN, 99)
    if not transfers:
        return (forgery,)
    first, *rest = transfers
    amount_changed = Transfer(first.debit, first.credit, first.currency, first.amount + 1)
    turned_round = Transfer(first.credit, first.debit, first.currency, first.amount)
    other = chance.choice([currency for currency in Currency if currency is not first.currency])
    of_another = Transfer(first.debit, first.credit, other, first.amount)
    changed: list[tuple[Transfer, ...]] = [(each, *rest) for each in (amount_changed, turned_round, of_another)]
    return chance.choice([(), (*transfers, forgery), *changed])
