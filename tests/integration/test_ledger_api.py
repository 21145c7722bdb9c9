"""Players' and operators' calls on a running ledger: what one reads adds up, and nothing happens twice."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
from levata.ledger.v1 import ledger_pb2, operations_pb2

from chassis.auth import KeyFiles, Signer
from chassis.database import Pool, open_pool
from chassis.rpc import channel, stub
from chassis.settings import Address
from rules.calendar import week_of
from rules.vip import vip_weekdays
from services.ledger.app.entries import Asked
from services.ledger.app.shop import Shop
from services.ledger.domain.journal import Currency, House, Transfer, posted
from services.ledger.store.journal import JournalWriter, put_down
from tests.accounts import outcomes, refused
from tests.conftest import NOBODY, Database
from tests.ledger import (
    CATALOGUE,
    CLASSIC,
    COIN,
    DOUBLE,
    GOLD,
    TEST,
    account_fact,
    analysed,
    began,
    cancelled,
    catalogue_with,
    entry_desk,
    give,
    owns,
    sums,
    tell,
    week_closed,
)
from tests.ledger import play as play_game
from tools import money
from tools.cli import find
from tools.data import DataFolder, Endpoints
from tools.up.service import ServiceProcess

LEDGER = ledger_pb2.DESCRIPTOR.services_by_name["Ledger"]
OPERATIONS = operations_pb2.DESCRIPTOR.services_by_name["Operations"]

HOUR_US = 3_600_000_000


def now_us() -> int:
    """The ledger goes by the real clock."""
    return time.time_ns() // 1000


ENDED_US = now_us() - HOUR_US
# Whatever today is, one entry a day can be taken back, and on VIP days only.
REFUNDS = "{since: 0001-01-01, games_a_day: 1, vip_days_only: true}"
GOLD_FOR_DOUBLE = 8
# With a coffee, an hour ago.
play = partial(play_game, coffee=DOUBLE, at_us=ENDED_US)


@pytest.fixture(scope="module")
def ledger(module_start_service: Callable[..., ServiceProcess], tmp_path_factory: pytest.TempPathFactory) -> Address:
    """A ledger that hears nobody: what others tell is given its effect by the tests."""
    catalogue = catalogue_with(tmp_path_factory.mktemp("catalogue"), REFUNDS)
    return module_start_service(
        "ledger",
        peers={"table": [NOBODY], "accounts": [NOBODY], "league": [NOBODY]},
        settings={"LEVATA_CATALOGUE_FILE": str(catalogue)},
    ).address


@pytest.fixture
async def pool(module_database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(module_database.dsn("ledger"), "test") as pool:
        yield pool


@pytest.fixture(scope="module")
def signer(keys: KeyFiles) -> Signer:
    return Signer.from_file(keys.signing_key)


@dataclass
class Player:
    """Somebody with a token."""

    account: UUID
    ledger: Any

    async def balances(self) -> dict[str, tuple[int, int]]:
        """What is free and what is held, zeros left out."""
        answer = await self.ledger.GetBalances(ledger_pb2.GetBalancesRequest())
        return {each.currency: (each.free, each.held) for each in answer.balances if each.free or each.held}

    async def page(self, token: str = "", size: int = 0) -> ledger_pb2.ListStatementResponse:
        """A page of the statement."""
        request = ledger_pb2.ListStatementRequest(page_size=size, page_token=token)
        page: ledger_pb2.ListStatementResponse = await self.ledger.ListStatement(request)
        return page

    async def pages(self, size: int) -> list[ledger_pb2.StatementEntry]:
        """The whole statement, page by page."""
        page = await self.page(size=size)
        entries = list(page.entries)
        while page.next_page_token:
            page = await self.page(page.next_page_token, size)
            assert page.entries, "an empty page"
            entries += page.entries
        return entries

    async def buy(self, request_id: UUID, coffee: str = "coffee_2", gold: int = GOLD_FOR_DOUBLE) -> dict[str, int]:
        """Buy coffee."""
        request = ledger_pb2.BuyCoffeeRequest(request_id=str(request_id), coffee=coffee, gold=gold)
        return amounts((await self.ledger.BuyCoffee(request)).changes)

    async def refund(self, game_id: UUID, request_id: UUID | None = None) -> dict[str, int]:
        """Take an entry back."""
        request = ledger_pb2.ClaimRefundRequest(request_id=str(request_id or uuid4()), game_id=str(game_id))
        return amounts((await self.ledger.ClaimRefund(request)).changes)


@pytest.fixture
async def player(ledger: Address, signer: Signer) -> AsyncIterator[Callable[..., Player]]:
    """Make a player, of an account of its own if none is named."""
    channels = []

    def make(account: UUID | None = None, *, guest: bool = False) -> Player:
        account = account or uuid4()
        to_ledger = channel(str(ledger), signer.player_token(str(account), guest, 3600))
        channels.append(to_ledger)
        return Player(account, stub(to_ledger, LEDGER))

    yield make
    for each in channels:
        await each.close()


@dataclass
class Operator:
    """Somebody with the tools."""

    operations: Any

    async def grant(self, account: UUID, reason: str = "Sorry.", request_id: UUID | None = None, **gifts: int) -> int:
        """Give something; answers with the entry's number."""
        request = operations_pb2.GrantRequest(
            request_id=str(request_id or uuid4()),
            account_id=str(account),
            gifts=[operations_pb2.Gift(currency=currency, amount=amount) for currency, amount in gifts.items()],
            reason=reason,
        )
        return int((await self.operations.Grant(request)).number)

    async def correct(
        self, account: UUID, reason: str = "Counted twice.", request_id: UUID | None = None, **differences: int
    ) -> int:
        """Put something right; answers with the entry's number."""
        request = operations_pb2.CorrectRequest(
            request_id=str(request_id or uuid4()),
            account_id=str(account),
            differences=[
                operations_pb2.Difference(currency=currency, amount=amount) for currency, amount in differences.items()
            ],
            reason=reason,
        )
        return int((await self.operations.Correct(request)).number)


