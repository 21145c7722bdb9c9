"""docs/add-a-game.md, followed: with one module and one entry in the registry a fifth game is played like the others.

The game is tests/high_card.py. It is registered in this process, for these tests alone.
"""

import asyncio
import io
import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from levata.table.v1 import games_pb2, table_pb2
from rich.console import Console

from chassis.auth import KeyFiles
from rules import registry
from rules.cards import members
from rules.game import NO_SEAT, DealScored, Finished, MakeMove, Rejection
from rules.moves import MOVE_END
from services.table import domain
from services.table.domain import SPECTATOR, Table
from services.table.rpc.messages import CommitMessages, snapshot
from services.table.store.codec import decode, encode
from tests import high_card
from tests.conftest import Database
from tests.playing import bot_chooser, random_chooser, setup_of, steps
from tests.random_tables import GAME_ID, opened, play_on
from tests.table_client import SEAT_ACCOUNTS, Player, Refusal, Service, bot, person, refused, running
from tools.picture import fold
from tools.recorded import recorded
from tools.telling import teller
from tools.verify import verify

GAME = high_card.GAME
SEATS = sorted(high_card.VARIANTS["standard"])


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one more line in `registry.GAMES` does."""
    monkeypatch.setitem(registry._NEWEST, GAME.game_type, GAME)
    monkeypatch.setitem(registry._BY_VERSION, (GAME.game_type, GAME.rules_version), GAME)


# The engine


@pytest.mark.parametrize("seats", SEATS)
def test_every_state_of_random_games(seats: int) -> None:
    for course in range(20):
        seed = bytes([course]) * 32
        points = 0
        for before, command, events, after in steps(
            GAME, setup_of(GAME, "standard", seats, seed), seed, random_chooser(course)
        ):
            accepted = {
                (seat, move)
                for seat in range(seats)
                for move in range(MOVE_END)
                if not isinstance(GAME.decide(before, MakeMove(seat, move)), Rejection)
            }
            assert accepted == {(before.turn, move) for move in members(GAME.legal_moves(before))}
            if isinstance(command, MakeMove):
                assert GAME.advance(before, command.move) == after
            points += sum(sum(event.points) for event in events if isinstance(event, DealScored))
            assert bool(GAME.legal_moves(after)) == (after.turn != NO_SEAT)
        # Every trick is a point.
        assert points == sum(after.totals) == high_card.DEAL_COUNT * high_card.HAND_SIZE
        assert isinstance(events[-1], Finished)
        assert events[-1].standings == GAME.standings(after)


def test_the_bot_plays_legal_cards_and_wins_more_than_random_play() -> None:
    won = 0
    for course in range(300):
        seed = course.to_bytes(32, "big")
        steady, at_random = bot_chooser(GAME), random_chooser(course)

        def choose(state: Any, legal: int, steady: Any = steady, at_random: Any = at_random) -> int:
            return int((steady if state.turn == 0 else at_random)(state, legal))

        *_, (_, _, _, after) = steps(GAME, setup_of(GAME, "standard", 4, seed), seed, choose)
        won += after.totals[0]
    fair_share = 300 * high_card.DEAL_COUNT * high_card.HAND_SIZE / 4
    assert won > 1.1 * fair_share


# The table service


@pytest.mark.parametrize("seats", SEATS)
def test_a_table_is_folded_from_its_log_and_followed_by_clients(seats: int) -> None:
    """What test_table_fold and test_picture hold for the others."""
    chance = random.Random(seats)
    step = opened(GAME.game_type, "standard", seats, bytes(32))
    folded: Table | None = None
    before: Table | None = None
    pictures = {viewer: table_pb2.Snapshot() for viewer in (SPECTATOR, *range(seats))}
    while True:
        folded = domain.apply(folded, decode(step.commit.version, encode(step.commit), GAME_ID))
        assert folded == step.table
        messages = CommitMessages(before, step.commit, step.table)
        for viewer, picture in pictures.items():
            sent = table_pb2.WatchResponse.FromString(snapshot(step.table, viewer)).snapshot
            if before is None:
                picture.CopyFrom(sent)
            else:
                fold(picture, table_pb2.WatchResponse.FromString(messages.message(viewer)).commit)
                assert picture == sent
        before = step.table
        if before.over:
            break
        step = play_on(before, chance)
    assert before.finished is not None
    assert len(before.own) == high_card.DEAL_COUNT


@pytest.fixture
async def service(module_database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service."""
    async with running(module_database, keys) as started:
        yield started


def prepare(mode: table_pb2.Mode.ValueType, seats: int = 4, variant: str = "") -> games_pb2.PrepareRequest:
    """A fresh request."""
    return games_pb2.PrepareRequest(
        request_id=str(uuid4()), game_type=GAME.game_type, variant=variant, seats=seats, mode=mode
    )


async def test_a_whole_game_over_grpc_told_and_checked(service: Service) -> None:
    prepared = await service.games.Prepare(prepare(table_pb2.MODE_FRIENDLY))
    seats = [person(SEAT_ACCOUNTS[0]), bot(), person(SEAT_ACCOUNTS[1]), bot()]
    await service.games.Create(games_pb2.CreateRequest(game_id=prepared.game_id, seats=seats))
    players = [Player(service, account, prepared.game_id) for account in SEAT_ACCOUNTS[:2]]
    await asyncio.gather(*(player.watch_to_the_end() for player in players))
    replay = [
        response
        async for response in service.table(SEAT_ACCOUNTS[0]).Replay(table_pb2.ReplayRequest(game_id=prepared.game_id))
    ]
    found = verify(prepared.game_id, prepared.commitment, replay)
    assert found.deals == high_card.DEAL_COUNT
    assert found.moves == high_card.DEAL_COUNT * high_card.HAND_SIZE * 4
    assert found.bot_moves >= found.moves // 2
    console = Console(file=io.StringIO(), width=80)
    for part in teller(recorded(prepared.game_id, replay, None)).tell():
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    told = console.file.getvalue()
    assert "High card standard · 4 seats" in told
    assert "Standings" in told


async def test_its_daily_is_opened_like_the_others(service: Service) -> None:
    told = await service.with_token(None).Daily(table_pb2.DailyRequest(game_type=GAME.game_type))
    assert (told.variant, told.seats) == GAME.daily
    prepared = await service.games.Prepare(prepare(table_pb2.MODE_DAILY))
    assert prepared.commitment == told.commitment


async def test_what_it_does_not_allow_is_refused(service: Service) -> None:
    for request, reason in (
        (prepare(table_pb2.MODE_FRIENDLY, seats=6), "SEATS_NOT_ALLOWED"),
        (prepare(table_pb2.MODE_FRIENDLY, variant="long"), "UNKNOWN_VARIANT"),
    ):
        refusal: Refusal = await refused(service.games.Prepare(request))
        assert refusal.reason == reason
