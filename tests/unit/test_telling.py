"""Games told on a terminal and checked against their seeds, from replays made by the table's own messages."""

import random
import re
from collections.abc import Sequence
from functools import cache
from io import StringIO
from uuid import UUID

import pytest
from levata.table.v1 import play_pb2, table_pb2
from rich.console import Console

from rules import registry
from rules.cards import members
from rules.chance import Chance, commitment, game_seed
from rules.game import Rejection
from services.table import domain
from services.table.rpc.messages import CommitMessages
from tools.recorded import recorded
from tools.telling import teller
from tools.telling.cards import game_title
from tools.verify import Disagreement, verify

GAME_ID = UUID("00000000-0000-7000-8000-000000000007")
SEED = bytes(range(32))
PERSON = str(UUID(int=1, version=4))
FULLEST = [
    (game.game_type, next(iter(game.variants)), max(next(iter(game.variants.values())))) for game in registry.GAMES
]


@cache
def played(game_type: str, variant: str, seats: int, viewer: int = domain.OPEN) -> tuple[table_pb2.ReplayResponse, ...]:
    """The replay of a whole game: a person who plays anything in seat 0, and bots."""
    game = registry.game(game_type)
    assert game is not None
    nonces = (b"salt",) + (b"",) * (seats - 1)
    setup = game.setup(variant, seats, Chance(game_seed(SEED, GAME_ID.bytes, nonces)))
    assert not isinstance(setup, Rejection)
    step: domain.Step | Rejection = domain.open_table(
        game_id=GAME_ID.bytes,
        game=game,
        setup=setup,
        mode=domain.Mode.FRIENDLY,
        seats=[domain.Occupant(account=PERSON), *[domain.Occupant(bot_level="steady")] * (seats - 1)],
        clock=domain.Clock(20, 15),
        secret=domain.Secret(SEED, nonces),
        host="host",
        now_us=1_800_000_000_000_000,
    )
    chance = random.Random(3)
    replay: list[table_pb2.ReplayResponse] = []
    table: domain.Table | None = None
    while True:
        assert not isinstance(step, Rejection)
        response = table_pb2.ReplayResponse(chain=bytes([step.commit.version % 256]))
        response.commit.ParseFromString(CommitMessages(table, step.commit, step.table).body(viewer))
        replay.append(response)
        table = step.table
        if table.over:
            return tuple(replay)
        if table.server_decides:
            step = domain.move(table, table.turn, table.bot_move(), domain.Decider.BOT, table.opened_at_us)
        else:
            anything = chance.choice(list(members(table.legal)))
            step = domain.move(table, table.turn, anything, domain.Decider.PERSON, table.opened_at_us)


def told(replay: Sequence[table_pb2.ReplayResponse], seat: int | None = None, *, colour: bool = False) -> str:
    out = StringIO()
    console = Console(
        file=out, width=80, highlight=False, force_terminal=colour, color_system="standard" if colour else None
    )
    for part in teller(recorded(str(GAME_ID), replay, seat)).tell():
        console.print(part)
    return out.getvalue()


@pytest.mark.parametrize(("game_type", "variant", "seats"), FULLEST)
def test_every_game_at_its_fullest_fits_80_columns_without_wrapping(game_type: str, variant: str, seats: int) -> None:
    text = told(played(game_type, variant, seats))
    assert max(len(line) for line in text.splitlines()) <= 80
    # Whatever is wrapped goes on in the first column, where else only these begin.
    beginnings = ("Deal ", "Round ", "Score", "Standings", "game ", "▸ leads", "─", "trick", "round", "place", "total")
    title, *others = text.splitlines()
    assert title == f"{game_title(game_type, variant)} · {seats} seats"
    assert [line for line in others if line[:1].strip() and not line.startswith(beginnings)] == []


@pytest.mark.parametrize(("game_type", "variant", "seats"), FULLEST)
def test_every_trick_score_and_place_is_told(game_type: str, variant: str, seats: int) -> None:
    replay = played(game_type, variant, seats)
    game = recorded(str(GAME_ID), replay, None)
    text = told(replay)
    tricks = sum(len(deal.tricks) for deal in game.deals)
    assert text.count("▸") == tricks + 1
    assert text.count("●") == tricks + 1
    assert game.finished is not None
    for seat, place in enumerate(game.finished.standings):
        assert f" {place}.  seat {seat}" in text
    assert f"account {PERSON}" in text


def test_a_round_of_whist_shows_bids_leaders_winners_and_points() -> None:
    replay = played("romanian_whist", "quick", 6)
    deal = recorded(str(GAME_ID), replay, None).deals[1]
    assert deal.scored is not None
    text = told(replay)
    section = text[text.index("Round 2 of 6") : text.index("Round 3 of 6")]
    rows = {label: cells for label, *cells in map(str.split, filter(str.strip, section.splitlines()))}
    assert rows["bid"] == [str(bid) for bid in deal.scored.points.bids]
    assert rows["points"] == [f"{points:+d}" for points in deal.scored.points.points]
    assert rows["total"] == [str(total) for total in deal.scored.totals]
    first = section[section.index("trick 1") :].splitlines()[0]
    cells = first.split()[2:]
    assert cells[deal.tricks[0].leader].startswith("▸")
    assert deal.tricks[0].winner is not None
    assert cells[deal.tricks[0].winner].endswith("●")


