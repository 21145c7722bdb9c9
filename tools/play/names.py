"""What the people at a table are called."""

import asyncio
from collections.abc import Iterable
from typing import Final

import grpc
from levata.accounts.v1 import accounts_pb2

from chassis import rpc

# A name is worth a moment, and no more.
ASK_SECONDS: Final = 2.0


class Names:
    """Names of accounts, each asked for once."""

    def __init__(self) -> None:
        # By account id; a signed-in player's has a tick.
        self.known: dict[str, str] = {}

    async def learn(self, accounts: rpc.Stub, account_ids: Iterable[str]) -> None:
        """Ask the accounts service for those that are not known; who cannot be asked for now stays unknown."""
        await asyncio.gather(*(self._ask(accounts, account_id) for account_id in {*account_ids} - {*self.known, ""}))

    async def _ask(self, accounts: rpc.Stub, account_id: str) -> None:
        request = accounts_pb2.GetProfileRequest(account_id=account_id)
        try:
            profile: accounts_pb2.GetProfileResponse = await accounts.GetProfile(request, timeout=ASK_SECONDS)
        except grpc.aio.AioRpcError:
            return
        self.known[account_id] = f"{profile.name} ✓" if profile.registered else profile.name
