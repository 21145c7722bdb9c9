"""`./levata demo --week`: the end of a week of the league, in a backend of its own whose clocks run ahead.

Four people sign in by mail and play quick play in the last minutes of a week; the clocks are moved past its end; the
league closes the week, and the ledger pays the rewards. What the two say must fit together.
"""

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import psycopg
from levata.accounts.v1 import accounts_pb2
from levata.league.v1 import league_pb2
from levata.ledger.v1 import entries_pb2, ledger_pb2
from levata.table.v1 import games_pb2, table_pb2
from psycopg import sql
from rich.console import Console
from rich.table import Table

from chassis import rpc
from chassis.settings import Address
from tools.client import CALL_SECONDS, Account, Client
from tools.data import DataFolder
from tools.databases import admin_dsn
from tools.embedded.process import free_port
from tools.mail import Mailbox
from tools.migrate import SCHEMAS
from tools.patience import patiently
from tools.scripted import play_out
from tools.up.backend import Backend, Options
from tools.up.screen import Screen

PEOPLE: Final = 4
GAMES: Final = 2
# The first room takes no coins and asks for no level.
ROOM: Final = 1
# Enough to play in; a token lives longer, so that nobody has to sign in again when the clocks are moved.
LEFT: Final = timedelta(minutes=8)
PATIENCE_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.2
# The ledger's, for the first of a week; jack is everybody's first class.
REWARDS: Final = (100_000, 80_000, 60_000)

T = TypeVar("T")


class NotInTime(Exception):
    """Something that should have happened has not; the message is a sentence."""


async def run(console: Console) -> bool:
    """All of it; answers whether everything fits together."""
    console.print("A backend of its own is started; its clocks run ahead.")
    now = datetime.now(UTC)
    ends = datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=7 - now.weekday())
    with tempfile.TemporaryDirectory(prefix="levata-week-") as path:
        folder = DataFolder(Path(path) / "data")
        with folder.held():
            options = Options(Address("127.0.0.1", free_port()), False, {}, "text", "error", ahead=ends - LEFT - now)
            told_to_stop, is_up = asyncio.Event(), asyncio.Event()
            backend = asyncio.create_task(Backend(folder, options, _Quiet(is_up)).run(told_to_stop))
            try:
                await asyncio.wait((backend, asyncio.ensure_future(is_up.wait())), return_when=asyncio.FIRST_COMPLETED)
                if backend.done():
                    backend.result()
                return await _Week(console, folder, ends).run()
            finally:
                told_to_stop.set()
                await asyncio.wait((backend,))


class _Quiet(Screen):
    """Says nothing of the parts, and knows when they are up."""

    def __init__(self, is_up: asyncio.Event) -> None:
        super().__init__(Console(quiet=True))
        self._is_up = is_up

    def up(self, address: str, certificate: str, data: str) -> None:
        """All parts are up."""
        self._is_up.set()


