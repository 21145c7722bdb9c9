"""A table folded from its log equals the live one at every version, and shows each viewer the same bytes."""

import random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import registry
from rules.cards import members
from rules.chance import Chance, game_seed
from rules.game import Rejection
from services.table import domain
from services.table.domain import OPEN, SPECTATOR, Clock, Decider, Mode, Occupant, Secret, Step, Table
from services.table.rpc.messages import CommitMessages, snapshot
from services.table.store.codec import decode, encode

GAME_ID = UUID("00000000-0000-7000-8000-000000000001").bytes
VARIANTS = [
    (game.game_type, variant, seats)
    for game in registry.GAMES
    for variant, allowed in game.variants.items()
    for seats in sorted(allowed)
]


def opened(game_type: str, variant: str, seats: int, seed: bytes) -> Step:
    """A fresh game: persons with even seat numbers, bots with odd ones."""
    game = registry.game(game_type)
    assert game is not None
    secret = Secret(seed, tuple(bytes([seat]) * seat for seat in range(seats)))
    setup = game.setup(variant, seats, Chance(game_seed(seed, GAME_ID, secret.nonces)))
    assert not isinstance(setup, Rejection)
    occupants = [
        Occupant(bot_level="steady") if seat % 2 else Occupant(str(UUID(int=seat + 1))) for seat in range(seats)
    ]
    return domain.open_table(
        game_id=GAME_ID,
        game=game,
        setup=setup,
        mode=Mode.FRIENDLY,
        seats=occupants,
        clock=Clock(20, 15),
        secret=secret,
        host="here",
        now_us=1_000_000,
    )


def play_on(table: Table, chance: random.Random) -> Step:
    """One random step: mostly a move of whoever's turn it is, now and then one by the clock or of the host."""
    now_us = table.opened_at_us + chance.randrange(30_000_000)
    choice = chance.random()
    if choice < 0.02:
        step = domain.resume_clock(table, chance.randrange(1, 9), "there", now_us)
    elif choice < 0.04 and any(table.away):
        step = domain.return_to_seat(table, table.away.index(True), now_us)
    elif table.server_decides or choice < 0.1:
        decider = Decider.BOT if table.server_decides else Decider.CLOCK
        step = domain.move(table, table.turn, table.bot_move(), decider, now_us)
    else:
        move = chance.choice(list(members(table.legal)))
        step = domain.move(table, table.turn, move, Decider.PERSON, now_us)
    assert not isinstance(step, Rejection)
    return step


@pytest.mark.parametrize(("game_type", "variant", "seats"), VARIANTS)
@settings(max_examples=4)
@given(seed=st.binary(min_size=32, max_size=32), course=st.integers(0, 2**32))
def test_fold_of_the_log_equals_the_live_table_at_every_version(
    game_type: str, variant: str, seats: int, seed: bytes, course: int
) -> None:
    chance = random.Random(course)
    step = opened(game_type, variant, seats, seed)
    folded: Table | None = None
    before: Table | None = None
    while True:
        commit = decode(step.commit.version, encode(step.commit), GAME_ID)
        assert commit == step.commit
        after = domain.apply(folded, commit)
        assert after == step.table
        for viewer in (0, seats - 1, SPECTATOR, OPEN):
            live = CommitMessages(before, step.commit, step.table).message(viewer)
            assert live == CommitMessages(folded, commit, after).message(viewer)
        viewer = chance.choice((SPECTATOR, *range(seats)))
        assert snapshot(step.table, viewer) == snapshot(after, viewer)
        folded, before = after, step.table
        if step.table.over:
            break
        step = play_on(step.table, chance)
    assert step.table.finished is not None
    assert len(step.table.finished.seats) == seats
