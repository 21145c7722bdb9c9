"""Keys at the terminal client, through textual's pilot: whole games, refusals, pages, a lost connection, being away."""

from collections.abc import Callable

import pytest
from levata.table.v1 import play_pb2
from textual.pilot import Pilot
from textual.widgets import Static

from tests.seat import DomainSeat
from tools.patience import Disconnected, Reconnected
from tools.play.terminal import PlayApp

WHOLE = [("romanian_whist", "quick", 6), ("euchre", "standard", 4)]
LONG = [("oh_hell", "standard", 4), ("klaverjas", "amsterdam", 4)]
SMALLEST = (80, 24)
PAUSES_MAX = 200


def text(app: PlayApp, region: str) -> str:
    """What a region says."""
    return str(app.screen_stack[0].query_one(f"#{region}", Static).visual)


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Wait for what is due at once."""
    for _ in range(PAUSES_MAX):
        if condition():
            return
        await pilot.pause()
    raise AssertionError("it did not come")


def may_choose(app: PlayApp, seat: DomainSeat) -> bool:
    """Whether the newest state is shown, and it is one's turn."""
    return bool(app.scene.choices.all) and app.scene.picture.version == seat.picture.version


@pytest.mark.parametrize(("game_type", "variant", "seats"), WHOLE)
async def test_a_whole_game_is_played_with_enter_alone(game_type: str, variant: str, seats: int) -> None:
    seat = DomainSeat(game_type, variant, seats)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        while True:
            await until(pilot, lambda: may_choose(app, seat) or (app.scene.over and app.scene.result is None))
            if app.scene.over:
                break
            await pilot.press("enter")
        assert app.scene.picture == seat.picture
        assert "The game is over" in text(app, "table")
        for place in seat.picture.view.standings:
            assert f"{place}. " in text(app, "table")
        await pilot.press("enter")
    assert not app.failure


@pytest.mark.parametrize(("game_type", "variant", "seats"), LONG)
async def test_a_long_game_is_begun_with_enter_alone(game_type: str, variant: str, seats: int) -> None:
    seat = DomainSeat(game_type, variant, seats)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        while not seat.picture.view.scored:
            await until(pilot, lambda: may_choose(app, seat))
            await pilot.press("enter")
        await until(pilot, lambda: may_choose(app, seat))
        assert app.scene.picture == seat.picture
        assert " 2 of " in text(app, "heading")


async def test_arrows_and_letters_choose_the_card() -> None:
    seat = DomainSeat("oh_hell", "standard", 4)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: may_choose(app, seat))
        await pilot.press("2", "enter")
        assert seat.moves[-1] == play_pb2.Move(place_bid=2)
        await until(pilot, lambda: may_choose(app, seat) and app.scene.choices.of_hand)
        legal = [choice for choice in app.scene.choices.all if choice.legal]
        if len(legal) > 1:
            await pilot.press("right")
            assert app.scene.choices.pointed == legal[1]
        # Its letter points at it, and the same letter again plays it.
        await pilot.press("left", legal[-1].key, legal[-1].key)
        assert seat.moves[-1] == legal[-1].move


async def test_a_card_that_may_not_be_played_is_refused_in_plain_words() -> None:
    seat = DomainSeat("oh_hell", "standard", 4)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        while True:
            await until(pilot, lambda: may_choose(app, seat))
            illegal = [choice for choice in app.scene.choices.all if not choice.legal]
            if app.scene.choices.of_hand and illegal:
                break
            await pilot.press("enter")
        version = seat.picture.version
        await pilot.press(illegal[0].key, "enter")
        await until(pilot, lambda: app.scene.notice)
        assert text(app, "remark").startswith("✗ You hold ")
        assert "you must follow suit" in text(app, "remark")
        # Nothing has happened, and it is still one's turn.
        assert seat.picture.version == version
        assert may_choose(app, seat)


