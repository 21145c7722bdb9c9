"""Quick play with real services: from the wish to the game, and what must hold on the way (platform.md, "Rooms")."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest
from levata.ledger.v1 import entries_pb2
from levata.matchmaker.v1 import facts_pb2, matchmaker_pb2
from levata.table.v1 import table_pb2

from chassis.auth import KeyFiles
from services.ledger.domain.journal import Currency
from tests.accounts import outcomes, refused
from tests.conftest import Database
from tests.matchmaking import (
    ENDED,
    PATIENCE_SECONDS,
    PLAYING,
    POLL_SECONDS,
    SEATED,
    Backend,
    Player,
    start_backend,
)
from tools.up.service import ServiceProcess

SIX = 6


@pytest.fixture(scope="module")
def running(module_start_service: Callable[..., ServiceProcess], module_database: Database, keys: KeyFiles) -> Backend:
    return start_backend(module_start_service, module_database, keys, replicas=2)


@pytest.fixture
async def backend(running: Backend) -> AsyncIterator[Backend]:
    async with running.attended():
        yield running


async def all_playing(*players: Player) -> str:
    """The game that all of these play."""
    tickets = await asyncio.gather(*(player.becomes(PLAYING) for player in players))
    (game_id,) = {ticket.game_id for ticket in tickets}
    return str(game_id)


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
    for player in players:
        # Who comes through another replica is heard of a moment later, and might join after the next.
        await player.enqueue()
        await player.becomes(SEATED)
    table = await players[0].has_table()
    for number, player in enumerate(players):
        assert (await player.has_table()).table_id == table.table_id
        await player.answer(table.game_id, bytes([number]))
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


async def test_who_cannot_pay_any_more_is_replaced_by_a_bot(backend: Backend) -> None:
    """The coffee is spent between the wish and the deal."""
    rich, broke = backend.player(), backend.player()
    await backend.give(broke, 1, Currency.COFFEE_2)
    ticket = await broke.enqueue(1, "oh_hell", coffee="coffee_2")
    await rich.enqueue(1, "oh_hell")
    await broke.has_table()
    entries = backend.stub(
        backend.addresses["ledger"][0],
        backend.signer.service_token("tools", 60),
        entries_pb2.DESCRIPTOR.services_by_name["Entries"],
    )
    elsewhere = entries_pb2.HoldRequest(game_id=str(uuid4()))
    elsewhere.entrants.add(account_id=str(broke.account), room=1, coffee="coffee_2")
    assert not (await entries.Hold(elsewhere)).entrants[0].refusal
    ended = await broke.becomes(ENDED)
    assert (ended.ticket_id, ended.ended) == (ticket.ticket_id, "INSUFFICIENT_COFFEE")
    await all_playing(rich)
    assert await seats_of(rich) == ["", str(rich.account), "", ""]


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


async def answer_and(player: Player, cancelling: Coroutine[Any, Any, None] | None) -> bool:
    """Answer the commitment when it is shown, and cancel at the same time; whether that came before the deal."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (ticket := await player.ticket()) is None or not (ticket.table.game_id or ticket.game_id):
            await asyncio.sleep(POLL_SECONDS)
    answering = player.answer(ticket.table.game_id or ticket.game_id)
    if cancelling is None:
        await outcomes(answering)
        return False
    _, reasons = await outcomes(answering, cancelling)
    # Who has left has nothing to answer; who comes too late to answer comes too late to leave.
    return not {"DEALING", "ALREADY_PLAYING"} & set(reasons)


async def test_who_is_silent_for_ten_seconds_loses_the_ticket(backend: Backend) -> None:
    lonely = backend.player()
    await lonely.enqueue(1, "oh_hell")
    backend.present.remove(lonely)
    await backend.rows(
        "matchmaker", "update ticket set seen_at = levata_now() - interval '11 s' where account_id = $1", lonely.account
    )
    async with asyncio.timeout(60):
        while (ticket := await lonely.ticket()) is None or ticket.state != ENDED:
            await asyncio.sleep(0.1)
    assert ticket.ended == "GONE"


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
