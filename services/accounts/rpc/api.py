"""levata.accounts.v1: the public calls, and those of other services."""

from typing import Final, TypedDict
from uuid import UUID

import grpc
from levata.accounts.v1 import accounts_pb2, devices_pb2

from chassis.auth import Role
from chassis.errors import Refused
from chassis.rpc import Access, Call, Server
from services.accounts.app.profiles import Profiles
from services.accounts.app.sessions import Sessions
from services.accounts.app.signing_in import Before, SigningIn
from services.accounts.app.tokens import SignedIn
from services.accounts.domain.account import Account
from services.accounts.domain.sessions import Device, Session
from services.accounts.rpc.ranks import RemoteRanks

_ACCOUNTS: Final = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]
_DEVICES: Final = devices_pb2.DESCRIPTOR.services_by_name["Devices"]
_WITHOUT_TOKEN: Final = frozenset({"CreateGuest", "RequestCode", "VerifyCode", "Refresh", "GetProfile"})
_ACCESS: Final = {
    method.name: Access.PUBLIC if method.name in _WITHOUT_TOKEN else Access.PLAYER for method in _ACCOUNTS.methods
}

# Who seats people.
_DEVICES_ACCESS: Final = Access.by("matchmaker")


def serve(server: Server, signing_in: SigningIn, sessions: Sessions, profiles: Profiles, ranks: RemoteRanks) -> None:
    """Add the accounts service's API to a server."""
    server.add(_ACCOUNTS, AccountsApi(signing_in, sessions, profiles, ranks), _ACCESS)
    server.add(_DEVICES, DevicesApi(sessions), _DEVICES_ACCESS)


class AccountsApi:
    """levata.accounts.v1.Accounts."""

    def __init__(self, signing_in: SigningIn, sessions: Sessions, profiles: Profiles, ranks: RemoteRanks) -> None:
        self._signing_in = signing_in
        self._sessions = sessions
        self._profiles = profiles
        self._ranks = ranks

    # Signing in

    async def create_guest(
        self, request: accounts_pb2.CreateGuestRequest, call: Call
    ) -> accounts_pb2.CreateGuestResponse:
        signed_in = await self._signing_in.create_guest(UUID(request.request_id), _device(request.device))
        return accounts_pb2.CreateGuestResponse(**_fields(signed_in))

    async def request_code(
        self, request: accounts_pb2.RequestCodeRequest, call: Call
    ) -> accounts_pb2.RequestCodeResponse:
        expires_at_ms = await self._signing_in.request_code(request.address, request.language, call.peer)
        return accounts_pb2.RequestCodeResponse(expires_at_ms=expires_at_ms)

    async def verify_code(self, request: accounts_pb2.VerifyCodeRequest, call: Call) -> accounts_pb2.VerifyCodeResponse:
        signed_in = await self._signing_in.verify_code(
            request.address, request.code, UUID(request.request_id), _device(request.device), _before(call)
        )
        return accounts_pb2.VerifyCodeResponse(**_fields(signed_in))

    # Sessions

    async def refresh(self, request: accounts_pb2.RefreshRequest, call: Call) -> accounts_pb2.RefreshResponse:
        signed_in = await self._sessions.refresh(request.refresh_token, UUID(request.request_id))
        return accounts_pb2.RefreshResponse(**_fields(signed_in))

    async def list_sessions(
        self, request: accounts_pb2.ListSessionsRequest, call: Call
    ) -> accounts_pb2.ListSessionsResponse:
        sessions = await self._sessions.live(_caller(call))
        return accounts_pb2.ListSessionsResponse(
            sessions=[_session_message(session, current=call.who.session) for session in sessions]
        )

    async def end_session(self, request: accounts_pb2.EndSessionRequest, call: Call) -> accounts_pb2.EndSessionResponse:
        await self._sessions.end(_caller(call), UUID(request.session_id or call.who.session))
        return accounts_pb2.EndSessionResponse()

    async def sign_out_everywhere(
        self, request: accounts_pb2.SignOutEverywhereRequest, call: Call
    ) -> accounts_pb2.SignOutEverywhereResponse:
        return accounts_pb2.SignOutEverywhereResponse(sessions_ended=await self._sessions.end_all(_caller(call)))

    # Accounts

    async def get_self(self, request: accounts_pb2.GetSelfRequest, call: Call) -> accounts_pb2.GetSelfResponse:
        return accounts_pb2.GetSelfResponse(account=_message(await self._profiles.account(_caller(call))))

    async def change_name(self, request: accounts_pb2.ChangeNameRequest, call: Call) -> accounts_pb2.ChangeNameResponse:
        account = await self._profiles.change_name(_caller(call), request.name)
        return accounts_pb2.ChangeNameResponse(account=_message(account))

    async def get_profile(self, request: accounts_pb2.GetProfileRequest, call: Call) -> accounts_pb2.GetProfileResponse:
        account, weekdays, vip_today = await self._profiles.profile(UUID(request.account_id))
        profile = accounts_pb2.GetProfileResponse(
            account_id=str(account.account_id),
            name=account.name,
            registered=not account.guest,
            vip_weekdays=[weekday + 1 for weekday in weekdays],
            vip_today=vip_today,
        )
        rank = await self._ranks.of(account.account_id)
        if rank is not None:
            profile.level, profile.streak = rank.level, rank.streak
            # A word of Python's.
            setattr(profile, "class", getattr(rank, "class"))
        return profile

    async def export_data(self, request: accounts_pb2.ExportDataRequest, call: Call) -> accounts_pb2.ExportDataResponse:
        return accounts_pb2.ExportDataResponse(json=await self._profiles.export(_caller(call)))

    async def delete_account(
        self, request: accounts_pb2.DeleteAccountRequest, call: Call
    ) -> accounts_pb2.DeleteAccountResponse:
        await self._profiles.delete(_caller(call))
        return accounts_pb2.DeleteAccountResponse()


