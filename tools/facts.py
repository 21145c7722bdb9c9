"""`./levata facts`: what an operator sees of the facts that services hear from each other, and decides about.

`list` shows how far each consumer is and which facts are parked; `retry` has parked facts tried again, `discard`
decides that one shall have no effect. After a restore from a backup `restored` gives a service's log a new identity,
and `accept` lets a consumer go on with it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import asyncpg
import typer
from rich.console import Console
from rich.table import Table

from chassis.database import Session, session_settings
from chassis.facts import accept_incarnation, discard, request_retry
from chassis.schema import begin_incarnation
from tools.data import DEFAULT_DATA, DataFolder, NotRunning
from tools.databases import admin_dsn, service_dsn
from tools.migrate import SCHEMAS

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__, no_args_is_help=True)
console = Console(highlight=False)

NO_DATABASE: Final = "The database cannot be found: is ./levata up running on this folder?"


class Hearing(NamedTuple):
    """Who hears, and whose facts."""

    service: str
    source: str


# By the names that the consumers have in their service's schema.
CONSUMERS: Final = {
    "league": Hearing("league", "table"),
    "league-ledger": Hearing("league", "ledger"),
    "league-accounts": Hearing("league", "accounts"),
    "ledger": Hearing("ledger", "table"),
    "ledger-accounts": Hearing("ledger", "accounts"),
    "ledger-league": Hearing("ledger", "league"),
    "matchmaker": Hearing("matchmaker", "table"),
}

Data = Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")]
Consumer = Annotated[str, typer.Argument(help=f"One of {', '.join(CONSUMERS)}.")]

_CHECKPOINTS: Final = (
    "select consumer, source, incarnation, last, moved_at from consumer_checkpoint where consumer = $1"
)
_PARKED: Final = """
    select consumer, fact_no, key, subject, error, attempts, retry from parked_fact
    where consumer = $1 and discarded is null order by key, fact_no"""
# Since the incarnation that the consumer knew; all of them where it is not known here any more.
_BEGAN_AFTER: Final = """
    select min(began_after) from fact_incarnation
    where began_at > coalesce((select began_at from fact_incarnation where incarnation = $1), '-infinity')"""


class OperatorError(Exception):
    """What was asked for cannot be done; the message is a sentence."""


class Accepted(NamedTuple):
    """A consumer goes on with this incarnation, from this number on."""

    incarnation: UUID
    resume_after: int


@app.command("list")
def list_(data: Data = DEFAULT_DATA) -> None:
    """How far each consumer is, and the facts that are parked."""
    _run(data, _list)


@app.command()
def retry(
    consumer: Consumer,
    key: Annotated[str | None, typer.Argument(help="The game (account, week) whose facts wait; default all.")] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Have parked facts tried again, in order; the consumer does it within seconds."""

    async def work(folder: DataFolder) -> None:
        async with hearing(folder, consumer) as opened:
            count = await request_retry(opened, consumer, key)
        console.print(f"{count} parked facts are tried again within seconds." if count else "No such fact is parked.")

    _run(data, work)


@app.command("discard")
def discard_(
    consumer: Consumer,
    fact_no: Annotated[int, typer.Argument(help="The fact's number.")],
    reason: Annotated[str, typer.Option(help="Why it shall have no effect; it is kept.")],
    data: Data = DEFAULT_DATA,
) -> None:
    """Decide that a parked fact shall have no effect; those behind it are tried."""

    async def work(folder: DataFolder) -> None:
        async with hearing(folder, consumer) as opened:
            if not await discard(opened, consumer, fact_no, reason):
                raise OperatorError(f"Fact {fact_no} is not parked at {consumer}.")
        console.print(f"Fact {fact_no} has no effect at {consumer}; those behind it are tried.")

    _run(data, work)