def test_euchre_and_klaverjas_are_told_in_their_own_terms() -> None:
    euchre = recorded(str(GAME_ID), played("euchre", "standard", 4), None)
    text = told(played("euchre", "standard", 4))
    assert len(re.findall(r"(makes it|is euchred|marches) with \d of 5", text)) == len(euchre.deals)
    klaverjas = told(played("klaverjas", "amsterdam", 4))
    assert len(re.findall(r"side (makes it|is nat)", klaverjas)) == 16
    for cards in re.findall(r"^ *cards +(\d+) +(\d+) +\1 +\2 *$", klaverjas, re.MULTILINE):
        assert sum(map(int, cards)) == 162
    assert len(re.findall(r"^ *roem ", klaverjas, re.MULTILINE)) == 16


def test_a_seats_own_replay_shows_no_other_hand() -> None:
    text = told(played("romanian_whist", "quick", 6, 2), 2)
    section = text[text.index("Round 1 of 6") : text.index("Round 2 of 6")]
    hands = [line for line in section.splitlines() if line.startswith("  seat")]
    assert len(hands) == 1
    assert hands[0].startswith("  seat 2")


def test_colours_are_for_terminals_only() -> None:
    replay = played("romanian_whist", "quick", 6)
    assert "\033[" not in told(replay)
    assert "\033[" in told(replay, colour=True)


def test_a_game_that_still_runs_is_told_as_far_as_it_is() -> None:
    text = told(played("romanian_whist", "quick", 6, 0)[:30], 0)
    assert "still being played" in text
    assert "Standings" not in text


# Checking


@pytest.mark.parametrize(("game_type", "variant", "seats"), FULLEST)
def test_an_honest_replay_is_verified_move_by_move(game_type: str, variant: str, seats: int) -> None:
    replay = played(game_type, variant, seats)
    found = verify(str(GAME_ID), commitment(SEED), replay)
    moves = [event.moved for response in replay for event in response.commit.events if event.HasField("moved")]
    assert found.moves == len(moves)
    assert found.bot_moves == sum(move.decider == play_pb2.DECIDER_BOT for move in moves)
    assert found.deals == len(recorded(str(GAME_ID), replay, None).deals)


def forged(kind: str) -> tuple[list[table_pb2.ReplayResponse], table_pb2.Event]:
    """A copy of an honest replay, and its second event of a kind (or the only one), to be changed."""
    replay = [
        table_pb2.ReplayResponse.FromString(each.SerializeToString()) for each in played("romanian_whist", "quick", 6)
    ]
    events = [event for each in replay for event in each.commit.events if event.HasField(kind)]  # type: ignore[arg-type]
    return replay, events[min(1, len(events) - 1)]


def assert_found(replay: Sequence[table_pb2.ReplayResponse], what: str) -> None:
    with pytest.raises(Disagreement, match=what):
        verify(str(GAME_ID), commitment(SEED), replay)


def test_cards_that_the_seed_does_not_give_are_found() -> None:
    replay, event = forged("dealt")
    one, other = event.dealt.hands[0].cards, event.dealt.hands[1].cards
    one[0], other[0] = other[0], one[0]
    assert_found(replay, "the hands")


def test_another_seed_is_found_by_its_commitment() -> None:
    replay, event = forged("finished")
    event.finished.server_seed = bytes(32)
    assert_found(replay, "the commitment")


def test_another_nonce_is_found_in_the_deals() -> None:
    replay, event = forged("finished")
    event.finished.nonces[0] = b"pepper"
    with pytest.raises(Disagreement):
        verify(str(GAME_ID), commitment(SEED), replay)


def test_a_move_that_the_bot_would_not_make_is_found() -> None:
    replay, event = forged("moved")
    event.moved.move.place_bid = event.moved.move.place_bid + 1
    assert_found(replay, "the bot's choice|the rules refuse it")


def test_points_that_do_not_follow_are_found() -> None:
    replay, event = forged("deal_scored")
    event.deal_scored.points.points[0] += 1
    assert_found(replay, "what follows")


def test_a_trick_given_to_another_seat_is_found() -> None:
    replay, event = forged("trick_taken")
    event.trick_taken.seat = (event.trick_taken.seat + 1) % 6
    assert_found(replay, "who took the trick")


def test_other_places_are_found() -> None:
    replay, event = forged("finished")
    event.finished.standings[0], event.finished.standings[1] = event.finished.standings[1], event.finished.standings[0]
    assert_found(replay, "what follows")


def test_a_commit_that_is_left_out_is_found() -> None:
    replay, _ = forged("moved")
    del replay[20]
    assert_found(replay, "the versions")
