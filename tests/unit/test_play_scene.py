"""What the terminal client shows, without a terminal: steps, scene and painting, of all four games."""

import random
import re

import pytest
from levata.table.v1 import play_pb2, table_pb2
from rich.console import Console

from rules.cards import members
from rules.game import Rejection
from services.table.rpc.messages import move_message
from tests.seat import DomainSeat
from tools.picture import Picture
from tools.play import NoTable, match_of, painting, words
from tools.play.choices import choices
from tools.play.scene import Scene, TakenTrick
from tools.play.steps import CATCH_UP_SECONDS, SCORE_SECONDS, Step, hurried, steps
from tools.tables import Match

GAMES = [
    ("romanian_whist", "quick", 6),
    ("oh_hell", "standard", 7),
    ("oh_hell", "standard", 3),
    ("euchre", "standard", 4),
    ("klaverjas", "rotterdam", 4),
]
TABLE_WIDTH, TABLE_LINES = 48, 11
SCORES_WIDTH, SCORES_LINES = 26, 11
LINE_WIDTH = 78


async def played_out(seat: DomainSeat, *, seed: int = 1) -> list[table_pb2.Commit]:
    """All commits of a whole game in which seat 0 does anything that is allowed."""
    chance = random.Random(seed)
    while not seat.table.over:
        await seat.act(move_message(chance.choice(list(members(seat.table.legal)))))
    return seat.commits


def opening(game_type: str, variant: str, seats: int) -> tuple[DomainSeat, Picture]:
    """A seat, and what it was shown before the first move of anybody."""
    seat = DomainSeat(game_type, variant, seats)
    first = Picture()
    first.CopyFrom(seat.first)
    return seat, first


