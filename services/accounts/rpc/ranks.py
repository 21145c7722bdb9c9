"""The league, asked what accounts have reached: that stands beside the name at a table."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import grpc
import structlog
from levata.league.v1 import standings_pb2

from chassis.errors import in_a_line
from chassis.gathered import Gathered
from chassis.peers import Peers

log = structlog.get_logger(__name__)

# A profile without it is better than a late one.
ASK_SECONDS: Final = 1.0


class RemoteRanks:
    """The league over gRPC. Who asks at the same time, as for the players of a table, is answered by one call."""

    def __init__(self, league: Peers | None) -> None:
        """Without a league nothing is known of anybody."""
        self._league = league
        self._gathered = Gathered(self._read)

    async def of(self, account_id: UUID) -> standings_pb2.Rank | None:
        """What an account has reached; None while the league cannot tell."""
        if self._league is None:
            return None
        try:
            return await self._gathered.of(account_id)
        except grpc.aio.AioRpcError as error:
            log.warning("a profile is told without a rank", error=in_a_line(error))
            return None

    async def _read(self, accounts: Sequence[UUID]) -> dict[UUID, standings_pb2.Rank]:
        assert self._league is not None, "nobody asks without a league"
        request = standings_pb2.RanksRequest(account_ids=map(str, accounts))
        answer: standings_pb2.RanksResponse = await self._league.ask("Ranks", request, ASK_SECONDS)
        return dict(zip(accounts, answer.ranks, strict=True))
