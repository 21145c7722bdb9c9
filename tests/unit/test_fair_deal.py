"""The published test vectors (tests/cases/fair_deal.json) through the engines, and the draws by themselves."""

import hashlib
import hmac
import json
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rules.cards import CODE, NAME, mask
from rules.chance import Chance, commitment, game_seed
from rules.game import DealCards, Rejection
from rules.registry import GAME_TYPES, game
from tests.playing import after, after_playing_out, names

VECTORS = json.loads((Path(__file__).parents[1] / "cases" / "fair_deal.json").read_text())


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if vector["game"] in GAME_TYPES], ids=lambda vector: vector["game"]
)
def test_published_vector(vector: dict[str, Any]) -> None:
    server_seed = bytes.fromhex(vector["server_seed"])
    nonces = [bytes.fromhex(nonce) for nonce in vector["nonces"]]
    seed = game_seed(server_seed, UUID(vector["game_id"]).bytes, nonces)
    assert commitment(server_seed).hex() == vector["commitment"]
    assert seed.hex() == vector["game_seed"]
    engine = game(vector["game"])
    assert engine is not None
    chance = Chance(seed)
    setup = engine.setup(vector["variant"] or next(iter(engine.variants)), vector["seats"], chance)
    assert not isinstance(setup, Rejection)
    assert setup.first_dealer == vector["first_dealer"]
    state = engine.start(setup)
    for number, (deal, size) in enumerate(zip(vector["deals"], vector["sizes"], strict=True)):
        state = after(engine, state, DealCards(chance.shuffled("deal", number, engine.deck(setup.seats))))
        assert state.dealer == deal["dealer"]
        for seat, hand in enumerate(deal["hands"]):
            view = engine.view(state, seat)
            assert view.hand_size == size
            assert set(names(view.hand)) == set(hand.split())
            assert view.turned == (None if deal["turned"] is None else CODE[deal["turned"]])
        state = after_playing_out(engine, state)


def test_nonces_and_game_id_are_part_of_the_seed() -> None:
    seeds = {
        game_seed(bytes(32), bytes(16), [b"", b""]),
        game_seed(bytes(32), bytes(16), [b"a", b""]),
        game_seed(bytes(32), bytes(16), [b"", b"a"]),
        game_seed(bytes(32), bytes(16), [b"\0", b""]),
        game_seed(bytes(32), bytes([1]) * 16, [b"", b""]),
        game_seed(bytes([1]) * 32, bytes(16), [b"", b""]),
    }
    assert len(seeds) == 6


def test_words_that_would_favour_small_numbers_are_discarded() -> None:
    """Against the published formula, spelled out: a bound just above 2**31 discards nearly every second word."""
    bound = 2**31 + 1
    for index in range(64):
        blocks = [
            hmac.digest(bytes(32), b"x" + index.to_bytes(4, "big") + bytes([0, 0, 0, k]), "sha256") for k in (0, 1)
        ]
        words = [int.from_bytes(block[i : i + 4], "big") for block in blocks for i in range(0, 32, 4)]
        assert Chance(bytes(32)).below("x", index, bound) == next(word for word in words if word < bound)


def test_streams_of_other_labels_and_indices_differ() -> None:
    chance = Chance(hashlib.sha256(b"streams").digest())
    items = tuple(range(52))
    shuffles = {chance.shuffled(label, index, items) for label in ("deal", "sizes") for index in range(20)}
    assert len(shuffles) == 40
    assert {mask(shuffle) for shuffle in shuffles} == {mask(items)}


def test_every_card_comes_to_every_place() -> None:
    chance = Chance(hashlib.sha256(b"places").digest())
    tops = Counter(NAME[chance.shuffled("deal", index, tuple(range(52)))[0]] for index in range(2_000))
    # 38 are expected of each; a fair shuffle stays within these bounds but once in many thousand seeds.
    assert len(tops) == 52
    assert min(tops.values()) >= 12
    assert max(tops.values()) <= 70
