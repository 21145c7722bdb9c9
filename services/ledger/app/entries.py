"""Entries of quick-play games: held all together at the deal, ended by what became of the game."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Final
from uuid import UUID

import grpc

from chassis.errors import Refused
from services.ledger.app.mondays import Mondays
from services.ledger.app.ports import Decided, Entries, HeldGame, Holding
from services.ledger.domain.entries import Entrant, RoomTerms, ended_entries, held_entry, returned_entries
from services.ledger.domain.journal import Currency, Entry

# What an entrant is refused with, by what there was too little of; all coffees alike.
REFUSALS: Final = {Currency.COIN: "INSUFFICIENT_COINS", Currency.GOLD: "INSUFFICIENT_GOLD"}
COFFEE_REFUSAL: Final = "INSUFFICIENT_COFFEE"


class Asked:
    """Somebody who wants to be let in."""

    __slots__ = ("account", "coffee", "room")

    def __init__(self, account: UUID, room: int, coffee: Currency | None) -> None:
        self.account = account
        self.room = room
        self.coffee = coffee


class EntryDesk:
    """Holds entries, and ends them."""

    def __init__(self, entries: Entries, mondays: Mondays, rooms: Mapping[int, RoomTerms]) -> None:
        self._entries = entries
        self._mondays = mondays
        self._rooms = rooms

    async def hold(self, game_id: UUID, asked: Sequence[Asked]) -> tuple[Entrant, ...]:
        """Hold back what each pays; each is accepted, or refused for what there is too little of.

        Safe to repeat: the first answer comes again, whatever the balances are by then. Refused with HOLD_REUSED for
        other entrants under the same game, and with GAME_SETTLED once the game has begun or was cancelled.
        """
        self._check(asked)
        await self._mondays.bring([each.account for each in asked])
        input_hash = _input_hash(asked)
        async with self._entries.holding(game_id, input_hash) as holding:
            known = await holding.known()
            if known is not None:
                return _answer_again(known, input_hash)
            entrants = [Entrant(each.account, each.room, each.coffee, self._rooms[each.room]) for each in asked]
            answered = await _decide(holding, game_id, entrants)
            await holding.keep(answered)
            return answered

    async def purses(self, accounts: Sequence[UUID]) -> Mapping[UUID, Mapping[Currency, int]]:
        """What accounts could pay now."""
        await self._mondays.bring(accounts)
        return await self._entries.free(accounts)

    def _check(self, asked: Sequence[Asked]) -> None:
        if len({each.account for each in asked}) != len(asked):
            raise Refused("ENTERED_TWICE", grpc.StatusCode.INVALID_ARGUMENT, "An account enters a game at most once.")
        for each in asked:
            if each.room not in self._rooms:
                raise Refused("NO_SUCH_ROOM", grpc.StatusCode.INVALID_ARGUMENT, f"There is no room {each.room}.")


async def _decide(holding: Holding, game_id: UUID, entrants: Sequence[Entrant]) -> tuple[Entrant, ...]:
    # An empty entry holds nothing, and so is always accepted.
    entries = [held_entry(game_id, entrant) for entrant in entrants if entrant.transfers]
    decided = dict(zip((entry.key for entry in entries), await holding.put_down(entries), strict=True))
    return tuple(
        Entrant(
            entrant.account,
            entrant.room,
            entrant.coffee,
            entrant.terms,
            _refusal(decided.get(held_entry(game_id, entrant).key)),
        )
        for entrant in entrants
    )


def _refusal(decided: Decided | None) -> Currency | None:
    if decided is None or decided.outcome.stands:
        return None
    assert decided.lacking is not None, f"an entry was {decided.outcome}"
    return decided.lacking


def refusal_reason(refusal: Currency) -> str:
    """The stable reason for which an entrant is refused."""
    return REFUSALS.get(refusal, COFFEE_REFUSAL)


def _answer_again(known: HeldGame, input_hash: bytes) -> tuple[Entrant, ...]:
    if known.input_hash is None:
        raise Refused(
            "GAME_SETTLED", grpc.StatusCode.FAILED_PRECONDITION, "The game has begun or was cancelled: nothing is held."
        )
    if known.input_hash != input_hash:
        raise Refused(
            "HOLD_REUSED", grpc.StatusCode.ALREADY_EXISTS, "Entries of this game are held for other entrants."
        )
    return known.entrants


def _input_hash(asked: Sequence[Asked]) -> bytes:
    lines = (f"{each.account} {each.room} {each.coffee or ''}" for each in asked)
    return sha256("\n".join(lines).encode()).digest()


def game_began(game_id: UUID, held: HeldGame, seated: Collection[UUID]) -> list[Entry]:
    """What follows for the entries when the game's `created` fact comes."""
    return ended_entries(game_id, held.entrants, seated)


def game_cancelled(game_id: UUID, held: HeldGame) -> list[Entry]:
    """What follows for the entries when the game's `cancelled` fact comes: before it began, or while it ran."""
    if held.began:
        return returned_entries(game_id, [each for each in held.entrants if each.account in held.seated])
    return ended_entries(game_id, held.entrants, ())
