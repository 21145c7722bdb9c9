"""What the ledger tells accounts of their money: `levata.me.v1.Snapshots`, and updates for their streams."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from levata.ledger.v1 import ledger_pb2
from levata.me.v1 import me_pb2, updates_pb2

from chassis import snapshots
from chassis.bus import Outbox
from chassis.rpc import Access, Server
from services.ledger.app.mondays import Mondays
from services.ledger.app.ports import Balances, Owned
from services.ledger.domain.journal import Balance, Currency


def serve(server: Server, balances: Balances, mondays: Mondays) -> None:
    """Add the service to a server."""

    async def read(accounts: Sequence[UUID]) -> Iterable[Sequence[updates_pb2.Update]]:
        await mondays.bring(accounts)
        owned = {each.account: each for each in await balances.of(accounts)}
        return [[update_of(owned[account])] for account in accounts]

    snapshots.serve(server, read, Access.by("accounts"))


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
