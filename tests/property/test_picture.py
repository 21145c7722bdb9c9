"""A client's picture, folded from commits, is at every version the snapshot that the server would send."""

import random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from levata.table.v1 import table_pb2

from rules import registry
from rules.cards import members
from rules.chance import Chance, game_seed
from rules.game import Rejection
from services.table import domain
from services.table.rpc.messages import CommitMessages, snapshot
from tools.picture import Gap, Picture, fold

GAME_ID = UUID("00000000-0000-7000-8000-000000000007").bytes
GAMES = [
    ("romanian_whist", "quick", 6),
    ("romanian_whist", "8-1-8", 4),
    ("oh_hell", "standard", 7),
    ("euchre", "standard", 4),
    ("klaverjas", "amsterdam", 4),
]


def opening(game_type: str, variant: str, seats: int, server_seed: bytes) -> domain.Step:
    game = registry.game(game_type)
    assert game is not None
    secret = domain.Secret(server_seed, (b"",) * seats)
    setup = game.setup(variant, seats, Chance(game_seed(server_seed, GAME_ID, secret.nonces)))
    assert not isinstance(setup, Rejection)
    return domain.open_table(
        game_id=GAME_ID,
        game=game,
        setup=setup,
        mode=domain.Mode.FRIENDLY,
        seats=[domain.Occupant(account=str(UUID(int=seat + 1, version=4))) for seat in range(seats)],
        clock=domain.Clock(20, 15),
        secret=secret,
        host="host",
        now_us=1_800_000_000_000_000,
    )


def sent_snapshot(table: domain.Table, viewer: int) -> Picture:
    return table_pb2.WatchResponse.FromString(snapshot(table, viewer)).snapshot


def sent_commit(messages: CommitMessages, viewer: int) -> table_pb2.Commit:
    return table_pb2.WatchResponse.FromString(messages.message(viewer)).commit


@pytest.mark.parametrize(("game_type", "variant", "seats"), GAMES)
@settings(max_examples=2)
@given(server_seed=st.binary(min_size=32, max_size=32), choices=st.integers(0, 2**32))
def test_folding_a_game_gives_the_servers_snapshots(
    game_type: str, variant: str, seats: int, server_seed: bytes, choices: int
) -> None:
    chance = random.Random(choices)
    table = opening(game_type, variant, seats, server_seed).table
    viewers = [*range(seats), domain.SPECTATOR]
    pictures = [sent_snapshot(table, viewer) for viewer in viewers]
    while not table.over:
        before, seat = table, table.turn
        # The clock decides now and then, so that seats go away and come back.
        decider = chance.choice([domain.Decider.PERSON, domain.Decider.CLOCK])
        moved = domain.move(table, seat, chance.choice(list(members(table.legal))), decider, table.opened_at_us + 1)
        assert not isinstance(moved, Rejection)
        table = moved.table
        messages = CommitMessages(before, moved.commit, table)
        for viewer, picture in zip(viewers, pictures, strict=True):
            fold(picture, sent_commit(messages, viewer))
            expected = sent_snapshot(table, viewer)
            if table.over:
                # Between deals the size of a hand means nothing.
                expected.view.hand_size = picture.view.hand_size
            assert picture == expected
    assert min(pictures[0].view.standings) == 1


def test_a_picture_from_nothing_is_the_first_snapshot() -> None:
    step = opening("romanian_whist", "quick", 6, bytes(32))
    picture = Picture(game_id=str(UUID(bytes=GAME_ID)))
    picture.view.seat = 2
    fold(picture, sent_commit(CommitMessages(None, step.commit, step.table), 2))
    assert picture == sent_snapshot(step.table, 2)


def test_a_missed_commit_is_noticed() -> None:
    step = opening("romanian_whist", "quick", 6, bytes(32))
    picture = sent_snapshot(step.table, 0)
    with pytest.raises(Gap):
        fold(picture, table_pb2.Commit(version=3))
