"""The table service's use cases: prepare, create, cancel, act, follow, replay and list games."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from datetime import date
from typing import Final, NamedTuple
from uuid import UUID

import grpc

from chassis.errors import Refused, refused
from chassis.log import AppendResult
from rules import registry
from rules.chance import Chance, commitment
from rules.game import Game, Rejection
from rules.values import value
from services.table import domain
from services.table.app import errors, listing
from services.table.app.folding import Replayed, history
from services.table.app.following import FollowedGame, Following
from services.table.app.host import Host
from services.table.app.listing import Summary
from services.table.app.own_games import news_of
from services.table.app.ports import CommandName, GameLog, Loaded, PreparedGame, Store
from services.table.app.requests import Done, Outcome, Request, Sign, TakeSeat
from services.table.app.routing import Routing
from services.table.app.running import RunningGame
from services.table.domain import DEFAULT_BOT, Clock, Kind, Mode, Occupant, Secret, Table

LIST_PAGE: Final = 50
# Finished games that are looked at again, as those just over are.
FINISHED_MAX: Final = 256


@value
class NewGame:
    """What a game is created with, besides what was prepared."""

    game_id: UUID
    seats: tuple[Occupant, ...]
    nonces: tuple[bytes, ...]
    clock: Clock
    spectator_delay_seconds: int
    # Of the request as it was parsed: tells a repetition from another request.
    content_hash: bytes


class Daily(NamedTuple):
    """What everybody may know of a day's deals."""

    game: Game
    day: date
    commitment: bytes
    # None until the day has ended.
    server_seed: bytes | None


