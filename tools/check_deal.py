#!/usr/bin/env python3
"""Checks that the cards of a finished game were dealt fairly: alone, with nothing but Python 3.9 or later.

    ./levata replay GAME_ID --json > game.json
    python3 check_deal.py game.json [--commitment HEX]

It computes the first dealer, the plan of the deals, every hand and every turned card anew from what the game revealed
at its end, and compares. `--commitment` is what the server published before anybody could add a nonce: write it down
then, and the check proves that the seed was not chosen afterwards. The recipe is in docs/fair-deals.md.

Ends with 0 when all agrees, with 1 at the first difference, and with 2 when the file cannot be checked.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import hmac
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

RANKS = "23456789TJQKA"
SUITS = "CDHS"
AGREES, DIFFERS, NOT_CHECKED = 0, 1, 2


class Difference(Exception):
    """Something was not dealt as the seed gives it; the message says what."""


class Unreadable(Exception):
    """This is not the open replay of a finished game; the message says why."""


# What each game deals


def lowest_rank(game_type: str, seats: int) -> str:
    """Each suit of the deck goes from this rank up to the ace."""
    if game_type == "romanian_whist":
        # Eight cards for each seat, so twice as many of each suit as there are seats.
        return RANKS[len(RANKS) - 2 * seats]
    return {"euchre": "9", "oh_hell": "2", "klaverjas": "7"}[game_type]


def packets(game_type: str, size: int) -> list[int]:
    """How many cards a seat gets each time round."""
    return {"euchre": [3, 2], "klaverjas": [3, 2, 3]}.get(game_type, [1] * size)


def turns_a_card(game_type: str) -> bool:
    """Whether the card after the hands is turned up, where there is one."""
    return game_type != "klaverjas"


def plan_of(game_type: str, variant: str, seats: int, seed: bytes) -> list[int]:
    """Cards in each deal; empty where a game has as many deals as it takes."""
    if game_type == "euchre":
        return []
    if game_type == "klaverjas":
        return [8] * 16
    if game_type == "oh_hell":
        largest = min(10, 51 // seats)
        return [*range(largest, 1, -1), *range(1, largest + 1)]
    falling = [7, 6, 5, 4, 3, 2]
    ones, eights = [1] * seats, [8] * seats
    if variant == "quick":
        return [8, *sorted(shuffled(seed, "sizes", 0, falling[::-1])[:5], reverse=True)]
    return {
        "8-1-8": eights + falling + ones + falling[::-1] + eights,
        "8-8-8": eights + falling + eights + falling[::-1] + eights,
        "1-8-1": ones + falling[::-1] + eights + falling + ones,
    }[variant]


SEATS = {
    ("romanian_whist", "8-1-8"): range(4, 7),
    ("romanian_whist", "8-8-8"): range(4, 7),
    ("romanian_whist", "1-8-1"): range(4, 7),
    ("romanian_whist", "quick"): range(6, 7),
    ("euchre", "standard"): range(4, 5),
    ("oh_hell", "standard"): range(3, 8),
    ("klaverjas", "amsterdam"): range(4, 5),
    ("klaverjas", "rotterdam"): range(4, 5),
}


# The draws of a game's seed


def game_seed(server_seed: bytes, seed_id: bytes, nonces: list[bytes]) -> bytes:
    """The seed of all draws."""
    message = seed_id + b"".join(bytes([len(nonce)]) + nonce for nonce in nonces)
    return hmac.new(server_seed, message, hashlib.sha256).digest()


def daily_id(game_type: str, day: str) -> bytes:
    """What stands for the game's id in a daily."""
    return hashlib.sha256(f"levata-daily{game_type}{day}".encode("ascii")).digest()[:16]


def words(seed: bytes, label: str, index: int) -> Iterator[int]:
    """The stream of 32-bit words for a label and an index."""
    block = 0
    while True:
        message = label.encode("ascii") + index.to_bytes(4, "big") + block.to_bytes(4, "big")
        digest = hmac.new(seed, message, hashlib.sha256).digest()
        for start in range(0, 32, 4):
            yield int.from_bytes(digest[start : start + 4], "big")
        block += 1


