"""What facts of games add to a build.

Every effect is unique by what it means, an account's part in a game, so that a fact that comes again changes nothing.
That is what lets a rebuild and the consumer meet in the middle.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from itertools import starmap
from typing import Final, NamedTuple
from uuid import UUID

from chassis.database import Session
from rules.values import value
from services.league.domain.games import FinishedGame, Result, leavers, results
from services.league.domain.progress import Outcome, Progress, add
from services.league.domain.terms import Terms
from services.league.projections.scores import DailyScore, FriendlyScore, Touched

RESULT_COLUMNS: Final = (
    "game_id",
    "seat",
    "account_id",
    "game_type",
    "place",
    "mode",
    "xp",
    "podium",
    "friendly_points",
    "friendly_week",
    "daily_score",
    "fact_no",
    "finished_us",
)
LEAVER_COLUMNS: Final = ("game_id", "account_id", "fact_no", "finished_us")

_ADD_RESULTS: Final = f"""
    with fresh as (
        insert into seat_result (build, {", ".join(RESULT_COLUMNS)})
        select $1, result.*
        from unnest(
            $2::uuid[], $3::int[], $4::uuid[], $5::text[], $6::int[], $7::text[], $8::int[], $9::boolean[], $10::int[],
            $11::date[], $12::int[], $13::bigint[], $14::bigint[]
        ) as result
        on conflict do nothing
        returning game_id, seat, account_id, game_type, place
    ), counted as (
        insert into place_count (build, account_id, game_type, place, games)
        select $1, account_id, game_type, place, count(*) from fresh group by account_id, game_type, place
        -- In one order, so that nobody waits for each other.
        order by account_id, game_type, place
        on conflict (build, account_id, game_type, place) do update set games = place_count.games + excluded.games
    )
    select game_id, seat from fresh"""
_ADD_LEAVERS: Final = f"""
    insert into left_game (build, {", ".join(LEAVER_COLUMNS)})
    select $1, l.* from unnest($2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[]) as l
    on conflict do nothing
    returning game_id, account_id"""
_PROGRESS: Final = """
    select account_id, xp, last_fact, last_podium, before_fact, before_podium
    from progress where build = $1 and account_id = any($2)"""
_PUT_PROGRESS: Final = """
    insert into progress (build, account_id, xp, last_fact, last_podium, before_fact, before_podium)
    select $1, p.*
    from unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bigint[], $7::boolean[]) as p
    on conflict (build, account_id) do update set
        xp = excluded.xp,
        last_fact = excluded.last_fact, last_podium = excluded.last_podium,
        before_fact = excluded.before_fact, before_podium = excluded.before_podium"""
_ADD_ATTEMPTS: Final = """
    insert into daily_attempt (build, account_id, day, game_type, fact_no, game_id)
    select distinct on (a.account_id, a.day, a.game_type) $1, a.*
    from unnest($2::uuid[], $3::date[], $4::text[], $5::bigint[], $6::uuid[])
        as a (account_id, day, game_type, fact_no, game_id)
    order by a.account_id, a.day, a.game_type, a.fact_no
    on conflict (build, account_id, day, game_type) do update set fact_no = excluded.fact_no, game_id = excluded.game_id
    where excluded.fact_no < daily_attempt.fact_no"""


@value
class Attempt:
    """An account began a daily."""

    account_id: UUID
    day: date
    game_type: str
    game_id: UUID
    fact: int


class Played(NamedTuple):
    """A finished game, and the week of friendly tables that it counts in."""

    game: FinishedGame
    week: date


class Advance(NamedTuple):
    """What an account had reached before, and what it has now."""

    account_id: UUID
    before: Progress
    after: Progress


class Added(NamedTuple):
    """What was new."""

    advances: list[Advance]
    # Scores that are to be made anew.
    touched: Touched


async def add_games(session: Session, build: int, played: Iterable[Played], terms: Terms) -> Added:
    """Count finished games, each account's part unless it is there already."""
    rows, left = [], []
    for game, week in played:
        rows += [(game, week, result) for result in results(game, terms)]
        left += [(game, account) for account in leavers(game)]
    fresh = await session.fetch(_ADD_RESULTS, build, *_columns(starmap(result_row, rows))) if rows else []
    fresh_seats = {(record["game_id"], record["seat"]) for record in fresh}
    fresh_left = await session.fetch(_ADD_LEAVERS, build, *_columns(starmap(leaver_row, left))) if left else []
    left_now = {(record["game_id"], record["account_id"]) for record in fresh_left}

    xp: dict[UUID, int] = {}
    outcomes: dict[UUID, list[Outcome]] = {}
    touched: Touched = set()
    for game, week, result in rows:
        if (game.game_id, result.seat) not in fresh_seats:
            continue
        # A game that is told twice at once is one.
        fresh_seats.remove((game.game_id, result.seat))
        account = result.account_id
        xp[account] = xp.get(account, 0) + result.xp
        if result.podium is not None:
            outcomes.setdefault(account, []).append(Outcome(game.fact, result.podium))
        if result.friendly_points:
            touched.add(FriendlyScore(account, week))
        if result.daily_score is not None and game.day is not None:
            touched.add(DailyScore(account, game.day, game.game_type))
    for game, account in left:
        if (game.game_id, account) in left_now:
            left_now.remove((game.game_id, account))
            outcomes.setdefault(account, []).append(Outcome(game.fact, podium=False))
    return Added(await _advance(session, build, xp, outcomes), touched)