@pytest.fixture
async def operator(ledger: Address, signer: Signer) -> AsyncIterator[Operator]:
    async with channel(str(ledger), signer.operator_token("olga", 3600)) as to_ledger:
        yield Operator(stub(to_ledger, OPERATIONS))


def amounts(changes: Sequence[ledger_pb2.Change]) -> dict[str, int]:
    return {change.currency: change.amount for change in changes}


def vip_on(day: date, *, vip: bool = True) -> UUID:
    """An account that is VIP on this day, or is not."""
    while True:
        account = uuid4()
        if (day.weekday() in vip_weekdays(account)) is vip:
            return account


def day_of(at_us: int) -> date:
    return datetime.fromtimestamp(at_us / 1e6, UTC).date()


async def rich(pool: Pool, account: UUID) -> None:
    """Enough for a few games."""
    await give(pool, account, 1_000)
    await give(pool, account, 5, DOUBLE)


# Reading


async def test_who_has_nothing_is_told_so(player: Callable[..., Player]) -> None:
    nobody = player()
    balances = await nobody.ledger.GetBalances(ledger_pb2.GetBalancesRequest())
    assert [(each.currency, each.free, each.held) for each in balances.balances] == [
        (currency.value, 0, 0) for currency in Currency
    ]
    assert await nobody.page() == ledger_pb2.ListStatementResponse()
    explained = await nobody.ledger.ExplainBalance(ledger_pb2.ExplainBalanceRequest())
    assert [(each.balance.currency, len(each.parts)) for each in explained.explanations] == [
        (currency.value, 0) for currency in Currency
    ]


async def test_what_is_held_is_told_apart(pool: Pool, player: Callable[..., Player]) -> None:
    alice = player()
    await rich(pool, alice.account)
    waits, lets_go = uuid4(), uuid4()
    for game_id in (waits, lets_go):
        await entry_desk(pool).hold(game_id, [Asked(alice.account, 2, DOUBLE)])
    assert await alice.balances() == {"coin": (600, 400), "coffee_2": (3, 2)}
    await tell(pool, cancelled(lets_go))
    assert await alice.balances() == {"coin": (800, 200), "coffee_2": (4, 1)}

    # It has changed nothing so far, and what was let go never did.
    assert [entry.WhichOneof("cause") for entry in await alice.pages(200)] == ["grant", "grant"]
    explained = await alice.ledger.ExplainBalance(ledger_pb2.ExplainBalanceRequest())
    held = {each.balance.currency: [(h.game_id, h.amount) for h in each.held] for each in explained.explanations}
    assert held == {currency.value: [] for currency in Currency} | {
        "coin": [(str(waits), 200)],
        "coffee_2": [(str(waits), 1)],
    }


async def test_mondays_coffee_is_there_for_who_reads(pool: Pool, player: Callable[..., Player]) -> None:
    for read in ("GetBalances", "ListStatement", "ExplainBalance"):
        alice = player()
        await account_fact(pool, alice.account, "registered", now_us() - 14 * 24 * HOUR_US)
        await getattr(alice.ledger, read)(getattr(ledger_pb2, f"{read}Request")())
        assert (await owns(pool, alice.account))[DOUBLE] == 14


