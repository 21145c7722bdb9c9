"""Play whole games of quick play through the public port, scripted people among bots, and check them from their log.

The people are real clients: they sign in, look for a table in the first room, and are seated by the matchmaker, with
whoever else looks for one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import grpc
import typer
from levata.facts.v1 import facts_pb2
from levata.league.v1 import league_pb2
from levata.matchmaker.v1 import matchmaker_pb2
from levata.table.v1 import table_pb2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from chassis import rpc
from rules import registry
from tools.client import CALL_SECONDS, Account, Client, sign_in_guest
from tools.data import DEFAULT_DATA, DataFolder, NotRunning
from tools.databases import service_dsn
from tools.embedded.part import PartFailed
from tools.patience import Lost, patiently
from tools.picture import Picture
from tools.quick_play import Searching, Wish
from tools.recorded import Game, recorded
from tools.scripted import play_out
from tools.telling import teller
from tools.telling.cards import game_title
from tools.verify import Disagreement, chain_of_rows, verify

LEAGUE_SECONDS: Final = 60.0
LEAGUE_POLL_SECONDS: Final = 0.1


class Party(NamedTuple):
    """People who look for a table at the same time."""

    wish: Wish
    people: int

    @property
    def title(self) -> str:
        """What they play."""
        return game_title(self.wish.game_type, self.wish.variant)


# Bots take the seats that are free after ten seconds; a full table deals at once.
_WHIST: Final = (Party(Wish("romanian_whist", "8-1-8"), 2), Party(Wish("romanian_whist", "quick"), 6))
_PEOPLE: Final = 2


class Seen(NamedTuple):
    """A game as one of its people saw it."""

    game_id: str
    # As it was shown before anybody could add a nonce; none, if it was dealt before it could be shown.
    commitment: bytes | None
    # What was seen last.
    picture: Picture


class Played(NamedTuple):
    """A game that was played to its end, as each of our people saw it."""

    game_id: str
    seen: Sequence[Seen]


class UnknownGame(Exception):
    """There is no such game; the message is a sentence."""


class NotSeated(Exception):
    """Somebody who looked for a table got none; the message is a sentence."""


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
        parties = parties_of(game)
        public = folder.endpoints().public if port is None else f"127.0.0.1:{port}"
        all_agrees = asyncio.run(Demo(Console(highlight=False), folder, public).run(parties))
    except (NotRunning, Lost, UnknownGame, NotSeated) as error:
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


def parties_of(game_type: str) -> Sequence[Party]:
    """Who plays what of a game type."""
    game = registry.game(game_type)
    if game is None:
        raise UnknownGame(f"There is no game {game_type}; there are {', '.join(registry.GAME_TYPES)}.")
    if game_type == "romanian_whist":
        return _WHIST
    return [Party(Wish(game_type, variant), _PEOPLE) for variant in game.quick_play]


class Demo:
    """One demonstration against a running backend."""

    def __init__(self, console: Console, folder: DataFolder, public: str) -> None:
        self._console = console
        self._folder = folder
        self._public = public
        self._trusted = folder.endpoints().trusted()
        self._names: dict[str, str] = {}
        self._all_agrees = True

    async def run(self, parties: Sequence[Party]) -> bool:
        """All of it; answers whether everything agrees."""
        people = [await self._sign_in(party) for party in parties]
        self._names = {person.account_id: person.name for each in people for person in each}
        for party, names in zip(parties, people, strict=True):
            self._console.print(f"{_and([person.name for person in names])} look for a table of {party.title}.")
        self._console.print()
        games = await self._play_all(parties, people)
        for played in games:
            await self._show(people[0][0], played)
        await self._show_records([person for each in people for person in each])
        return self._all_agrees

    async def _sign_in(self, party: Party) -> Sequence[Account]:
        signing_in = (sign_in_guest(self._public, trusted=self._trusted) for _ in range(party.people))
        return await asyncio.gather(*signing_in)

    # Playing

    async def _play_all(self, parties: Sequence[Party], people: Sequence[Sequence[Account]]) -> list[Played]:
        """All parties at once, each with a bar of its own; the games that they were seated in."""
        columns = (
            TextColumn("{task.description:<26}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("deals"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            playing = []
            for party, each in zip(parties, people, strict=True):
                bar = progress.add_task(party.title, total=None)
                playing += [self._play(person, party.wish, progress, bar) for person in each]
            seen = await asyncio.gather(*playing)
        # Where strangers look for a table too, a party may be seated at two.
        games: dict[str, list[Seen]] = {}
        for one in seen:
            games.setdefault(one.game_id, []).append(one)
        return [Played(game_id, group) for game_id, group in games.items()]

    async def _play(self, person: Account, wish: Wish, progress: Progress, bar: TaskID) -> Seen:
        """One person's way from the wish to the end of the game."""
        async with Client(self._public, person.token, trusted=self._trusted) as client:
            game_id, commitment = await _find_table(client, wish)
            playing = client.play(game_id)

            def show() -> None:
                view = playing.picture.view
                progress.update(bar, completed=len(view.scored), total=view.deal_count or None)

            await play_out(playing, person.account_id, on_change=show)
            deals = len(playing.picture.view.scored)
            progress.update(bar, completed=deals, total=deals)
            return Seen(game_id, commitment, playing.picture)

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
        """What the league says of them, once it has heard of these games."""
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


async def _find_table(client: Client, wish: Wish) -> tuple[str, bytes | None]:
    """The game in which one is seated, and its commitment as it was shown before the deal."""
    async with await Searching.begin(client, wish) as searching:
        async for _ in searching.changes():
            pass
        ticket = searching.ticket
        if ticket.state != matchmaker_pb2.TICKET_STATE_PLAYING:
            raise NotSeated(f"The matchmaker has ended a ticket: {ticket.ended}.")
        return ticket.game_id, searching.commitments.get(ticket.game_id)


async def _check_result(played: Played, game: Game) -> str:
    """Places and totals are those that both players saw."""
    assert game.finished is not None
    logged = list(game.finished.standings), game.totals
    for view in (one.picture.view for one in played.seen):
        seen = list(view.standings), list(view.totals)
        if seen != logged:
            raise Disagreement(f"a player saw {seen}, the log has {logged}")
    return "the log has the places and totals that the players saw"


async def _check_deals(played: Played, replay: Sequence[table_pb2.ReplayResponse]) -> str:
    """All follows from the seed and the moves."""
    shown = {one.commitment for one in played.seen if one.commitment is not None}
    if len(shown) != 1:
        raise Disagreement(f"the players were shown {len(shown)} commitments")
    found = verify(played.game_id, shown.pop(), replay)
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


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _ordinal(place: int) -> str:
    return f"{place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(place, 'th') }"
