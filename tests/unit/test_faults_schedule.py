"""What a seed stands for: the same plan every time, within its bounds; and all deeds come up."""

from tools.faults.schedule import FIRST_SECONDS, LAST_SECONDS, SUDDEN, Deed, Fate, draw

PROCESSES = ["postgres", "nats", "accounts", "table-1", "table-2", "ledger", "league"]
LINKS = [">table-1", ">table-2", ">ledger", "table-1>postgres", "table-1>nats", "ledger>postgres", "league>postgres"]
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


def test_money_changes_nothing_of_what_a_seed_stands_for_besides() -> None:
    processes = [name for name in PROCESSES if "ledger" not in name]
    links = [name for name in LINKS if "ledger" not in name]
    for seed in SEEDS:
        rich, poor = draw(seed, PROCESSES, LINKS), draw(seed, PROCESSES, LINKS, money=False)
        assert rich.parties == poor.parties
        assert tuple(fault for fault in rich.faults if "ledger" not in fault.target) == poor.faults
        assert draw(seed, processes, links, money=False) == poor
        assert poor.quick is None


def test_entries_meet_all_fates() -> None:
    quick = [each for seed in SEEDS if (each := draw(seed, PROCESSES, LINKS).quick) is not None]
    assert len(quick) == len(SEEDS)
    assert {fate for each in quick for fate in each.fates} == set(Fate)
    entries = [entry for each in quick for entry in each.people]
    assert {"", "coffee_1_5", "coffee_5"} <= {entry.coffee for entry in entries}
    assert any(entry.broke for entry in entries)
    # Somebody can pay, so that there is a game.
    assert not any(each.people[0].broke for each in quick)
