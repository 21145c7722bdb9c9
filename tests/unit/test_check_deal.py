"""tools/check_deal.py: alone on good exports, on forged ones, on damaged ones, and on the published vectors."""

import ast
import contextlib
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from google.protobuf.json_format import MessageToJson
from levata.table.v1 import table_pb2

from rules import registry
from rules.cards import NAME, deck
from rules.chance import commitment
from rules.game import Rejection
from services.table import domain
from services.table.domain import OPEN, Clock, Mode, Occupant, Secret, Step, Table
from services.table.rpc.messages import CommitMessages
from tests.random_tables import GAME_ID, VARIANTS
from tools import check_deal

PROGRAM = Path(check_deal.__file__)
VECTORS = json.loads((Path(__file__).parents[1] / "cases" / "fair_deal.json").read_text())
SEED = bytes(range(32))
AGREES, DIFFERS, NOT_CHECKED = 0, 1, 2

# One commit of an export, as JSON has it.
Line = dict[str, Any]


def played_by_bots(
    game_type: str, variant: str, seats: int, nonces: tuple[bytes, ...], day: date | None = None
) -> Iterator[tuple[Table | None, Step]]:
    """A whole game, with the table before each step."""
    game = registry.game(game_type)
    assert game is not None
    secret = Secret(SEED, nonces)
    setup = game.setup(variant, seats, domain.chance_of(GAME_ID, game_type, day, secret))
    assert not isinstance(setup, Rejection)
    step = domain.open_table(
        game_id=GAME_ID,
        game=game,
        setup=setup,
        mode=Mode.DAILY if day else Mode.FRIENDLY,
        seats=[Occupant(bot_level="steady")] * seats,
        clock=Clock(0, 0),
        secret=secret,
        host="here",
        now_us=0,
        day=day,
    )
    yield None, step
    while not step.table.over:
        before = step.table
        moved = domain.move(before, before.turn, before.bot_move(), domain.Decider.BOT, 0)
        assert not isinstance(moved, Rejection)
        step = moved
        yield before, step


def exported(
    game_type: str,
    variant: str,
    seats: int,
    nonces: tuple[bytes, ...] = (),
    day: date | None = None,
    viewer: int = OPEN,
) -> list[Line]:
    """A game as `./levata replay GAME_ID --json` prints it."""
    return [json.loads(line) for line in _exported(game_type, variant, seats, nonces, day, viewer)]


@cache
def _exported(
    game_type: str, variant: str, seats: int, nonces: tuple[bytes, ...], day: date | None, viewer: int
) -> tuple[str, ...]:
    lines = []
    for before, step in played_by_bots(game_type, variant, seats, nonces or (b"",) * seats, day):
        response = table_pb2.ReplayResponse()
        response.commit.ParseFromString(CommitMessages(before, step.commit, step.table).body(viewer))
        lines.append(MessageToJson(response, preserving_proto_field_name=True, indent=None))
    return tuple(lines)


def events(lines: list[Line], kind: str) -> list[Line]:
    """All events of a kind."""
    return [event[kind] for line in lines for event in line["commit"]["events"] if kind in event]


class Done(NamedTuple):
    """How a run of the program ended."""

    returncode: int
    stdout: str
    stderr: str


