"""levata.ledger.v1.Ledger: a player's own money."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from grpc import StatusCode
from levata.ledger.v1 import ledger_pb2

from chassis.errors import Refused
from chassis.rpc import Access, Call, Server
from services.ledger.app.mondays import Mondays
from services.ledger.app.ports import Balances
from services.ledger.app.refunds import RefundDesk
from services.ledger.app.shop import Shop
from services.ledger.app.statement import Explained, Statements, explanation, page
from services.ledger.domain.journal import NUMBER_MAX, Balance, CauseKind, Changes, Currency
from services.ledger.domain.shop import COFFEES_AT_ONCE
from services.ledger.domain.statement import Event, Line
from services.ledger.rpc.me import balance_message

_LEDGER: Final = ledger_pb2.DESCRIPTOR.services_by_name["Ledger"]
_PAGE_SIZE: Final = 50

# By what entries are called in their causes; what a later version may add is told by its cause alone.
_KINDS: Final = {
    "entry": ledger_pb2.STATEMENT_KIND_ENTRY,
    "returned": ledger_pb2.STATEMENT_KIND_ENTRY_RETURNED,
    "prize": ledger_pb2.STATEMENT_KIND_PRIZE,
    "good_play": ledger_pb2.STATEMENT_KIND_GOOD_PLAY,
    "coach": ledger_pb2.STATEMENT_KIND_COACH,
    "refund": ledger_pb2.STATEMENT_KIND_REFUND,
    "first_game": ledger_pb2.STATEMENT_KIND_FIRST_GAME,
    "monday": ledger_pb2.STATEMENT_KIND_MONDAY,
    "weekly_reward": ledger_pb2.STATEMENT_KIND_WEEKLY_REWARD,
    "coffee": ledger_pb2.STATEMENT_KIND_COFFEE_BOUGHT,
    "welcome": ledger_pb2.STATEMENT_KIND_WELCOME,
    "grant": ledger_pb2.STATEMENT_KIND_GRANT,
    "correction": ledger_pb2.STATEMENT_KIND_CORRECTION,
}


def serve(
    server: Server, mondays: Mondays, balances: Balances, statements: Statements, shop: Shop, refunds: RefundDesk
) -> None:
    """Add the players' calls to a server."""
    server.add(_LEDGER, LedgerApi(mondays, balances, statements, shop, refunds), Access.PLAYER)


class LedgerApi:
    """levata.ledger.v1.Ledger."""

    def __init__(
        self, mondays: Mondays, balances: Balances, statements: Statements, shop: Shop, refunds: RefundDesk
    ) -> None:
        self._mondays = mondays
        self._balances = balances
        self._statements = statements
        self._shop = shop
        self._refunds = refunds

    async def get_balances(self, request: ledger_pb2.GetBalancesRequest, call: Call) -> ledger_pb2.GetBalancesResponse:
        (owned,) = await self._balances.of([await self._greeted(call)])
        messages = [balance_message(currency, owned.balances.get(currency, Balance())) for currency in Currency]
        return ledger_pb2.GetBalancesResponse(balances=messages)

    async def list_statement(
        self, request: ledger_pb2.ListStatementRequest, call: Call
    ) -> ledger_pb2.ListStatementResponse:
        account = await self._greeted(call)
        before = _before(request.page_token) if request.page_token else NUMBER_MAX
        events, next_before = await page(self._statements, account, before, request.page_size or _PAGE_SIZE)
        return ledger_pb2.ListStatementResponse(
            entries=[_entry(event, lines) for event, lines in events],
            next_page_token="" if next_before is None else str(next_before),
        )

    async def explain_balance(
        self, request: ledger_pb2.ExplainBalanceRequest, call: Call
    ) -> ledger_pb2.ExplainBalanceResponse:
        explained = await explanation(self._statements, await self._greeted(call))
        return ledger_pb2.ExplainBalanceResponse(
            explanations=[_explanation(currency, explained) for currency in Currency]
        )

    async def list_offers(self, request: ledger_pb2.ListOffersRequest, call: Call) -> ledger_pb2.ListOffersResponse:
        response = ledger_pb2.ListOffersResponse()
        for offer in self._shop.offers():
            response.coffees.add(
                coffee=offer.coffee.value, count=COFFEES_AT_ONCE, gold=offer.gold, times=float(offer.times)
            )
        return response

    async def buy_coffee(self, request: ledger_pb2.BuyCoffeeRequest, call: Call) -> ledger_pb2.BuyCoffeeResponse:
        account = await self._greeted(call)
        bought = await self._shop.buy(account, UUID(request.request_id), Currency(request.coffee), request.gold)
        return ledger_pb2.BuyCoffeeResponse(changes=_changes(bought))

    async def claim_refund(self, request: ledger_pb2.ClaimRefundRequest, call: Call) -> ledger_pb2.ClaimRefundResponse:
        account = await self._greeted(call)
        returned = await self._refunds.refund(account, UUID(request.game_id), UUID(request.request_id))
        return ledger_pb2.ClaimRefundResponse(changes=_changes(returned))

    async def _greeted(self, call: Call) -> UUID:
        """The account that calls, and has what Mondays brought it before anything is read or spent."""
        account = UUID(call.who.subject)
        await self._mondays.greet(account)
        return account


