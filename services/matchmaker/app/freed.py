"""Players who do not play any more are told that they may look for another table."""

from collections.abc import Callable, Collection, Sequence
from uuid import UUID

from chassis.news import News
from services.matchmaker.app.ports import Players, Standing, Tickets


class Freed(News[tuple[UUID, int]]):
    """Tells those who are without a ticket. Of those who have another one already tells who forms its tables."""

    def __init__(self, tickets: Tickets, players: Players, now_us: Callable[[], int]) -> None:
        self._tickets = tickets
        self._players = players
        self._now_us = now_us
        super().__init__("searches", self._without_ticket, self._say)

    async def _without_ticket(self, accounts: Collection[UUID]) -> Sequence[tuple[UUID, int]]:
        # Before the rows are read: what is told of later commits has higher numbers.
        number = self._now_us()
        return [(account, number) for account in await self._tickets.without_ticket(accounts)]

    def _say(self, freed: tuple[UUID, int]) -> None:
        account, number = freed
        self._players.tell(account, Standing(), None, number)
