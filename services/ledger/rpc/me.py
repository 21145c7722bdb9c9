"""What the ledger tells accounts of their money: `levata.me.v1.Snapshots`, and updates for their streams."""

from typing import Final
from uuid import UUID

from levata.ledger.v1 import ledger_pb2
from levata.me.v1 import me_pb2, updates_pb2

from chassis.bus import Outbox
from chassis.rpc import Access, Call, Server
from services.ledger.app.mondays import Mondays
from services.ledger.app.ports import Balances, Owned
from services.ledger.domain.journal import Balance, Currency

_SERVICE: Final = updates_pb2.DESCRIPTOR.services_by_name["Snapshots"]


def serve(server: Server, balances: Balances, mondays: Mondays) -> None:
    """Add the service to a server."""
    server.add(_SERVICE, SnapshotsApi(balances, mondays), Access.by("accounts"))


class SnapshotsApi:
    """levata.me.v1.Snapshots."""

    def __init__(self, balances: Balances, mondays: Mondays) -> None:
        self._balances = balances
        self._mondays = mondays

    async def snapshot(self, request: updates_pb2.SnapshotRequest, call: Call) -> updates_pb2.SnapshotResponse:
        accounts = [UUID(request.account_id)]
        await self._mondays.bring(accounts)
        return updates_pb2.SnapshotResponse(updates=map(update_of, await self._balances.of(accounts)))


class NatsPlayers:
    """The clients of accounts, over NATS: whoever watches."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def tell(self, owned: Owned) -> None:
        """Publish it for the streams of the account."""
        self._outbox.send(f"levata.me.{owned.account}", update_of(owned).SerializeToString())


def update_of(owned: Owned) -> updates_pb2.Update:
    """What an account has, as it goes over the wire: every currency, also those of which it has none."""
    balances = me_pb2.Balances()
    for currency in Currency:
        balances.balances.append(balance_message(currency, owned.balances.get(currency, Balance())))
    return updates_pb2.Update(number=owned.number, balances=balances)


def balance_message(currency: Currency, balance: Balance) -> ledger_pb2.Balance:
    """A balance as clients are shown it."""
    return ledger_pb2.Balance(currency=currency.value, free=balance.available, held=balance.held)
