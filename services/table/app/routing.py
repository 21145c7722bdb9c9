"""The way to a game's host, whichever replica it is: the one door for whoever wants something from a running game.

Silence proves nothing. No answer, or one that it is not that host's game, makes us read the row again; only the row
says whose a game is, and only a host that has released it, or has not been seen for three seconds, loses it to us. An
asker repeats under the same ids, so that a lost answer is found in the log.
"""

import asyncio
from itertools import chain, repeat
from typing import Final, NamedTuple
from uuid import UUID

from chassis.errors import Refused
from rules.game import Rejection
from services.table.app import errors
from services.table.app.host import Host
from services.table.app.ports import GameLog, Store
from services.table.app.replicas import ATTEMPT_SECONDS, Answer, Answered, Asked, Replicas
from services.table.app.requests import Command, Done, PlayerCommand, Request, Sign
from services.table.app.running import late_answer
from services.table.domain import Table

# After this the asker is told to come again.
ASK_SECONDS: Final = 5.0
# Between looks at a game's row, growing: when a host dies, its hundreds of games are all asked for at once, and who
# looks for abandoned games takes them in batches meanwhile.
PAUSES_SECONDS: Final = (0.1, 0.2, 0.4, 0.5)
# More games than one replica forwards to at a time; beyond that the rows are read again.
ROUTES_MAX: Final = 50_000


class _Route(NamedTuple):
    """Whose a game was when its row was read last."""

    host_id: UUID
    epoch: int


class Routing:
    """Brings requests to the hosts of their games."""

    def __init__(self, store: Store, log: GameLog, host: Host, replicas: Replicas) -> None:
        self._store = store
        self._log = log
        self._host = host
        self._replicas = replicas
        self._routes: dict[UUID, _Route] = {}

    def ask(self, game_id: UUID, request: Request, done: Done) -> None:
        """Have the game's host do what is asked; `done` as in `RunningGame.handle`."""
        game = self._host.games.get(game_id)
        if game is not None:
            game.handle(request, done)
            return
        route = self._routes.get(game_id)
        if route is None:
            self._search(game_id, request, done)
            return

        def answered(answer: Answer | None) -> None:
            if answer is not None:
                done(*answer)
            else:
                self._routes.pop(game_id, None)
                self._search(game_id, request, done)

        self._forward(game_id, route, request, answered)

    def serve(self, asked: Asked, answered: Answered) -> None:
        """Another replica asks us as a game's host. Whether we are is for the row to say, not for the asker."""
        game = self._host.games.get(asked.game_id)
        if self._host.clock.now_us() >= asked.expires_at_us:
            answered(None)
        elif game is not None and game.epoch == asked.epoch:
            game.handle(asked.request, lambda outcome, repeated: answered(Answer(outcome, repeated)))
        else:
            if game is None:
                # It may have become ours without our knowing.
                self._host.compare_soon()
            answered(None)

    def _forward(self, game_id: UUID, route: _Route, request: Request, answered: Answered) -> None:
        expires_at_us = self._host.clock.now_us() + int(ATTEMPT_SECONDS * 1_000_000)
        self._replicas.ask(route.host_id, Asked(game_id, route.epoch, expires_at_us, request), answered)

    def _search(self, game_id: UUID, request: Request, done: Done) -> None:
        self._host.background.spawn("find a game's host", self._ask_until_done(game_id, request, done))

    async def _ask_until_done(self, game_id: UUID, request: Request, done: Done) -> None:
        answer = Answer(errors.unavailable(), False)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                answer = await self._found(game_id, request)
        except TimeoutError:
            pass
        except Refused as refused:
            answer = Answer(refused, False)
        finally:
            # Also when this is cancelled, because the replica stops, and after a fault of ours.
            done(*answer)

    async def _found(self, game_id: UUID, request: Request) -> Answer:
        """The answer of the game's host, whoever that comes to be."""
        for pause in chain(PAUSES_SECONDS, repeat(PAUSES_SECONDS[-1])):
            if self._host.stopping:
                break
            answer = await self._attempt(game_id, request)
            if answer is not None:
                return answer
            # Who looks for abandoned games may take this one with the others.
            await self._host.comes(game_id, pause)
        raise errors.unavailable()

    async def _attempt(self, game_id: UUID, request: Request) -> Answer | None:
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def answered(found: Answer | None) -> None:
            # Who asked may have given up.
            if not answer.done():
                answer.set_result(found)

        owner = None
        game = self._host.games.get(game_id)
        if game is None:
            owner = await self._store.owner(game_id)
            game = None if owner is None else await self._host.find(game_id, owner)
        if game is not None:
            game.handle(request, lambda outcome, repeated: answered(Answer(outcome, repeated)))
        elif owner is None or owner.host_id == self._host.id:
            return await self._too_late(game_id, request)
        elif owner.host_id is not None and owner.is_alive:
            route = _Route(owner.host_id, owner.epoch)
            self._remember(game_id, route)
            self._forward(game_id, route, request, answered)
        else:
            return None
        return await answer

    def _remember(self, game_id: UUID, route: _Route) -> None:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        self._routes[game_id] = route

    async def _too_late(self, game_id: UUID, request: Request) -> Answer:
        """What is answered where there is no host any more: the first answer again, if there was one."""
        loaded = await self._host.load(game_id)
        if loaded is None:
            raise errors.game_not_found()
        if not loaded.table.over:
            # Its last commit came in just now, or is about to.
            raise errors.unavailable()
        if isinstance(request, Sign):
            seated = loaded.table.seat_of(request.account) is not None
            return Answer(loaded.table.version if seated else errors.not_seated(), False)
        return await self._answer_late(game_id, loaded.table, request)

    async def _answer_late(self, game_id: UUID, table: Table, command: Command) -> Answer:
        otherwise = errors.rejected(Rejection.GAME_FINISHED)
        if isinstance(command, PlayerCommand):
            if table.seat_of(command.account) is None:
                otherwise = errors.not_seated()
            elif command.at_version > table.version:
                otherwise = errors.future_version(table.version)
        return Answer(*late_answer(command, await self._log.applied(game_id, command.name.key), otherwise))
