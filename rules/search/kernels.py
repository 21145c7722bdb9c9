"""What the kernels of all games share: how they are compiled, their words of chance, and how unseen cards are dealt.

A set of cards is an int64 with the bits of `rules.cards`; a single card is mostly its bit. The holders of cards are the
seats and, last, whatever lies where nobody sees it.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, ParamSpec, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic
from numpy.typing import NDArray

from rules import cards, euchre_cards, klaverjas_cards, moves, partners
from rules.bots import euchre as euchre_bot
from rules.bots import exact_bid as exact_bid_bot
from rules.bots import klaverjas as klaverjas_bot
from rules.game import View

P = ParamSpec("P")
R = TypeVar("R")

# Of int64; its elements pass for ints.
Ints = NDArray[Any]
Words = NDArray[np.uint64]

# Numba notices that a kernel's own file has changed, but not one that it calls into or takes constants from.
_COMPILED_IN: Final = (
    sys.modules[__name__],
    cards,
    moves,
    partners,
    euchre_cards,
    klaverjas_cards,
    exact_bid_bot,
    euchre_bot,
    klaverjas_bot,
)
FINGERPRINT: Final = hashlib.sha256("".join(map(inspect.getsource, _COMPILED_IN)).encode()).hexdigest()


class _Cache(FunctionCache):
    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return (*super()._index_key(signature, codegen), FINGERPRINT)  # type: ignore[no-untyped-call]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` when it is first called, or load it as it was compiled before."""
    compiled: Any = njit(error_model="numpy")(function)
    # Where neither beside the source nor in the user's cache a file can be written, each process compiles for itself.
    with suppress(RuntimeError):
        compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]
    return cast(Callable[P, R], compiled)


def _count(_context: Any, _members: Any) -> Any:
    return types.int64(types.int64), lambda _context, builder, _signature, args: builder.ctpop(args[0])


def _code(_context: Any, _members: Any) -> Any:
    not_zero = ir.Constant(ir.IntType(1), 1)
    return types.int64(types.int64), lambda _context, builder, _signature, args: builder.cttz(args[0], not_zero)


# How many cards a set has, and the code of the lowest card of one that has any. Each is one instruction.
count = cast(Callable[[int], int], intrinsic(_count))
code = cast(Callable[[int], int], intrinsic(_code))


def words_for(view: View, chance: bytes) -> Words:
    """The state of `below`, from the chance that the seat has in this deal and what it has seen of it."""
    tricks = [(trick.seats, trick.cards) for trick in (*view.tricks, view.trick)]
    seen = (view.variant, view.seat, view.dealer, view.hand, view.turned, view.discarded, view.calls, tricks)
    digest = hashlib.sha256(chance + repr(seen).encode("ascii")).digest()
    # Zero is the one state that xorshift does not leave.
    return np.array([int.from_bytes(digest[:8], "big") or 1], np.uint64)


@kernel
def below(words: Words, bound: int) -> int:
    """A random number below `bound`: xorshift64*, its upper half."""
    word = words[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    words[0] = word
    upper: Any = np.int64((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(32))
    drawn: int = (upper * bound) >> 32
    return drawn


@kernel
def any_of(words: Words, held: int) -> int:
    """A random card of a set."""
    for _ in range(below(words, count(held))):
        held &= held - 1
    return held & -held


@kernel
def deal(words: Words, unseen: int, allowed: Ints, counts: Ints, hands: Ints) -> None:
    """Deal the unseen cards at random until each holder has as many as it must, of those that it may have.

    `hands` come with what is known of them; they and `unseen` have no card in common. There must be a way to do it.
    """
    # Cards that few may have come first; those that all may have are then dealt without favour.
    for holders in range(1, len(counts) + 1):
        pool = 0
        rest = unseen
        while rest:
            card = rest & -rest
            rest ^= card
            takers = 0
            for holder in range(len(counts)):
                if allowed[holder] & card:
                    takers += 1
            if takers == holders:
                pool |= card
        while pool:
            card = any_of(words, pool)
            pool ^= card
            _give(words, card, allowed, counts, hands)


@kernel
def _give(words: Words, card: int, allowed: Ints, counts: Ints, hands: Ints) -> None:
    """Give a card to a holder that may have it, to each in proportion to the room it has."""
    room = 0
    for holder in range(len(counts)):
        if allowed[holder] & card:
            room += counts[holder] - count(hands[holder])
    if not room:
        _give_by_exchange(card, allowed, counts, hands)
        return
    drawn = below(words, room)
    for holder in range(len(counts)):
        if allowed[holder] & card:
            drawn -= counts[holder] - count(hands[holder])
            if drawn < 0:
                hands[holder] |= card
                return


@kernel
def _give_by_exchange(card: int, allowed: Ints, counts: Ints, hands: Ints) -> None:
    """Give a card to a full hand, which passes one on to another, until one reaches a hand that has room."""
    holders = len(counts)
    # Breadth first, by the holder that each hand gets its card from; the first gets it from nobody.
    giver = np.full(holders, -2, np.int64)
    queue = np.zeros(holders, np.int64)
    found = 0
    for holder in range(holders):
        if allowed[holder] & card:
            giver[holder] = -1
            queue[found] = holder
            found += 1
    last = -1
    looked = 0
    while last < 0 and looked < found:
        full = queue[looked]
        looked += 1
        for holder in range(holders):
            if giver[holder] == -2 and hands[full] & allowed[holder]:
                giver[holder] = full
                if count(hands[holder]) < counts[holder]:
                    last = holder
                    break
                queue[found] = holder
                found += 1
    assert last >= 0
    while giver[last] >= 0:
        movable = hands[giver[last]] & allowed[last]
        moved = movable & -movable
        hands[giver[last]] ^= moved
        hands[last] |= moved
        last = giver[last]
    hands[last] |= card