def _changes(changes: Changes) -> list[ledger_pb2.Change]:
    return [ledger_pb2.Change(currency=currency.value, amount=amount) for currency, amount in changes.items()]


def _entry(event: Event, lines: Sequence[Line]) -> ledger_pb2.StatementEntry:
    entry = ledger_pb2.StatementEntry(
        number=event.number,
        at_ms=event.at_us // 1000,
        kind=_KINDS.get(event.cause.what, ledger_pb2.STATEMENT_KIND_UNSPECIFIED),
    )
    for line in lines:
        entry.lines.add(currency=line.currency.value, amount=line.amount, balance_after=line.balance_after)
    cause, played, rank = event.cause, event.played, event.rank
    match cause.kind:
        case CauseKind.GAME:
            entry.game.game_id = cause.id
            if played is not None:
                entry.game.game_type = played.game_type or ""
                entry.game.variant = played.variant or ""
                entry.game.room = played.room
                entry.game.place = played.place
                entry.game.coffee = "" if played.coffee is None else played.coffee.value
        case CauseKind.WEEK:
            entry.week.week = cause.id
            if rank is not None:
                entry.week.league_class = rank.league_class
                entry.week.rank = rank.rank
        case CauseKind.DAY:
            entry.day.day = cause.id
        case CauseKind.PURCHASE:
            entry.purchase.request_id = cause.id
        # Who of the operators it was is not for players.
        case CauseKind.GRANT:
            entry.grant.reason = cause.reason
            entry.grant.SetInParent()
        case CauseKind.CORRECTION:
            entry.correction.reason = cause.reason
    return entry


def _explanation(currency: Currency, explained: Explained) -> ledger_pb2.Explanation:
    message = ledger_pb2.Explanation(balance=balance_message(currency, explained.balances.get(currency, Balance())))
    for part in explained.parts:
        if part.currency is currency:
            kind = _KINDS.get(part.cause.what, ledger_pb2.STATEMENT_KIND_UNSPECIFIED)
            message.parts.add(kind=kind, amount=part.amount, count=part.changes)
    for held in explained.held:
        if held.currency is currency:
            message.held.add(game_id=held.game_id, amount=held.amount, since_ms=held.since_us // 1000)
    return message


def _before(page_token: str) -> int:
    """The number that a page token names: entries with lower ones are on its page."""
    # `int` alone takes blanks, underscores and digits of all scripts.
    if page_token.isascii() and page_token.isdigit() and 0 < int(page_token) <= NUMBER_MAX:
        return int(page_token)
    raise Refused("PAGE_TOKEN_INVALID", StatusCode.INVALID_ARGUMENT, "The page token is not one of ours.")
