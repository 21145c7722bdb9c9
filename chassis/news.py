"""News of accounts: what has changed is read again after the commit, and told to their clients.

What is told may be lost: clients are shown a snapshot now and then in any case.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar
from uuid import UUID

import structlog

from chassis.errors import in_a_line
from chassis.tasks import end

T = TypeVar("T")

log = structlog.get_logger(__name__)

ACCOUNTS_AT_ONCE: Final = 256
# Accounts that wait to be told; more are left out: clients are shown a snapshot now and then in any case.
WAITING_ACCOUNTS_MAX: Final = 20_000
PAUSE_SECONDS: Final = 0.5
# After a reading: what changes meanwhile is read together. Who changes things must not notice that it is told.
BREATH_SECONDS: Final = 0.02


class News(Generic[T]):
    """Reads again what there is to tell of accounts for whom something has changed, and tells it.

    Accounts that change while others are being read go together: however much changes, there are so many readings a
    second.
    """

    def __init__(
        self, of: str, read: Callable[[Collection[UUID]], Awaitable[Sequence[T]]], tell: Callable[[T], None]
    ) -> None:
        """`tell` does not wait. `of` is what the log calls it."""
        self._of = of
        self._read = read
        self._tell = tell
        self._waiting: dict[UUID, None] = {}
        self._something_waits = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to tell."""
        assert self._task is None, "started twice"
        self._task = asyncio.create_task(self._run(), name=f"news of {self._of}")

    async def stop(self) -> None:
        """Tell nothing more."""
        if self._task is not None:
            await end(self._task)
            self._task = None

    def moved(self, accounts: Collection[UUID]) -> None:
        """What there is to tell of these accounts may be another than before; call it after the commit."""
        if len(self._waiting) < WAITING_ACCOUNTS_MAX:
            self._waiting |= dict.fromkeys(accounts)
            self._something_waits.set()

    async def _run(self) -> None:
        while True:
            await self._something_waits.wait()
            self._something_waits.clear()
            while self._waiting:
                accounts = list(islice(self._waiting, ACCOUNTS_AT_ONCE))
                # Before they are read: what changes from now on is told once more.
                for account in accounts:
                    del self._waiting[account]
                try:
                    for each in await self._read(accounts):
                        self._tell(each)
                    await asyncio.sleep(BREATH_SECONDS)
                except Exception as error:
                    log.warning("news cannot be told now", of=self._of, error=in_a_line(error))
                    self.moved(accounts)
                    await asyncio.sleep(PAUSE_SECONDS)
