"""Quick play with real services: from the wish to the game, and what must hold on the way (platform.md, "Rooms")."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from levata.accounts.v1 import devices_pb2
from levata.league.v1 import standings_pb2
from levata.ledger.v1 import entries_pb2
from levata.matchmaker.v1 import facts_pb2, matchmaker_pb2
from levata.me.v1 import me_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from services.ledger.domain.journal import Currency
from tests.accounts import outcomes, refused
from tests.conftest import Database
from tests.matchmaking import (
    DEALING,
    ENDED,
    PATIENCE_SECONDS,
    PLAYING,
    POLL_SECONDS,
    Backend,
    Player,
    link,
    start_backend,
)
from tools.faults.link import Link
from tools.up.service import ServiceProcess

FOUR, SIX = 4, 6
# Level 3, and what the catalogue has.
XP_OF_ROOM_2, ENTRY_OF_ROOM_2 = 300, 200
ENTRIES = entries_pb2.DESCRIPTOR.services_by_name["Entries"]
STANDINGS = standings_pb2.DESCRIPTOR.services_by_name["Standings"]
DEVICES = devices_pb2.DESCRIPTOR.services_by_name["Devices"]


@pytest.fixture(scope="module")
def way_to_table() -> Iterator[Link]:
    with link() as way:
        yield way


@pytest.fixture(scope="module")
def running(
    module_start_service: Callable[..., ServiceProcess], module_database: Database, keys: KeyFiles, way_to_table: Link
) -> Backend:
    return start_backend(module_start_service, module_database, keys, replicas=2, way_to_table=way_to_table)


@pytest.fixture
async def backend(running: Backend) -> AsyncIterator[Backend]:
    async with running.attended():
        yield running


async def all_playing(*players: Player) -> str:
    """The game that all of these play."""
    tickets = await asyncio.gather(*(player.becomes(PLAYING) for player in players))
    (game_id,) = {ticket.game_id for ticket in tickets}
    return str(game_id)


@asynccontextmanager
async def deaf_to_games(backend: Backend) -> AsyncIterator[None]:
    """While this runs, the ledger hears nothing of games."""
    connection = await asyncpg.connect(backend.database.dsn("ledger"))
    try:
        async with connection.transaction():
            heard = await connection.fetch("select from consumer_checkpoint where consumer = 'ledger' for update")
            assert len(heard) == 1
            yield
    finally:
        await connection.close()


async def seats_of(player: Player) -> list[str]:
    """Who sits where in the player's newest game; empty for a bot."""
    listed = await player.table().List(table_pb2.ListRequest())
    return [seat.account_id for seat in listed.games[0].seats]


async def enqueue_all(*players: Player, room: int = 1, variant: str = "") -> None:
    for player in players:
        await player.enqueue(room, variant=variant)


async def leave(game_id: str, *players: Player) -> None:
    for player in players:
        await player.table().Leave(table_pb2.LeaveRequest(game_id=game_id, request_id=str(uuid4())))


async def test_six_who_come_play_with_each_other_in_the_order_of_joining(backend: Backend) -> None:
    players = [backend.player(replica=number % 2) for number in range(SIX)]
    *early, last = players
    tables = []
    for number, player in enumerate(early):
        # Who comes through another replica is heard of a moment later, and might join after the next.
        await player.enqueue()
        tables.append(await player.has_table())
        # Now: the table is dealt soon after it is full.
        await player.answer(tables[0].game_id, bytes([number]))
    table = tables[0]
    assert {each.table_id for each in tables} == {table.table_id}
    await last.enqueue()
    assert await answer_when_shown(last) == table.game_id
    assert await all_playing(*players) == table.game_id
    assert await seats_of(players[0]) == [str(player.account) for player in players]
    facts = await told(backend, table.table_id)
    assert [fact.WhichOneof("kind") for fact in facts] == ["opened", *["seated"] * SIX, "started"]
    assert facts[-1].started.game_id == table.game_id


async def told(backend: Backend, table_id: str) -> list[facts_pb2.TableFact]:
    """The facts of a table."""
    rows = await backend.rows(
        "matchmaker", "select payload from facts where subject like $1 order by fact_no", f"%{table_id}"
    )
    return [facts_pb2.TableFact.FromString(row["payload"]) for row in rows]


