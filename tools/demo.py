"""Play whole games through the public port, two scripted players among bots, and check them from their log.

The players are real clients that know no rules: they choose among the moves that their stream says they may make.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import grpc
import typer
from levata.facts.v1 import facts_pb2
from levata.league.v1 import league_pb2
from levata.table.v1 import games_pb2, play_pb2, table_pb2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from chassis import rpc
from rules import registry
from tools.client import CALL_SECONDS, Account, Client, Lost, patiently, sign_in_guest
from tools.data import DEFAULT_DATA, DataFolder, NotRunning
from tools.databases import service_dsn
from tools.embedded.part import PartFailed
from tools.picture import Picture
from tools.recorded import Game, recorded
from tools.tables import Match, open_table
from tools.telling import teller
from tools.telling.cards import game_title
from tools.verify import Disagreement, chain_of_rows, verify

LEAGUE_SECONDS: Final = 60.0
LEAGUE_POLL_SECONDS: Final = 0.1
PEOPLE: Final = 2


# Where every variant at its fullest table would be too much.
_MATCHES: Final[Mapping[str, Sequence[Match]]] = {
    "romanian_whist": (Match("romanian_whist", "8-1-8", 6), Match("romanian_whist", "quick", 6)),
    "oh_hell": (Match("oh_hell", "standard", 4),),
}


class Played(NamedTuple):
    """A game that was played to its end."""

    game_id: str
    # As it was published before anybody could add a nonce.
    commitment: bytes
    # What each of the people saw last.
    seen: Sequence[Picture]


class UnknownGame(Exception):
    """There is no such game; the message is a sentence."""


def main(
    game: Annotated[str, typer.Option(help=f"One of {', '.join(registry.GAME_TYPES)}.")] = "romanian_whist",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The public port, if not the one of `up`.")] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")] = DEFAULT_DATA,
    week: Annotated[
        bool, typer.Option("--week", help="Instead, the end of a week of the league, in a backend of its own.")
    ] = False,
) -> None:
    """Play whole games through the public port, and check them from their log."""
    if week:
        _end_a_week()
        return
    folder = DataFolder(data)
    try:
        matches = matches_of(game)
        public = folder.endpoints().public if port is None else f"127.0.0.1:{port}"
        all_agrees = asyncio.run(Demo(Console(highlight=False), folder, public).run(matches))
    except (NotRunning, Lost, UnknownGame) as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        raise SystemExit(error.details() or error.code().name) from None
    if not all_agrees:
        raise SystemExit("Not everything agrees: see above.")


def _end_a_week() -> None:
    # It needs all of `up`, which the games do not.
    from tools import week

    try:
        if not asyncio.run(week.run(Console(highlight=False))):
            raise SystemExit("Not everything fits together: see above.")
    except (Lost, PartFailed, week.NotInTime) as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        raise SystemExit(error.details() or error.code().name) from None


def matches_of(game_type: str) -> Sequence[Match]:
    """What to play of a game type."""
    game = registry.game(game_type)
    if game is None:
        raise UnknownGame(f"There is no game {game_type}; there are {', '.join(registry.GAME_TYPES)}.")
    return _MATCHES.get(game_type) or [
        Match(game_type, variant, max(seats)) for variant, seats in game.variants.items()
    ]


def choose(picture: Picture, legal_moves: Sequence[play_pb2.Move], chance: random.Random) -> play_pb2.Move:
    """A scripted player's move: a fair share of the tricks as a bid, else anything that is offered."""
    if legal_moves[0].WhichOneof("kind") == "place_bid":
        share = picture.view.hand_size / len(picture.seats)
        return min(legal_moves, key=lambda move: abs(move.place_bid - share))
    return chance.choice(legal_moves)