async def test_help_and_leaving() -> None:
    app = PlayApp(DomainSeat("euchre", "standard", 4), pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: app.scene.picture.seats)
        await pilot.press("question_mark")
        assert len(app.screen_stack) == 2
        # All of it is on the smallest terminal.
        page = app.screen.query_one(Static)
        assert page.region.height <= 24
        assert page.region.y >= 0
        await pilot.press("x")
        assert len(app.screen_stack) == 1
        await pilot.press("q", "n")
        assert app.is_running
        assert len(app.screen_stack) == 1
        await pilot.press("q", "y")
        await until(pilot, lambda: not app.is_running)


async def test_a_lost_connection_is_told_and_a_found_one_too() -> None:
    seat = DomainSeat("klaverjas", "amsterdam", 4)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: may_choose(app, seat))
        seat.say(Disconnected("RST_STREAM"))
        await until(pilot, lambda: app.scene.trouble)
        assert "Connection lost, trying again" in text(app, "asking")
        seat.say(Reconnected())
        await until(pilot, lambda: not app.scene.trouble)
        assert "Connection lost" not in text(app, "asking")
        assert may_choose(app, seat)


async def test_a_new_snapshot_begins_the_screen_anew() -> None:
    seat = DomainSeat("romanian_whist", "8-1-8", 4)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: may_choose(app, seat))
        await pilot.press("enter")
        await until(pilot, lambda: may_choose(app, seat))
        seat.say(seat.snapshot())
        await until(pilot, lambda: not app.scene.news)
        assert app.scene.picture == seat.snapshot()
        await pilot.press("enter")
        await until(pilot, lambda: may_choose(app, seat))


async def test_who_was_away_comes_back_with_a_key() -> None:
    seat = DomainSeat("romanian_whist", "8-1-8", 4)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: may_choose(app, seat))
        seat.let_clock_decide()
        await until(pilot, lambda: may_choose(app, seat))
        assert "away" not in text(app, "news")
        seat.let_clock_decide()
        await until(pilot, lambda: app.scene.picture.version == seat.picture.version)
        assert seat.picture.seats[0].away
        assert "Press r to come back" in text(app, "asking")
        await pilot.press("r")
        # Whatever becomes of it, it is an act; and it can change nothing in the game.
        assert seat.moves[-1].play_card not in seat.picture.view.hand


async def test_what_the_others_did_can_be_shown_at_once() -> None:
    seat = DomainSeat("romanian_whist", "quick", 6, seed=bytes([6] * 32))
    assert len(seat.commits) > 2
    # So slow that the test would fail if it waited.
    app = PlayApp(seat, pace=1_000)
    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: app.scene.picture.seats)
        assert app.scene.picture.version < seat.picture.version
        await pilot.press("space")
        await until(pilot, lambda: may_choose(app, seat))


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 60)])
async def test_every_size_shows_all_regions(size: tuple[int, int]) -> None:
    seat = DomainSeat("oh_hell", "standard", 7)
    app = PlayApp(seat, pace=0)
    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: may_choose(app, seat))
        await pilot.resize_terminal(*size)
        await pilot.pause()
        for region in ("heading", "table", "scores", "news", "asking", "options", "remark", "hand", "keys"):
            shown = app.screen.query_one(f"#{region}").region
            assert shown.height > 0
            assert shown.right <= size[0]
            assert shown.bottom <= size[1]


async def test_nothing_is_painted_while_the_regions_are_taken_down(monkeypatch: pytest.MonkeyPatch) -> None:
    app = PlayApp(DomainSeat("oh_hell", "standard", 4), pace=0)
    taken_down = []

    def on_unmount(region: Static) -> None:
        taken_down.append(region.id)
        app.paint()

    async with app.run_test(size=SMALLEST) as pilot:
        await until(pilot, lambda: app.scene.picture.seats)
        monkeypatch.setattr(Static, "on_unmount", on_unmount, raising=False)
    assert "asking" in taken_down