async def test_after_ten_seconds_bots_take_the_empty_seats(backend: Backend) -> None:
    alone = backend.player()
    await alone.enqueue(variant="8-1-8")
    game_id = await all_playing(alone)
    assert await seats_of(alone) == [str(alone.account), *[""] * 5]
    with refused("ALREADY_PLAYING") as refusal:
        await alone.at(1).enqueue(variant="quick")
    assert refusal.metadata["game_id"] == game_id
    await leave(game_id, alone)
    # Leaving frees at once, whether or not the fact of it has come.
    assert (await alone.enqueue(game="euchre")).state != PLAYING


async def test_asking_twice_gives_the_same_ticket_on_any_device(backend: Backend) -> None:
    player = backend.player()
    tickets = await asyncio.gather(
        *(player.at(number % 2).enqueue(1, "klaverjas") for number in range(20)),
        player.enqueue(1, "euchre"),
    )
    assert len({ticket.ticket_id for ticket in tickets}) == 1
    await player.cancel(tickets[0].ticket_id)
    await player.at(1).cancel(tickets[0].ticket_id)
    assert await player.ticket() is None


async def test_the_whole_entry_is_refused_with_the_reason(backend: Backend) -> None:
    player, guest = backend.player(), backend.player(guest=True)
    with refused("ROOM_LOCKED") as locked:
        await player.enqueue(2)
    assert locked.metadata["reasons"] == "ROOM_LOCKED,INSUFFICIENT_COINS"
    with refused("GUEST_NOT_ALLOWED"):
        await guest.enqueue(2)
    with refused("INSUFFICIENT_COFFEE"):
        await player.enqueue(1, coffee="coffee_2")
    with refused("UNKNOWN_GAME"):
        await player.enqueue(1, "poker")
    with refused("NOT_IN_QUICK_PLAY"):
        await player.enqueue(1, "romanian_whist", "8-8-8")
    assert await player.ticket() is None


async def test_rooms_tell_what_is_open_and_why_not(backend: Backend) -> None:
    rooms = (await backend.player().call("Rooms", matchmaker_pb2.RoomsRequest())).rooms
    assert [room.number for room in rooms] == list(range(1, 13))
    assert not rooms[0].why_not
    assert set(rooms[1].why_not) == {matchmaker_pb2.WHY_NOT_LEVEL, matchmaker_pb2.WHY_NOT_COINS}
    assert [room.number for room in rooms if room.next_vip_day] == [6, 10, 12]


async def test_who_cannot_pay_any_more_is_replaced_by_a_bot_and_nobody_pays_for_it(backend: Backend) -> None:
    """One's coffee, and another one's coins, are spent between the wish and the deal."""
    rich, without_coffee, without_coins = players = [backend.player() for _ in range(3)]
    for player in players:
        await backend.raise_level(player, XP_OF_ROOM_2)
        await backend.give(player, ENTRY_OF_ROOM_2)
    await backend.give(without_coffee, 1, Currency.COFFEE_2)
    first = await without_coffee.enqueue(2, "oh_hell", coffee="coffee_2")
    table = await without_coffee.has_table()
    second = await without_coins.enqueue(2, "oh_hell")
    assert (await without_coins.has_table()).table_id == table.table_id
    await rich.enqueue(2, "oh_hell")
    elsewhere = entries_pb2.HoldRequest(game_id=str(uuid4()))
    elsewhere.entrants.add(account_id=str(without_coffee.account), room=1, coffee="coffee_2")
    elsewhere.entrants.add(account_id=str(without_coins.account), room=2)
    held = await backend.service("ledger", ENTRIES).Hold(elsewhere)
    assert [entrant.refusal for entrant in held.entrants] == ["", ""]
    ended = await asyncio.gather(without_coffee.becomes(ENDED), without_coins.becomes(ENDED))
    assert [(each.ticket_id, each.ended) for each in ended] == [
        (first.ticket_id, "INSUFFICIENT_COFFEE"),
        (second.ticket_id, "INSUFFICIENT_COINS"),
    ]
    await all_playing(rich)
    # Bots have the places of those who are not there.
    assert await seats_of(rich) == ["", "", str(rich.account), ""]
    assert await backend.left(rich, Currency.COIN) == 0
    assert await backend.left(without_coffee, Currency.COIN) == ENTRY_OF_ROOM_2


