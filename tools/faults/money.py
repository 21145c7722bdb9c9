"""Holds the ledger against the games' logs: what each entry and each prize had to be.

Amounts are computed here once more, from the log and from nothing that the ledger itself computes with.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from services.table.domain import SeatResult
from tools.faults.evidence import Entrant, Evidence, Game, Move
from tools.faults.history import CancelAnswered

# Per cent of the prize by place, and what a coffee multiplies it by.
_PODIUMS: Final = {"romanian_whist": (100, 70, 55), "oh_hell": (100, 50), "euchre": (75, 75), "klaverjas": (75, 75)}
_TIMES: Final = {
    "": Fraction(1),
    "coffee_1_5": Fraction(3, 2),
    "coffee_2": Fraction(2),
    "coffee_3": Fraction(3),
    "coffee_5": Fraction(5),
}
_FIRST_GAME_GOLD: Final = 5


def money_is_conserved(evidence: Evidence) -> Iterator[str]:
    """All accounts of a currency add up to zero, and balances are what the transfers say."""
    for currency, amount in evidence.ledger.sums.items():
        if amount:
            yield f"there is {amount} {currency} too much"
    for difference in evidence.ledger.rebuilt:
        yield f"a rebuild makes it otherwise: {difference}"


def games_move_what_their_facts_say(evidence: Evidence) -> Iterator[str]:
    """The ledger has heard every fact, and its own audit finds nothing."""
    ledger = evidence.ledger
    last = evidence.facts["tables"][-1].number if evidence.facts["tables"] else evidence.marks.facts["tables"]
    if ledger.heard < last:
        yield f"the ledger has heard {ledger.heard} of {last} facts"
    if ledger.parked:
        yield f"the ledger could not take facts {list(ledger.parked)}"
    for difference in ledger.audited:
        yield f"the audit found {difference}"


def nothing_is_held_for_good(evidence: Evidence) -> Iterator[str]:
    """Every game whose entries were held has begun or was cancelled, and nothing of it is held."""
    for game_id in evidence.ledger.open_holds:
        yield f"what became of game {game_id} is not settled"
    for key in evidence.ledger.pending:
        yield f"{key} is held"


def cancellation_and_creation_agree(evidence: Evidence) -> Iterator[str]:
    """Who cancelled a game was told what became of it."""
    for answer in evidence.history.of(CancelAnswered):
        if answer.is_game != evidence.begun.get(answer.game_id):
            yield f"game {answer.game_id}: whether it is one was answered with {answer.is_game}"


def entries_and_prizes_are_right(evidence: Evidence) -> Iterator[str]:
    """Each entry is taken or given back once, as the game began with it or not; each game is paid for once."""
    expected: Counter[Move] = Counter()
    for entrant in evidence.ledger.entrants:
        if not entrant.refusal:
            expected.update(_entry(entrant, evidence))
    finished = {
        game.game_id: game for game in evidence.games.values() if game.game_id in evidence.begun and _results(game)
    }
    for game in finished.values():
        for seat, result in enumerate(_results(game)):
            expected.update(_prize(game, seat, result))
    for game_id in finished.keys() ^ evidence.ledger.settled:
        yield f"game {game_id} is {'not settled' if game_id in finished else 'settled, and was not played'}"
    found = Counter(move for move in evidence.ledger.moves if not move.key.startswith("first_game:"))
    for move in sorted((expected - found).elements(), key=str):
        yield f"the ledger lacks {move}"
    for move in sorted((found - expected).elements(), key=str):
        yield f"the ledger made up {move}"


def first_games_are_paid_once_a_day(evidence: Evidence) -> Iterator[str]:
    """Whoever finished a game eligible has had the day's gold for it; by key, so that no day brings it twice."""
    paid = [move for move in evidence.ledger.moves if move.key.startswith("first_game:")]
    for move in paid:
        if (move.kind, move.currency, move.amount) != ("posted", "gold", _FIRST_GAME_GOLD):
            yield f"the first game of a day brought {move}"
    for key, count in Counter(move.key for move in paid).items():
        if count > 1:
            yield f"{key} was paid {count} times"
    eligible = {
        result.holder.account
        for game in evidence.games.values()
        if game.game_id in evidence.begun
        for result in _results(game)
        if result.holder.account and result.eligible
    }
    for account in eligible ^ {move.account for move in paid}:
        yield f"{account} was {'not ' if account in eligible else ''}paid for the first game of the day"


def _entry(entrant: Entrant, evidence: Evidence) -> Iterator[Move]:
    """What was held, and what ended it."""
    game = evidence.games.get(entrant.game_id)
    is_seated = (
        game is not None
        and game.created is not None
        and any(occupant.account == entrant.account for occupant in game.created.seats)
    )
    end, kind = ("entered", "post") if is_seated else ("released", "void")
    of_game = f"{entrant.game_id}:{entrant.account}"
    price = {"coin": entrant.coins, "gold": entrant.gold, entrant.coffee: int(bool(entrant.coffee))}
    for currency, amount in price.items():
        if amount:
            yield Move(f"entry:{of_game}", "pending", entrant.account, currency, -amount)
            yield Move(f"{end}:{of_game}", kind, entrant.account, currency, -amount)


def _prize(game: Game, seat: int, result: SeatResult) -> Iterator[Move]:
    assert game.created is not None
    holder = result.holder
    if not holder.account or not result.eligible:
        return
    places = [each.place for each in _results(game)]
    podium = _PODIUMS[game.created.game_type]
    # Who share a place share what the places that they cover are worth.
    covered = podium[result.place - 1 : result.place - 1 + places.count(result.place)]
    prize = int(holder.prize * Fraction(sum(covered), 100 * places.count(result.place)) * _TIMES[holder.coffee])
    if prize:
        yield Move(f"prize:{game.game_id}:{seat}", "posted", holder.account, "coin", prize)


def _results(game: Game) -> tuple[SeatResult, ...]:
    """How the game ended by seat; nothing if it has not."""
    finished = game.tables[-1].finished if game.tables else None
    return () if finished is None else finished.seats