async def add_attempts(session: Session, build: int, attempts: Sequence[Attempt]) -> Touched:
    """Keep which attempts at dailies were the first."""
    if attempts:
        await session.execute(
            _ADD_ATTEMPTS,
            build,
            [attempt.account_id for attempt in attempts],
            [attempt.day for attempt in attempts],
            [attempt.game_type for attempt in attempts],
            [attempt.fact for attempt in attempts],
            [attempt.game_id for attempt in attempts],
        )
    return {DailyScore(attempt.account_id, attempt.day, attempt.game_type) for attempt in attempts}


async def _advance(
    session: Session, build: int, xp: dict[UUID, int], outcomes: dict[UUID, list[Outcome]]
) -> list[Advance]:
    accounts = sorted(xp.keys() | outcomes.keys())
    if not accounts:
        return []
    reached = {row["account_id"]: _progress(*row) for row in await session.fetch(_PROGRESS, build, accounts)}
    advances = []
    for account in accounts:
        before = reached.get(account, Progress())
        advances.append(Advance(account, before, add(before, xp.get(account, 0), outcomes.get(account, ()))))
    await session.execute(_PUT_PROGRESS, build, *_columns(map(_progress_row, advances)))
    return advances


def _columns(rows: Iterable[tuple[object, ...]]) -> Iterable[tuple[object, ...]]:
    return zip(*rows, strict=True)


def _progress(
    account_id: UUID,
    xp: int,
    last_fact: int | None,
    last_podium: bool | None,
    before_fact: int | None,
    before_podium: bool | None,
) -> Progress:
    pairs = ((last_fact, last_podium), (before_fact, before_podium))
    return Progress(xp, tuple(Outcome(fact, bool(podium)) for fact, podium in pairs if fact is not None))


def _progress_row(advance: Advance) -> tuple[object, ...]:
    after = advance.after
    outcomes = [part for outcome in after.outcomes for part in (outcome.fact, outcome.podium)]
    return (advance.account_id, after.xp, *outcomes, *[None] * (4 - len(outcomes)))


def result_row(game: FinishedGame, week: date, result: Result) -> tuple[object, ...]:
    """The values of `RESULT_COLUMNS`."""
    return (
        game.game_id,
        result.seat,
        result.account_id,
        game.game_type,
        result.place,
        game.mode.value,
        result.xp,
        result.podium,
        result.friendly_points,
        week,
        result.daily_score,
        game.fact,
        game.finished_at_us,
    )


def leaver_row(game: FinishedGame, account: UUID) -> tuple[object, ...]:
    """The values of `LEAVER_COLUMNS`."""
    return game.game_id, account, game.fact, game.finished_at_us
