"""The screen before the table, through textual's pilot: the queue, the table as it fills, giving up, being cut off."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

import pytest
from levata.matchmaker.v1 import matchmaker_pb2 as pb
from textual.pilot import Pilot
from textual.widgets import Static

from tools.patience import Disconnected, Lost, Reconnected
from tools.play import NoTable, Own, wanted_table, words
from tools.play.waiting import Around, WaitingApp, body
from tools.quick_play import Wish
from tools.tables import Match

OWN = "00000000-0000-7000-8000-00000000aaaa"
OTHER = "00000000-0000-7000-8000-00000000bbbb"
UNKNOWN = "00000000-0000-7000-8000-00000000cccc"
ROOMS = {
    1: pb.Room(number=1, name="Village Hut", level=1, prize=300),
    2: pb.Room(number=2, name="Farmhouse", level=3, coins=200, prize=500),
    12: pb.Room(number=12, name="Palace", level=45, coins=500_000, gold=20, prize=1_500_000, next_vip_day="2026-12-03"),
}
SMALLEST = (80, 24)
PAUSES_MAX = 200


def ticket(state: pb.TicketState.ValueType = pb.TICKET_STATE_WAITING, **fields: object) -> pb.Ticket:
    return pb.Ticket(ticket_id="t", room=2, game_type="klaverjas", variant="amsterdam", state=state, **fields)  # type: ignore[arg-type]


def seated(*people: str, state: pb.TicketState.ValueType = pb.TICKET_STATE_SEATED) -> pb.Ticket:
    table = pb.QuickTable(seats=4, deals_at_ms=1_007_000)
    for person, room in zip(people, ROOMS, strict=False):
        table.taken.add(account_id=person, room=room)
    return ticket(state, table=table)


async def learn(_: Iterable[str]) -> None:
    """Nothing more becomes known."""


AROUND = Around(OWN, {OTHER: "Zoë ✓"}, learn, ROOMS)


class Script:
    """A search whose news are said by the test."""

    def __init__(self, first: pb.Ticket) -> None:
        self.ticket = first
        self.too_late = False
        self._news: asyncio.Queue[pb.Ticket | Disconnected | Reconnected | Lost | None] = asyncio.Queue()

    def say(self, news: pb.Ticket | Disconnected | Reconnected | Lost | None) -> None:
        self._news.put_nowait(news)

    async def changes(self) -> AsyncIterator[pb.Ticket | Disconnected | Reconnected]:
        while (news := await self._news.get()) is not None:
            if isinstance(news, Lost):
                raise news
            if isinstance(news, pb.Ticket):
                self.ticket = news
            yield news

    async def cancel(self) -> bool:
        return not self.too_late


def text(app: WaitingApp, region: str) -> str:
    return str(app.query_one(f"#{region}", Static).visual)


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Wait for what is due at once."""
    for _ in range(PAUSES_MAX):
        if condition():
            return
        await pilot.pause()
    raise AssertionError("it did not come")


async def test_from_the_queue_to_the_table_to_the_deal() -> None:
    script = Script(ticket())
    app = WaitingApp(script, AROUND)
    async with app.run_test(size=SMALLEST) as pilot:
        assert text(app, "heading") == "Klaverjas amsterdam · Farmhouse · entry 200 · prize 500"
        assert "Looking for a table" in text(app, "table")
        script.say(ticket(ahead=1_234))
        await until(pilot, lambda: "1,234 are before you." in text(app, "table"))
        script.say(seated(OTHER, OWN, UNKNOWN))
        await until(pilot, lambda: "1  Zoë ✓  from Village Hut" in text(app, "table"))
        assert "2  You\n" in text(app, "table")
        assert "3  Player cccc  from Palace" in text(app, "table")
        assert "4  free" in text(app, "table")
        script.say(seated(OTHER, OWN, state=pb.TICKET_STATE_DEALING))
        await until(pilot, lambda: "being dealt" in text(app, "table"))
        script.say(ticket(pb.TICKET_STATE_PLAYING, game_id="g"))
        script.say(None)
        await until(pilot, lambda: not app.is_running)
    assert not app.given_up
    assert not app.failure


