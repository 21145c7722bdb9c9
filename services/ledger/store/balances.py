"""What accounts have, in Postgres."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from chassis.database import Pool, refusing_while_away
from services.ledger.app.ports import Owned
from services.ledger.domain.journal import Balance, Currency

# The number of the moment: how many transactions had ended by then. Whatever changes a balance raises it.
_OWNED: Final = """
    select a.account, moment.number, b.currency::text, b.posted, b.held
    from (
        select pg_snapshot_xmax(s)::text::bigint - (select count(*) from pg_snapshot_xip(s)) as number
        from pg_current_snapshot() s
    ) moment
    cross join unnest($1::uuid[]) a (account)
    left join balance b on b.account = a.account
    order by a.account"""


class PostgresBalances:
    """Implements `app.ports.Balances`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def of(self, accounts: Collection[UUID]) -> list[Owned]:
        """What each of them has now."""
        with refusing_while_away():
            rows = await self._pool.fetch(_OWNED, accounts)
        owned: dict[UUID, Owned] = {}
        for account, number, currency, posted, held in rows:
            balances = owned.setdefault(account, Owned(account, number, {})).balances
            if currency is not None:
                balances[Currency(currency)] = Balance(posted, held)
        return list(owned.values())
