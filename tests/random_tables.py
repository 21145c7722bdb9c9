"""Tables played at random, for properties that must hold whatever happens."""

import random
from uuid import UUID

from rules import registry
from rules.cards import members
from rules.chance import Chance, game_seed
from rules.game import Rejection, Seat
from services.table import domain
from services.table.domain import Clock, Decider, Mode, Occupant, Secret, Step, Table

GAME_ID = UUID("00000000-0000-7000-8000-000000000001").bytes
# Every game type, variant and number of seats.
VARIANTS = [
    (game.game_type, variant, seats)
    for game in registry.GAMES
    for variant, allowed in game.variants.items()
    for seats in sorted(allowed)
]


def opened(game_type: str, variant: str, seats: int, seed: bytes, mode: Mode = Mode.FRIENDLY) -> Step:
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
        mode=mode,
        seats=occupants,
        clock=domain.clock_for(mode, Clock(20, 15)),
        secret=secret,
        host="here",
        now_us=1_000_000,
    )


def play_on(table: Table, chance: random.Random) -> Step:
    """One random step: mostly a move of whoever's turn it is, now and then the clock, the host or somebody's seat."""
    now_us = table.opened_at_us + chance.randrange(30_000_000)
    choice = chance.random()
    step: Step | Rejection | domain.SeatRejection
    if choice < 0.02:
        step = domain.resume_clock(table, chance.randrange(1, 9), "there", now_us)
    elif choice < 0.04 and any(table.away):
        step = domain.return_to_seat(table, table.away.index(True), now_us)
    elif choice < 0.05 and (people := _there(table)):
        step = domain.go_away(table, chance.sample(people, chance.randint(1, len(people))), now_us)
    elif choice < 0.055 and table.created.mode not in domain.UNTIMED and (people := _there(table)):
        step = domain.leave(table, chance.choice(people), now_us)
    elif choice < 0.065 and (vacated := list(filter(table.is_vacated, range(len(table.occupants))))):
        seat = chance.choice(vacated)
        account = chance.choice((str(UUID(int=100 + table.version)), table.left[seat][0]))
        step = domain.take_seat(table, seat, account, False, now_us)
    elif table.server_decides or choice < 0.1:
        decider = Decider.BOT if table.server_decides else Decider.CLOCK
        step = domain.move(table, table.turn, table.bot_move(), decider, now_us)
    else:
        move = chance.choice(list(members(table.legal)))
        step = domain.move(table, table.turn, move, Decider.PERSON, now_us)
    assert isinstance(step, Step), step
    return step


def _there(table: Table) -> list[Seat]:
    """Persons' seats whose person is not away."""
    return [seat for seat, each in enumerate(table.occupants) if each.account and not table.away[seat]]