async def everything(pool: Pool, alice: Player, operator: Operator, week: date) -> dict[str, UUID]:
    """All that can happen to an account, once each, the end of a week of its own too; answers with the games."""
    account = alice.account
    await account_fact(pool, account, "registered", now_us() - 7 * 24 * HOUR_US)
    await alice.balances()
    await give(pool, account, 50, GOLD)
    won = await play(pool, account, 2, good_deals=7)
    await tell(pool, analysed(won, 95))
    lost = await play(pool, account, 6, coffee=None)
    await alice.refund(lost)
    broken_off = uuid4()
    await entry_desk(pool).hold(broken_off, [Asked(account, 2, None)])
    await tell(pool, began(broken_off, [account], ("euchre", "standard")))
    await tell(pool, cancelled(broken_off, version=9))
    runs = uuid4()
    await entry_desk(pool).hold(runs, [Asked(account, 3, DOUBLE)])
    await tell(pool, began(runs, [account], ("euchre", "standard")))
    await week_closed(pool, week, queen=[uuid4(), account])
    await alice.buy(uuid4())
    await operator.grant(account, "Thanks for the patience: ☕", gold=7, coin=70)
    await operator.correct(account, "Taken twice.", coin=-5)
    return {"won": won, "lost": lost, "broken_off": broken_off, "runs": runs}


