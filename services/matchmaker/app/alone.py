"""Games of one person and bots: solo, and the day's game.

Ids of the games' preparation follow from who asks for what, so that whoever asks again gets the same game, also from
another replica and after a lost answer.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date
from typing import Final
from uuid import UUID, uuid5

from rules import registry
from rules.calendar import day_of
from rules.game import Game
from services.matchmaker.app import errors
from services.matchmaker.app.ports import DAILY, SOLO, Attempts, Games, PreparedGame, Seat
from services.matchmaker.app.quick_play import Player

# What the ids of preparations are made from; never to be changed.
_SOLO: Final = UUID("6f0b7f0e-4d1c-4b3a-9a55-0f6f5c1f9a01")
_DAILY: Final = UUID("6f0b7f0e-4d1c-4b3a-9a55-0f6f5c1f9a02")


class Alone:
    """The use cases, one method each."""

    def __init__(self, games: Games, attempts: Attempts, now_us: Callable[[], int]) -> None:
        self._games = games
        self._attempts = attempts
        self._now_us = now_us

    async def solo(
        self, player: Player, request_id: UUID, game_type: str, variant: str, seats: int, bot_level: str
    ) -> PreparedGame:
        """A game that runs, with the player in seat 0."""
        game = _known(game_type)
        variant = variant or next(iter(game.variants))
        # A variant that there is not is refused by the table service.
        seats = seats or max(game.variants.get(variant, (2,)))
        id_of_request = uuid5(_SOLO, f"{player.account} {request_id}")
        prepared = await errors.answered(self._games.prepare(id_of_request, game_type, variant, seats, SOLO))
        await errors.answered(self._games.create(prepared.game_id, _seats(player, seats, bot_level)))
        return prepared

    async def daily(self, player: Player, game_type: str, practice: UUID | None) -> PreparedGame:
        """Today's game of a type: the attempt that counts, wherever it is, or another one when that is finished."""
        game = _known(game_type)
        today = day_of(self._now_us(), UTC)
        if practice is not None:
            await self._check_practice(player, game_type, today)
            prepared = await self._prepare_daily(game, f"{player.account} {practice}")
        else:
            prepared = await self._prepare_daily(game, _counted(player, game, today))
            if prepared.day != today.isoformat():
                # Midnight came in between: of the new day, too, one attempt counts.
                today = date.fromisoformat(prepared.day)
                prepared = await self._prepare_daily(game, _counted(player, game, today))
        _, seats = game.daily
        await errors.answered(self._games.create(prepared.game_id, _seats(player, seats)))
        if practice is None:
            await self._attempts.keep(player.account, today, game_type, prepared.game_id)
        return prepared

    async def _prepare_daily(self, game: Game, name: str) -> PreparedGame:
        variant, seats = game.daily
        return await errors.answered(self._games.prepare(uuid5(_DAILY, name), game.game_type, variant, seats, DAILY))

    async def _check_practice(self, player: Player, game_type: str, today: date) -> None:
        """Whoever saw the deals before the attempt that counts would know them."""
        counted = await self._attempts.counted(player.account, today, game_type)
        if counted is None or counted in await errors.answered(self._games.seated_in(player.account)):
            raise errors.daily_not_finished()


def _counted(player: Player, game: Game, day: date) -> str:
    return f"{player.account} {game.game_type} {day.isoformat()}"


def _known(game_type: str) -> Game:
    game = registry.game(game_type)
    if game is None:
        raise errors.unknown_game()
    return game


def _seats(player: Player, seats: int, bot_level: str = "") -> Sequence[Seat]:
    return [Seat(player.account, player.guest), *[Seat(bot_level=bot_level)] * (seats - 1)]
