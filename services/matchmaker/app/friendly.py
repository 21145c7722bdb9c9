"""Friendly tables: opened, filled, dealt, and played again.

Every change is one transaction on the table's row; whoever sits there is told after it. A deal fixes the game's id and
shows its commitment, waits a moment for answers, and creates the game from what is in the row: each step may be taken
again, by another replica where the first one died.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid5

import grpc
import structlog

from chassis.errors import Refused, in_a_line
from chassis.tasks import Background
from rules.chat import LINE_CHARACTERS_MAX, cleaned_line
from services.matchmaker.app import errors
from services.matchmaker.app.ports import (
    FRIENDLY,
    Clock,
    FriendlyStore,
    Games,
    Guests,
    NotCreated,
    PreparedGame,
    Seat,
    SeatedElsewhere,
    Told,
)
from services.matchmaker.app.quick_play import Player
from services.matchmaker.domain import friendly
from services.matchmaker.domain.friendly import Chair, Decided, FriendlyTable, Options, TableRejection

log = structlog.get_logger(__name__)

# Without letters and digits that look alike.
CODE_CHARACTERS: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
CODE_LENGTH: Final = 6
CODE_ATTEMPTS: Final = 5
LOOK_FOR_ANSWERS_SECONDS: Final = 0.05
TRY_SECONDS: Final = 6.0
PAUSE_SECONDS: Final = 0.3
LOOK_SECONDS: Final = 1.0
_REMATCH: Final = UUID("6f0b7f0e-4d1c-4b3a-9a55-0f6f5c1f9a03")

Command = Callable[[FriendlyTable], Decided]


class FriendlyTables:
    """The use cases, one method each."""

    def __init__(
        self,
        store: FriendlyStore,
        games: Games,
        guests: Guests,
        now_us: Callable[[], int],
        *,
        gone_seconds: float,
        answers_seconds: float,
    ) -> None:
        self._store = store
        # Who was not heard for so long loses the seat; an owner the role with it.
        self._gone_seconds = gone_seconds
        # A dealt table waits so long for answers to its commitment.
        self._answers_seconds = answers_seconds
        self._games = games
        self._guests = guests
        self._now_us = now_us
        # Tables whose deals are under way here.
        self._dealing: set[UUID] = set()
        self._background = Background()
        # Tables that wait, at all replicas together, a moment ago.
        self.waiting_count = 0

    def start(self) -> None:
        """Begin to look for who is gone, and for deals that others have left behind."""
        self._background.spawn("friendly tables", self._look())

    async def stop(self) -> None:
        """Look no more; deals under way are taken up by others."""
        await self._background.stop()

    # At the door

    async def open(self, player: Player, request_id: UUID, options: Options) -> Told:
        """Open a table; the same one again for the same request, as long as it waits."""
        _check_signed_in(player)
        # Of the player's own, so that nobody can come to another one's table by it. Its order is that of the list.
        table_id = _ordered(request_id, player.account, self._now_us())
        (known,) = await self._store.of([player.account])
        if known is not None and known.table.owner == player.account and _same_request(known.table.table_id, table_id):
            return known
        for _ in range(CODE_ATTEMPTS):
            table = friendly.open_table(table_id, _code(), options, player.account, self._now_us())
            if isinstance(table, TableRejection):
                raise errors.table_rejected(table)
            told = await self._add(table)
            if told is not None:
                return told
        raise errors.unavailable()

    async def get(self, table_id: UUID) -> Told:
        """A table that waits."""
        return _found(await self._store.get(table_id))

    async def by_code(self, code: str) -> Told:
        """A table that waits, by the code that somebody was told."""
        return _found(await self._store.by_code(code.upper()))

    async def waiting(self, game_type: str, free_only: bool, before: UUID | None, limit: int) -> Sequence[Told]:
        """Tables that wait, the newest first."""
        return await self._store.waiting(game_type, free_only, before, limit)

    async def running(self, game_type: str, free_only: bool, before: UUID | None, limit: int) -> Sequence[Told]:
        """Tables that are played, the newest first."""
        return await self._store.running(game_type, free_only, before, limit)

    # At the table

    async def sit(self, player: Player, table_id: UUID, seat: int | None) -> Told:
        """Take a seat."""
        now_us = self._now_us()
        return await self._change(
            table_id, lambda table: friendly.sit(table, player.account, player.guest, seat, now_us)
        )

    async def stand(self, account: UUID, table_id: UUID) -> None:
        """Give the own seat up; a table that is no more was left, too."""
        if await self._store.get(table_id) is not None:
            await self._change(table_id, lambda table: friendly.stand(table, account))

    async def be_ready(self, account: UUID, table_id: UUID, ready: bool) -> None:
        """Ready, or not yet."""
        await self._change(table_id, lambda table: friendly.be_ready(table, account, ready))

    async def say(self, account: UUID, table_id: UUID, text: str) -> int:
        """Say a line to those who sit there."""
        told = _found(await self._store.get(table_id))
        if told.table.seat_of(account) is None:
            raise errors.table_rejected(TableRejection.NOT_AT_THE_TABLE)
        line = cleaned_line(text)
        if not line:
            raise errors.line_empty()
        if len(line) > LINE_CHARACTERS_MAX:
            raise errors.line_too_long()
        line_no = await self._store.say(table_id, account, line)
        told = _found(await self._store.get(table_id))
        if line_no is None:
            raise errors.too_many_lines()
        self._tell(told, ())
        return line_no

    async def answer(self, account: UUID, game_id: UUID, nonce: bytes) -> None:
        """Add to the shuffle of the table at which one sits."""
        if await self._store.answer(account, game_id, nonce) is None:
            raise errors.nothing_to_answer()

    # The owner's

    async def remove(self, account: UUID, table_id: UUID, other: UUID) -> None:
        """Send somebody away."""
        await self._change(table_id, lambda table: friendly.remove(table, account, other))

    async def set_bot(self, account: UUID, table_id: UUID, seat: int, level: str) -> None:
        """Put a bot on a seat, or take it off."""
        await self._change(table_id, lambda table: friendly.set_bot(table, account, seat, level))

    async def set_options(self, account: UUID, table_id: UUID, options: Options) -> None:
        """Say what is played."""
        await self._change(table_id, lambda table: friendly.set_options(table, account, options))

    async def deal(self, account: UUID, table_id: UUID) -> PreparedGame:
        """Begin the deal; the same answer again while it is under way."""
        table = _found(await self._store.get(table_id)).table
        if table.dealing and account == table.owner:
            assert table.game_id is not None
            return PreparedGame(table.game_id, table.commitment)
        refused = friendly.check_deal(table, account)
        if refused is not None:
            raise errors.table_rejected(refused)
        seats = len(table.taken)
        options = table.options
        # Each deal of a table has a game of its own; of the same deal it is the same, however often it is asked for.
        # The code tells tables apart that are opened for a rematch of one game, one after another.
        request_id = uuid5(table_id, f"{table.code} {table.deals} {options.game_type} {options.variant} {seats}")
        prepared = await errors.answered(
            self._games.prepare(request_id, options.game_type, options.variant, seats, FRIENDLY)
        )

        def begin(now: FriendlyTable) -> Decided:
            if now.dealing and now.game_id == prepared.game_id:
                return now
            refused = friendly.check_deal(now, account)
            if refused is not None:
                return refused
            if (now.deals, now.options, len(now.taken)) != (table.deals, options, seats):
                # Somebody came or went at this moment: the owner shall look again.
                return TableRejection.NOT_READY
            return friendly.begin_deal(now, prepared.game_id, prepared.commitment)

        told = await self._change(table_id, begin)
        self._finish_deal(told.table)
        return prepared

    async def rematch(self, player: Player, game_id: UUID) -> Told:
        """Take the own seat at the table that plays a game again; the first who wants it opens that table."""
        game = await self._store.game(game_id)
        if game is None or game.table.seat_of(player.account) is None:
            raise errors.table_not_found()
        if game_id in await errors.answered(self._games.seated_in(player.account)):
            raise errors.game_running()
        table_id = uuid5(_REMATCH, str(game_id))
        if await self._store.get(table_id) is None:
            _check_signed_in(player)
            old = game.table
            chairs = old.chairs
            table = friendly.rematch(table_id, _code(), old.options, chairs, player.account, self._now_us())
            told = await self._add(table)
            if told is not None:
                return told
        return await self.sit(player, table_id, None)

    # What all this stands on

    async def _add(self, table: FriendlyTable) -> Told | None:
        try:
            told = await self._store.add(table)
        except SeatedElsewhere:
            raise errors.seated_elsewhere() from None
        if told is not None:
            self._tell(told, ())
        return told

    async def _change(self, table_id: UUID, command: Command) -> Told:
        try:
            async with self._store.changing(table_id) as changing:
                before = changing.table
                if before is None:
                    raise errors.table_not_found()
                after = command(before)
                if isinstance(after, TableRejection):
                    raise errors.table_rejected(after)
                told = await changing.save(after)
        except SeatedElsewhere:
            raise errors.seated_elsewhere() from None
        if after != before:
            known = await self._store.get(table_id)
            self._tell(known or told, [account for account in before.people if after.seat_of(account) is None])
        return told

    def _tell(self, told: Told, gone: Sequence[UUID]) -> None:
        for account in told.table.people:
            self._guests.tell_table(account, told, told.number)
        for account in gone:
            self._guests.tell_table(account, None, self._now_us())

    # Deals

    def _finish_deal(self, table: FriendlyTable) -> None:
        if table.table_id not in self._dealing:
            self._dealing.add(table.table_id)
            self._background.spawn("deal a friendly table", self._deal(table))

    async def _deal(self, table: FriendlyTable) -> None:
        try:
            await self._await_answers(table.table_id)
            nonces = await self._store.fix(table.table_id)
            if nonces is None or table.game_id is None:
                return
            if await self._create(table, table.game_id, [_seat(chair, nonces) for chair in table.taken]):
                await self._store.began(replace(table, chairs=table.taken))
                for account in table.people:
                    self._guests.tell_table(account, None, self._now_us())
            else:
                await self._change(
                    table.table_id, lambda now: replace(now, game_id=None, commitment=b"") if now.dealing else now
                )
        except Exception as error:
            # Whoever looks for deals that were left behind finds it again.
            log.warning("a friendly table is not dealt", table_id=str(table.table_id), error=in_a_line(error))
        finally:
            self._dealing.discard(table.table_id)

    async def _await_answers(self, table_id: UUID) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._answers_seconds
        while loop.time() < end and await self._store.unanswered(table_id):
            await asyncio.sleep(LOOK_FOR_ANSWERS_SECONDS)

    async def _create(self, table: FriendlyTable, game_id: UUID, seats: Sequence[Seat]) -> bool:
        """Whether the game runs: it does, or its id is closed for good."""
        loop = asyncio.get_running_loop()
        end = loop.time() + TRY_SECONDS
        clock = Clock(bid_seconds=table.options.bid_seconds)
        while True:
            try:
                if loop.time() < end:
                    await self._games.create(game_id, seats, clock, table.options.spectator_delay_seconds)
                    return True
                return await self._games.cancel(game_id)
            except NotCreated:
                return False
            except Exception as error:
                log.warning("a friendly game does not begin", game_id=str(game_id), error=in_a_line(error))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _look(self) -> None:
        """See to it that nobody waits for who is gone, nor for a deal whose replica has died."""
        loop = asyncio.get_running_loop()
        listening_since = loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self.waiting_count = await self._store.waiting_count()
                for table_id in await self._store.overdue():
                    told = await self._store.get(table_id)
                    if told is not None and told.table.dealing:
                        self._finish_deal(told.table)
                if loop.time() - listening_since > self._gone_seconds:
                    for account, table_id in await self._store.gone(timedelta(seconds=self._gone_seconds)):
                        await self._leave(account, table_id)
            except Exception as error:
                # Nobody can have been heard meanwhile.
                listening_since = loop.time()
                log.warning("friendly tables cannot be looked after", error=in_a_line(error))

    async def _leave(self, account: UUID, table_id: UUID) -> None:
        try:
            await self.stand(account, table_id)
        except Refused as refused:
            log.info("who is gone keeps the seat for now", reason=refused.reason)


def _check_signed_in(player: Player) -> None:
    if player.guest:
        raise Refused("REGISTERED_ONLY", grpc.StatusCode.PERMISSION_DENIED, "Guests open no tables.")


def _found(told: Told | None) -> Told:
    if told is None:
        raise errors.table_not_found()
    return told


def _code() -> str:
    return "".join(secrets.choice(CODE_CHARACTERS) for _ in range(CODE_LENGTH))


def _seat(chair: Chair, nonces: Mapping[UUID, bytes]) -> Seat:
    if chair.account is None:
        return Seat(bot_level=chair.bot_level)
    return Seat(chair.account, chair.guest, nonce=nonces.get(chair.account, b""))


def _ordered(request_id: UUID, account: UUID, now_us: int) -> UUID:
    """An id that begins with the time, as lists are in its order, and ends as the player's request says."""
    name = bytearray(uuid5(account, str(request_id)).bytes)
    name[:6] = (now_us // 1000).to_bytes(6, "big")
    # As a UUIDv7 has it; its variant is that of the name.
    name[6] = name[6] & 0x0F | 0x70
    return UUID(bytes=bytes(name))


def _same_request(one: UUID, other: UUID) -> bool:
    low = (1 << 62) - 1
    return one.int & low == other.int & low
