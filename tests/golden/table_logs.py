"""Rows of the table service's log, kept so that what was once stored can be read and folded for ever after.

One JSON file a game: the payloads as they were stored, and what they came to. `python -m tests.golden.table_logs`
records what is missing; a file that is in the repository is never written again.
"""

import base64
import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from chassis.log import chain_start, next_chain
from rules import registry
from rules.game import Rejection
from services.table import domain
from services.table.domain import (
    Clock,
    Commit,
    Created,
    Finished,
    Mode,
    Occupant,
    SeatChanged,
    Secret,
    Step,
    Table,
    kinds_of,
)
from services.table.store.codec import encode
from tests.random_tables import play_on

FOLDER = Path(__file__).parent / "table"


@dataclass(frozen=True)
class Contest:
    """A game to record."""

    game_type: str
    variant: str
    seats: int
    mode: Mode = Mode.FRIENDLY
    day: date | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.game_type}_{self.variant}_{self.seats}_{self.mode.name.lower()}"


def contests() -> Iterator[Contest]:
    """What has to have a log: every variant with its fewest seats, and every mode."""
    for game in registry.GAMES:
        for variant, allowed in game.variants.items():
            yield Contest(game.game_type, variant, min(allowed))
    for game_type in ("euchre", "oh_hell"):
        yield Contest(game_type, "standard", 4, Mode.DAILY, date(2026, 11, 30))
        yield Contest(game_type, "standard", 4, Mode.QUICK_PLAY)
    yield Contest("klaverjas", "amsterdam", 4, Mode.SOLO)


def played(contest: Contest) -> Iterator[Commit]:
    """A game at random: persons, bots, clocks, seats left and taken over, a new host."""
    seed = sha256(contest.name.encode()).digest()
    chance = random.Random(seed)
    step = _opened(contest, seed, UUID(bytes=sha256(seed).digest()[:16], version=4))
    yield step.commit
    while not step.table.over:
        step = play_on(step.table, chance)
        yield step.commit
        if contest.mode is Mode.QUICK_PLAY and len(step.table.own) == 2 and not any(step.table.left):
            # The account in seat 2 gives it to a bot for good.
            left = SeatChanged(2, Occupant(bot_level="steady"), away=False)
            commit = Commit(step.table.version + 1, step.table.opened_at_us, (left,))
            step = Step(commit, domain.apply(step.table, commit))
            yield commit


def _opened(contest: Contest, seed: bytes, game_id: UUID) -> Step:
    game = registry.game(contest.game_type)
    assert game is not None
    is_daily = contest.mode is Mode.DAILY
    secret = Secret(seed, tuple(b"" if is_daily else bytes([seat]) * seat for seat in range(contest.seats)))
    drawn = domain.chance_of(game_id.bytes, contest.game_type, contest.day, secret)
    setup = game.setup(contest.variant, contest.seats, drawn)
    assert not isinstance(setup, Rejection)
    return domain.open_table(
        game_id=game_id.bytes,
        game=game,
        setup=setup,
        mode=contest.mode,
        seats=[_occupant(contest.mode, seat) for seat in range(contest.seats)],
        clock=domain.clock_for(contest.mode, Clock(0, 0)),
        secret=secret,
        host=str(UUID(int=1)),
        now_us=1_796_000_000_000_000,
        day=contest.day,
    )


def _occupant(mode: Mode, seat: int) -> Occupant:
    is_person = seat == 0 if mode in (Mode.SOLO, Mode.DAILY) else seat % 2 == 0
    if not is_person:
        return Occupant(bot_level="steady")
    account = str(UUID(int=seat + 1))
    if mode is not Mode.QUICK_PLAY:
        return Occupant(account, guest=seat == 0)
    return Occupant(account, False, "", 10, 100_000, 10 * seat, 300_000, "coffee_1_5")


def chain_of(game_id: UUID, rows: Sequence[tuple[int, bytes]]) -> bytes:
    """The chain at the end of rows of kinds and payloads."""
    chain = chain_start(game_id)
    for version, (kinds, payload) in enumerate(rows, start=1):
        chain = next_chain(chain, version, kinds, payload)
    return chain


def plain(content: Any) -> Any:
    """An event as JSON has it."""
    return json.loads(json.dumps(dataclasses.asdict(content), default=_plain))


def _plain(content: bytes | date) -> str:
    return content.hex() if isinstance(content, bytes) else content.isoformat()


def outcome(created: Created, table: Table) -> dict[str, Any]:
    """What a log comes to: its beginning, its end, and what was kept in between."""
    assert isinstance(table.finished, Finished)
    return {
        "created": plain(created),
        "finished": plain(table.finished),
        "own": table.own,
        "away": table.away,
        "left": table.left,
        "occupants": [plain(occupant) for occupant in table.occupants],
    }


def record(contest: Contest) -> dict[str, Any]:
    """A game as it is stored today."""
    table: Table | None = None
    rows = []
    for commit in played(contest):
        table = domain.apply(table, commit)
        rows.append((int(kinds_of(commit)), encode(commit)))
    assert table is not None
    game_id = UUID(bytes=table.created.game_id)
    return {
        "game_id": str(game_id),
        "rows": [[kinds, base64.b64encode(payload).decode()] for kinds, payload in rows],
        "chain": chain_of(game_id, rows).hex(),
        "outcome": outcome(table.created, table),
    }


def record_missing() -> None:
    """Record today's games that have no log yet."""
    for contest in contests():
        path = FOLDER / f"{contest.name}.json"
        if not path.exists():
            log = record(contest)
            rows = ",\n".join(map(json.dumps, log.pop("rows")))
            path.write_text(f'{json.dumps(log)[:-1]}, "rows": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    record_missing()
