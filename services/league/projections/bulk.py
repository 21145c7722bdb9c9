"""Statements about all of a build, of millions of rows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from chassis.database import Session

BULK_SECONDS: Final = 300
_SETTINGS: Final = f"""
    set local statement_timeout = '{BULK_SECONDS}s';
    set local idle_in_transaction_session_timeout = '{BULK_SECONDS}s';
    -- Sorts and hashes in memory.
    set local work_mem = '128MB';
    set local maintenance_work_mem = '128MB';"""
_NOT_DURABLE: Final = "set local synchronous_commit = off"


@asynccontextmanager
async def bulk(session: Session, *, durable: bool = True) -> AsyncIterator[None]:
    """A transaction that may take its time.

    What is not durable may be lost when the server stops: a build counts only once it was switched to, which is, and
    with it all that was committed before.
    """
    async with session.transaction():
        await session.execute(_SETTINGS if durable else _SETTINGS + _NOT_DURABLE)
        yield