async def test_a_lost_answer_to_create_makes_no_second_game_and_loses_no_entry(
    backend: Backend, way_to_table: Link
) -> None:
    players = [backend.player(replica=number % 2) for number in range(FOUR)]
    *early, last = players
    for player in players:
        await backend.give(player, 1, Currency.COFFEE_2)
    for player in early:
        await player.enqueue(1, "klaverjas", coffee="coffee_2")
    # Their table's game is prepared: what is asked of the table service next is to create it.
    table = await early[0].has_table()
    way_to_table.answers_to_lose = 1
    await last.enqueue(1, "klaverjas", coffee="coffee_2")
    answers = await asyncio.gather(*map(answer_when_shown, players))
    assert answers == [table.game_id] * FOUR
    assert await all_playing(*players) == table.game_id
    assert way_to_table.answers_to_lose == 0
    assert [fact.WhichOneof("kind") for fact in await told(backend, table.table_id)][-2:] == ["seated", "started"]
    assert [await backend.left(player, Currency.COFFEE_2) for player in players] == [0] * FOUR
    await leave(table.game_id, *players)


async def test_people_of_a_game_that_was_cancelled_look_for_another_table_with_the_same_tickets(
    backend: Backend,
) -> None:
    """As the ledger has it settled when who deals is gone for too long."""
    players = [backend.player(replica=number % 2) for number in range(FOUR)]
    *early, last = players
    for player in players:
        await backend.give(player, 1, Currency.COFFEE_2)
    tickets = [await player.enqueue(1, "klaverjas", coffee="coffee_2") for player in early]
    table = await early[0].has_table()
    # The ledger hears of it late, and holds their coffees until then.
    async with deaf_to_games(backend):
        cancelled = await backend.games.Cancel(games_pb2.CancelRequest(game_id=table.game_id))
        assert cancelled.outcome == games_pb2.CancelResponse.OUTCOME_CANCELLED
        tickets.append(await last.enqueue(1, "klaverjas", coffee="coffee_2"))
        await last.becomes(DEALING)
        # Longer than it would take to deal them again.
        await asyncio.sleep(2.5)
        for player in players:
            ticket = await player.ticket()
            assert ticket is not None and ticket.state == DEALING
    again = await asyncio.gather(*(player.becomes(PLAYING) for player in players))
    assert {(each.ticket_id, each.queued_at_ms) for each in again} == {
        (each.ticket_id, each.queued_at_ms) for each in tickets
    }
    assert table.game_id not in {each.game_id for each in again}
    closed = (await told(backend, table.table_id))[-1]
    assert closed.closed.reason == "NOT_CREATED"
    assert [await backend.left(player, Currency.COFFEE_2) for player in players] == [0] * FOUR
    for player, ticket in zip(players, again, strict=True):
        await leave(ticket.game_id, player)


async def test_a_thousand_are_asked_about_at_once(backend: Backend) -> None:
    """As many as the matchmaker asks other services about when hundreds come at the same time, in their order."""
    player = backend.player()
    await backend.raise_level(player, XP_OF_ROOM_2)
    await backend.give(player, 7)
    accounts = [str(uuid4()) for _ in range(999)] + [str(player.account)]
    purses = await backend.service("ledger", ENTRIES).Purses(entries_pb2.PursesRequest(account_ids=accounts))
    assert [purse.free.get("coin", 0) for purse in purses.purses] == [0] * 999 + [7]
    ranks = await backend.service("league", STANDINGS).Ranks(standings_pb2.RanksRequest(account_ids=accounts))
    assert [rank.xp for rank in ranks.ranks] == [0] * 999 + [XP_OF_ROOM_2]
    companions = devices_pb2.CompanionsRequest(account_ids=accounts)
    assert not (await backend.service("accounts", DEVICES).Companions(companions)).pairs
    with refused("INVALID_REQUEST"):
        await backend.service("ledger", ENTRIES).Purses(entries_pb2.PursesRequest(account_ids=[*accounts, accounts[0]]))


