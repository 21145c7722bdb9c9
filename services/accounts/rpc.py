"""The accounts service's API: messages in, use cases, messages out."""

from typing import Final
from uuid import UUID

from levata.accounts.v1 import accounts_pb2

from chassis.rpc import Access, Call, Server
from services.accounts.app import Accounts
from services.accounts.domain import Account

_SERVICE: Final = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]
_ACCESS: Final = {"CreateGuest": Access.PUBLIC, "GetSelf": Access.PLAYER}


def serve(server: Server, accounts: Accounts) -> None:
    """Add the accounts service's API to a server."""
    server.add(_SERVICE, AccountsApi(accounts), _ACCESS)


class AccountsApi:
    """levata.accounts.v1.Accounts."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def create_guest(
        self, request: accounts_pb2.CreateGuestRequest, call: Call
    ) -> accounts_pb2.CreateGuestResponse:
        account = await self._accounts.create_guest(UUID(request.request_id))
        token, expires_at_ms = self._accounts.token_for(account)
        return accounts_pb2.CreateGuestResponse(
            account=_message(account), access_token=token, expires_at_ms=expires_at_ms
        )

    async def get_self(self, request: accounts_pb2.GetSelfRequest, call: Call) -> accounts_pb2.GetSelfResponse:
        account = await self._accounts.account(UUID(call.who.subject))
        return accounts_pb2.GetSelfResponse(account=_message(account))


def _message(account: Account) -> accounts_pb2.Account:
    return accounts_pb2.Account(account_id=str(account.account_id), name=account.name, guest=account.guest)
