"""Rooms and tickets: what players ask for in quick play."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date, tzinfo
from typing import NamedTuple
from uuid import UUID

import structlog

from chassis.errors import in_a_line
from rules import registry
from rules.calendar import day_of
from services.matchmaker.app import errors
from services.matchmaker.app.batches import Batches
from services.matchmaker.app.ports import Accounts, Answer, Games, League, Ledger, Rank, Replicas, Standing, Tickets
from services.matchmaker.domain.quick_play import Pool, QuickTicket, State
from services.matchmaker.domain.rooms import Entrant, Room, WhyNot, next_vip_day, why_not

log = structlog.get_logger(__name__)


class Player(NamedTuple):
    """Who calls."""

    account: UUID
    guest: bool


class OwnRoom(NamedTuple):
    """A room as it is to somebody."""

    room: Room
    why_not: Sequence[WhyNot]
    # Of VIP rooms.
    next_vip_day: date | None


class QuickPlay:
    """The use cases, one method each."""

    def __init__(
        self,
        rooms: Mapping[int, Room],
        tickets: Tickets,
        games: Games,
        ledger: Ledger,
        league: League,
        accounts: Accounts,
        replicas: Replicas,
        *,
        zone: tzinfo,
        now_us: Callable[[], int],
        new_id: Callable[[], UUID],
    ) -> None:
        self._rooms = rooms
        self._tickets = tickets
        self._games = games
        self._replicas = replicas
        self._zone = zone
        self._now_us = now_us
        self._new_id = new_id
        # What hundreds ask for at once is asked for together.
        self._ranks = Batches("ranks", league.ranks)
        self._purses = Batches("purses", ledger.purses)
        self._companions = Batches("companions", accounts.companions)
        self._known = Batches("look for tickets", tickets.known)
        self._adding = Batches("add tickets", tickets.add)
        self._answers = Batches("answers", tickets.answer)
        self._seen = Batches("signs of life", tickets.seen)

    async def stop(self) -> None:
        """Answer no more."""
        every = (self._ranks, self._purses, self._companions, self._known, self._adding, self._answers, self._seen)
        for batches in every:
            await batches.stop()

    async def rooms(self, player: Player) -> tuple[Rank, Sequence[OwnRoom]]:
        """All rooms as they are to somebody, and how far that player has come."""
        rank, purse = await asyncio.gather(
            errors.answered(self._ranks.ask(player.account)), errors.answered(self._purses.ask(player.account))
        )
        today = day_of(self._now_us(), self._zone)
        entrant = Entrant(player.account, player.guest, rank.level, purse)
        return rank, [
            OwnRoom(room, why_not(room, entrant, today), next_vip_day(player.account, today) if room.vip else None)
            for room in self._rooms.values()
        ]

    async def enqueue(self, player: Player, room: int, game_type: str, variant: str, coffee: str) -> Standing:
        """A ticket, or the one that the player has; refused if the room is not open to the player now."""
        pool = _pool(game_type, variant)
        if await self._known.ask(player.account):
            known = await self._tickets.standing(player.account)
            if known.ticket is not None and not await self._is_over(known.ticket):
                return known
        ticket = await self._new_ticket(player, self._rooms[room], pool, coffee)
        added = await self._adding.ask(ticket)
        if added.ticket_id != ticket.ticket_id:
            # Asked for on another device at the same time.
            return await self._tickets.standing(player.account)
        self._replicas.changed(pool, player.account)
        return Standing(added)

    async def cancel(self, account: UUID, ticket_id: UUID) -> None:
        """Give a ticket up; refused once its table is being dealt."""
        known = await self._tickets.standing(account)
        left = await self._tickets.cancel(account, ticket_id)
        if left is not None:
            raise errors.already_playing(left.game_id) if left.state is State.PLAYING else errors.dealing()
        if known.ticket is not None:
            self._replicas.changed(known.ticket.pool, account)

    async def add_nonce(self, account: UUID, game_id: UUID, nonce: bytes) -> bool:
        """Add to the shuffle of the table at which one sits; whether there is such a table of quick play."""
        pool = await self._answers.ask(Answer(account, game_id, nonce))
        if pool is not None:
            self._replicas.changed(pool, account)
        return pool is not None

    async def here(self, account: UUID) -> None:
        """The player is there."""
        await self._seen.ask(account)

    async def _new_ticket(self, player: Player, room: Room, pool: Pool, coffee: str) -> QuickTicket:
        rank, purse, companions = await asyncio.gather(
            errors.answered(self._ranks.ask(player.account)),
            self._purse(player, room, coffee),
            self._kept_apart(player),
        )
        now_us = self._now_us()
        entrant = Entrant(player.account, player.guest, rank.level, purse)
        reasons = why_not(room, entrant, day_of(now_us, self._zone), coffee)
        if reasons:
            raise errors.cannot_enter(reasons)
        return QuickTicket(
            ticket_id=self._new_id(),
            account=player.account,
            guest=player.guest,
            pool=pool,
            room=room.number,
            coffee=coffee,
            rank=rank.standing,
            companions=companions,
            queued_at_us=now_us,
        )

    async def _purse(self, player: Player, room: Room, coffee: str) -> Mapping[str, int]:
        """What the player can pay; not asked for where nothing is to be paid."""
        if not (room.coins or room.gold or coffee):
            return {}
        return await errors.answered(self._purses.ask(player.account))

    async def _kept_apart(self, player: Player) -> tuple[UUID, ...]:
        try:
            return await self._companions.ask(player.account)
        except Exception as error:
            # Better to play without this precaution than not to play.
            log.warning("companions are not known", error=in_a_line(error))
            return ()

    async def _is_over(self, ticket: QuickTicket) -> bool:
        """Whether a ticket says that a game is played which is played no more: the fact of it may be on its way still,
        or parked. The table service knows."""
        if ticket.state is not State.PLAYING:
            return False
        assert ticket.game_id is not None
        if ticket.game_id in await errors.answered(self._games.seated_in(ticket.account)):
            raise errors.already_playing(ticket.game_id)
        await self._tickets.left(ticket.account, ticket.game_id)
        return True


def _pool(game_type: str, variant: str) -> Pool:
    game = registry.game(game_type)
    if game is None:
        raise errors.unknown_game()
    variant = variant or next(iter(game.quick_play))
    if variant not in game.quick_play:
        raise errors.not_in_quick_play()
    return Pool(game_type, variant)