async def test_what_makes_no_sense_or_is_anothers_is_refused(backend: Backend) -> None:
    player, other = backend.player(), backend.player(replica=1)
    long = "x" * 10_000
    for reason, method, request in (
        ("INVALID_REQUEST", "Enqueue", matchmaker_pb2.EnqueueRequest(room=0, game_type="euchre")),
        ("INVALID_REQUEST", "Enqueue", matchmaker_pb2.EnqueueRequest(room=13, game_type="euchre")),
        ("INVALID_REQUEST", "Enqueue", matchmaker_pb2.EnqueueRequest(room=1, game_type=long)),
        ("UNKNOWN_GAME", "Enqueue", matchmaker_pb2.EnqueueRequest(room=1, game_type="euchre\0")),
        ("INVALID_REQUEST", "Enqueue", matchmaker_pb2.EnqueueRequest(room=1, game_type="euchre", coffee="tea")),
        ("INVALID_REQUEST", "CancelTicket", matchmaker_pb2.CancelTicketRequest(ticket_id="mine")),
        ("INVALID_REQUEST", "AddNonce", matchmaker_pb2.AddNonceRequest(game_id=str(uuid4()), nonce=bytes(33))),
        ("INVALID_REQUEST", "Solo", matchmaker_pb2.SoloRequest(request_id="1", game_type="euchre")),
        ("UNKNOWN_GAME", "Daily", matchmaker_pb2.DailyRequest(game_type="poker")),
    ):
        with refused(reason):
            await player.call(method, request)
    ticket = await other.enqueue(1, "oh_hell")
    table = await other.has_table()
    await player.cancel(ticket.ticket_id)
    with refused("NOTHING_TO_ANSWER"):
        await player.answer(table.game_id, b"not mine")
    now = await other.ticket()
    assert now is not None and now.ticket_id == ticket.ticket_id
    await other.cancel(ticket.ticket_id)


async def test_nonces_are_taken_from_the_commitment_to_the_deal(backend: Backend) -> None:
    player = backend.player()
    with refused("NOTHING_TO_ANSWER"):
        await player.answer(str(uuid4()))
    await player.enqueue(1, "euchre")
    table = await player.has_table()
    await player.answer(table.game_id, b"mine")
    with refused("NOTHING_TO_ANSWER"):
        await player.answer(str(uuid4()), b"another game's")
    await player.becomes(PLAYING)
    with refused("NOTHING_TO_ANSWER"):
        await player.answer(table.game_id, b"too late")


async def test_who_cancels_is_never_seated_and_who_stays_plays(backend: Backend) -> None:
    """Of sixteen, who fill four tables, four cancel when they answer; test_quick_play_races.py has a thousand."""
    players = [backend.player(replica=number % 2) for number in range(16)]
    tickets = [(await player.enqueue(1, "klaverjas")).ticket_id for player in players]
    fickle = players[3::4]
    has_left = await asyncio.gather(
        *(
            answer_and(player, player.cancel(ticket_id) if player in fickle else None)
            for player, ticket_id in zip(players, tickets, strict=True)
        )
    )
    stay = [player for player, left in zip(players, has_left, strict=True) if not left]
    games = [ticket.game_id for ticket in await asyncio.gather(*(player.becomes(PLAYING) for player in stay))]
    for player in set(players) - set(stay):
        assert await player.ticket() is None
    # In each game sit those who play it, and nobody else.
    for game_id in set(games):
        own = [player for player, of in zip(stay, games, strict=True) if of == game_id]
        assert sorted(filter(None, await seats_of(own[0]))) == sorted(str(player.account) for player in own)
        await leave(game_id, *own)