class Tables:
    """The use cases, one method each."""

    def __init__(self, store: Store, log: GameLog, host: Host, following: Following, routing: Routing) -> None:
        self._store = store
        self._log = log
        self.host = host
        self._following = following
        self._routing = routing
        # The first is the one that was asked for longest ago.
        self._finished: dict[UUID, Table] = {}

    async def prepare(self, request_id: UUID, game_type: str, variant: str, seats: int, mode: Mode) -> PreparedGame:
        """Fix a game's id and seed, stored before this answers."""
        game = _known_game(game_type)
        variant = variant or (game.daily[0] if mode is Mode.DAILY else next(iter(game.variants)))
        seed, day = os.urandom(32), None
        drawn = game.setup(variant, seats, Chance(seed))
        if isinstance(drawn, Rejection):
            raise errors.rejected(drawn)
        if mode is Mode.QUICK_PLAY and game.quick_play.get(variant) != seats:
            raise errors.not_in_quick_play()
        if mode is Mode.DAILY:
            if (variant, seats) != game.daily:
                raise errors.not_a_daily()
            day = domain.day_of(self.host.clock.now_us())
            seed = await self._store.offer_daily_seed(game_type, day, seed)
        game_id = self.host.clock.new_id()
        wanted = PreparedGame(game_id, game_type, variant, seats, mode, seed, commitment(seed), day)
        prepared = await self._store.prepare(request_id, wanted)
        asked = (wanted.game_type, wanted.variant, wanted.seats, wanted.mode)
        if (prepared.game_type, prepared.variant, prepared.seats, prepared.mode) != asked:
            raise refused("REQUEST_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS, "This request id prepared another game.")
        return prepared

    async def create(self, new: NewGame) -> int:
        """Start a prepared game; answers with its first commit's version.

        A game that is in the log needs its host, so this goes on when its caller is cancelled.
        """
        return await self.host.background.to_its_end("create a game", self._create(new))

    async def _create(self, new: NewGame) -> int:
        prepared = await self._store.prepared(new.game_id)
        if prepared is None:
            raise errors.game_not_found()
        _check_seats(prepared, new.seats)
        now_us = self.host.clock.now_us()
        if prepared.day is not None:
            _check_daily(new)
            if now_us >= domain.day_end_us(prepared.day):
                # Too late to begin one; a repetition still gets its answer.
                if await self._log.first(new.game_id) is None:
                    raise errors.day_over()
                return await self._created_before(new)
        if self.host.stopping:
            raise errors.unavailable()
        step = _opening(prepared, new, str(self.host.id), now_us)
        self.host.beginning.add(new.game_id)
        try:
            return await self._begin(new, step)
        finally:
            self.host.beginning.discard(new.game_id)

    async def _begin(self, new: NewGame, step: domain.Step) -> int:
        commit = step.commit
        epoch = await self._store.host_new_game(
            new.game_id, self.host.id, [UUID(seat.account) for seat in new.seats if seat.account]
        )
        # The command that creates a game is named by the game itself.
        command = CommandName(new.game_id, new.content_hash)
        result, chain = await self._log.append_first(new.game_id, commit, step.table, command)
        if result is AppendResult.COMMITTED:
            self.host.add_new(new.game_id, Loaded(step.table, chain), epoch)
            for news in news_of(new.game_id, None, commit, step.table):
                self.host.players.tell(news)
            return commit.version
        if result is AppendResult.UNKNOWN:
            # It may be in the log though this call ends without knowing.
            self.host.compare_soon()
        return await self._created_before(new)

    async def _created_before(self, new: NewGame) -> int:
        """The first version is taken, or its append's outcome is unknown: the log decides."""
        first = await self._log.first(new.game_id)
        if first is None:
            raise errors.unavailable()
        if not first.kinds & Kind.CREATED:
            await self._store.mark_over(new.game_id)
            raise refused("GAME_CANCELLED", grpc.StatusCode.FAILED_PRECONDITION, "This id was cancelled.")
        if first.content_hash != new.content_hash:
            raise refused(
                "GAME_ALREADY_CREATED", grpc.StatusCode.ALREADY_EXISTS, "The game was created with other content."
            )
        owner = await self._store.owner(new.game_id)
        if owner is not None and owner.host_id == self.host.id:
            await self.host.take(new.game_id, owner.epoch)
        return first.version

    async def cancel(self, game_id: UUID) -> Kind:
        """Close an id for good; answers with what its first commit is: CANCELLED or CREATED."""
        if await self._store.prepared(game_id) is None:
            raise errors.game_not_found()
        commit = domain.cancellation(game_id.bytes, "cancelled before it began", self.host.clock.now_us())
        result, _ = await self._log.append_first(game_id, commit, None, None)
        if result is AppendResult.COMMITTED:
            await self._store.mark_over(game_id)
            return Kind.CANCELLED
        first = await self._log.first(game_id)
        if first is None:
            raise errors.unavailable()
        return Kind.CREATED if first.kinds & Kind.CREATED else Kind.CANCELLED

    async def daily(self, game_type: str, day: date | None) -> Daily:
        """The deals of a day, today's by default: the commitment, and the seed once nobody can play them any more."""
        game = _known_game(game_type)
        now_us = self.host.clock.now_us()
        today = domain.day_of(now_us)
        day = day or today
        if day > today:
            raise refused("DAY_NOT_BEGUN", grpc.StatusCode.FAILED_PRECONDITION, "The day has not begun.")
        seed = await self._store.daily_seed(game_type, day)
        if seed is None and day == today:
            seed = await self._store.offer_daily_seed(game_type, day, os.urandom(32))
        if seed is None:
            raise refused("DAILY_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "Nobody played that day's game.")
        return Daily(game, day, commitment(seed), seed if day < today else None)

    def ask(self, game_id: UUID, request: Request, done: Done) -> None:
        """Have a game's host do what is asked, whatever replica it is; as `RunningGame.handle`."""
        self._routing.ask(game_id, request, done)

    async def asked(self, game_id: UUID, request: Request) -> int:
        """As `ask`, for who waits: the version of the commit that came of it, or the refusal raised."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome, _: bool) -> None:
            # A caller who has left is not waited for; what was done stands.
            if answer.done():
                return
            if isinstance(outcome, Refused):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        self.ask(game_id, request, done)
        return await answer

    def hear(self, game_id: UUID, sign: Sign) -> None:
        """A sign of life that nobody waits for; the next one comes soon."""
        self.ask(game_id, sign, _ignored)

    async def take_seat(self, game_id: UUID, request: TakeSeat) -> int:
        """Seat a person in a vacated seat; answers with the commit's version."""
        table = await self.table(game_id)
        if table.created.mode is Mode.FRIENDLY and not table.over:
            # Before the commit: without it the game would be missing from the person's list.
            await self._store.note_player(game_id, UUID(request.account))
        return await self.asked(game_id, request)

    def is_disclosed(self, table: Table) -> bool:
        """Whether the game may be shown to all now, with its seed."""
        return table.is_disclosed(self.host.clock.now_us())

    async def find(self, game_id: UUID, known_version: int = 0) -> RunningGame | FollowedGame | Table:
        """A running game, hosted here or elsewhere, or a finished one as the log has it; refused if there is none.

        `known_version` is what the caller has seen, perhaps at another replica, of which this one may not have heard
        yet: then it reads on first. Who wants to watch must subscribe before waiting for anything else.
        """
        found = await self._find(game_id)
        if isinstance(found, FollowedGame) and found.table.version < known_version:
            await found.catch_up()
            # It may have ended, or have come to us.
            found = await self._find(game_id)
        return found

    async def _find(self, game_id: UUID) -> RunningGame | FollowedGame | Table:
        here = self._here(game_id)
        if here is not None:
            return here
        if self.host.stopping:
            raise errors.unavailable()
        owner = await self._store.owner(game_id)
        if owner is None:
            table = await self._folded(game_id)
            if not table.over:
                raise errors.unavailable()
            return table
        running = await self.host.find(game_id, owner)
        if running is not None:
            return running
        found = await self._following.follow(game_id)
        if found is None:
            raise errors.game_not_found()
        # It may have come to us while its log was read.
        return self.host.games.get(game_id) or found

    async def table(self, game_id: UUID) -> Table:
        """A game as it is now, or was a moment ago; refused if there is none."""
        here = self._here(game_id)
        if here is None:
            return await self._folded(game_id)
        return here if isinstance(here, Table) else here.table

    def _here(self, game_id: UUID) -> RunningGame | FollowedGame | Table | None:
        return self.host.games.get(game_id) or self._following.game(game_id) or self._finished.get(game_id)

    async def _folded(self, game_id: UUID) -> Table:
        loaded = await self.host.load(game_id)
        if loaded is None:
            raise errors.game_not_found()
        if loaded.table.over:
            if len(self._finished) >= FINISHED_MAX:
                del self._finished[next(iter(self._finished))]
            self._finished[game_id] = loaded.table
        return loaded.table

    async def beyond(self, game_id: UUID, version: int) -> Refused:
        """Why nothing can be sent to who is at a version that the game has not reached, as far as is known here."""
        head = await self._log.head(game_id)
        assert head is not None
        newest = head.commit.version
        # Others may be ahead of us for a moment.
        return errors.future_version(newest) if version > newest else errors.unavailable()

    def history(self, game_id: UUID, up_to: int | None = None) -> AsyncIterator[Replayed]:
        """A game's commits from the first, as far as `up_to` or as the log has them."""
        return history(self._log, game_id, up_to)

    async def list_games(
        self, account: UUID, before: UUID | None, running_only: bool, limit: int
    ) -> tuple[Sequence[Summary], UUID | None]:
        """A page of the games in which an account holds or held a seat, newest first, and its last id.

        None instead of the id on the last page.
        """
        (game_ids,) = await self._store.games_of([account], before, running_only, limit)
        telling = await self._log.read_kinds(game_ids, listing.TELLING)
        versions = await self._log.versions(game_ids)
        summaries = [listing.summary(game_id, versions[game_id], telling[game_id]) for game_id in game_ids]
        # Who was refused, a seat or a game with other seats, is noted with the game all the same.
        seated = [summary for summary in summaries if summary.has_seated(str(account))]
        return seated, game_ids[-1] if len(game_ids) == limit else None


def _ignored(outcome: Outcome, repeated: bool) -> None:
    """Whatever came of it."""


def _known_game(game_type: str) -> Game:
    game = registry.game(game_type)
    if game is None:
        raise refused("UNKNOWN_GAME", grpc.StatusCode.INVALID_ARGUMENT, "There is no such game type.")
    return game


def _check_daily(new: NewGame) -> None:
    """The same for everybody: a person in seat 0 against the same bots, with nothing added to the seed."""
    first, *others = new.seats
    if not first.account or any(seat.bot_level != DEFAULT_BOT for seat in others) or any(new.nonces):
        raise errors.not_a_daily()


def _check_seats(prepared: PreparedGame, seats: Sequence[Occupant]) -> None:
    if len(seats) != prepared.seats:
        raise errors.rejected(Rejection.SEATS_NOT_ALLOWED)
    accounts = [seat.account for seat in seats if seat.account]
    if len(set(accounts)) != len(accounts):
        raise refused("SEATED_TWICE", grpc.StatusCode.INVALID_ARGUMENT, "An account holds at most one seat at a table.")
    game = registry.game(prepared.game_type)
    assert game is not None
    for seat in seats:
        if seat.bot_level and seat.bot_level not in game.bots:
            raise refused("UNKNOWN_BOT", grpc.StatusCode.INVALID_ARGUMENT, "There is no bot of this level.")


def _opening(prepared: PreparedGame, new: NewGame, host: str, now_us: int) -> domain.Step:
    game = registry.game(prepared.game_type)
    assert game is not None
    secret = Secret(prepared.server_seed, new.nonces)
    chance = domain.chance_of(new.game_id.bytes, game.game_type, prepared.day, secret)
    setup = game.setup(prepared.variant, prepared.seats, chance)
    assert not isinstance(setup, Rejection), setup
    return domain.open_table(
        game_id=new.game_id.bytes,
        game=game,
        setup=setup,
        mode=prepared.mode,
        seats=new.seats,
        clock=domain.clock_for(prepared.mode, new.clock),
        secret=secret,
        host=host,
        now_us=now_us,
        day=prepared.day,
        # Nobody watches the other games from outside.
        spectator_delay_seconds=new.spectator_delay_seconds if prepared.mode is Mode.FRIENDLY else 0,
    )


def not_shown_yet(table: Table) -> Refused:
    """A running game is shown from the caller's own seat only, and so is a daily until its day has ended."""
    if table.finished is not None:
        return refused(
            "DAY_NOT_OVER",
            grpc.StatusCode.PERMISSION_DENIED,
            "Until its day has ended a daily is shown from your own seat only.",
        )
    return refused(
        "GAME_RUNNING", grpc.StatusCode.PERMISSION_DENIED, "While the game runs it is shown from your own seat only."
    )