def lines(renderable: object, width: int = 200) -> list[str]:
    """As a terminal without colours has it."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize(("game_type", "variant", "seats"), GAMES)
async def test_a_whole_game_is_shown_step_by_step_and_fits_the_smallest_terminal(
    game_type: str, variant: str, seats: int
) -> None:
    seat, first = opening(game_type, variant, seats)
    scene = Scene(first)
    results = 0
    for commit in await played_out(seat):
        for step in steps(commit):
            scene.take(step)
            results += any(event.HasField("deal_scored") for event in step.events)
            assert_fits(scene)
    assert scene.picture == seat.picture
    assert scene.over
    assert results == len(scene.picture.view.scored)
    scene.looked()
    ending = lines(painting.ending(scene))
    for place in seat.table.finished.standings if seat.table.finished else ():
        assert any(line.startswith(f"{place}. ") for line in ending)


def assert_fits(scene: Scene) -> None:
    """Nothing is wrapped or cut at 80 columns and 24 lines, and nothing is told by colour alone."""
    assert max(map(len, lines(painting.heading(scene)))) <= LINE_WIDTH
    middle = painting.result(scene) if scene.result is not None else painting.table(scene, TABLE_WIDTH)
    table = lines(middle, TABLE_WIDTH)
    assert len(table) <= TABLE_LINES
    assert not any("…" in line for line in table), table
    scores = lines(painting.scores(scene))
    assert len(scores) <= SCORES_LINES, scores
    assert max(map(len, scores)) <= SCORES_WIDTH, scores
    for region in (painting.options(scene), painting.remark(scene), painting.asking(scene, 15.0), scene.news):
        shown = lines(region)
        assert len(shown) <= 1
        assert max(map(len, shown), default=0) <= LINE_WIDTH, shown
    hand = lines(painting.hand(scene))
    assert max(map(len, hand)) <= LINE_WIDTH - 2
    if scene.choices.of_hand:
        letters = {choice.key for choice in scene.choices.all if choice.legal}
        assert set(hand[1].replace("·", " ").split()) == letters
        assert hand[0].count("[") == 1


async def test_the_steps_of_a_commit_are_the_commit() -> None:
    seat, _ = opening("klaverjas", "amsterdam", 4)
    kinds = set()
    for commit in await played_out(seat):
        cut = list(steps(commit))
        assert [event for step in cut for event in step.events] == list(commit.events)
        assert [step.ends for step in cut] == [None] * (len(cut) - 1) + [commit]
        kinds.add(tuple(tuple(str(event.WhichOneof("kind")) for event in step.events) for step in cut))
    assert kinds == {
        (("moved",),),
        (("moved", "trick_taken"),),
        (("moved", "trick_taken"), ("deal_scored",), ("dealt",)),
        (("moved", "trick_taken"), ("deal_scored", "finished")),
    }


async def test_a_taken_trick_lies_until_the_next_move_and_is_the_last_trick_then() -> None:
    seat, first = opening("romanian_whist", "quick", 6)
    scene = Scene(first)
    seen = 0
    for commit in await played_out(seat):
        for step in steps(commit):
            taken = [event.trick_taken for event in step.events if event.HasField("trick_taken")]
            before = scene.last_trick
            scene.take(step)
            if taken:
                lying = scene.on_table
                assert isinstance(lying, TakenTrick)
                assert lying.winner == taken[0].seat
                assert len(lying.trick.cards) == 6
                assert "●" in "".join(lines(painting.table(scene, TABLE_WIDTH)))
            elif before is not None and step.events[0].HasField("moved"):
                assert not scene.trick_lies
                assert scene.last_trick == before
                assert any(line.startswith("Last trick: ") for line in lines(painting.scores(scene)))
                seen += 1
    assert seen


async def test_the_worth_of_a_trick_is_told_and_adds_up() -> None:
    seat, first = opening("klaverjas", "amsterdam", 4)
    scene = Scene(first)
    cards = roem = 0
    for commit in await played_out(seat):
        for step in steps(commit):
            scene.take(step)
            if any(event.HasField("trick_taken") for event in step.events):
                told = re.search(r"the trick: (\d+) points(?: and (\d+) roem)?$", scene.news.plain)
                assert told
                cards += int(told[1])
                roem += int(told[2] or 0)
    scored = scene.picture.view.scored
    assert cards == 162 * len(scored)
    assert roem == sum(sum(points.roem[:2]) for points in scored) > 0


def test_what_waits_is_shown_in_time_when_the_clock_runs() -> None:
    waiting = [Step((), 0.45, None)] * 10 + [Step((), SCORE_SECONDS, None)]
    total = sum(hurried(step.seconds, waiting[place + 1 :]) for place, step in enumerate(waiting))
    assert hurried(0.45, ()) == 0.45
    # Each step is shortened by what waits behind it; a score that nothing follows may take the whole time.
    assert hurried(waiting[0].seconds, waiting[1:]) < 0.1
    assert total <= 2 * CATCH_UP_SECONDS


async def situation(seat: DomainSeat, wanted: str) -> Picture:
    """Play on until the open decision is one in which the server would refuse something for this reason."""
    chance = random.Random(5)
    while not seat.table.over:
        picture = seat.snapshot()
        offered = choices(picture, picture.decision.legal_moves)
        if any(not choice.legal for choice in offered.all) and offered.of_hand == (wanted == "MUST_FOLLOW_SUIT"):
            return picture
        await seat.act(move_message(chance.choice(list(members(seat.table.legal)))))
    raise AssertionError("it never came to that")


async def test_the_hook_is_explained_and_marked() -> None:
    scene = Scene(await situation(DomainSeat("romanian_whist", "8-1-8", 4), "HOOK_FORBIDDEN"))
    forbidden = scene.picture.decision.hook_forbids
    view = scene.picture.view
    bid = view.hand_size - forbidden
    [remark] = lines(painting.remark(scene))
    assert remark == (
        f"You may not bid {forbidden}: the bids would come out even ({bid} + {forbidden} = {view.hand_size})."
    )
    [options] = lines(painting.options(scene))
    assert f" {forbidden}✗ " in f"{options} "
    # Arrows pass it by; its digit points at it, for who wants to hear it from the server.
    for _ in scene.choices.all:
        scene.choices.move(+1)
        assert scene.choices.pointed is not None
        assert scene.choices.pointed.legal
    scene.choices.press(str(forbidden))
    assert scene.choices.pointed is not None
    assert scene.choices.pointed.move.place_bid == forbidden


async def test_cards_that_may_not_be_played_have_no_letter() -> None:
    scene = Scene(await situation(DomainSeat("oh_hell", "standard", 4), "MUST_FOLLOW_SUIT"))
    cards, keys = lines(painting.hand(scene))
    assert "·" in keys
    assert cards.count("[") == 1
    illegal = next(choice for choice in scene.choices.all if not choice.legal)
    scene.choices.press(illegal.key)
    assert scene.choices.pointed == illegal


def test_the_digits_of_a_bid_of_ten() -> None:
    seat = DomainSeat("oh_hell", "standard", 4)
    picture = seat.snapshot()
    assert picture.decision.legal_moves[-1].place_bid == 10
    offered = choices(picture, picture.decision.legal_moves)
    pointed = []
    for key in "1", "0", "3":
        offered.press(key)
        assert offered.pointed is not None
        pointed.append(offered.pointed.move.place_bid)
    assert pointed == [1, 10, 3]


# Reasons for which a move, and not the opening of a table or the shell's dealing, is refused.
_OF_MOVES = sorted(
    set(Rejection)
    - {Rejection.BAD_PACK, Rejection.UNKNOWN_GAME, Rejection.UNKNOWN_VARIANT, Rejection.SEATS_NOT_ALLOWED}
)


@pytest.mark.parametrize("reason", [*_OF_MOVES, "STALE", "NOT_YOUR_SEAT", "COMMAND_ID_REUSED"])
def test_every_refusal_of_a_move_is_said_in_plain_words(reason: str) -> None:
    picture = DomainSeat("oh_hell", "standard", 4).snapshot()
    picture.view.trick.cards.append(play_pb2.CARD_9H)
    said = words.refusal(reason, "the server's words", picture)
    assert said != "the server's words"
    assert said.endswith(".")
    assert "_" not in said


def test_a_reason_of_a_newer_server_is_said_in_its_words() -> None:
    assert words.refusal("NEW", "Words of a newer server.", Picture()) == "Words of a newer server."


def test_tables_that_can_be_asked_for() -> None:
    assert match_of("romanian_whist", None, None, "steady") == Match("romanian_whist", "8-1-8", 4)
    assert match_of("romanian_whist", "quick", None, "steady") == Match("romanian_whist", "quick", 6)
    assert match_of("oh_hell", None, 7, "steady") == Match("oh_hell", "standard", 7)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("chess", None, None, "steady"), "There is no game chess; there are "),
        (("euchre", "british", None, "steady"), "euchre has no variant british; it has standard"),
        (("romanian_whist", "quick", 5, "steady"), "romanian_whist quick is played by 6, not by 5"),
        (("oh_hell", None, 8, "steady"), "oh_hell standard is played by 3, 4, 5, 6 or 7, not by 8"),
        (("oh_hell", None, None, "best"), "oh_hell has no best bots; it has steady"),
    ],
)
def test_tables_that_cannot_be_asked_for(asked: tuple[str, str | None, int | None, str], sentence: str) -> None:
    with pytest.raises(NoTable, match=sentence):
        match_of(*asked)
