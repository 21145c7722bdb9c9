"""What belongs to an account: its name, what others may see of it, its data, and its end."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from uuid import UUID

import grpc

from chassis.clock import Clock
from chassis.errors import Refused
from rules.vip import vip_weekdays
from services.accounts.app.errors import account_not_found
from services.accounts.app.ports import Store
from services.accounts.app.tokens import Tokens
from services.accounts.domain.account import Account, Deleted, Renamed
from services.accounts.domain.names import NameFault, chosen_name


class Profile(NamedTuple):
    """What everybody may see of an account."""

    account: Account
    # 0 is Monday.
    vip_weekdays: tuple[int, int]
    vip_today: bool


class Profiles:
    """Looks after accounts."""

    def __init__(self, store: Store, tokens: Tokens, clock: Clock, time_zone: tzinfo) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock
        self._time_zone = time_zone

    async def account(self, account_id: UUID) -> Account:
        """An account by its id."""
        account = (await self._store.accounts([account_id])).get(account_id)
        if account is None:
            raise account_not_found()
        return account

    async def profile(self, account_id: UUID) -> Profile:
        """What everybody may see of an account."""
        return self._profile(await self.account(account_id))

    async def profiles(self, account_ids: Sequence[UUID]) -> dict[UUID, Profile]:
        """The same of many, without those that are no more."""
        accounts = await self._store.accounts(account_ids)
        return {account_id: self._profile(account) for account_id, account in accounts.items()}

    async def change_name(self, account_id: UUID, wish: str) -> Account:
        """Give an account another name."""
        name = chosen_name(wish)
        if isinstance(name, NameFault):
            raise Refused("NAME_INVALID", grpc.StatusCode.INVALID_ARGUMENT, name.value, {"rule": name.name})
        async with self._store.transaction() as transaction:
            account = await transaction.lock_account(account_id)
            if account is None:
                raise account_not_found()
            if account.guest:
                raise Refused(
                    "REGISTERED_ONLY", grpc.StatusCode.PERMISSION_DENIED, "Guests sign in with an address before."
                )
            if account.name == name.text:
                return account
            if not await transaction.set_name(account_id, name):
                raise Refused("NAME_TAKEN", grpc.StatusCode.ALREADY_EXISTS, "Another account's name looks like this.")
            await transaction.publish(Renamed(account_id))
        return Account(account_id, name.text, guest=False)

    async def export(self, account_id: UUID) -> str:
        """All that is kept here about an account, as JSON."""
        stored = await self._store.stored(account_id)
        if stored is None:
            raise account_not_found()
        expires_at_ms = stored.code_expires_at_ms
        return json.dumps(
            {
                "account_id": str(account_id),
                "name": stored.account.name,
                "guest": stored.account.guest,
                "address": stored.address,
                "created_at": _iso(stored.created_at_ms),
                "sign_in_code": None if expires_at_ms is None else {"expires_at": _iso(expires_at_ms)},
                "mails_waiting": stored.mails_waiting,
                "sessions": [
                    {
                        "session_id": str(session.session_id),
                        "device_id": session.device.device_id,
                        "device_name": session.device.name,
                        "created_at": _iso(session.created_at_ms),
                        "seen_at": _iso(session.seen_at_ms),
                        "ended_at": None if session.ended_at_ms is None else _iso(session.ended_at_ms),
                    }
                    for session in stored.sessions
                ],
            },
            ensure_ascii=False,
            indent=2,
        )

    async def delete(self, account_id: UUID) -> None:
        """Delete an account for good."""
        async with self._store.transaction() as transaction:
            if await transaction.lock_to_delete(account_id) is None:
                raise account_not_found()
            ended = await transaction.end_sessions(account_id)
            await transaction.delete_account(account_id)
            revoked = (self._tokens.revoked(account_id, session_id) for session_id in ended)
            await transaction.publish(*revoked, Deleted(account_id))

    def _profile(self, account: Account) -> Profile:
        weekdays = vip_weekdays(account.account_id)
        today = datetime.fromtimestamp(self._clock.now_s(), self._time_zone).weekday()
        return Profile(account, weekdays, today in weekdays)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