def run(path: Path, *arguments: str) -> Done:
    """The program as it is called, without a process of its own."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            returncode = check_deal.main([str(path), *arguments])
        except SystemExit as wrong_arguments:
            returncode = int(str(wrong_arguments.code))
    return Done(returncode, stdout.getvalue(), stderr.getvalue())


def alone(*arguments: str | Path, stdin: str = "") -> Done:
    """The program by itself: no packages, none of our modules, no environment."""
    call = [sys.executable, "-I", "-S", str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(call, input=stdin, encoding="utf-8", capture_output=True, timeout=60, env={})
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Done]:
    """Runs it on an export."""

    def run_on(lines: list[Line], *arguments: str) -> Done:
        path = tmp_path / "game.json"
        path.write_text(text_of(lines))
        return run(path, *arguments)

    return run_on


def text_of(lines: list[Line]) -> str:
    """An export as it stands in a file."""
    return "\n".join(map(json.dumps, lines)) + "\n"


def test_it_imports_nothing_but_the_standard_library_and_is_python_3_9() -> None:
    tree = ast.parse(PROGRAM.read_text(), feature_version=(3, 9))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported <= sys.stdlib_module_names


@pytest.mark.parametrize(("game_type", "variant", "seats"), VARIANTS)
def test_every_game_that_we_deal_agrees(game_type: str, variant: str, seats: int) -> None:
    nonces = tuple(bytes([seat + 1]) * (seat * 6 % 33) for seat in range(seats))
    lines = exported(game_type, variant, seats, nonces)
    game = check_deal.read_game(text_of(lines))
    agreed = list(check_deal.check(game, game.commitment))
    assert len(game.deals) == len(events(lines, "dealt"))
    assert agreed[-1].startswith(f"deals         {len(game.deals)},")


def test_the_program_alone(tmp_path: Path) -> None:
    export = text_of(exported("euchre", "standard", 4, (b"a", b"", b"bc", b"")))
    path = tmp_path / "game.json"
    path.write_text(export)
    for done in (alone(path), alone("-", stdin=export)):
        assert (done.returncode, done.stderr) == (AGREES, "")
        assert "euchre standard, 4 seats" in done.stdout
        assert done.stdout.count("agrees") == 4
        assert done.stdout.endswith("All deals follow from the seed.\n")
    assert alone("-", stdin=export.replace("CARD_9S", "CARD_AS")).returncode == DIFFERS
    missing = alone(tmp_path / "none.json")
    assert missing.returncode == NOT_CHECKED
    assert "cannot be read" in missing.stderr


def test_a_daily_has_the_deals_of_its_day(check: Callable[..., Done]) -> None:
    lines = exported("oh_hell", "standard", 4, day=date(2026, 3, 1))
    done = check(lines)
    assert done.returncode == AGREES, done.stdout + done.stderr
    assert "daily of 2026-03-01" in done.stdout
    events(lines, "created")[0]["day"] = "2026-03-02"
    assert check(lines).returncode == DIFFERS
    del events(lines, "created")[0]["day"]
    assert check(lines).returncode == DIFFERS


def test_commitment_as_it_was_published(check: Callable[..., Done]) -> None:
    lines = exported("euchre", "standard", 4)
    published = commitment(SEED).hex()
    assert check(lines, "--commitment", published).returncode == AGREES
    other = check(lines, "--commitment", "00" * 32)
    assert other.returncode == DIFFERS
    assert "the commitment that was published" in other.stdout
    assert check(lines, "--commitment", "00").returncode == NOT_CHECKED


# Forged exports


def _other_seed(lines: list[Line]) -> None:
    events(lines, "finished")[0]["server_seed"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def _other_seed_and_commitment(lines: list[Line]) -> None:
    _other_seed(lines)
    events(lines, "created")[0]["commitment"] = "Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU="


def _other_commitment(lines: list[Line]) -> None:
    events(lines, "created")[0]["commitment"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def _other_nonce(lines: list[Line]) -> None:
    events(lines, "finished")[0]["nonces"][2] = "AA=="


def _other_game_id(lines: list[Line]) -> None:
    events(lines, "created")[0]["game_id"] = "00000000-0000-7000-8000-000000000002"


def _two_cards_exchanged(lines: list[Line]) -> None:
    hands = events(lines, "dealt")[1]["hands"]
    hands[0]["cards"][0], hands[1]["cards"][0] = hands[1]["cards"][0], hands[0]["cards"][0]


def _one_card_twice(lines: list[Line]) -> None:
    hand = events(lines, "dealt")[0]["hands"][3]["cards"]
    hand[0] = hand[1]


def _other_turned_card(lines: list[Line]) -> None:
    dealt = events(lines, "dealt")[2]
    dealt["turned"] = "CARD_AS" if dealt["turned"] != "CARD_AS" else "CARD_9S"


def _no_turned_card(lines: list[Line]) -> None:
    del events(lines, "dealt")[0]["turned"]


def _other_first_dealer(lines: list[Line]) -> None:
    dealt = events(lines, "dealt")[0]
    dealt["dealer"] = (dealt.get("dealer", 0) + 1) % 4


def _other_later_dealer(lines: list[Line]) -> None:
    dealt = events(lines, "dealt")[2]
    dealt["dealer"] = (dealt.get("dealer", 0) + 1) % 4


def _deals_exchanged(lines: list[Line]) -> None:
    first, second = events(lines, "dealt")[:2]
    first["hands"], second["hands"] = second["hands"], first["hands"]


def _deal_left_out(lines: list[Line]) -> None:
    for line in lines[1:]:
        dealt = [event for event in line["commit"]["events"] if "dealt" in event]
        if dealt:
            line["commit"]["events"].remove(dealt[0])
            return


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (_other_seed, "the commitment in the game"),
        (_other_seed_and_commitment, "first dealer|hand of seat"),
        (_other_commitment, "the commitment in the game"),
        (_other_nonce, "first dealer|hand of seat"),
        (_other_game_id, "first dealer|hand of seat"),
        (_two_cards_exchanged, "deal 1: the hand of seat 0"),
        (_one_card_twice, "deal 0: the hand of seat 3"),
        (_other_turned_card, "deal 2: the turned card"),
        (_no_turned_card, "deal 0: the turned card"),
        (_other_first_dealer, "the first dealer"),
        (_other_later_dealer, "deal 2: the dealer"),
        (_deals_exchanged, "deal 0: the hand of seat 0"),
        (_deal_left_out, "the number of deal 1"),
    ],
)
def test_forged_exports_differ(check: Callable[..., Done], forge: Callable[[list[Line]], None], says: str) -> None:
    lines = exported("euchre", "standard", 4)
    forge(lines)
    done = check(lines)
    assert done.returncode == DIFFERS, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("  DIFFERS ")
    assert any(part in last for part in says.split("|")), last


def test_other_sizes_differ(check: Callable[..., Done]) -> None:
    lines = exported("romanian_whist", "quick", 6)
    events(lines, "created")[0]["hand_sizes"][-1] = 1
    done = check(lines)
    assert done.returncode == DIFFERS
    assert "the cards in each deal" in done.stdout


def test_a_missing_last_deal_differs(check: Callable[..., Done]) -> None:
    lines = exported("oh_hell", "standard", 3)
    last = max(number for number, line in enumerate(lines) if events([line], "dealt"))
    lines[last]["commit"]["events"] = [event for event in lines[last]["commit"]["events"] if "dealt" not in event]
    done = check(lines)
    assert done.returncode == DIFFERS
    assert "the number of deals" in done.stdout


@pytest.mark.parametrize("card", range(40))
def test_every_exchange_of_two_cards_is_found(card: int) -> None:
    """In one deal of whist with all cards dealt: each card against another one, of another hand."""
    lines = exported("romanian_whist", "quick", 6)
    hands = events(lines, "dealt")[0]["hands"]
    here, there = random.Random(card).sample(range(6), 2)
    place = card % 8
    hands[here]["cards"][place], hands[there]["cards"][place] = (
        hands[there]["cards"][place],
        hands[here]["cards"][place],
    )
    with pytest.raises(check_deal.Difference):
        list(check_deal.check(check_deal.read_game(text_of(lines)), None))


# What cannot be checked


def _remove(path: str) -> Callable[[list[Line]], None]:
    kind, name = path.split(".")
    return lambda lines: events(lines, kind)[0].pop(name)


def _set(path: str, content: Any) -> Callable[[list[Line]], None]:
    kind, name = path.split(".")
    return lambda lines: events(lines, kind)[0].update({name: content})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda lines: lines.pop(), "not finished"),
        (lambda lines: lines.pop(0), "first commit"),
        (lambda lines: lines.append(lines[0]), "first commit"),
        (lambda lines: lines.clear(), "first commit"),
        (_remove("created.game_id"), "damaged"),
        (_remove("created.seats"), "damaged"),
        (_remove("finished.server_seed"), "export the game open"),
        (_remove("dealt.hands"), "export the game open"),
        (_remove("finished.nonces"), "nonces"),
        (_set("finished.server_seed", "AAAA"), "32"),
        (_set("finished.server_seed", "not base64!"), "base64"),
        (_set("finished.server_seed", 7), "damaged"),
        (_set("finished.nonces", ["A" * 44] * 4), "nonces"),
        (_set("created.game_id", "17"), "damaged"),
        (_set("created.game_type", "poker"), "does not know poker"),
        (_set("created.game_type", ["euchre"]), "damaged"),
        (_set("created.variant", "amsterdam"), "does not know euchre amsterdam"),
        (_set("created.day", "tomorrow"), "not a day"),
        (_set("dealt.dealer", "2"), "not a whole number"),
        (_set("dealt.dealer", True), "not a whole number"),
        (_set("dealt.turned", "CARD_1S"), "not a card"),
        (_set("dealt.hands", [{"cards": [5]}] * 4), "damaged"),
    ],
)
def test_what_is_no_open_replay_is_said_to_be_none(
    check: Callable[..., Done], spoil: Callable[[list[Line]], Any], says: str
) -> None:
    lines = exported("euchre", "standard", 4)
    spoil(lines)
    done = check(lines)
    assert done.returncode == NOT_CHECKED, done.stdout
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"[]",
        b"17",
        b'{"commit": 5}',
        b'{"commit": {"events": 5}}',
        b'{"commit": {"events": {"created": 1}}}',
        b'{"commit": {"events": ["created", "finished"]}}',
        b"[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "game.json"
    path.write_bytes(content)
    done = run(path)
    assert (done.returncode, done.stdout) == (NOT_CHECKED, "")
    assert done.stderr.strip().endswith(".")


def test_a_seat_s_own_export_is_not_enough(check: Callable[..., Done]) -> None:
    done = check(exported("euchre", "standard", 4, viewer=0))
    assert done.returncode == NOT_CHECKED
    assert "export the game open" in done.stderr


# The published vectors


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["game"])
def test_published_vector(vector: dict[str, Any]) -> None:
    game_type, seats = vector["game"], vector["seats"]
    variant = vector["variant"] or "standard"
    server_seed = bytes.fromhex(vector["server_seed"])
    nonces = [bytes.fromhex(nonce) for nonce in vector["nonces"]]
    game_id = UUID(vector["game_id"])
    seed = check_deal.game_seed(server_seed, game_id.bytes, nonces)
    assert seed.hex() == vector["game_seed"]
    assert check_deal.below(check_deal.words(seed, "dealer", 0), seats) == vector["first_dealer"]
    plan = check_deal.plan_of(game_type, variant, seats, seed)
    assert (plan or [5, 5])[: len(vector["sizes"])] == vector["sizes"]
    game = check_deal.Game(str(game_id), game_type, variant, seats, "", b"", plan, server_seed, nonces, [])
    for number, (deal, size) in enumerate(zip(vector["deals"], vector["sizes"], strict=True)):
        computed = check_deal.deal_of(game, seed, number, vector["first_dealer"], size)
        assert computed.dealer == deal["dealer"]
        assert computed.hands == [sorted(hand.split(), key=check_deal.in_order) for hand in deal["hands"]]
        assert computed.turned == (deal["turned"] or "")


def test_its_order_of_cards_is_ours() -> None:
    ours = [NAME[card] for card in deck(0)]
    assert sorted(ours, key=check_deal.in_order) == ours