def below(stream: Iterator[int], bound: int) -> int:
    """The next number below `bound`; words that would favour the small ones are left out."""
    limit = bound * (2**32 // bound)
    return next(word for word in stream if word < limit) % bound


def shuffled(seed: bytes, label: str, index: int, items: list[Any]) -> list[Any]:
    """A list in the order that the stream gives."""
    stream = words(seed, label, index)
    result = list(items)
    for i in range(len(result) - 1, 0, -1):
        j = below(stream, i + 1)
        result[i], result[j] = result[j], result[i]
    return result


class Deal(NamedTuple):
    """One deal, as told by a game or as computed."""

    number: int
    dealer: int
    size: int
    # By seat; each sorted by suit and rank.
    hands: list[list[str]]
    turned: str


def deal_of(game: Game, seed: bytes, number: int, first_dealer: int, size: int) -> Deal:
    """The deal that the seed gives."""
    ranks = RANKS[RANKS.index(lowest_rank(game.game_type, game.seats)) :]
    pack = shuffled(seed, "deal", number, [rank + suit for suit in SUITS for rank in ranks])
    dealer = (first_dealer + number) % game.seats
    hands: list[list[str]] = [[] for _ in range(game.seats)]
    top = 0
    for packet in packets(game.game_type, size):
        for place in range(game.seats):
            # Forehand, at the dealer's left, is first, and the dealer last.
            hands[(dealer + 1 + place) % game.seats] += pack[top : top + packet]
            top += packet
    turned = pack[top] if turns_a_card(game.game_type) and top < len(pack) else ""
    return Deal(number, dealer, size, [sorted(hand, key=in_order) for hand in hands], turned)


def in_order(card: str) -> tuple[int, int]:
    """The place of a card in the canonical order."""
    return SUITS.index(card[1]), RANKS.index(card[0])


# The game as it was exported


class Game(NamedTuple):
    """What an open replay says about the deals."""

    game_id: str
    game_type: str
    variant: str
    seats: int
    # Of a daily; empty otherwise.
    day: str
    commitment: bytes
    plan: list[int]
    server_seed: bytes
    nonces: list[bytes]
    deals: list[Deal]


def read_game(text: str) -> Game:
    """The game of an exported file: one JSON object a line, a commit each."""
    events = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            events += json.loads(line)["commit"].get("events", [])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Unreadable(f"Line {number} is not a commit as `./levata replay GAME_ID --json` prints it.") from None
    try:
        return game_of(events)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"The file is damaged: {type(error).__name__} {error}.") from None


def game_of(events: list[dict[str, Any]]) -> Game:
    """The game that these events tell."""
    created = [event["created"] for event in events if "created" in event]
    finished = [event["finished"] for event in events if "finished" in event]
    if len(created) != 1:
        raise Unreadable("The file does not hold one whole game: its first commit, `created`, is not there once.")
    if len(finished) != 1:
        raise Unreadable("The game is not finished: its seed is revealed at its end.")
    if "server_seed" not in finished[0]:
        raise Unreadable("The seed is not in the file: export the game open, without --seat; a daily after its day.")
    game = Game(
        game_id=str(uuid.UUID(created[0]["game_id"])),
        game_type=created[0]["game_type"],
        variant=created[0]["variant"],
        seats=len(created[0]["seats"]),
        day=created[0].get("day", ""),
        commitment=from_base64(created[0]["commitment"]),
        plan=[whole(size) for size in created[0].get("hand_sizes", [])],
        server_seed=from_base64(finished[0]["server_seed"]),
        nonces=[from_base64(nonce) for nonce in finished[0].get("nonces", [])],
        deals=[deal_told(event["dealt"]) for event in events if "dealt" in event],
    )
    check_readable(game)
    return game


def check_readable(game: Game) -> None:
    """Refuse what no recipe is for."""
    if game.seats not in SEATS.get((game.game_type, game.variant), ()):
        raise Unreadable(f"This program does not know {game.game_type} {game.variant} with {game.seats} seats.")
    if len(game.server_seed) != 32:
        raise Unreadable(f"The seed has {len(game.server_seed)} bytes instead of 32.")
    if len(game.nonces) != game.seats or any(len(nonce) > 32 for nonce in game.nonces):
        raise Unreadable(f"{game.seats} seats need {game.seats} nonces of 0 to 32 bytes.")
    if game.day and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", game.day, re.ASCII):
        raise Unreadable(f"{game.day!r} is not a day.")
    if not game.deals:
        raise Unreadable("No cards were dealt in this file.")
    if any(len(deal.hands) != game.seats for deal in game.deals):
        raise Unreadable("The hands are not in the file: export the game open, without --seat.")


def deal_told(dealt: dict[str, Any]) -> Deal:
    """A deal as the game tells it; protobuf's JSON leaves zeros and empty lists out."""
    hands = [sorted(map(card_told, hand.get("cards", [])), key=in_order) for hand in dealt.get("hands", [])]
    turned = dealt.get("turned", "")
    return Deal(
        whole(dealt.get("deal", 0)),
        whole(dealt.get("dealer", 0)),
        whole(dealt.get("hand_size", 0)),
        hands,
        card_told(turned) if turned else "",
    )