class _Week:
    """One week's end."""

    def __init__(self, console: Console, folder: DataFolder, ends: datetime) -> None:
        self._console = console
        self._folder = folder
        self._ends = ends
        self._week: date = (ends - timedelta(days=7)).date()
        self._endpoints = folder.endpoints()

    async def run(self) -> bool:
        people = await asyncio.gather(*(self._sign_in(f"player{number}@week.example") for number in range(PEOPLE)))
        names = {person.account_id: person.name for person in people}
        self._console.print(f"{', '.join(names.values())} play quick play in the last minutes of week {self._week}.")
        for _ in range(GAMES):
            await self._play(people)
        before = await self._until_counted(people[0])
        self._show(f"Jacks, week {self._week}, while it runs", before, names)

        self._move_clocks()
        self._console.print(f"\nThe clocks are moved to {self._ends:%A, %d %B %Y, %H:%M}.")
        closed = await self._until(
            lambda: self._top(people[0]), lambda top: top.closed, "The league has not closed the week"
        )
        self._show(f"Jacks, week {self._week}, closed", closed, names)
        fits = list(closed.top) == list(before.top)
        self._console.print(_mark(fits), "the week was closed as it stood")
        for line, reward in zip(closed.top, REWARDS, strict=False):
            person = next(person for person in people if person.account_id == line.account_id)
            fits &= await self._show_reward(person, line.place, reward)
        return fits

    # Playing

    async def _sign_in(self, address: str) -> Account:
        async with rpc.channel(self._endpoints.public) as channel:
            accounts = rpc.stub(channel, accounts_pb2.DESCRIPTOR.services_by_name["Accounts"])
            await accounts.RequestCode(accounts_pb2.RequestCodeRequest(address=address), timeout=CALL_SECONDS)
            mailbox = Mailbox(self._folder)
            (mail, *_) = await self._until(
                lambda: asyncio.to_thread(mailbox.mails, address), bool, f"No mail has come for {address}"
            )
            (code,) = re.findall(r"\b\d{6}\b", mail.text)[:1]
            request = accounts_pb2.VerifyCodeRequest(address=address, code=code, request_id=str(uuid4()))
            answer = await accounts.VerifyCode(request, timeout=CALL_SECONDS)
        account = answer.account
        return Account(account.account_id, account.name, account.guest, answer.access_token, request.request_id)

    async def _play(self, people: Sequence[Account]) -> None:
        """A game of quick play as the matchmaker begins one: prepared, entered, created."""
        async with self._internal("table") as table, self._internal("ledger") as ledger:
            games = rpc.stub(table, games_pb2.DESCRIPTOR.services_by_name["Games"])
            entries = rpc.stub(ledger, entries_pb2.DESCRIPTOR.services_by_name["Entries"])
            prepare = games_pb2.PrepareRequest(
                request_id=str(uuid4()),
                game_type="oh_hell",
                variant="standard",
                seats=PEOPLE,
                mode=table_pb2.MODE_QUICK_PLAY,
            )
            prepared = await patiently(lambda: games.Prepare(prepare, timeout=CALL_SECONDS))
            hold = entries_pb2.HoldRequest(game_id=prepared.game_id)
            for person in people:
                hold.entrants.add(account_id=person.account_id, room=ROOM)
            held = await patiently(lambda: entries.Hold(hold, timeout=CALL_SECONDS))
            create = games_pb2.CreateRequest(game_id=prepared.game_id)
            for entrant in held.entrants:
                seat = create.seats.add(nonce=uuid4().bytes)
                seat.account.account_id = entrant.account_id
                seat.account.room = ROOM
                seat.account.coins = entrant.coins
                seat.account.prize = entrant.prize
            await patiently(lambda: games.Create(create, timeout=CALL_SECONDS))
        await asyncio.gather(*(self._play_seat(person, prepared.game_id) for person in people))

    async def _play_seat(self, person: Account, game_id: str) -> None:
        async with Client(self._endpoints.public, person.token) as client:
            await play_out(client.play(game_id), person.account_id)

    def _move_clocks(self) -> None:
        dsn = admin_dsn(self._folder)
        assert dsn is not None, "a backend that runs has a database"
        with psycopg.connect(dsn, autocommit=True) as admin:
            for schema in SCHEMAS.values():
                admin.execute(
                    sql.SQL("update {}.clock_offset set amount = %s - clock_timestamp()").format(
                        sql.Identifier(schema.name)
                    ),
                    [self._ends + timedelta(seconds=1)],
                )

    # What came of it

    async def _until_counted(self, person: Account) -> league_pb2.ListTopResponse:
        """The standings once all games are in them: whoever was on a podium has an XP, and each game has a podium."""

        def is_counted(top: league_pb2.ListTopResponse) -> bool:
            # Room 1 pays 300 and half of it; equals share the same sum.
            return sum(line.points for line in top.top) >= GAMES * 450 - GAMES

        return await self._until(lambda: self._top(person), is_counted, "The league has not heard of all prizes")

    async def _top(self, person: Account) -> league_pb2.ListTopResponse:
        board = league_pb2.LeagueBoard(week=self._week.isoformat(), **{"class": "jack"})
        request = league_pb2.ListTopRequest(board=league_pb2.Board(league=board))
        async with Client(self._endpoints.public, person.token) as client:
            top: league_pb2.ListTopResponse = await patiently(
                lambda: client.league.ListTop(request, timeout=CALL_SECONDS)
            )
        return top

    async def _show_reward(self, person: Account, place: int, reward: int) -> bool:
        """What the own statement says of the week, and the class that one is in now."""
        async with rpc.channel(self._endpoints.public, person.token) as channel:
            ledger = rpc.stub(channel, ledger_pb2.DESCRIPTOR.services_by_name["Ledger"])
            accounts = rpc.stub(channel, accounts_pb2.DESCRIPTOR.services_by_name["Accounts"])

            async def entries() -> list[ledger_pb2.StatementEntry]:
                statement = await ledger.ListStatement(ledger_pb2.ListStatementRequest(), timeout=CALL_SECONDS)
                kind = ledger_pb2.STATEMENT_KIND_WEEKLY_REWARD
                return [entry for entry in statement.entries if entry.kind == kind]

            rewards = await self._until(entries, bool, f"{person.name} was not rewarded")
            asked = accounts_pb2.GetProfileRequest(account_id=person.account_id)
            # Without a class while the league is late with its answer.
            league_class = await self._until(
                lambda: _class_in(accounts.GetProfile(asked, timeout=CALL_SECONDS)), bool, "The league does not answer"
            )
        amounts = {line.currency: line.amount for entry in rewards for line in entry.lines}
        fits = len(rewards) == 1 and amounts["coin"] == reward and league_class == "queen"
        told = ", ".join(f"{amount:,} {currency}" for currency, amount in amounts.items())
        self._console.print(_mark(fits), f"{person.name}, number {place}: {told}; {league_class} from now on")
        return fits

    def _show(self, title: str, top: league_pb2.ListTopResponse, names: dict[str, str]) -> None:
        table = Table(title=title, title_justify="left", title_style="bold", min_width=60)
        table.add_column("", justify="right")
        table.add_column("player")
        table.add_column("coins won", justify="right")
        for line in top.top:
            table.add_row(str(line.place), names.get(line.account_id, line.account_id), f"{line.points:,}")
        self._console.print()
        self._console.print(table)

    async def _until(self, ask: Callable[[], Awaitable[T]], is_there: Callable[[T], bool], otherwise: str) -> T:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not is_there(answer := await ask()):
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise NotInTime(f"{otherwise} in {PATIENCE_SECONDS:.0f} seconds.") from None
        return answer

    def _internal(self, service: str) -> Any:
        """A service's own address, in the name of the tools."""
        return rpc.channel(self._endpoints.services[service][0], self._folder.tools_token())


async def _class_in(profile: Awaitable[accounts_pb2.GetProfileResponse]) -> str:
    league_class: str = getattr(await profile, "class")
    return league_class


def _mark(fits: bool) -> str:
    return "  [green]✓[/]" if fits else "  [bold red]✗[/]"
