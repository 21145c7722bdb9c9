"""Checks a finished game as anybody can who has its open replay: the deals follow from the seed that was committed to,
and everything else follows from the deals and the moves by the rules.

Where the database is at hand, the log's hash chain is computed anew from the stored rows as well.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from levata.table.v1 import play_pb2, table_pb2

from chassis.database import open_pool
from chassis.log import LogReader, first_broken
from rules import game as g
from rules import registry
from rules.cards import members
from rules.chance import Chance, commitment, daily_id, game_seed
from rules.game import Game, Rejection
from services.table.rpc.messages import move_code

DEFAULT_BOT: Final = "steady"


class Disagreement(Exception):
    """Something in the replay does not follow; the message says what."""


class Verified(NamedTuple):
    """What was found to be right."""

    deals: int
    moves: int
    # Of those, moves that a bot chose, and chooses again.
    bot_moves: int


def verify(game_id: str, committed: bytes, replay: Sequence[table_pb2.ReplayResponse]) -> Verified:
    """Play a finished game again from its seed, and compare; Disagreement if anything differs.

    `committed` is what was published before anybody could add a nonce.
    """
    created = replay[0].commit.events[0].created
    finished = replay[-1].commit.events[-1].finished
    _agree("the commitment", commitment(finished.server_seed), committed)
    _agree("the commitment in the log", created.commitment, committed)
    game = registry.game(created.game_type, created.rules_version)
    if game is None:
        raise Disagreement(f"rules version {created.rules_version} of {created.game_type} is not known here")
    seed_id = daily_id(created.game_type, created.day) if created.day else UUID(game_id).bytes
    seed = game_seed(finished.server_seed, seed_id, list(finished.nonces))
    return _Again(game, created, Chance(seed)).play(response.commit for response in replay)


async def chain_of_rows(dsn: str, game_id: str) -> bytes:
    """The chain at the end of a game, from the rows as they are stored; Disagreement if it breaks."""
    async with await open_pool(dsn, "levata verify", connections_max=1) as pool:
        rows = await LogReader(pool).read(UUID(game_id))
    broken = first_broken(UUID(game_id), rows)
    if broken is not None:
        raise Disagreement(f"the stored chain breaks at version {broken}")
    return rows[-1].chain


class _Again:
    """A game played again beside its replay."""

    def __init__(self, game: Game, created: table_pb2.Created, chance: Chance) -> None:
        self._game = game
        self._chance = chance
        self._seats = list(created.seats)
        self._same_bots = created.bot_version == game.bot_version
        setup = game.setup(created.variant, len(created.seats), chance)
        if isinstance(setup, Rejection):
            raise Disagreement(f"no game is set up like this: {setup}")
        _agree("the plan of deals", list(setup.hand_sizes), list(created.hand_sizes))
        self._state: Any = game.start(setup)
        # What follows from the last move and was not told yet.
        self._due: deque[g.Event] = deque()
        self._moves = self._bot_moves = 0

    def play(self, commits: Iterable[table_pb2.Commit]) -> Verified:
        """All of it, in order."""
        for version, commit in enumerate(commits, start=1):
            _agree("the versions", commit.version, version)
            for event in commit.events:
                self._take(event, f"version {commit.version}")
        if self._due or self._state.phase is not g.Phase.FINISHED:
            raise Disagreement("the game is not over")
        return Verified(self._state.deal + 1, self._moves, self._bot_moves)

    def _take(self, event: table_pb2.Event, where: str) -> None:
        match event.WhichOneof("kind"):
            case "dealt":
                self._deal(event.dealt, where)
            case "moved":
                self._move(event.moved, where)
            case "trick_taken":
                _agree(f"{where}: who took the trick", self._state.winners[-1:], (event.trick_taken.seat,))
            case "deal_scored":
                self._follows(g.DealScored(self._state.deal, tuple(event.deal_scored.points.points)), where)
                _agree(f"{where}: the totals", self._state.totals, tuple(event.deal_scored.totals))
            case "finished":
                self._follows(g.Finished(tuple(event.finished.standings)), where)
                _agree(f"{where}: the final totals", self._state.totals, tuple(event.finished.totals))
            case "seat_changed":
                self._seats[event.seat_changed.seat] = event.seat_changed.info

    def _deal(self, dealt: table_pb2.Dealt, where: str) -> None:
        number = self._state.deal + 1
        pack = self._chance.shuffled("deal", number, self._game.deck(len(self._seats)))
        events = self._decide(g.DealCards(pack), where)
        self._state = self._game.evolve(self._state, events[0])
        views = [self._game.view(self._state, seat) for seat in range(len(self._seats))]
        _agree(f"{where}: the dealer", dealt.dealer, views[0].dealer)
        _agree(f"{where}: the hands", _hands(dealt), [list(members(view.hand)) for view in views])
        turned = None if dealt.turned == play_pb2.CARD_UNSPECIFIED else dealt.turned - 1
        _agree(f"{where}: the card turned up", turned, views[0].turned)

    def _move(self, moved: table_pb2.Moved, where: str) -> None:
        move = move_code(moved.move)
        if move is None:
            raise Disagreement(f"{where}: not a move")
        events = self._decide(g.MakeMove(moved.seat, move), where)
        if moved.decider != play_pb2.DECIDER_PERSON and self._same_bots:
            bot = self._game.bots[self._seats[moved.seat].bot_level or DEFAULT_BOT]
            view = self._game.view(self._state, moved.seat)
            _agree(f"{where}: the bot's choice", move, bot(view, self._chance.bot_chance(moved.seat, view.deal)))
            self._bot_moves += 1
        self._state = self._game.evolve(self._state, events[0])
        self._due.extend(events[1:])
        self._moves += 1

    def _decide(self, command: g.Command, where: str) -> tuple[g.Event, ...]:
        if self._due:
            raise Disagreement(f"{where}: {self._due[0]} was left out")
        events = self._game.decide(self._state, command)
        if isinstance(events, Rejection):
            raise Disagreement(f"{where}: the rules refuse it: {events}")
        return events

    def _follows(self, told: g.Event, where: str) -> None:
        _agree(f"{where}: what follows", told, self._due.popleft() if self._due else None)
        self._state = self._game.evolve(self._state, told)


def _hands(dealt: table_pb2.Dealt) -> list[list[int]]:
    return [[card - 1 for card in hand.cards] for hand in dealt.hands]


def _agree(what: str, told: object, computed: object) -> None:
    if told != computed:
        raise Disagreement(f"{what}: the replay has {told}, the rules give {computed}")
