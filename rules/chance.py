"""The provably fair draws of games.md, "Deals, and how anyone can check them".

A game's seed comes from the server's seed, the game's id and the seats' nonces; every draw of the game is a stream of
words named by a label and an index. Nothing here is random: the shell brings the server's seed.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence

from rules.values import value


def commitment(server_seed: bytes) -> bytes:
    """What the server publishes before any nonce: SHA-256 of its 32-byte seed."""
    return hashlib.sha256(server_seed).digest()


def game_seed(server_seed: bytes, game_id: bytes, nonces: Sequence[bytes]) -> bytes:
    """The 32-byte seed of all draws of a game. `game_id` is 16 bytes, each nonce 0 to 32."""
    assert len(server_seed) == 32 and len(game_id) == 16
    assert all(len(nonce) <= 32 for nonce in nonces)
    message = game_id + b"".join(bytes([len(nonce)]) + nonce for nonce in nonces)
    return hmac.digest(server_seed, message, "sha256")


def daily_id(game_type: str, day: str) -> bytes:
    """What stands for the game's id in the seed of a day's games, so that all of them have the same deals.

    `day` is YYYY-MM-DD.
    """
    return hashlib.sha256(f"levata-daily{game_type}{day}".encode("ascii")).digest()[:16]


@value
class Chance:
    """The draws of one game seed; implements `rules.game.Draws`."""

    seed: bytes

    def below(self, label: str, index: int, bound: int) -> int:
        """The first draw below `bound` of the stream (label, index)."""
        return _below(self._words(label, index), bound)

    def shuffled(self, label: str, index: int, items: tuple[int, ...]) -> tuple[int, ...]:
        """`items`, shuffled from the end with the stream (label, index)."""
        words = self._words(label, index)
        shuffled = list(items)
        for i in range(len(shuffled) - 1, 0, -1):
            j = _below(words, i + 1)
            shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
        return tuple(shuffled)

    def bot_chance(self, seat: int, deal: int) -> bytes:
        """32 bytes for the bot of a seat in a deal."""
        return hmac.digest(self.seed, b"bot" + seat.to_bytes(4, "big") + deal.to_bytes(4, "big"), "sha256")

    def _words(self, label: str, index: int) -> Iterator[int]:
        prefix = label.encode("ascii") + index.to_bytes(4, "big")
        block_number = 0
        while True:
            block = hmac.digest(self.seed, prefix + block_number.to_bytes(4, "big"), "sha256")
            for start in range(0, 32, 4):
                yield int.from_bytes(block[start : start + 4], "big")
            block_number += 1


def _below(words: Iterator[int], bound: int) -> int:
    # Words at or above the largest multiple of `bound` would favour the small numbers.
    limit = bound * (2**32 // bound)
    for word in words:
        if word < limit:
            return word % bound
    raise AssertionError("the stream of words does not end")