@app.command()
def restored(
    service: Annotated[str, typer.Argument(help=f"One of {', '.join(SCHEMAS)}.")], data: Data = DEFAULT_DATA
) -> None:
    """Give a service's log a new identity, the first act after its restore: its numbers may be given a second time."""

    async def work(folder: DataFolder) -> None:
        dsn = admin_dsn(folder)
        if service not in SCHEMAS:
            raise OperatorError(f"There is no service {service!r}, but {', '.join(SCHEMAS)}.")
        if dsn is None:
            raise OperatorError(NO_DATABASE)
        begun = await asyncio.to_thread(begin_incarnation, dsn, SCHEMAS[service].name)
        console.print(f"The log of {service} is {begun.id} after fact {begun.began_after}; its consumers wait for you.")

    _run(data, work)


@app.command()
def accept(consumer: Consumer, data: Data = DEFAULT_DATA) -> None:
    """Let a consumer go on with the log as it is, after its owner was restored from a backup."""

    async def work(folder: DataFolder) -> None:
        accepted = await accept_current(folder, consumer)
        console.print(f"{consumer} goes on with {accepted.incarnation} after fact {accepted.resume_after}.")
        console.print("Its projection may hold effects of facts that are gone: compare with ./levata rebuild.")

    _run(data, work)


async def accept_current(folder: DataFolder, consumer: str) -> Accepted:
    """Accept the incarnation that the consumer's source has now."""
    async with hearing(folder, consumer) as own, session(folder, CONSUMERS[consumer].source) as source:
        known = await own.fetchval("select incarnation from consumer_checkpoint where consumer = $1", consumer)
        incarnation = await source.fetchval("select incarnation from fact_head")
        if known == incarnation:
            raise OperatorError(f"{consumer} knows this incarnation; there is nothing to accept.")
        accepted = Accepted(incarnation, await source.fetchval(_BEGAN_AFTER, known))
        await accept_incarnation(own, consumer, *accepted)
    return accepted


async def _list(folder: DataFolder) -> None:
    checkpoints = Table("consumer", "hears", "incarnation", "last fact", "head", "moved", title="Consumers")
    parked = Table("consumer", "fact", "key", "subject", "attempts", "error", title="Parked facts")
    for consumer, (service, source) in CONSUMERS.items():
        async with session(folder, service) as own, session(folder, source) as owner:
            head = await owner.fetchval("select last from fact_head")
            for row in await own.fetch(_CHECKPOINTS, consumer):
                moved = row["moved_at"].isoformat(sep=" ", timespec="seconds")
                checkpoints.add_row(
                    row["consumer"], row["source"], str(row["incarnation"]), str(row["last"]), str(head), moved
                )
            for row in await own.fetch(_PARKED, consumer):
                error = row["error"] or "waits behind the one before"
                parked.add_row(
                    row["consumer"], str(row["fact_no"]), row["key"], row["subject"], str(row["attempts"]), error
                )
    console.print(checkpoints)
    console.print(parked if parked.row_count else "No fact is parked.")


def hearing(folder: DataFolder, consumer: str) -> AbstractAsyncContextManager[Session]:
    """A connection as the service whose consumer it is."""
    if consumer not in CONSUMERS:
        raise OperatorError(f"There is no consumer {consumer!r}, but {', '.join(CONSUMERS)}.")
    return session(folder, CONSUMERS[consumer].service)


@asynccontextmanager
async def session(folder: DataFolder, service: str) -> AsyncIterator[Session]:
    """A connection as a service's own role."""
    dsn = service_dsn(folder, service)
    if dsn is None:
        raise OperatorError(NO_DATABASE)
    connection = await asyncpg.connect(dsn, server_settings=session_settings("levata facts"))
    try:
        yield connection
    finally:
        await connection.close()


def _run(data: Path, work: Callable[[DataFolder], Coroutine[Any, Any, None]]) -> None:
    folder = DataFolder(data)
    try:
        folder.endpoints()
        asyncio.run(work(folder))
    except (NotRunning, OperatorError) as problem:
        raise SystemExit(str(problem)) from None
    except OSError as problem:
        raise SystemExit(f"The database cannot be reached: {problem}") from None
