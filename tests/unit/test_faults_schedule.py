"""What a seed stands for: the same plan every time, within its bounds; and all deeds come up."""

import pytest

from tools.faults.schedule import FIRST_SECONDS, LAST_SECONDS, SUDDEN, Deed, Fate, Wish, draw

PROCESSES = [
    *("postgres", "nats", "accounts", "table-1", "table-2"),
    *("ledger", "league-1", "league-2", "matchmaker-1", "matchmaker-2"),
]
LINKS = [
    *(">table-1", ">table-2", "table-1>postgres", "table-1>nats", "league-1>postgres", "league-2>nats"),
    *(">ledger", "ledger>postgres", ">matchmaker-1", "matchmaker-1>postgres", "matchmaker-1>nats"),
]
SEEDS = range(300)


def test_same_seed_same_plan() -> None:
    assert draw(7, PROCESSES, LINKS) == draw(7, PROCESSES, LINKS)
    assert draw(7, PROCESSES, LINKS) != draw(8, PROCESSES, LINKS)


def test_faults_are_within_the_round_and_to_what_they_can_be_done_to() -> None:
    for seed in SEEDS:
        faults = draw(seed, PROCESSES, LINKS).faults
        assert faults
        assert sorted(faults, key=lambda fault: fault.at_seconds) == list(faults)
        for fault in faults:
            assert fault.at_seconds >= FIRST_SECONDS
            assert fault.at_seconds + fault.seconds <= LAST_SECONDS + 0.01
            assert (fault.seconds == 0) == (fault.deed in SUDDEN)
            match fault.deed:
                case Deed.KILL | Deed.STALL | Deed.STALL_AND_KILL:
                    assert fault.target in PROCESSES
                case Deed.DELETE_STREAM | Deed.DELETE_STORE:
                    assert fault.target == "nats"
                case _:
                    assert fault.target in LINKS


def test_one_thing_meets_one_fault_at_a_time() -> None:
    for seed in SEEDS:
        faults = draw(seed, PROCESSES, LINKS).faults
        for number, fault in enumerate(faults):
            for later in faults[number + 1 :]:
                assert fault.target != later.target or fault.at_seconds + fault.seconds < later.at_seconds


def test_every_deed_and_every_target_comes_up() -> None:
    faults = [fault for seed in SEEDS for fault in draw(seed, PROCESSES, LINKS).faults]
    assert {fault.deed for fault in faults} == set(Deed)
    assert {fault.target for fault in faults} == {*PROCESSES, *LINKS}
    killed = {fault.target for fault in faults if fault.deed is Deed.KILL}
    stalled = {fault.target for fault in faults if fault.deed is Deed.STALL}
    assert killed == stalled == set(PROCESSES)


def test_people_play_in_all_ways() -> None:
    habits = [habit for seed in SEEDS for party in draw(seed, PROCESSES, LINKS).parties for habit in party.people]
    assert {habit.streams for habit in habits} == {True, False}
    assert any(habit.second_device for habit in habits)
    assert any(habit.sleeps for habit in habits)
    assert any(habit.clock_ahead_seconds < 0 for habit in habits)
    assert any(habit.clock_ahead_seconds > 0 for habit in habits)


@pytest.mark.parametrize(("part", "service"), [("money", "ledger"), ("matches", "matchmaker")])
def test_a_part_changes_nothing_of_what_a_seed_stands_for_besides(part: str, service: str) -> None:
    processes = [name for name in PROCESSES if service not in name]
    links = [name for name in LINKS if service not in name]
    for seed in SEEDS:
        whole, without = draw(seed, PROCESSES, LINKS), draw(seed, PROCESSES, LINKS, **{part: False})
        assert whole.parties == without.parties
        assert tuple(fault for fault in whole.faults if service not in fault.target) == without.faults
        assert draw(seed, processes, links, **{part: False}) == without
        assert (whole.quick == without.quick) == (part != "money")
        assert (whole.search == without.search) == (part != "matches")


def test_a_weeks_end_changes_nothing_of_what_a_seed_stands_for_besides() -> None:
    first = [[name for name in names if "league-2" not in name] for names in (PROCESSES, LINKS)]
    ends = 0
    for seed in SEEDS:
        whole, without = draw(seed, PROCESSES, LINKS), draw(seed, PROCESSES, LINKS, weeks=False)
        assert (whole.parties, whole.quick, whole.search) == (without.parties, without.quick, without.search)
        # As it was with one replica of the league.
        assert without == draw(seed, first[0], first[1], weeks=False)
        more = [fault for fault in whole.faults if fault not in without.faults]
        assert len(more) == len(whole.faults) - len(without.faults)
        assert all("league" in fault.target for fault in more)
        assert bool(more) <= (whole.week is not None)
        ends += whole.week is not None
    assert len(SEEDS) / 3 < ends < len(SEEDS) * 2 / 3


def test_entries_meet_all_fates() -> None:
    quick = [each for seed in SEEDS if (each := draw(seed, PROCESSES, LINKS).quick) is not None]
    assert len(quick) == len(SEEDS)
    assert {fate for each in quick for fate in each.fates} == set(Fate)
    entries = [entry for each in quick for entry in each.people]
    assert {"", "coffee_1_5", "coffee_5"} <= {entry.coffee for entry in entries}
    assert any(entry.broke for entry in entries)
    # Somebody can pay, so that there is a game.
    assert not any(each.people[0].broke for each in quick)


def test_people_look_for_tables_in_all_ways() -> None:
    searches = [each for seed in SEEDS if (each := draw(seed, PROCESSES, LINKS).search) is not None]
    assert len(searches) == len(SEEDS)
    seekers = [seeker for search in searches for seeker in search.people]
    assert {wish for seeker in seekers for wish in seeker.wishes} == set(Wish)
    assert {seeker.asks_twice for seeker in seekers} == {True, False}
    assert {bool(seeker.coffee) for seeker in seekers} == {True, False}
    # There is always a table that can fill up.
    assert all(len(search.people) >= search.match.seats for search in searches)
