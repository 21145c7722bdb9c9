"""Entries of quick-play games: what each entrant pays, held at the deal, and what ends it."""

from collections.abc import Collection, Sequence
from uuid import UUID

from rules.values import value
from services.ledger.domain.journal import (
    Cause,
    CauseKind,
    Currency,
    Entry,
    House,
    Kind,
    Transfer,
    pending,
    posted,
    resolved,
)


@value
class RoomTerms:
    """What a quick-play room asks of who enters a game, and what it promises."""

    coins: int
    gold: int
    prize: int


@value
class Entrant:
    """Somebody who is to be let into a quick-play game, at the price of the own room."""

    account: UUID
    room: int
    coffee: Currency | None
    terms: RoomTerms
    # What there was too little of; None for who was accepted.
    refusal: Currency | None = None

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """What the entry takes."""
        house = House.ENTRIES.value
        price = [(Currency.COIN, self.terms.coins), (Currency.GOLD, self.terms.gold)]
        if self.coffee is not None:
            price.append((self.coffee, 1))
        return tuple(Transfer(self.account, house, currency, amount) for currency, amount in price if amount)


def entry_key(game_id: UUID, account: UUID) -> str:
    """The key of a game's entry while it is held."""
    return f"entry:{game_id}:{account}"


def held_entry(game_id: UUID, entrant: Entrant) -> Entry:
    """The entry of one entrant, held until the game begins or is cancelled."""
    cause = Cause(CauseKind.GAME, str(game_id), "entry")
    return pending(entry_key(game_id, entrant.account), cause, entrant.transfers)


def ended_entries(game_id: UUID, entrants: Sequence[Entrant], seated: Collection[UUID]) -> list[Entry]:
    """What ends the held entries of a game: those who are seated have entered, the others get theirs back."""
    ended = []
    for entrant in entrants:
        held = held_entry(game_id, entrant)
        if entrant.refusal is None and held.transfers:
            kind, what = (Kind.POST, "entered") if entrant.account in seated else (Kind.VOID, "released")
            ended.append(resolved(held, kind, f"{what}:{game_id}:{entrant.account}"))
    return ended


def returned_entries(game_id: UUID, entrants: Sequence[Entrant]) -> list[Entry]:
    """What gives entries back that were taken: the game was cancelled while it ran."""
    cause = Cause(CauseKind.GAME, str(game_id), "returned")
    return [
        posted(
            f"returned:{game_id}:{entrant.account}",
            cause,
            [Transfer(t.credit, t.debit, t.currency, t.amount) for t in entrant.transfers],
        )
        for entrant in entrants
        if entrant.refusal is None and entrant.transfers
    ]