class DevicesApi:
    """levata.accounts.v1.Devices."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def shared_devices(
        self, request: devices_pb2.SharedDevicesRequest, call: Call
    ) -> devices_pb2.SharedDevicesResponse:
        pairs = await self._sessions.shared_devices([UUID(account_id) for account_id in request.account_ids])
        return devices_pb2.SharedDevicesResponse(pairs=map(_pair, pairs))

    async def companions(self, request: devices_pb2.CompanionsRequest, call: Call) -> devices_pb2.CompanionsResponse:
        pairs = await self._sessions.companions([UUID(account_id) for account_id in request.account_ids])
        return devices_pb2.CompanionsResponse(pairs=map(_pair, pairs))


def _pair(accounts: tuple[UUID, UUID]) -> devices_pb2.AccountPair:
    one, other = accounts
    return devices_pb2.AccountPair(first_account_id=str(one), second_account_id=str(other))


def _caller(call: Call) -> UUID:
    return UUID(call.who.subject)


def _before(call: Call) -> Before | None:
    """As whom one is signed in when one signs in, a guest most of all.

    A token that proves nothing any more is refused: the guest would lose its history to a new account.
    """
    if call.caller is None:
        if any(key == "authorization" for key, _ in call.context.invocation_metadata() or ()):
            raise Refused(
                "TOKEN_INVALID",
                grpc.StatusCode.UNAUTHENTICATED,
                "The access token is not valid any more: refresh it, or sign in without one.",
            )
        return None
    if call.caller.role is not Role.PLAYER:
        return None
    session = call.caller.session
    return Before(UUID(call.caller.subject), UUID(session) if session else None)


def _device(device: accounts_pb2.Device) -> Device:
    return Device(device.device_id.lower(), device.name)


class _Fields(TypedDict):
    """What every answer with tokens holds."""

    account: accounts_pb2.Account
    access_token: str
    expires_at_ms: int
    refresh_token: str
    refresh_expires_at_ms: int
    session_id: str


def _fields(signed_in: SignedIn) -> _Fields:
    return _Fields(
        account=_message(signed_in.account),
        access_token=signed_in.access_token,
        expires_at_ms=signed_in.expires_at_ms,
        refresh_token=signed_in.refresh_token,
        refresh_expires_at_ms=signed_in.refresh_expires_at_ms,
        session_id=signed_in.session_id,
    )


def _message(account: Account) -> accounts_pb2.Account:
    return accounts_pb2.Account(account_id=str(account.account_id), name=account.name, guest=account.guest)


def _session_message(session: Session, *, current: str) -> accounts_pb2.Session:
    return accounts_pb2.Session(
        session_id=str(session.session_id),
        device_name=session.device.name,
        created_at_ms=session.created_at_ms,
        seen_at_ms=session.seen_at_ms,
        current=str(session.session_id) == current,
    )