async def test_the_statement_tells_what_happened_and_why(
    pool: Pool, player: Callable[..., Player], operator: Operator
) -> None:
    alice = player(vip_on(day_of(ENDED_US)))
    day, week = day_of(ENDED_US), date(2026, 10, 5)
    games = await everything(pool, alice, operator, week)
    entries = list(reversed(await alice.pages(200)))

    def of_game(name: str, **told: Any) -> ledger_pb2.StatementEntry:
        classic = {"game_type": "romanian_whist", "variant": "8-1-8"}
        return ledger_pb2.StatementEntry(game=ledger_pb2.GameCause(game_id=str(games[name]), **classic | told))

    monday = week_of(day_of(now_us()))
    won = {"room": 2, "place": 2, "coffee": "coffee_2"}
    lost = {"room": 2, "place": 6}
    euchre = {"game_type": "euchre", "variant": "standard"}
    rank = ledger_pb2.WeekCause(week=week.isoformat(), league_class="queen", rank=2)
    kind = ledger_pb2.StatementKind
    expected = [
        (kind.STATEMENT_KIND_WELCOME, ledger_pb2.StatementEntry(grant=ledger_pb2.GrantCause())),
        (kind.STATEMENT_KIND_MONDAY, ledger_pb2.StatementEntry(week=ledger_pb2.WeekCause(week=monday.isoformat()))),
        (kind.STATEMENT_KIND_UNSPECIFIED, ledger_pb2.StatementEntry(grant=ledger_pb2.GrantCause())),
        (kind.STATEMENT_KIND_ENTRY, of_game("won", **won)),
        (kind.STATEMENT_KIND_PRIZE, of_game("won", **won)),
        (kind.STATEMENT_KIND_GOOD_PLAY, of_game("won", **won)),
        (kind.STATEMENT_KIND_FIRST_GAME, ledger_pb2.StatementEntry(day=ledger_pb2.DayCause(day=day.isoformat()))),
        (kind.STATEMENT_KIND_COACH, of_game("won", **won)),
        (kind.STATEMENT_KIND_ENTRY, of_game("lost", **lost)),
        (kind.STATEMENT_KIND_REFUND, of_game("lost", **lost)),
        (kind.STATEMENT_KIND_ENTRY, of_game("broken_off", room=2, **euchre)),
        (kind.STATEMENT_KIND_ENTRY_RETURNED, of_game("broken_off", room=2, **euchre)),
        (kind.STATEMENT_KIND_ENTRY, of_game("runs", room=3, coffee="coffee_2", **euchre)),
        (kind.STATEMENT_KIND_WEEKLY_REWARD, ledger_pb2.StatementEntry(week=rank)),
        (kind.STATEMENT_KIND_COFFEE_BOUGHT, None),
        (
            kind.STATEMENT_KIND_GRANT,
            ledger_pb2.StatementEntry(grant=ledger_pb2.GrantCause(reason="Thanks for the patience: ☕")),
        ),
        (
            kind.STATEMENT_KIND_CORRECTION,
            ledger_pb2.StatementEntry(correction=ledger_pb2.CorrectionCause(reason="Taken twice.")),
        ),
    ]
    assert [entry.kind for entry in entries] == [each for each, _ in expected]
    for entry, (_, told) in zip(entries, expected, strict=True):
        cause = entry.WhichOneof("cause")
        assert cause is not None
        assert told is None or getattr(entry, cause) == getattr(told, cause), entry
        assert abs(entry.at_ms - now_us() // 1000) < 24 * 3_600_000
    assert str(UUID(entries[14].purchase.request_id)) == entries[14].purchase.request_id
    # Who of the operators it was is nobody's business.
    assert "olga" not in str(entries)
    lines = {
        name: [(line.currency, line.amount, line.balance_after) for line in entries[place].lines]
        for name, place in {"entry": 3, "prize": 4, "bought": 14, "correction": 16}.items()
    }
    assert lines == {
        "entry": [("coin", -200, 800), ("coffee_2", -1, 11)],
        "prize": [("coin", 700, 1_500)],
        "bought": [("gold", -8, 111), ("coffee_2", 3, 14)],
        "correction": [("coin", -5, 161_065)],
    }


async def test_lines_and_explanation_add_up_to_the_balances(
    pool: Pool, player: Callable[..., Player], operator: Operator
) -> None:
    alice = player(vip_on(day_of(ENDED_US)))
    await everything(pool, alice, operator, date(2026, 10, 12))
    running: dict[str, int] = {}
    for entry in reversed(await alice.pages(3)):
        for line in entry.lines:
            running[line.currency] = running.get(line.currency, 0) + line.amount
            assert line.balance_after == running[line.currency]
    assert {currency: sum(each) for currency, each in (await alice.balances()).items()} == running

    explained = await alice.ledger.ExplainBalance(ledger_pb2.ExplainBalanceRequest())
    for each in explained.explanations:
        made_of = sum(part.amount for part in each.parts)
        assert made_of == each.balance.free + each.balance.held == running[each.balance.currency]
        assert len({part.kind for part in each.parts}) == len(each.parts)
    coins = {part.kind: (part.amount, part.count) for part in explained.explanations[0].parts}
    assert coins == {
        ledger_pb2.STATEMENT_KIND_WELCOME: (1_000, 1),
        ledger_pb2.STATEMENT_KIND_ENTRY: (-200 - 200 - 200 - 500, 4),
        ledger_pb2.STATEMENT_KIND_PRIZE: (700, 1),
        ledger_pb2.STATEMENT_KIND_REFUND: (200, 1),
        ledger_pb2.STATEMENT_KIND_ENTRY_RETURNED: (200, 1),
        ledger_pb2.STATEMENT_KIND_WEEKLY_REWARD: (160_000, 1),
        ledger_pb2.STATEMENT_KIND_GRANT: (70, 1),
        ledger_pb2.STATEMENT_KIND_CORRECTION: (-5, 1),
    }


async def test_pages_stay_as_they_were_whatever_comes_in(pool: Pool, player: Callable[..., Player]) -> None:
    alice = player()
    for amount in range(1, 8):
        await give(pool, alice.account, amount, COIN if amount % 2 else GOLD)
    whole = await alice.pages(200)
    for size in (1, 2, 3, 7):
        page = await alice.page(size=size)
        paged = list(page.entries)
        while page.next_page_token:
            await give(pool, alice.account, 100)
            again = await alice.page(page.next_page_token, size)
            page = await alice.page(page.next_page_token, size)
            assert again == page
            paged += page.entries
        assert paged == whole
        whole = await alice.pages(200)


async def test_reading_while_money_moves_always_adds_up(pool: Pool, player: Callable[..., Player]) -> None:
    alice = player()
    await give(pool, alice.account, 200, GOLD)
    buying = asyncio.gather(*(alice.buy(uuid4()) for _ in range(25)))
    while not buying.done():
        for entry in (await alice.page(size=2)).entries:
            gold = next((line for line in entry.lines if line.currency == "gold"), None)
            # 200 less eight for each coffee bought so far.
            assert gold is not None and gold.balance_after % 8 == 0
        explained = await alice.ledger.ExplainBalance(ledger_pb2.ExplainBalanceRequest())
        gold_explained = explained.explanations[list(Currency).index(GOLD)]
        assert sum(part.amount for part in gold_explained.parts) == gold_explained.balance.free
    await buying
    assert await alice.balances() == {"coffee_2": (75, 0)}


async def test_an_entry_that_shows_late_is_neither_missed_nor_miscounted(
    pool: Pool, player: Callable[..., Player]
) -> None:
    """Two that have no currency in common do not wait for each other: the one with the higher number may be first."""
    alice = player()
    await give(pool, alice.account, 10)
    late = posted("late", TEST, [Transfer(House.GRANTS.value, alice.account, COIN, 5)])
    async with pool.acquire() as session, session.transaction():
        await put_down(session, [late])
        await give(pool, alice.account, 1, GOLD)
        page = await alice.page(size=1)
    lines = [line for entry in page.entries for line in entry.lines]
    while page.next_page_token:
        page = await alice.page(page.next_page_token, 1)
        lines += [line for entry in page.entries for line in entry.lines]
    assert [(line.currency, line.amount, line.balance_after) for line in lines] == [
        ("gold", 1, 1),
        ("coin", 5, 15),
        ("coin", 10, 10),
    ]


async def test_a_page_token_that_is_none(pool: Pool, player: Callable[..., Player]) -> None:
    alice, bob = player(), player()
    for each in (alice, bob):
        await give(pool, each.account, 1)
        await give(pool, each.account, 2)
    good = (await alice.page(size=1)).next_page_token
    assert [entry.lines[0].amount for entry in (await alice.page(good)).entries] == [1]
    for token in ("x", "0", "-1", "1_0", f"{good} ", "٣", str(2**63), "9" * 64):
        with refused("PAGE_TOKEN_INVALID"):
            await alice.page(token)
    with refused("INVALID_REQUEST"):
        await alice.page("9" * 65)
    with refused("INVALID_REQUEST"):
        await alice.page(size=201)
    # Another's token is a place in the ledger, and shows one's own.
    (newest,) = (await bob.page()).entries[:1]
    assert (await alice.page(str(newest.number))).entries == (await alice.page()).entries


async def test_nobody_reads_what_is_anothers(
    pool: Pool, player: Callable[..., Player], operator: Operator, signer: Signer, ledger: Address
) -> None:
    alice, bob = player(vip_on(day_of(ENDED_US))), player()
    games = await everything(pool, alice, operator, date(2026, 10, 19))
    await give(pool, bob.account, 3)
    assert await bob.balances() == {"coin": (3, 0)}
    (only,) = await bob.pages(200)
    assert [(line.currency, line.amount) for line in only.lines] == [("coin", 3)]
    for game_id in games.values():
        with refused("NOT_PLAYED"):
            await bob.refund(game_id)
    for token, reason in (
        ("", "TOKEN_MISSING"),
        ("nonsense", "TOKEN_INVALID"),
        (signer.service_token("league", 60), "ROLE_REQUIRED"),
        (signer.operator_token("olga", 60), "ROLE_REQUIRED"),
    ):
        async with channel(str(ledger), token) as stranger:
            for method in LEDGER.methods:
                with refused(reason):
                    await getattr(stub(stranger, LEDGER), method.name)(getattr(ledger_pb2, f"{method.name}Request")())


async def test_a_deleted_account_is_not_told_anything(
    pool: Pool, player: Callable[..., Player], operator: Operator
) -> None:
    member, guest = player(), player(guest=True)
    await account_fact(pool, member.account, "registered", now_us())
    await give(pool, guest.account, 100, GOLD)
    request_id = uuid4()
    number = await operator.grant(member.account, request_id=request_id, coin=5)
    for gone in (member, guest):
        await account_fact(pool, gone.account, "deleted", now_us())
        before = await owns(pool, gone.account)
        for call in (gone.balances(), gone.page(), gone.buy(uuid4()), gone.refund(uuid4())):
            with refused("ACCOUNT_NOT_FOUND"):
                await call
        with refused("ACCOUNT_NOT_FOUND"):
            await gone.ledger.ExplainBalance(ledger_pb2.ExplainBalanceRequest())
        with refused("ACCOUNT_NOT_FOUND"):
            await operator.grant(gone.account, coin=5)
        # What it had stays in the books.
        assert await owns(pool, gone.account) == before
    assert await operator.grant(member.account, request_id=request_id, coin=5) == number
    assert await sums(pool) == {0}


# The shop


async def test_the_shop_says_what_it_sells(player: Callable[..., Player]) -> None:
    answer = await player().ledger.ListOffers(ledger_pb2.ListOffersRequest())
    assert [(each.coffee, each.count, each.gold, each.times) for each in answer.coffees] == [
        ("coffee_1_5", 3, 5, 1.5),
        ("coffee_2", 3, 8, 2),
        ("coffee_3", 3, 15, 3),
        ("coffee_5", 3, 30, 5),
    ]


async def test_a_purchase_that_is_repeated_is_one(pool: Pool, player: Callable[..., Player]) -> None:
    alice, request_id = player(), uuid4()
    await give(pool, alice.account, 100, GOLD)
    answers = await asyncio.gather(*(alice.buy(request_id) for _ in range(50)))
    assert answers == [{"gold": -8, "coffee_2": 3}] * 50
    for other in ({"coffee": "coffee_3", "gold": 15}, {"gold": 7}):
        with refused("REQUEST_ID_REUSED"):
            await alice.buy(request_id, **other)
    assert await alice.balances() == {"gold": (92, 0), "coffee_2": (3, 0)}
    # Another's request of the same id is another one.
    bob = player()
    await give(pool, bob.account, 8, GOLD)
    assert await bob.buy(request_id) == {"gold": -8, "coffee_2": 3}


async def test_no_more_is_bought_than_can_be_paid(pool: Pool, player: Callable[..., Player]) -> None:
    alice = player(guest=True)
    await give(pool, alice.account, 3 * GOLD_FOR_DOUBLE + 7, GOLD)
    bought, reasons = await outcomes(*(alice.buy(uuid4()) for _ in range(50)))
    assert (len(bought), reasons) == (3, ["INSUFFICIENT_GOLD"] * 47)
    assert await alice.balances() == {"gold": (7, 0), "coffee_2": (9, 0)}


async def test_nobody_pays_another_price_than_was_shown(pool: Pool, player: Callable[..., Player]) -> None:
    alice, request_id = player(), uuid4()
    await give(pool, alice.account, 100, GOLD)
    for gold in (7, 9):
        with refused("PRICE_CHANGED") as refusal:
            await alice.buy(uuid4(), gold=gold)
        assert refusal.metadata == {"gold": "8"}
    # Bought at the price of then, by a ledger with another catalogue, whose answer was lost.
    dear = replace(CATALOGUE, coffee_prices={**CATALOGUE.coffee_prices, DOUBLE: 20})
    async with JournalWriter(pool) as journal:
        await Shop(journal, dear).buy(alice.account, request_id, DOUBLE, 20)
    assert await alice.buy(request_id, gold=20) == {"gold": -20, "coffee_2": 3}
    with refused("REQUEST_ID_REUSED"):
        await alice.buy(request_id)
    assert await alice.balances() == {"gold": (80, 0), "coffee_2": (3, 0)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"request_id": "1"},
        {"coffee": "gold"},
        {"coffee": ""},
        {"gold": 0},
        {"gold": 2**63},
    ],
)
async def test_a_purchase_that_makes_no_sense(player: Callable[..., Player], wrong: dict[str, Any]) -> None:
    request: dict[str, Any] = {"request_id": str(uuid4()), "coffee": "coffee_2", "gold": 8} | wrong
    with refused("INVALID_REQUEST"):
        await player().ledger.BuyCoffee(ledger_pb2.BuyCoffeeRequest(**request))


