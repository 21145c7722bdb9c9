"""A browser against `up`: the official gRPC-Web client in headless Chromium plays a game, is cut off, and resumes."""

import asyncio
import functools
import http.server
import os
import re
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from levata.table.v1 import games_pb2
from playwright.async_api import BrowserContext, Page, async_playwright

from chassis import rpc
from tests.e2e.running import Up
from tools import web
from tools.client import Account, Client, Playing, sign_in_guest
from tools.mail import Mailbox
from tools.tables import Match, open_table

# Debian's and others' names for it; playwright's own download is not used.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MATCH = Match("romanian_whist", "quick", 6)
PATIENCE_SECONDS = 60

pytestmark = [pytest.mark.slow]
if CHROMIUM is None and not os.environ.get("CI"):
    pytestmark.append(pytest.mark.skip(reason="there is no Chromium here (Debian's package: chromium)"))


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The page's address: another origin than the public port, as that of a web client is."""
    handler = functools.partial(QuietHandler, directory=str(web.build()))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[BrowserContext]:
    """A browser as somebody starts it for the first time."""
    assert CHROMIUM is not None, "CI has no Chromium: .ci/run installs it"
    async with async_playwright() as playwright:
        # CI runs as root, which Chromium's sandbox refuses.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield await chromium.new_context()
        await chromium.close()


async def test_a_browser_plays_is_cut_off_and_resumes(up: Up, site: str, browser: BrowserContext) -> None:
    public = up.endpoints().public
    page = await browser.new_page()
    await page.goto(site)
    account_id = await page.evaluate("address => page.arrive(address)", f"http://{public}")
    await sign_in_by_mail(up, page, account_id)
    guest = await sign_in_guest(public)
    game_id = await begin(up, account_id, guest)
    await page.evaluate("game => page.follow(game)", game_id)
    async with Client(public, guest.token) as client:
        other = Other(client.play(game_id))
        playing = asyncio.create_task(other.play())
        await move(page, game_id, "page.heard.version > 25")
        await cut_off_while_the_other_moves(up, browser, page, game_id, other)
        await move(page, game_id, "page.heard.over")
        await playing
        replay = await client.replay(game_id)
    heard: dict[str, Any] = await page.evaluate("page.heard")
    assert heard["error"] == ""
    # One snapshot at the start, and from then on each commit once: those that came while it was cut off as well.
    [first] = heard["snapshots"]
    assert heard["commits"] == list(range(first + 1, len(replay) + 1))
    assert heard["disconnections"]
    assert heard["reconnections"] == 1
    assert await page.text_content("#news") == f"over at version {len(replay)}"


async def sign_in_by_mail(up: Up, page: Page, guest_id: str) -> None:
    """The guest becomes an account, with a code from the mailbox; a guessed one is refused with its reason."""
    address = f"{guest_id}@cards.example"
    await page.evaluate("address => page.requestCode(address)", address)
    mailbox = Mailbox(up.data)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (mails := mailbox.mails(address)):
            await asyncio.sleep(0.05)
    code = re.search(r"\b\d{6}\b", mails[0].text)
    assert code is not None, mails
    guess = f"{(int(code[0]) + 1) % 1_000_000:06}"
    assert await page.evaluate("([address, code]) => page.refusalOf(address, code)", [address, guess]) == "CODE_WRONG"
    signed_in = await page.evaluate("([address, code]) => page.verifyCode(address, code)", [address, code[0]])
    assert signed_in == [guest_id, False]
    assert await page.evaluate("page.refresh()") == guest_id


class Other:
    """A native client in the other seat."""

    def __init__(self, playing: Playing) -> None:
        self._playing = playing
        self.may_move = asyncio.Event()
        self.may_move.set()

    @property
    def version(self) -> int:
        """As far as it has heard of the game."""
        return self._playing.picture.version

    @property
    def is_to_move(self) -> bool:
        """Whether the game waits for it."""
        return bool(self._playing.legal_moves)

    async def play(self) -> None:
        """Move whenever it may, over as many connections as it takes, until the game is over."""
        async for _ in self._playing.changes():
            if self.is_to_move:
                await self.may_move.wait()
                await self._playing.act(self._playing.legal_moves[0])


async def move(page: Page, game_id: str, until_this: str) -> None:
    """The browser's moves, until something is true of the page."""
    while True:
        await wait_until(page, f"page.heard.error || page.heard.legalMoves.length || ({until_this})")
        assert not await page.evaluate("page.heard.error")
        if await page.evaluate(until_this):
            return
        version = await page.evaluate("game => page.move(game)", game_id)
        await wait_until(page, f"page.heard.version >= {version}")


async def cut_off_while_the_other_moves(
    up: Up, browser: BrowserContext, page: Page, game_id: str, other: Other
) -> None:
    """The edge is killed, and comes back without the browser, which has no network for a while."""
    other.may_move.clear()
    while not other.is_to_move:
        assert not await page.evaluate("page.heard.error")
        # Once it is the other one's turn the page hears nothing more.
        if await page.evaluate("page.heard.legalMoves.length"):
            version = await page.evaluate("game => page.move(game)", game_id)
            await wait_until(page, f"page.heard.version >= {version}")
        await asyncio.sleep(0.05)
    before = other.version
    await wait_until(page, f"page.heard.version === {before}")
    await browser.set_offline(True)
    os.kill(up.child("_bin/envoy"), signal.SIGKILL)
    await wait_until(page, "page.heard.disconnections.length > 0")
    # The other one's move finds its own way back.
    other.may_move.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while other.version == before:
            await asyncio.sleep(0.05)
    assert await page.evaluate("page.heard.version") == before
    await browser.set_offline(False)
    await wait_until(page, f"page.heard.version >= {other.version}")


async def begin(up: Up, account_id: str, other: Account) -> str:
    """A game with the browser's account and another one, and bots on the other seats."""
    browser_account = Account(account_id, "", False, "", "")
    table = up.endpoints().services["table"][0]
    async with rpc.channel(table, up.data.tools_token()) as channel:
        games = rpc.stub(channel, games_pb2.DESCRIPTOR.services_by_name["Games"])
        return (await open_table(games, MATCH, {0: browser_account, 3: other})).game_id


async def wait_until(page: Page, condition: str) -> None:
    """Wait for something to be true of the page."""
    await page.wait_for_function(f"() => {condition}", timeout=PATIENCE_SECONDS * 1000)