async def shown_to(player: Player) -> str:
    """The game whose commitment is shown, or that runs already."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (ticket := await player.ticket()) is None or not (ticket.table.game_id or ticket.game_id):
            await asyncio.sleep(POLL_SECONDS)
    return ticket.table.game_id or ticket.game_id


async def answer_when_shown(player: Player) -> str:
    """Answer the commitment, unless it is dealt already; the game."""
    game_id = await shown_to(player)
    await outcomes(player.answer(game_id))
    return game_id


async def answer_and(player: Player, cancelling: Coroutine[Any, Any, None] | None) -> bool:
    """Answer the commitment when it is shown, and cancel at the same time; whether that came before the deal."""
    game_id = await shown_to(player)
    if cancelling is None:
        await outcomes(player.answer(game_id))
        return False
    _, reasons = await outcomes(player.answer(game_id), cancelling)
    # Who has left has nothing to answer; who comes too late to answer comes too late to leave.
    return not {"DEALING", "ALREADY_PLAYING"} & set(reasons)


async def test_who_is_silent_for_ten_seconds_loses_the_ticket(backend: Backend) -> None:
    lonely = backend.player()
    await lonely.enqueue(1, "oh_hell")
    backend.present.remove(lonely)
    silent = "update ticket set seen_at = levata_now() - interval '11 s' where account_id = $1"
    while (ticket := await lonely.ticket()) is None or ticket.state != ENDED:
        if ticket is not None and ticket.state == PLAYING:
            # The table dealt by itself before that: once more.
            await leave(ticket.game_id, lonely)
            await lonely.enqueue(1, "oh_hell")
            backend.present.remove(lonely)
        # Again: a sign of life may have been on its way.
        await backend.rows("matchmaker", silent, lonely.account)
        await asyncio.sleep(0.1)
    assert ticket.ended == "GONE"


async def test_a_stream_that_was_away_is_told_what_has_become_of_the_ticket(backend: Backend) -> None:
    player, others = await backend.signed_in(), [backend.player(replica=number % 2) for number in range(3)]
    async with aclosing(player.searches()) as searches:
        assert not (await anext(searches)).HasField("ticket")
        await player.enqueue(game="euchre")
        table = (await until(searches, lambda search: search.ticket.table.commitment)).ticket.table
        assert [seat.account_id for seat in table.taken] == [str(player.account)]
    for other in others:
        await other.enqueue(game="euchre")
    await asyncio.gather(*map(answer_when_shown, (player, *others)))
    game_id = await all_playing(player, *others)
    assert game_id == table.game_id
    async with aclosing(player.searches()) as searches:
        # The first that it tells is how everything is now.
        ticket = (await anext(searches)).ticket
        assert (ticket.state, ticket.game_id) == (PLAYING, game_id)
        await leave(game_id, player)
        await until(searches, lambda search: not search.HasField("ticket"))


async def until(searches: AsyncIterator[me_pb2.Search], is_so: Callable[[me_pb2.Search], object]) -> me_pb2.Search:
    """The first of these that is so."""
    async for search in searches:
        if is_so(search):
            return search
    raise AssertionError("the stream ended")


async def test_figures_tell_of_tables_deals_and_turns(backend: Backend) -> None:
    pool = ("klaverjas", "amsterdam")
    before = await backend.figures()
    broke, *others = (backend.player(replica=number % 2) for number in range(4))
    await backend.give(broke, 1, Currency.COFFEE_2)
    await broke.enqueue(game="klaverjas", coffee="coffee_2")
    elsewhere = entries_pb2.HoldRequest(game_id=str(uuid4()))
    elsewhere.entrants.add(account_id=str(broke.account), room=1, coffee="coffee_2")
    await backend.service("ledger", ENTRIES).Hold(elsewhere)
    await figures_become(backend, before, {("levata_matchmaker_tables", *pool): 1})
    for other in others:
        await other.enqueue(game="klaverjas")
    await all_playing(*others)
    await figures_become(
        backend,
        before,
        {
            ("levata_matchmaker_tables", *pool): 0,
            ("levata_matchmaker_start_seconds_count",): 3,
            ("levata_matchmaker_full_seconds_count",): 1,
            ("levata_matchmaker_deals_total", "started"): 1,
            ("levata_matchmaker_deals_total", "not_started"): 0,
            ("levata_matchmaker_entries_refused_total", "INSUFFICIENT_COFFEE"): 1,
            ("levata_matchmaker_open_deals",): 0,
        },
    )
    # One of the two has the turn; both or neither say so if they are asked while it changes hands.
    await figures_become(
        backend, Counter(), {("levata_matchmaker_turn", *pool): 1, ("levata_matchmaker_waiting", *pool): 0}
    )
    assert (await backend.figures())["levata_matchmaker_turns_taken_total", *pool] >= 1


async def figures_become(
    backend: Backend, before: Mapping[tuple[str, ...], float], more: Mapping[tuple[str, ...], int]
) -> None:
    """Each of these figures becomes so much more than it was."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (now := await backend.figures()) and any(now[key] - before[key] != by for key, by in more.items()):
            await asyncio.sleep(POLL_SECONDS)


async def test_solo_begins_at_once_and_once(backend: Backend) -> None:
    player = backend.player(guest=True)
    request = matchmaker_pb2.SoloRequest(request_id=str(uuid4()), game_type="romanian_whist", seats=4)
    games = await asyncio.gather(*(player.at(number % 2).call("Solo", request) for number in range(6)))
    assert len({game.game_id for game in games}) == 1
    assert await seats_of(player) == [str(player.account), "", "", ""]


async def test_the_counted_daily_is_one_game_and_practice_comes_after_it(backend: Backend) -> None:
    player = backend.player(guest=True)
    practice = matchmaker_pb2.DailyRequest(game_type="euchre", practice_request_id=str(uuid4()))
    with refused("DAILY_NOT_FINISHED"):
        await player.call("Daily", practice)
    counted = matchmaker_pb2.DailyRequest(game_type="euchre")
    games = await asyncio.gather(*(player.at(number % 2).call("Daily", counted) for number in range(6)))
    assert len({game.game_id for game in games}) == 1
    with refused("DAILY_NOT_FINISHED"):
        await player.call("Daily", practice)
