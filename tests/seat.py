"""A seat at a table of the domain itself, without a network: real rules, real messages, for tests of the terminal."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

from levata.table.v1 import play_pb2, table_pb2

from rules import registry
from rules.chance import Chance, game_seed
from rules.game import Rejection
from services.table import domain
from services.table.rpc.messages import CommitMessages, move_code, snapshot
from tools.client import Change, Refused
from tools.picture import Picture, fold

GAME_ID = UUID("00000000-0000-7000-8000-000000000007")
ACCOUNT = str(UUID(int=1, version=4))
NOW_US = 1_800_000_000_000_000


class DomainSeat:
    """Seat 0 among bots; what it hears is what the table service would send it."""

    game_id = str(GAME_ID)

    def __init__(
        self, game_type: str, variant: str, seats: int, *, seed: bytes = bytes(32), now_us: int = NOW_US
    ) -> None:
        game = registry.game(game_type)
        assert game is not None
        nonces = (b"",) * seats
        setup = game.setup(variant, seats, Chance(game_seed(seed, GAME_ID.bytes, nonces)))
        assert not isinstance(setup, Rejection)
        opened = domain.open_table(
            game_id=GAME_ID.bytes,
            game=game,
            setup=setup,
            mode=domain.Mode.FRIENDLY,
            seats=[domain.Occupant(account=ACCOUNT), *[domain.Occupant(bot_level="steady")] * (seats - 1)],
            clock=domain.Clock(20, 15),
            secret=domain.Secret(seed, nonces),
            host="host",
            now_us=now_us,
        )
        self.table = opened.table
        self._now_us = now_us
        self._heard: asyncio.Queue[Change | None] = asyncio.Queue()
        self.names: dict[str, str] = {}
        # All commits, as they were heard.
        self.commits: list[table_pb2.Commit] = []
        self.moves: list[play_pb2.Move] = []
        self.picture = self.snapshot()
        # Before anybody moved.
        self.first = self.snapshot()
        self._heard.put_nowait(self.first)
        self._let_bots_move()

    def snapshot(self) -> Picture:
        """The game as the server would show it now."""
        return table_pb2.WatchResponse.FromString(snapshot(self.table, 0)).snapshot

    def say(self, change: Change) -> None:
        """Something else that is heard."""
        self._heard.put_nowait(change)

    async def changes(self) -> AsyncIterator[Change]:
        """All that happens until the game is over."""
        while (change := await self._heard.get()) is not None:
            yield change

    async def act(self, move: play_pb2.Move) -> None:
        """Make a move, and let the bots answer."""
        self.moves.append(move)
        code = move_code(move)
        assert code is not None
        decided = domain.move(self.table, 0, code, domain.Decider.PERSON, self._now_us)
        if isinstance(decided, Rejection):
            self.say(Refused(move, decided.value, "in the server's words"))
            return
        self._commit(decided)
        self._let_bots_move()

    def let_clock_decide(self) -> None:
        """The clock runs out on the seat, and the bots go on."""
        decided = domain.move(self.table, 0, self.table.bot_move(), domain.Decider.CLOCK, self._now_us)
        assert not isinstance(decided, Rejection)
        self._commit(decided)
        if not self.table.away[0]:
            self._let_bots_move()

    def _let_bots_move(self) -> None:
        while self.table.server_decides:
            decided = domain.move(self.table, self.table.turn, self.table.bot_move(), domain.Decider.BOT, self._now_us)
            assert not isinstance(decided, Rejection)
            self._commit(decided)
        if self.table.over:
            self._heard.put_nowait(None)

    def _commit(self, step: domain.Step) -> None:
        commit = table_pb2.WatchResponse.FromString(
            CommitMessages(self.table, step.commit, step.table).message(0)
        ).commit
        self.table = step.table
        self.commits.append(commit)
        fold(self.picture, commit)
        self._heard.put_nowait(commit)