# Refunds


async def test_a_refund_that_is_repeated_is_one(pool: Pool, player: Callable[..., Player]) -> None:
    alice, request_id = player(vip_on(day_of(ENDED_US))), uuid4()
    await rich(pool, alice.account)
    game_id = await play(pool, alice.account)
    answers = await asyncio.gather(*(alice.refund(game_id, request_id) for _ in range(50)))
    assert answers == [{"coin": 200, "coffee_2": 1}] * 50
    answered, reasons = await outcomes(*(alice.refund(game_id) for _ in range(50)))
    assert (answered, reasons) == ([], ["ALREADY_REFUNDED"] * 50)
    assert await alice.balances() == {"coin": (1_000, 0), "coffee_2": (5, 0), "gold": (5, 0)}


async def test_of_many_who_ask_for_one_refund_one_has_it(pool: Pool, player: Callable[..., Player]) -> None:
    alice = player(vip_on(day_of(ENDED_US)))
    await rich(pool, alice.account)
    game_id = await play(pool, alice.account)
    answered, reasons = await outcomes(*(alice.refund(game_id) for _ in range(50)))
    assert (answered, reasons) == ([{"coin": 200, "coffee_2": 1}], ["ALREADY_REFUNDED"] * 49)
    assert await alice.balances() == {"coin": (1_000, 0), "coffee_2": (5, 0), "gold": (5, 0)}


