"""What a finished quick-play game pays: prizes, good play, and the day's first game.

Amounts are those that the game was entered with, as its own facts carry them, by the terms of the catalogue.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final
from uuid import UUID

from rules.registry import game as rules_of
from rules.shares import Percents, share
from rules.values import value
from services.ledger.domain.catalogue import Amounts, Catalogue, GoodPlayTerms, Shares
from services.ledger.domain.journal import Cause, CauseKind, Currency, Entry, House, Transfer, posted

# Classic whist pays for good play.
CLASSIC: Final = ("romanian_whist", "8-1-8")
# Its bid is hardly a choice.
_ONE_CARD: Final = 1


@value
class Holder:
    """An account that held a seat when its game finished."""

    seat: int
    account: UUID
    room: int
    # The whole prize of the room, and the coffee that multiplies it.
    prize: int
    coffee: Currency | None
    place: int
    eligible: bool


@value
class FinishedGame:
    """A quick-play game that is over."""

    game_id: UUID
    game_type: str
    variant: str
    day: date
    # Of every seat, bots' too.
    places: tuple[int, ...]
    holders: tuple[Holder, ...]

    @property
    def is_classic(self) -> bool:
        """Whether it pays for good play."""
        return (self.game_type, self.variant) == CLASSIC


@value
class ScoredDeal:
    """A deal of a classic game, by seat: what was bid and taken, and whether it was its holder's own."""

    hand_size: int
    bids: tuple[int, ...]
    tricks_won: tuple[int, ...]
    own: tuple[bool, ...]


@value
class Coached:
    """What the coach found about a seat's own moves, those left out for which a hint was shown."""

    seat: int
    # Of 100.
    score: int
    moves: int
    moves_without_hint: int


@value
class Pay:
    """What a game pays to one holder."""

    holder: Holder
    prize: int
    # Whether good play in this game is paid for at all, and what good deals in a row bring.
    pays_good_play: bool
    good_play: Amounts
    # Of the account's day; not of the game, so that no refund takes it back.
    first_game: Amounts

    def entries(self, game: FinishedGame) -> list[Entry]:
        """The same as entries."""
        seat, account = f"{game.game_id}:{self.holder.seat}", self.holder.account
        entries = []
        if self.prize:
            transfer = Transfer(House.PRIZES.value, account, Currency.COIN, self.prize)
            entries.append(posted(f"prize:{seat}", _of_game(game.game_id, "prize"), [transfer]))
        if self.good_play:
            cause = _of_game(game.game_id, "good_play")
            entries.append(posted(f"good_play:{seat}", cause, _rewards(account, self.good_play)))
        if self.first_game:
            # Which game it was does not matter: whatever order games are heard of in, a day's entry is one.
            cause = Cause(CauseKind.DAY, game.day.isoformat(), "first_game")
            key = f"first_game:{game.day}:{account}"
            entries.append(posted(key, cause, _rewards(account, self.first_game)))
        return entries


def pay(
    game: FinishedGame, deals: Sequence[ScoredDeal], earlier_games: Mapping[int, int], catalogue: Catalogue
) -> list[Pay]:
    """What a game pays to each of its holders.

    `deals` are those of a classic game. `earlier_games` says by seat how many classic games the holder had finished in
    the same room on the same day before; a seat that is not in it had none.
    """
    return [_pay_of(holder, game, deals, earlier_games.get(holder.seat, 0), catalogue) for holder in game.holders]


def _pay_of(
    holder: Holder, game: FinishedGame, deals: Sequence[ScoredDeal], earlier_games: int, catalogue: Catalogue
) -> Pay:
    terms = catalogue.good_play
    games_a_day = terms.games_a_day.get(holder.room)
    pays_good_play = game.is_classic and holder.eligible and (games_a_day is None or earlier_games < games_a_day)
    rows = good_rows(deals, holder.seat, terms.row_deals) if pays_good_play else 0
    return Pay(
        holder,
        prize(holder, game, catalogue),
        pays_good_play,
        tuple((currency, amount * rows) for currency, amount in terms.row) if rows else (),
        catalogue.first_game if holder.eligible else (),
    )


def prize(holder: Holder, game: FinishedGame, catalogue: Catalogue) -> int:
    """The prize times the share times the coffee, rounded down once at the end."""
    if not holder.eligible:
        return 0
    percents = _percents(game, catalogue.shares)
    coffee = 1 if holder.coffee is None else catalogue.coffees[holder.coffee]
    return int(holder.prize * share(percents, game.places, holder.place) * coffee)


def _percents(game: FinishedGame, shares: Shares) -> Percents:
    rules = rules_of(game.game_type)
    assert rules is not None, f"no such game: {game.game_type}"
    return shares.partners if rules.partners else shares.alone[len(game.places)]


def good_rows(deals: Sequence[ScoredDeal], seat: int, row_deals: int) -> int:
    """How often a seat played so many good deals in a row: again for each further so many.

    A good deal is an own one with an exact bid. Deals of one card neither count nor break the row.
    """
    rows = in_a_row = 0
    for deal in deals:
        if deal.hand_size == _ONE_CARD:
            continue
        is_good = deal.own[seat] and deal.bids[seat] == deal.tricks_won[seat]
        in_a_row = in_a_row + 1 if is_good else 0
        if in_a_row == row_deals:
            rows += 1
            in_a_row = 0
    return rows


def coach_pay(coached: Coached, terms: GoodPlayTerms) -> Amounts:
    """What the coach's score is worth: nothing with fewer than half of the moves left."""
    if not coached.moves or 2 * coached.moves_without_hint < coached.moves:
        return ()
    return next((each.amounts for each in terms.coach if coached.score >= each.score_min), ())


def coach_entry(game_id: UUID, seat: int, account: UUID, amounts: Amounts) -> Entry:
    """What an analysis pays."""
    return posted(f"coach:{game_id}:{seat}", _of_game(game_id, "coach"), _rewards(account, amounts))


def _of_game(game_id: UUID, what: str) -> Cause:
    return Cause(CauseKind.GAME, str(game_id), what)


def _rewards(account: UUID, amounts: Amounts) -> list[Transfer]:
    return [Transfer(House.REWARDS.value, account, currency, amount) for currency, amount in amounts]
