"""`./levata play` against a running `up`: the command on a terminal, and a whole game through its killed servers."""

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from levata.matchmaker.v1 import matchmaker_pb2
from levata.table.v1 import games_pb2, play_pb2, table_pb2
from textual.pilot import Pilot

from chassis import rpc
from chassis.auth import Signer, make_keys
from tests.e2e.running import LEVATA, WAIT_SECONDS, Up
from tools.client import Account, Client, sign_in_guest
from tools.patience import Disconnected
from tools.play import match_of
from tools.play.session import Session
from tools.play.terminal import PlayApp
from tools.quick_play import Searching, Wish
from tools.recorded import recorded
from tools.tables import open_table

pytestmark = pytest.mark.slow


async def opened(up: Up, guest: Account) -> str:
    """A quick solo game of this guest."""
    endpoints = up.endpoints()
    async with rpc.channel(endpoints.services["table"][0], up.data.tools_token()) as channel:
        games = rpc.stub(channel, games_pb2.DESCRIPTOR.services_by_name["Games"])
        match = match_of("romanian_whist", "quick", None, "steady")
        return (await open_table(games, match, {0: guest}, mode=table_pb2.MODE_SOLO)).game_id


async def until_asked(app: PlayApp, session: Session, pilot: Pilot[None]) -> bool:
    """Wait until the player may choose, or the game is over; answers whether it goes on."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not app.scene.over:
            assert not app.failure, app.failure
            if app.scene.choices.all and app.scene.picture.version == session.picture.version:
                return True
            await pilot.pause(0.01)
    return False


async def test_a_whole_game_with_a_spent_token_and_killed_servers_loses_nothing(up: Up) -> None:
    public = up.endpoints().public
    guest = await sign_in_guest(public)
    game_id = await opened(up, guest)
    signer = Signer.from_file(make_keys(up.data.keys).signing_key)
    spent = guest._replace(token=signer.player_token(guest.account_id, True, -10))
    sent: list[play_pb2.Move] = []
    troubles = 0
    async with Session(public, spent, game_id) as session:
        app = PlayApp(session, pace=0)
        async with app.run_test(size=(80, 24)) as pilot:
            while await until_asked(app, session, pilot):
                victim = {6: "services.table", 14: "envoy"}.get(len(sent))
                if victim is not None:
                    os.kill(up.child(victim), signal.SIGKILL)
                    async with asyncio.timeout(WAIT_SECONDS):
                        while not app.scene.trouble:
                            await pilot.pause(0.01)
                    troubles += 1
                choice = app.scene.choices.pointed
                assert choice is not None
                sent.append(choice.move)
                # Without a connection it waits, and goes out again under its own id.
                await pilot.press("enter")
            assert not app.scene.trouble
            assert app.scene.picture == session.picture
    assert troubles == 2
    async with Client(public, guest.token) as client:
        game = recorded(game_id, await client.replay(game_id), None)
    assert game.finished is not None
    own = [move for deal in game.deals for move in deal.moves if move.seat == 0]
    # Each move once, in its order, and none of them a bot's.
    assert [move.move for move in own] == sent
    assert {move.decider for move in own} == {play_pb2.DECIDER_PERSON}


def test_the_command_on_a_terminal_and_back_at_the_table(up: Up) -> None:
    leave_the_game(up, "--game", "euchre", "--clock")
    # This one waits, however long it takes to come back; at the other one bots play on.
    leave_the_game(up, "--game", "euchre", "--solo")
    # The same person at the same table; a new one would begin with whist.
    leave_the_game(up, "--resume")


async def test_a_search_outlives_a_lost_edge_and_who_plays_goes_back_to_the_game(up: Up) -> None:
    public = up.endpoints().public
    async with contextlib.AsyncExitStack() as stack:
        guests = [await sign_in_guest(public) for _ in range(2)]
        clients = [await stack.enter_async_context(Client(public, guest.token)) for guest in guests]
        searches = [
            await stack.enter_async_context(await Searching.begin(client, Wish("oh_hell"))) for client in clients
        ]
        heard = [search.changes() for search in searches]
        for search, changes in zip(searches, heard, strict=True):
            while len(search.ticket.table.taken) < len(guests) or not search.commitments:
                await anext(changes)
        os.kill(up.child("envoy"), signal.SIGKILL)
        for search, changes in zip(searches, heard, strict=True):
            assert any([isinstance(change, Disconnected) async for change in changes])
            assert search.ticket.state == matchmaker_pb2.TICKET_STATE_PLAYING
        (game_id,) = {search.ticket.game_id for search in searches}
        again = await Searching.begin(clients[0], Wish("euchre"))
        assert again.over
        assert again.ticket.game_id == game_id
        # Each was shown it before the deal, and nobody another one.
        assert len({search.commitments[game_id] for search in searches}) == 1


def test_who_gives_the_place_up_is_not_seated(up: Up) -> None:
    with playing(up, "--game", "klaverjas") as terminal:
        terminal.read_until("The table deals in")
        terminal.press("\x03")
        terminal.read_until("You gave your place up.")
        terminal.end()


def leave_the_game(up: Up, *options: str) -> None:
    """Play until euchre is on the table, look at the keys, and leave."""
    with playing(up, *options) as terminal:
        terminal.read_until("Euchre")
        terminal.press("?")
        terminal.read_until("who took the trick")
        # As fast as that: the second key is for the table.
        terminal.press("x")
        terminal.leave()


class Terminal:
    """`play` on a terminal of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", control: int) -> None:
        self._process = process
        self._control = control
        self._seen = b""

    def press(self, keys: str) -> None:
        os.write(self._control, keys.encode())

    def read_until(self, words: str) -> None:
        """Read what the terminal is sent, up to these words."""
        deadline = time.monotonic() + WAIT_SECONDS
        while words.encode() not in self._seen:
            assert time.monotonic() < deadline, self._seen.decode(errors="replace")
            try:
                self._seen += os.read(self._control, 65536)
            except OSError as error:
                # What a terminal says once the program on it has ended.
                raise AssertionError(self._seen.decode(errors="replace")) from error

    def leave(self) -> None:
        """Leave a game that goes on."""
        self.press("q")
        self.read_until("Leave the game?")
        self.press("y")
        self.end()

    def end(self) -> None:
        """It ends by itself, and well."""
        # What is still sent has to be taken, so that the process can end.
        with contextlib.suppress(OSError):
            while os.read(self._control, 65536):
                pass
        assert self._process.wait(WAIT_SECONDS) == 0


@contextlib.contextmanager
def playing(up: Up, *options: str) -> Iterator[Terminal]:
    """Run `play` on a terminal."""
    control, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    command = [*LEVATA, "play", *options, "--data", str(up.data.path)]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    try:
        yield Terminal(process, control)
    finally:
        process.kill()
        process.wait()
        os.close(control)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--game", "poker"], "There is no game poker; "),
        (["--variant", "1-2-3"], "romanian_whist has no variant 1-2-3; it has "),
        (["--game", "klaverjas", "--seats", "7"], "klaverjas amsterdam is played by 4, not by 7."),
        (["--level", "perfect"], "romanian_whist has no perfect bots; it has steady"),
        ([], "Nothing runs on "),
    ],
)
def test_what_cannot_be_played_is_said_in_one_sentence(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [*LEVATA, "play", *arguments, "--data", tmp_path], capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith(sentence)
    assert ended.stderr.count("\n") == 1