def card_told(name: str) -> str:
    """`CARD_TS` is the ten of spades, TS."""
    if not re.fullmatch(f"CARD_[{RANKS}][{SUITS}]", name):
        raise ValueError(f"{name!r} is not a card")
    return name[len("CARD_") :]


def whole(number: Any) -> int:
    """A number that is one."""
    if type(number) is not int:
        raise ValueError(f"{number!r} is not a whole number")
    return number


def from_base64(text: str) -> bytes:
    """Bytes as protobuf's JSON has them."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{text!r} is not base64") from None


# The comparison


def check(game: Game, committed: bytes | None) -> Iterator[str]:
    """What agrees, line by line; Difference at the first thing that does not."""
    commitment = hashlib.sha256(game.server_seed).digest()
    agree("the commitment in the game", game.commitment.hex(), commitment.hex())
    if committed is not None:
        agree("the commitment that was published", committed.hex(), commitment.hex())
    yield f"commitment    {commitment.hex()}"

    if game.day:
        agree("the nonces of a daily", [nonce.hex() for nonce in game.nonces], [""] * game.seats)
    seed_id = daily_id(game.game_type, game.day) if game.day else uuid.UUID(game.game_id).bytes
    seed = game_seed(game.server_seed, seed_id, game.nonces)
    yield f"game seed     {seed.hex()} (computed)"

    first_dealer = below(words(seed, "dealer", 0), game.seats)
    agree("the first dealer", game.deals[0].dealer, first_dealer)
    yield f"first dealer  seat {first_dealer}"

    plan = plan_of(game.game_type, game.variant, game.seats, seed)
    agree("the cards in each deal", game.plan, plan)
    if plan:
        agree("the number of deals", len(game.deals), len(plan))
        yield f"hand sizes    {' '.join(map(str, plan))}"

    for number, told in enumerate(game.deals):
        check_deal(told, deal_of(game, seed, number, first_dealer, plan[number] if plan else 5))
    yield f"deals         {len(game.deals)}, with each dealer, hand and turned card"


def check_deal(told: Deal, computed: Deal) -> None:
    """One deal as it was told against the same deal computed."""
    where = f"deal {computed.number}"
    agree(f"the number of {where}", told.number, computed.number)
    agree(f"{where}: the dealer", told.dealer, computed.dealer)
    agree(f"{where}: the cards in each hand", told.size, computed.size)
    for seat, hand in enumerate(computed.hands):
        agree(f"{where}: the hand of seat {seat}", " ".join(told.hands[seat]), " ".join(hand))
    agree(f"{where}: the turned card", told.turned or "none", computed.turned or "none")


def agree(what: str, told: object, computed: object) -> None:
    """Both must be the same."""
    if told != computed:
        raise Difference(f"{what}: the game has {told}, the seed gives {computed}.")


def commitment_argument(text: str) -> bytes:
    """32 bytes in hexadecimal."""
    try:
        committed = bytes.fromhex(text)
    except ValueError:
        committed = b""
    if len(committed) != 32:
        raise argparse.ArgumentTypeError("it has 64 hexadecimal digits")
    return committed


def read_text(name: str) -> str:
    """The file's text; `-` is the standard input."""
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return content.decode("utf-8")
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{name} is not text.") from None


def main(command_line: list[str] | None = None) -> int:
    """Check the game that the command line names."""
    parser = argparse.ArgumentParser(description="Check that the cards of a finished game were dealt fairly.")
    parser.add_argument("game", help="what `./levata replay GAME_ID --json` printed; - for the standard input")
    parser.add_argument(
        "--commitment",
        type=commitment_argument,
        metavar="HEX",
        help="the commitment as it was published before the game",
    )
    arguments = parser.parse_args(command_line)
    try:
        game = read_game(read_text(arguments.game))
        daily = f", daily of {game.day}" if game.day else ""
        print(f"game {game.game_id}: {game.game_type} {game.variant}, {game.seats} seats{daily}")
        for line in check(game, arguments.commitment):
            print(f"  agrees  {line}")
    except Difference as difference:
        print(f"  DIFFERS {difference}")
        return DIFFERS
    except Unreadable as reason:
        print(reason, file=sys.stderr)
        return NOT_CHECKED
    print("All deals follow from the seed.")
    return AGREES


if __name__ == "__main__":
    sys.exit(main())