async def test_one_request_takes_one_game_back(pool: Pool, player: Callable[..., Player]) -> None:
    """Also games of two days, which do not wait for each other."""
    yesterday = now_us() - 23 * HOUR_US
    days = {day_of(ENDED_US).weekday(), day_of(yesterday).weekday()}
    for _ in range(5):
        alice, request_id = player(), uuid4()
        await rich(pool, alice.account)
        games = [await play(pool, alice.account, at_us=at) for at in (ENDED_US, yesterday)]
        answered, reasons = await outcomes(*(alice.refund(game_id, request_id) for game_id in games))
        # No account is VIP on two days in a row.
        allowed = len(days & set(vip_weekdays(alice.account)))
        assert len(answered) == min(allowed, 1), reasons


async def test_what_was_spent_cannot_go_back(pool: Pool, player: Callable[..., Player]) -> None:
    alice = player(vip_on(day_of(ENDED_US)))
    await give(pool, alice.account, 1, DOUBLE)
    await give(pool, alice.account, 200)
    # Third: 550 coins for an entry of 200 and a coffee; then all of it is held for another game.
    game_id = await play(pool, alice.account, 3)
    waits = uuid4()
    await entry_desk(pool).hold(waits, [Asked(alice.account, 3, None)])
    with refused("INSUFFICIENT_COINS") as refusal:
        await alice.refund(game_id)
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    await tell(pool, cancelled(waits))
    assert await alice.refund(game_id) == {"coin": -350, "coffee_2": 1}
    assert await alice.balances() == {"coin": (200, 0), "coffee_2": (1, 0), "gold": (5, 0)}


