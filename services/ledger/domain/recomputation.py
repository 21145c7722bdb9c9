"""What quick-play games should have moved, computed anew from their own facts, in order.

Knows nothing of what the ledger did; who audits it compares the two.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from uuid import UUID

from services.ledger.domain.catalogue import Catalogue
from services.ledger.domain.entries import Entrant, ended_entries, returned_entries
from services.ledger.domain.games import CLASSIC, Coached, FinishedGame, ScoredDeal, coach_entry, coach_pay, pay
from services.ledger.domain.journal import CauseKind, Entry, Transfer

# Entries that should be there, by key.
Expected = dict[str, tuple[Transfer, ...]]


class Recomputation:
    """Follows games from fact to fact, and keeps those that are not over."""

    def __init__(self) -> None:
        # Who entered, of games that are not over.
        self._entrants: dict[UUID, Sequence[Entrant]] = {}
        self._deals: dict[UUID, list[ScoredDeal]] = {}
        # Classic games of an account on a day in a room.
        self._classic_games: Counter[tuple[date, UUID, int]] = Counter()
        # Whose coach's score would be paid, by game and seat.
        self._to_coach: dict[UUID, dict[int, UUID]] = {}

    def began(self, game_id: UUID, of: tuple[str, str], entrants: Sequence[Entrant]) -> None:
        """A quick-play game began; those are the accounts in its seats."""
        self._entrants[game_id] = entrants
        if of == CLASSIC:
            self._deals[game_id] = []

    def deal_scored(self, game_id: UUID, deal: ScoredDeal) -> None:
        """A deal of any game."""
        if game_id in self._deals:
            self._deals[game_id].append(deal)

    def finished(self, game: FinishedGame, catalogue: Catalogue) -> tuple[Expected, Expected]:
        """What the game should have moved, and what it should have brought because of its day."""
        deals = self._deals.pop(game.game_id, [])
        earlier: dict[int, int] = {}
        if game.is_classic:
            for holder in game.holders:
                key = (game.day, holder.account, holder.room)
                earlier[holder.seat] = self._classic_games[key]
                self._classic_games[key] += 1
        pays = pay(game, deals, earlier, catalogue)
        self._to_coach[game.game_id] = {each.holder.seat: each.holder.account for each in pays if each.pays_good_play}
        entries = [entry for each in pays for entry in each.entries(game)]
        of_day = _by_key(entry for entry in entries if entry.cause.kind is CauseKind.DAY)
        of_game = _by_key(entry for entry in entries if entry.cause.kind is not CauseKind.DAY)
        return self._entered(game.game_id) | of_game, of_day

    def cancelled(self, game_id: UUID) -> Expected:
        """What a game should have moved that was broken off; nothing if it had not begun."""
        self._deals.pop(game_id, None)
        entrants = self._entrants.get(game_id, ())
        return self._entered(game_id) | _by_key(returned_entries(game_id, entrants))

    def analysed(self, game_id: UUID, seats: Iterable[Coached], catalogues: dict[int, Catalogue]) -> Expected:
        """What the coach's scores should have brought, by the catalogue of each seat; seats without one get nothing."""
        to_coach = self._to_coach.pop(game_id, {})
        return _by_key(
            coach_entry(game_id, each.seat, to_coach[each.seat], amounts)
            for each in seats
            if each.seat in to_coach
            and each.seat in catalogues
            and (amounts := coach_pay(each, catalogues[each.seat].good_play))
        )

    def forget(self, day: date) -> None:
        """No more games of this day will finish."""
        for key in [key for key in self._classic_games if key[0] == day]:
            del self._classic_games[key]

    def running(self) -> dict[UUID, Expected]:
        """What games that are not over should have moved by now."""
        return {game_id: self._entered(game_id) for game_id in list(self._entrants)}

    def _entered(self, game_id: UUID) -> Expected:
        entrants = self._entrants.pop(game_id, ())
        return _by_key(ended_entries(game_id, entrants, {entrant.account for entrant in entrants}))


def differing(expected: Expected, found: Expected) -> list[str]:
    """Keys of entries that are not as they should be, should not be there, or are not; in whatever order they move."""
    return [
        key
        for key in sorted(expected.keys() | found.keys())
        if key not in expected or key not in found or _sorted(expected[key]) != _sorted(found[key])
    ]


def _sorted(transfers: Iterable[Transfer]) -> list[tuple[UUID, UUID, str, int]]:
    return sorted((t.debit, t.credit, t.currency.value, t.amount) for t in transfers)


def _by_key(entries: Iterable[Entry]) -> Expected:
    return {entry.key: entry.transfers for entry in entries}