@pytest.mark.parametrize(
    ("now", "says"), [(1_000.0, "deals in 7 s"), (1_008.0, "deals in 0 s"), (500.0, "deals in 10 s")]
)
def test_the_countdown_bears_clocks_that_go_wrong(now: float, says: str) -> None:
    assert says in body(seated(OTHER, OWN), AROUND, now).plain


def test_a_full_table_says_so() -> None:
    full = seated(OTHER, OWN, UNKNOWN)
    full.table.seats = 3
    assert "The table is full" in body(full, AROUND, 1.0).plain


async def test_who_thinks_better_of_it_gives_the_place_up() -> None:
    app = WaitingApp(Script(ticket()), AROUND)
    async with app.run_test(size=SMALLEST) as pilot:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running)
    assert app.given_up


async def test_once_the_cards_are_dealt_it_is_too_late() -> None:
    script = Script(seated(OWN, OTHER))
    script.too_late = True
    app = WaitingApp(script, AROUND)
    async with app.run_test(size=SMALLEST) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: "Too late" in text(app, "notice"))
        assert app.is_running
        script.say(None)
        await until(pilot, lambda: not app.is_running)
    assert not app.given_up


async def test_a_lost_connection_is_told_and_one_that_stays_away_ends_it() -> None:
    script = Script(ticket())
    app = WaitingApp(script, AROUND)
    async with app.run_test(size=SMALLEST) as pilot:
        script.say(Disconnected("RST_STREAM"))
        await until(pilot, lambda: "Connection lost" in text(app, "notice"))
        script.say(Reconnected())
        await until(pilot, lambda: not text(app, "notice"))
        script.say(Lost("away"))
        await until(pilot, lambda: not app.is_running)
    assert app.failure.startswith("The server was not reached")


async def test_nothing_is_painted_while_the_regions_are_taken_down(monkeypatch: pytest.MonkeyPatch) -> None:
    app = WaitingApp(Script(seated(OWN)), AROUND)
    taken_down = []

    def on_unmount(region: Static) -> None:
        taken_down.append(region.id)
        app._paint()

    async with app.run_test(size=SMALLEST):
        monkeypatch.setattr(Static, "on_unmount", on_unmount, raising=False)
    assert "notice" in taken_down


def test_what_keeps_one_out_of_a_room_is_said_in_one_sentence() -> None:
    palace = pb.Room()
    palace.CopyFrom(ROOMS[12])
    palace.why_not.extend(pb.WhyNot.values()[1:])
    assert words.locked(palace, 7) == (
        "Palace is not open to you: guests play in the first room only; it opens at level 45, and you are at level 7; "
        "it is open on your VIP days only, the next is 2026-12-03; its entry is 500,000 coins, more than you have; "
        "it takes 20 gold, more than you have."
    )


def test_every_end_of_a_ticket_has_words() -> None:
    assert "given away" in words.ended("GONE")
    assert words.ended("SOMETHING_NEW") == "No game came of it: SOMETHING_NEW."


def test_quick_play_unless_only_an_own_table_has_it() -> None:
    def wanted(game: str = "romanian_whist", **options: object) -> Wish | Own:
        given = {"variant": None, "room": None, "coffee": None, "clock": None, "seats": None, "level": None} | options
        return wanted_table(game, **given)  # type: ignore[arg-type]

    assert wanted() == Wish("romanian_whist")
    assert wanted("klaverjas", room=3, coffee="1.5") == Wish("klaverjas", "", 3, "coffee_1_5")
    assert wanted(variant="8-1-8") == Wish("romanian_whist", "8-1-8")
    assert wanted(variant="8-8-8") == Own(Match("romanian_whist", "8-8-8", 4), "steady", clock=False)
    assert wanted("klaverjas", variant="rotterdam") == Own(Match("klaverjas", "rotterdam", 4), "steady", clock=False)
    assert wanted("oh_hell", seats=7) == Own(Match("oh_hell", "standard", 7), "steady", clock=False)
    assert wanted("euchre", level="sharp", clock=True) == Own(Match("euchre", "standard", 4), "sharp", clock=True)
    assert wanted("euchre", clock=False) == Own(Match("euchre", "standard", 4), "steady", clock=False)
    with pytest.raises(NoTable, match="Rooms and coffee are for quick play"):
        wanted(room=2, seats=4)
    with pytest.raises(NoTable, match="no such coffee as 7"):
        wanted(coffee="7")
