"""What accounts have, told to their clients after it has changed."""

import asyncio
from collections.abc import Collection
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

import structlog

from chassis.errors import in_a_line
from chassis.tasks import end
from services.ledger.app.ports import Balances, Owned

log = structlog.get_logger(__name__)

ACCOUNTS_AT_ONCE: Final = 256
# Accounts that wait to be told; more are left out: clients are shown a snapshot now and then in any case.
WAITING_ACCOUNTS_MAX: Final = 20_000
PAUSE_SECONDS: Final = 0.5
# After a reading: what moves meanwhile is read together. Who moves money must not notice that it is told.
BREATH_SECONDS: Final = 0.02


class Players(Protocol):
    """Clients that may be watching."""

    def tell(self, owned: Owned) -> None:
        """Tell whoever watches this account. Does not wait, and may be lost."""
        ...


class News:
    """Reads again what accounts have whose money has moved, and tells it.

    Accounts that move while others are being read go together: however much moves, there are so many readings a second.
    """

    def __init__(self, balances: Balances, players: Players) -> None:
        self._balances = balances
        self._players = players
        self._waiting: dict[UUID, None] = {}
        self._something_waits = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to tell."""
        assert self._task is None, "started twice"
        self._task = asyncio.create_task(self._run(), name="news of balances")

    async def stop(self) -> None:
        """Tell nothing more."""
        if self._task is not None:
            await end(self._task)
            self._task = None

    def moved(self, accounts: Collection[UUID]) -> None:
        """What these accounts have may be another than before; call it after the commit."""
        if len(self._waiting) < WAITING_ACCOUNTS_MAX:
            self._waiting |= dict.fromkeys(accounts)
            self._something_waits.set()

    async def _run(self) -> None:
        while True:
            await self._something_waits.wait()
            self._something_waits.clear()
            while self._waiting:
                accounts = list(islice(self._waiting, ACCOUNTS_AT_ONCE))
                # Before they are read: what moves from now on is told once more.
                for account in accounts:
                    del self._waiting[account]
                try:
                    for owned in await self._balances.of(accounts):
                        self._players.tell(owned)
                    await asyncio.sleep(BREATH_SECONDS)
                except Exception as error:
                    log.warning("balances cannot be told now", error=in_a_line(error))
                    self.moved(accounts)
                    await asyncio.sleep(PAUSE_SECONDS)
