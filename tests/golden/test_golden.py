"""Games recorded by earlier code are what today's code makes of them."""

import pytest

from rules.chance import Chance
from rules.game import DealCards, Dealt, Event, Finished, MakeMove, Moved
from rules.registry import GAME_TYPES, game
from tests.golden.logs import FOLDER, Log, contests, lines, mixed_play, parsed, record
from tests.playing import fold

PATHS = sorted(FOLDER.glob("*.jsonl"))


def read(name: str) -> Log:
    return parsed((FOLDER / name).read_text().splitlines())


every_log = pytest.mark.parametrize("name", [path.name for path in PATHS])


@every_log
def test_log_folds_to_its_result(name: str) -> None:
    log = read(name)
    engine = game(log.game_type, log.rules_version)
    assert engine is not None, "the version that made this log is gone"
    final = fold(engine, engine.start(log.setup), log.events)
    finished = log.events[-1]
    assert isinstance(finished, Finished)
    assert engine.view(final, None).standings == engine.standings(final) == finished.standings


@every_log
def test_commands_cause_the_events_that_were_recorded(name: str) -> None:
    log = read(name)
    engine = game(log.game_type, log.rules_version)
    assert engine is not None
    state = engine.start(log.setup)
    caused: list[Event] = []
    for event in log.events:
        match event:
            case Moved(seat, move):
                answer = engine.decide(state, MakeMove(seat, move))
            case Dealt(_, _, pack):
                answer = engine.decide(state, DealCards(pack))
            case _:
                continue
        assert isinstance(answer, tuple), answer
        caused += answer
        state = fold(engine, state, answer)
    assert tuple(caused) == log.events


@every_log
def test_deals_and_setup_follow_from_the_seed(name: str) -> None:
    log = read(name)
    engine = game(log.game_type, log.rules_version)
    assert engine is not None
    chance = Chance(log.seed)
    assert engine.setup(log.setup.variant, log.setup.seats, chance) == log.setup
    for event in log.events:
        if isinstance(event, Dealt):
            assert event.pack == chance.shuffled("deal", event.deal, engine.deck(log.setup.seats))


@every_log
def test_bot_chooses_as_it_did(name: str) -> None:
    log = read(name)
    engine = game(log.game_type, log.rules_version)
    assert engine is not None
    if engine.bot_version != log.bot_version:
        pytest.skip(f"played by the bots of version {log.bot_version}, which are no more")
    choose = mixed_play(engine, log.seed)
    state = engine.start(log.setup)
    for event in log.events:
        if isinstance(event, Moved):
            assert choose(state, engine.legal_moves(state)) == event.move
        state = engine.evolve(state, event)


@pytest.mark.parametrize("game_type", GAME_TYPES)
def test_a_log_survives_being_stored(game_type: str) -> None:
    for contest in contests(game_type):
        log = record(*contest)
        assert parsed(lines(log)) == log


@pytest.mark.parametrize("game_type", GAME_TYPES)
def test_every_variant_has_a_log_by_its_newest_rules(game_type: str) -> None:
    kept = [parsed(path.read_text().splitlines()) for path in PATHS]
    for engine, variant, seats in contests(game_type):
        assert any(
            (log.game_type, log.rules_version, log.setup.variant, log.setup.seats)
            == (game_type, engine.rules_version, variant, seats)
            for log in kept
        ), f"run: python -m tests.golden.logs {game_type}"