class Demo:
    """One demonstration against a running backend."""

    def __init__(self, console: Console, folder: DataFolder, public: str) -> None:
        self._console = console
        self._folder = folder
        self._public = public
        self._trusted = folder.endpoints().trusted()
        self._names: dict[str, str] = {}
        self._all_agrees = True

    async def run(self, matches: Sequence[Match]) -> bool:
        """All of it; answers whether everything agrees."""
        people = [await sign_in_guest(self._public, trusted=self._trusted) for _ in range(PEOPLE)]
        self._names = {person.account_id: person.name for person in people}
        names = " and ".join(self._names.values())
        self._console.print(f"{names} signed in at {self._public} and play among bots.\n")
        for played in await self._play_all(people, matches):
            await self._show(people[0], played)
        await self._show_records(people)
        return self._all_agrees

    # Playing

    async def _play_all(self, people: Sequence[Account], matches: Sequence[Match]) -> list[Played]:
        """All games at once, each with a bar of its own."""
        columns = (
            TextColumn("{task.description:<26}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("deals"),
            TimeElapsedColumn(),
        )
        async with self._internal("table") as channel:
            games = rpc.stub(channel, games_pb2.DESCRIPTOR.services_by_name["Games"])
            with Progress(*columns, console=self._console) as progress:
                return await asyncio.gather(*(self._play(games, people, match, progress) for match in matches))

    async def _play(self, games: rpc.Stub, people: Sequence[Account], match: Match, progress: Progress) -> Played:
        bar = progress.add_task(game_title(match.game_type, match.variant), total=None)
        # The people are spread over the seats.
        seated = {number * match.seats // len(people): person for number, person in enumerate(people)}
        game_id, commitment = await open_table(games, match, seated)
        seen = await asyncio.gather(*(self._play_seat(person, game_id, progress, bar) for person in people))
        deals = len(seen[0].view.scored)
        progress.update(bar, completed=deals, total=deals)
        return Played(game_id, commitment, seen)

    async def _play_seat(self, person: Account, game_id: str, progress: Progress, bar: TaskID) -> Picture:
        """One person's part in a game, to its end."""
        chance = random.Random(person.account_id)  # noqa: S311 - a player, not a shuffle
        async with Client(self._public, person.token, trusted=self._trusted) as client:
            playing = client.play(game_id)
            async for _ in playing.changes():
                view = playing.picture.view
                progress.update(bar, completed=len(view.scored), total=view.deal_count or None)
                if playing.legal_moves:
                    await playing.act(choose(playing.picture, playing.legal_moves, chance))
            return playing.picture

    # What came of it

    async def _show(self, person: Account, played: Played) -> None:
        """The final scoreboard of a game, and whether its log agrees with it."""
        async with Client(self._public, person.token, trusted=self._trusted) as client:
            replay = await client.replay(played.game_id)
        game = recorded(played.game_id, replay, None)
        title = Text("\n" + game_title(game.created.game_type, game.created.variant), style="bold")
        self._console.print(title.append(f"  ./levata replay {played.game_id}", style="not bold dim"))
        self._console.print(teller(game, self._names).standings())
        await self._check("result", lambda: _check_result(played, game))
        await self._check("chain", lambda: self._check_chain(game))
        await self._check("deals", lambda: _check_deals(played, replay))

    async def _check(self, what: str, check: Callable[[], Awaitable[str]]) -> None:
        try:
            mark, found = Text("✓", style="green"), await check()
        except Disagreement as disagreement:
            mark, found = Text("✗", style="bold red"), str(disagreement)
            self._all_agrees = False
        self._console.print(Text("  ").append_text(mark).append(f" {what:<7} {found}"))

    async def _check_chain(self, game: Game) -> str:
        """The chain of the replay is what another reader gets, and what the stored rows give."""
        async with Client(self._folder.endpoints().services["table"][0], self._folder.tools_token()) as internal:
            again = recorded(game.game_id, await internal.replay(game.game_id), None)
        if again.chain != game.chain:
            raise Disagreement(f"read again it ends in {again.chain.hex()}, not in {game.chain.hex()}")
        found = f"{game.version} commits end in {game.chain.hex()[:8]}…"
        dsn = service_dsn(self._folder, "table")
        if dsn is None:
            return f"{found}, twice"
        computed = await chain_of_rows(dsn, game.game_id)
        if computed != game.chain:
            raise Disagreement(f"the stored rows give {computed.hex()}, the replay {game.chain.hex()}")
        return f"{found}, as the stored rows give it"

    async def _show_records(self, people: Sequence[Account]) -> None:
        """What the league says of the two, once it has heard of these games."""
        async with self._internal("table") as channel:
            facts = rpc.stub(channel, facts_pb2.DESCRIPTOR.services_by_name["Facts"])
            head: facts_pb2.HeadResponse = await patiently(
                lambda: facts.Head(facts_pb2.HeadRequest(), timeout=CALL_SECONDS)
            )
        self._console.print("\nLeague", style="bold")
        for person in people:
            async with Client(self._public, person.token, trusted=self._trusted) as client:
                record = await _record_as_of(client, head.last)
            if record is None:
                self._all_agrees = False
                self._console.print(f"  ✗ The league has not heard of these games in {LEAGUE_SECONDS:.0f} seconds.")
                return
            self._console.print(f"  {person.name}  {'; '.join(map(_record_text, record.records))}")

    def _internal(self, service: str) -> grpc.aio.Channel:
        """A service's own address, in the name of the tools."""
        return rpc.channel(self._folder.endpoints().services[service][0], self._folder.tools_token())


async def _check_result(played: Played, game: Game) -> str:
    """Places and totals are those that both players saw."""
    assert game.finished is not None
    logged = list(game.finished.standings), game.totals
    for picture in played.seen:
        seen = list(picture.view.standings), list(picture.view.totals)
        if seen != logged:
            raise Disagreement(f"a player saw {seen}, the log has {logged}")
    return "the log has the places and totals that the players saw"


async def _check_deals(played: Played, replay: Sequence[table_pb2.ReplayResponse]) -> str:
    """All follows from the seed and the moves."""
    found = verify(played.game_id, played.commitment, replay)
    return f"{found.deals} deals and {found.bot_moves} bots' moves follow from the committed seed"


async def _record_as_of(client: Client, fact: int) -> league_pb2.GetRecordResponse | None:
    """One's record once it contains a fact; None if that takes too long."""
    try:
        async with asyncio.timeout(LEAGUE_SECONDS):
            while (record := await client.record()).as_of_fact < fact:
                await asyncio.sleep(LEAGUE_POLL_SECONDS)
    except TimeoutError:
        return None
    return record


def _record_text(record: league_pb2.GameRecord) -> str:
    """`Romanian whist: 3 games, placed 2nd (2), 5th (1)`."""
    games = "1 game" if record.games_played == 1 else f"{record.games_played} games"
    reached = [f"{_ordinal(place)} ({count})" for place, count in enumerate(record.places, start=1) if count]
    return f"{game_title(record.game_type)}: {games}, placed {', '.join(reached)}"


def _ordinal(place: int) -> str:
    return f"{place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(place, 'th') }"
