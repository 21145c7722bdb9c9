"""What tests of accounts share: the service's settings, and phones that sign in."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
from google.rpc import error_details_pb2
from levata.accounts.v1 import accounts_pb2, facts_pb2

from chassis.auth import Caller, KeyFiles, Verifier
from chassis.errors import reason_of, status_of
from chassis.rpc import channel, stub
from chassis.settings import Address
from services.accounts.domain.addresses import normalised
from services.accounts.domain.codes import code_of
from services.accounts.settings import AccountsSettings
from tests.conftest import Database
from tools.data import DataFolder
from tools.up.servers import told_besides
from tools.up.service import KINDS

ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]
_peers = count(1)


def accounts_settings(database: Database, keys: KeyFiles, folder: Path, **more: Any) -> AccountsSettings:
    """The service's settings, on a free port."""
    told = told_besides(KINDS["accounts"], DataFolder(folder))
    return AccountsSettings(
        service_name="accounts",
        listen=Address("127.0.0.1", 0),
        postgres_dsn=database.dsn("accounts"),
        jwks_file=keys.jwks,
        signing_key_file=keys.signing_key,
        secret_file=Path(told["LEVATA_SECRET_FILE"]),
        mail_url=told["LEVATA_MAIL_URL"],
        **more,
    )


@dataclass
class World:
    """An accounts service, and what is needed to look at it from within."""

    settings: AccountsSettings
    database: Database
    verifier: Verifier
    address: str

    def phone(self, at: str = "") -> "Phone":
        """A new device, behind an address of its own; `at` is another replica."""
        return Phone(self, at or self.address)

    async def code(self, address: str) -> str:
        """The code that was mailed to an address last."""
        [(code_id,)] = await self.rows("select code_id from sign_in_code where address = $1", normalised(address))
        return code_of(self.settings.secret(), code_id)

    async def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Query, or change something, with the service's own role."""
        return await self._fetch(self.database.dsn("accounts"), query, *arguments)

    async def as_admin(self, query: str, *arguments: object) -> None:
        """Change something that no service may."""
        await self._fetch(self.database.admin_dsn, query, *arguments)

    async def facts(self, account_id: str = "") -> list[facts_pb2.AccountFact]:
        """All facts so far, or those of one account."""
        rows = await self.rows("select subject, payload from facts order by fact_no")
        facts = [(subject, facts_pb2.AccountFact.FromString(payload)) for subject, payload in rows]
        for subject, fact in facts:
            assert subject == f"levata.accounts.{fact.WhichOneof('kind')}.{fact.account_id}"
        return [fact for _, fact in facts if account_id in ("", fact.account_id)]

    async def kinds(self, account_id: str) -> list[str]:
        """What was told of an account, in order."""
        return [str(fact.WhichOneof("kind")) for fact in await self.facts(account_id)]

    async def later(self, seconds: float) -> None:
        """Let time pass."""
        await self.as_admin("update accounts.clock_offset set amount = amount + $1 * interval '1 second'", seconds)

    @staticmethod
    async def _fetch(dsn: str, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(dsn)
        try:
            return [tuple(row) for row in await connection.fetch(query, *arguments)]
        finally:
            await connection.close()


@dataclass
class Phone:
    """A device: it keeps what it is given, and shows its access token with every call."""

    world: World
    at: str
    device: accounts_pb2.Device = field(
        default_factory=lambda: accounts_pb2.Device(device_id=str(uuid4()), name="a phone")
    )
    # As the edge would tell.
    peer: str = field(default_factory=lambda: f"10.{next(_peers)}.0.1")
    # Of the last answer with tokens.
    got: Any = None

    async def call(self, method: str, request: Any, *, token: str | None = None) -> Any:
        """Make a call with the access token that one has, or another."""
        token = (self.got.access_token if self.got else "") if token is None else token
        metadata = [("x-forwarded-for", self.peer)] + ([("authorization", f"Bearer {token}")] if token else [])
        async with channel(self.at) as opened:
            return await getattr(stub(opened, ACCOUNTS), method)(request, metadata=metadata, timeout=20)

    async def guest(self, request_id: UUID | None = None) -> Any:
        """Become a guest."""
        request = accounts_pb2.CreateGuestRequest(request_id=str(request_id or uuid4()), device=self.device)
        self.got = await self.call("CreateGuest", request, token="")
        return self.got

    async def request_code(self, address: str, language: str = "") -> Any:
        """Have a code mailed."""
        request = accounts_pb2.RequestCodeRequest(address=address, language=language)
        return await self.call("RequestCode", request, token="")

    async def verify(self, address: str, code: str, request_id: UUID | None = None) -> Any:
        """Sign in with a code."""
        request = accounts_pb2.VerifyCodeRequest(
            address=address, code=code, request_id=str(request_id or uuid4()), device=self.device
        )
        self.got = await self.call("VerifyCode", request)
        return self.got

    async def sign_in(self, address: str) -> Any:
        """Sign in, from the first step to the last."""
        await self.request_code(address)
        return await self.verify(address, await self.world.code(address))

    async def refresh(self, request_id: UUID | None = None, token: str = "") -> Any:
        """New tokens for the refresh token that one has, or another."""
        request = accounts_pb2.RefreshRequest(
            refresh_token=token or self.got.refresh_token, request_id=str(request_id or uuid4())
        )
        self.got = await self.call("Refresh", request, token="")
        return self.got

    async def rename(self, name: str) -> Any:
        """Choose a name."""
        return await self.call("ChangeName", accounts_pb2.ChangeNameRequest(name=name))

    async def sessions(self) -> list[accounts_pb2.Session]:
        """One's sessions."""
        return list((await self.call("ListSessions", accounts_pb2.ListSessionsRequest())).sessions)

    async def whoami(self) -> accounts_pb2.Account:
        """One's account."""
        account: accounts_pb2.Account = (await self.call("GetSelf", accounts_pb2.GetSelfRequest())).account
        return account

    @property
    def caller(self) -> Caller:
        """Who the access token says one is."""
        return self.world.verifier.verify(self.got.access_token)


class Refusal:
    """What a call was refused with, once the block has been left."""

    code: grpc.StatusCode
    metadata: dict[str, str]


@contextmanager
def refused(*reasons: str) -> Iterator[Refusal]:
    """The call in the block is refused for this reason, or one of these."""
    refusal = Refusal()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield refusal
    reason = reason_of(caught.value)
    assert reason in reasons, caught.value.details()
    status, info = status_of(caught.value), error_details_pb2.ErrorInfo()
    assert status is not None
    assert status.details[0].Unpack(info)
    refusal.code, refusal.metadata = caught.value.code(), dict(info.metadata)


async def outcomes(*calls: Any) -> tuple[list[Any], list[str | None]]:
    """What calls made at once have brought: their answers, and the reasons of those that were refused."""
    done = await asyncio.gather(*calls, return_exceptions=True)
    errors = [each for each in done if isinstance(each, BaseException)]
    assert all(isinstance(error, grpc.aio.AioRpcError) for error in errors), errors
    reasons = [reason_of(error) for error in errors if isinstance(error, grpc.aio.AioRpcError)]
    return [each for each in done if not isinstance(each, BaseException)], reasons
