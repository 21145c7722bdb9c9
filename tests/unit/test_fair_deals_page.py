"""The test vectors on docs/fair-deals.md: computed by the engines, so that the page cannot drift from the code."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rules import registry
from rules.cards import NAME
from rules.chance import Chance, commitment, daily_id, game_seed
from rules.game import DealCards, Rejection
from tests.playing import after

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fair-deals.md").read_text()
VECTORS = json.loads((ROOT / "tests" / "cases" / "fair_deal.json").read_text())
# `name   content`, in the page's blocks.
LINE = re.compile(r"^(\w[\w ]*?) {2,}(\S.*)$", re.MULTILINE)


def block(title: str) -> dict[str, str]:
    """The block of lines after a heading."""
    found = re.search(rf"^### {re.escape(title)}\n.*?^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no vector under the heading {title}"
    return dict(LINE.findall(found[1]))


def title_of(vector: dict[str, Any]) -> str:
    """The heading of a vector."""
    variant = f" `{vector['variant']}`" if vector["variant"] else ""
    return f"`{vector['game']}`{variant}, {vector['seats']} seats"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["game"])
def test_a_game_s_vector(vector: dict[str, Any]) -> None:
    game = registry.game(vector["game"])
    assert game is not None
    server_seed = bytes.fromhex(block("What all vectors share")["server_seed"])
    game_id = UUID(block("What all vectors share")["game_id"])
    seats = vector["seats"]
    seed = game_seed(server_seed, game_id.bytes, [b""] * seats)
    chance = Chance(seed)
    setup = game.setup(vector["variant"] or next(iter(game.variants)), seats, chance)
    assert not isinstance(setup, Rejection)
    pack = chance.shuffled("deal", 0, game.deck(seats))
    state = after(game, game.start(setup), DealCards(pack))
    expected = {
        "game_seed": seed.hex(),
        "first dealer": str(setup.first_dealer),
        "pack": " ".join(NAME[card] for card in pack),
    }
    if setup.hand_sizes:
        expected["hand sizes"] = " ".join(map(str, setup.hand_sizes))
    turned = game.view(state, None).turned
    expected["turned"] = "none" if turned is None else NAME[turned]
    told = block(title_of(vector))
    hands = {name: told.pop(name) for name in [f"seat {seat}" for seat in range(seats)]}
    assert told == expected
    for seat in range(seats):
        # In the order in which the cards are dealt, as the published cases have them.
        assert hands[f"seat {seat}"] == vector["deals"][0]["hands"][seat]
        held = game.view(state, seat).hand
        assert sorted(hands[f"seat {seat}"].split()) == sorted(NAME[card] for card in range(52) if held >> card & 1)


def test_what_all_vectors_share() -> None:
    told = block("What all vectors share")
    for vector in VECTORS:
        assert told["server_seed"] == vector["server_seed"]
        assert told["commitment"] == vector["commitment"] == commitment(bytes.fromhex(told["server_seed"])).hex()
        assert told["game_id"] == vector["game_id"]


def test_nonces_and_dailies() -> None:
    shared = block("What all vectors share")
    server_seed, game_id = bytes.fromhex(shared["server_seed"]), UUID(shared["game_id"])
    told = block("With nonces, and of a daily")
    nonces = [bytes.fromhex(nonce.strip('"')) for nonce in told["nonces"].split()]
    assert told["game_seed"] == game_seed(server_seed, game_id.bytes, nonces).hex()
    stand_in = daily_id("euchre", told["day"])
    assert told["daily id"] == stand_in.hex()
    assert told["daily seed"] == game_seed(server_seed, stand_in, [b""] * 4).hex()


def test_every_game_has_a_vector() -> None:
    assert {vector["game"] for vector in VECTORS} == set(registry.GAME_TYPES)
