"""How a replica tells the one that forms a pool's tables what it has changed: over NATS, at once where that is us."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from chassis.bus import Outbox
from services.matchmaker.app.forming import Former
from services.matchmaker.domain.quick_play import Pool

# A pool's changes: the ids of accounts, 16 bytes each.
SUBJECT: Final = "levata.matchmaker.changed.{game_type}.{variant}"
ALL: Final = "levata.matchmaker.changed.*.*"
ID_BYTES: Final = 16


class NatsReplicas:
    """Implements `app.ports.Replicas`. What is lost is found when the pool is read anew."""

    def __init__(self, nats: Client, outbox: Outbox) -> None:
        self._nats = nats
        self._outbox = outbox
        self._formers: Mapping[Pool, Former] = {}
        self._subscription: Subscription | None = None

    async def start(self, formers: Mapping[Pool, Former]) -> None:
        """Hand on to `formers` what is told."""
        self._formers = formers
        self._subscription = await self._nats.subscribe(ALL, cb=self._hear)

    def changed(self, pool: Pool, account: UUID) -> None:
        """The account's ticket is not what it was."""
        former = self._formers.get(pool)
        if former is not None and former.has_turn:
            former.changed([account])
        else:
            self._outbox.send(SUBJECT.format(game_type=pool.game_type, variant=pool.variant), account.bytes)

    async def _hear(self, message: Msg) -> None:
        *_, game_type, variant = message.subject.split(".")
        former = self._formers.get(Pool(game_type, variant))
        if former is not None and len(message.data) % ID_BYTES == 0:
            starts = range(0, len(message.data), ID_BYTES)
            former.changed(UUID(bytes=message.data[start : start + ID_BYTES]) for start in starts)