async def test_refunds_that_there_are_not(pool: Pool, player: Callable[..., Player]) -> None:
    today = day_of(ENDED_US)
    late_us = now_us() - 25 * HOUR_US
    vip, late, other = player(vip_on(today)), player(vip_on(day_of(late_us))), player(vip_on(today, vip=False))
    for each in (vip, late, other):
        await rich(pool, each.account)
    runs = uuid4()
    await entry_desk(pool).hold(runs, [Asked(vip.account, 2, None)])
    await tell(pool, began(runs, [vip.account], CLASSIC))
    played = await play(pool, other.account)
    for who, game_id, reason in (
        (vip, uuid4(), "NOT_PLAYED"),
        (vip, runs, "NOT_PLAYED"),
        (vip, played, "NOT_PLAYED"),
        (vip, await play(pool, vip.account, 1), "REFUND_OF_A_WIN"),
        (vip, await play(pool, vip.account, eligible=False), "NOT_ELIGIBLE"),
        (vip, await play(pool, vip.account, room=1, coffee=None), "NOTHING_TO_REFUND"),
        (late, await play(pool, late.account, at_us=late_us), "REFUND_TOO_LATE"),
        (other, played, "NOT_A_VIP_DAY"),
    ):
        before = await who.balances()
        with refused(reason):
            await who.refund(game_id)
        assert await who.balances() == before
    one, another = [await play(pool, vip.account, coffee=None) for _ in range(2)]
    assert await vip.refund(one) == {"coin": 200}
    with refused("NO_REFUNDS_LEFT"):
        await vip.refund(another)
    assert await sums(pool) == {0}


async def test_a_guest_takes_an_entry_back(pool: Pool, player: Callable[..., Player]) -> None:
    guest = player(vip_on(day_of(ENDED_US)), guest=True)
    await give(pool, guest.account, 8, GOLD)
    await guest.buy(uuid4())
    game_id = await play(pool, guest.account, 5, room=1)
    assert await guest.refund(game_id) == {"coffee_2": 1}
    assert await guest.balances() == {"coffee_2": (3, 0), "gold": (5, 0)}


async def test_a_refund_that_makes_no_sense(player: Callable[..., Player]) -> None:
    for request_id, game_id in (("", str(uuid4())), (str(uuid4()), "game")):
        with refused("INVALID_REQUEST"):
            await player().ledger.ClaimRefund(ledger_pb2.ClaimRefundRequest(request_id=request_id, game_id=game_id))


# Operators


async def test_what_operators_do_is_done_once(pool: Pool, player: Callable[..., Player], operator: Operator) -> None:
    alice, bob, request_id = player(), player(), uuid4()
    await give(pool, alice.account, 10)
    await give(pool, bob.account, 10)
    numbers = await asyncio.gather(
        *(operator.grant(alice.account, request_id=request_id, coin=500, gold=2) for _ in range(50))
    )
    assert len(set(numbers)) == 1
    # In whatever order it is said.
    assert await operator.grant(alice.account, request_id=request_id, gold=2, coin=500) == numbers[0]
    for other in (
        operator.grant(alice.account, request_id=request_id, coin=501, gold=2),
        operator.grant(alice.account, "Something else.", request_id, coin=500, gold=2),
        operator.grant(bob.account, request_id=request_id, coin=500, gold=2),
        operator.correct(alice.account, "Sorry.", request_id, coin=500, gold=2),
    ):
        with refused("REQUEST_ID_REUSED"):
            await other
    assert await alice.balances() == {"coin": (510, 0), "gold": (2, 0)}
    assert await bob.balances() == {"coin": (10, 0)}
    causes = "select cause_kind::text, cause_id, reason from entry where number = $1"
    assert [tuple(row) for row in await pool.fetch(causes, numbers[0])] == [("grant", "olga", "Sorry.")]


async def test_one_request_for_two_accounts_at_once_is_one(
    pool: Pool, player: Callable[..., Player], operator: Operator
) -> None:
    """They hold no lock in common: only the key tells."""
    people = [player() for _ in range(20)]
    for each in people:
        await give(pool, each.account, 1)
    request_id = uuid4()
    numbers, reasons = await outcomes(*(operator.grant(each.account, request_id=request_id, coin=7) for each in people))
    assert (len(numbers), reasons) == (1, ["REQUEST_ID_REUSED"] * 19)
    assert sorted([(await each.balances())["coin"][0] for each in people]) == [1] * 19 + [8]


async def test_a_correction_never_takes_what_is_not_free(
    pool: Pool, player: Callable[..., Player], operator: Operator
) -> None:
    alice = player()
    await give(pool, alice.account, 500)
    await entry_desk(pool).hold(uuid4(), [Asked(alice.account, 2, None)])
    for correction, reason in (
        (operator.correct(alice.account, coin=-301), "INSUFFICIENT_COINS"),
        (operator.correct(alice.account, gold=-1, coin=1), "INSUFFICIENT_GOLD"),
        (operator.correct(alice.account, coffee_5=-1), "INSUFFICIENT_COFFEE"),
    ):
        with refused(reason):
            await correction
    assert await alice.balances() == {"coin": (300, 200)}
    await operator.correct(alice.account, coin=-300, gold=4)
    assert await alice.balances() == {"coin": (0, 200), "gold": (4, 0)}
    assert await sums(pool) == {0}


async def test_nobody_gets_beyond_what_a_ledger_can_keep(
    module_database: Database, pool: Pool, player: Callable[..., Player], operator: Operator
) -> None:
    alice = player()
    await give(pool, alice.account, 1)
    superuser = await asyncpg.connect(
        module_database.admin_dsn, server_settings={"session_replication_role": "replica"}
    )
    await superuser.execute("update ledger.balance set posted = 4000000000000000000 where account = $1", alice.account)
    await superuser.close()
    with refused("BALANCE_TOO_HIGH"):
        await operator.grant(alice.account, coin=1)
    await operator.correct(alice.account, coin=-1)
    await operator.grant(alice.account, coin=1)
    # A balance that nothing explains is not explained.
    with refused("INTERNAL"):
        await alice.ledger.ExplainBalance(ledger_pb2.ExplainBalanceRequest())


async def test_nobody_is_given_anything_who_was_never_heard_of(operator: Operator) -> None:
    with refused("ACCOUNT_NOT_FOUND") as refusal:
        await operator.grant(uuid4(), coin=5)
    assert refusal.code is grpc.StatusCode.NOT_FOUND


async def test_the_house_itself_is_given_nothing(pool: Pool, player: Callable[..., Player], operator: Operator) -> None:
    await give(pool, player().account, 1)
    for house in House:
        with refused("ACCOUNT_NOT_FOUND"):
            await operator.grant(house.value, coin=5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": ""},
        {"reason": " \u00a0"},
        {"reason": "two\nlines"},
        {"reason": "a\x00b"},
        {"reason": "a\u202eb"},
        {"reason": "x" * 201},
        {"gifts": []},
        {"gifts": [operations_pb2.Gift(currency="coin", amount=0)]},
        {"gifts": [operations_pb2.Gift(currency="coin", amount=10**15 + 1)]},
        {"gifts": [operations_pb2.Gift(currency="euro", amount=1)]},
        {"gifts": [operations_pb2.Gift(currency="coin", amount=1)] * 2},
        {"request_id": ""},
        {"account_id": "alice"},
    ],
)
async def test_a_grant_that_makes_no_sense(operator: Operator, wrong: dict[str, Any]) -> None:
    request = {
        "request_id": str(uuid4()),
        "account_id": str(uuid4()),
        "gifts": [operations_pb2.Gift(currency="coin", amount=1)],
        "reason": "Sorry.",
    } | wrong
    with refused("INVALID_REQUEST"):
        await operator.operations.Grant(operations_pb2.GrantRequest(**request))


async def test_only_operators_grant_and_correct(signer: Signer, ledger: Address) -> None:
    for token in (signer.player_token(str(uuid4()), False, 60), signer.service_token("matchmaker", 60)):
        async with channel(str(ledger), token) as stranger:
            for method in ("Grant", "Correct"):
                with refused("ROLE_REQUIRED"):
                    await getattr(stub(stranger, OPERATIONS), method)(getattr(operations_pb2, f"{method}Request")())


@pytest.fixture
def folder(ledger: Address, signer: Signer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder as `up` leaves it while it runs."""
    monkeypatch.setattr(DataFolder, "endpoints", lambda _: Endpoints("127.0.0.1:1", {"ledger": [str(ledger)]}))
    monkeypatch.setattr(DataFolder, "operator_token", lambda _: signer.operator_token("olga", 60))
    return tmp_path


async def levata_money(*arguments: str) -> None:
    """The command, in a thread of its own: it has a loop of its own too."""
    command = find("money")
    assert command is not None
    await asyncio.to_thread(money.app, list(arguments), prog_name="levata money", standalone_mode=False)


async def test_operators_have_a_command(
    pool: Pool, player: Callable[..., Player], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alice, request_id = player(), str(uuid4())
    await give(pool, alice.account, 1)
    who, why = str(alice.account), ("--reason", "A present.", "--data", str(folder))
    await levata_money("grant", who, "coin=500", "gold=5", *why, "--request-id", request_id)
    await levata_money("grant", who, "coin=500", "gold=5", *why, "--request-id", request_id)
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith("Done: entry ")
    await levata_money("correct", who, "coin=-1", "gold=2", *why)
    assert await alice.balances() == {"coin": (500, 0), "gold": (7, 0)}
    for arguments, told in (
        (("grant", who, "coin"), "not CURRENCY=AMOUNT"),
        (("grant", who, "coin=-5"), "That cannot be"),
        (("grant", who, "euro=5"), "must be in list"),
        (("correct", who, "coin=-501"), "too little that is free"),
        (("grant", str(uuid4()), "coin=5"), "no such account"),
    ):
        with pytest.raises(SystemExit, match=told):
            await levata_money(*arguments, *why)
    assert await alice.balances() == {"coin": (500, 0), "gold": (7, 0)}
