"""Friendly tables with real services: opened, found, filled, dealt, played again (platform.md, "Friendly tables")."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import pytest
from levata.matchmaker.v1 import friendly_pb2 as pb
from levata.table.v1 import table_pb2

from chassis.auth import KeyFiles
from tests.accounts import outcomes, refused
from tests.conftest import Database
from tests.matchmaking import CALL_SECONDS, Backend, Player, start_backend
from tools.up.service import ServiceProcess

EUCHRE = pb.TableOptions(game_type="euchre")


@pytest.fixture(scope="module")
def running(module_start_service: Callable[..., ServiceProcess], module_database: Database, keys: KeyFiles) -> Backend:
    return start_backend(module_start_service, module_database, keys, replicas=2)


@pytest.fixture
async def backend(running: Backend) -> AsyncIterator[Backend]:
    async with running.attended():
        yield running


async def call(player: Player, method: str, **fields: Any) -> Any:
    address = player.backend.addresses["matchmaker"][player.replica]
    service = pb.DESCRIPTOR.services_by_name["FriendlyTables"]
    request = getattr(pb, f"{method}Request")(**fields)
    return await getattr(player.backend.stub(address, player.token, service), method)(request, timeout=CALL_SECONDS)


async def open_table(player: Player, options: pb.TableOptions = EUCHRE) -> pb.FriendlyTable:
    player.backend.present.add(player)
    table: pb.FriendlyTable = (await call(player, "OpenTable", request_id=str(uuid4()), options=options)).table
    return table


async def table_of(player: Player, table: pb.FriendlyTable) -> pb.FriendlyTable:
    now: pb.FriendlyTable = (await call(player, "GetTable", table_id=table.table_id)).table
    return now


async def begun(player: Player, game_id: str) -> table_pb2.GameSummary:
    """The player's game, once it runs."""
    async with asyncio.timeout(60):
        while True:
            listed = await player.table().List(table_pb2.ListRequest())
            game: table_pb2.GameSummary
            for game in listed.games:
                if game.game_id == game_id:
                    return game
            await asyncio.sleep(0.1)


async def test_a_table_is_found_filled_dealt_and_played_again(backend: Backend) -> None:
    owner, friend = backend.player(), backend.player(replica=1)
    table = await open_table(owner)
    listed = (await call(friend, "ListTables", game_type="euchre", free_only=True)).tables
    assert table.table_id in {each.table_id for each in listed}
    found = (await call(friend, "GetTable", code=table.code.lower())).table
    assert found.table_id == table.table_id
    await call(friend, "Sit", table_id=table.table_id, seat=2)
    for seat in (1, 3):
        await call(owner, "SetBot", table_id=table.table_id, seat=seat, bot_level="steady")
    assert (await call(friend, "SayAtTable", table_id=table.table_id, text="hello\nthere")).line_no == 1
    assert (await table_of(owner, table)).lines[0].text == "hello there"
    with refused("NOT_READY"):
        await call(owner, "Deal", table_id=table.table_id)
    await call(friend, "Ready", table_id=table.table_id, ready=True)
    dealt = await asyncio.gather(*(call(owner.at(number % 2), "Deal", table_id=table.table_id) for number in range(4)))
    (game_id,) = {each.game_id for each in dealt}
    for player in (owner, friend):
        await player.answer(game_id, b"mine")
    game = await begun(friend, game_id)
    assert [seat.account_id for seat in game.seats] == [str(owner.account), "", str(friend.account), ""]
    with refused("TABLE_NOT_FOUND"):
        await table_of(owner, table)
    played = (await call(friend, "ListTables", running=True)).tables
    assert game_id in {each.game_id for each in played}
    with refused("GAME_RUNNING"):
        await call(friend, "Rematch", game_id=game_id)
    for player in (owner, friend):
        await player.table().Leave(table_pb2.LeaveRequest(game_id=game_id, request_id=str(uuid4())))


async def test_of_fifty_who_want_one_seat_one_gets_it(backend: Backend) -> None:
    owner = backend.player()
    table = await open_table(owner)
    for seat in (1, 2):
        await call(owner, "SetBot", table_id=table.table_id, seat=seat, bot_level="steady")
    others = [backend.player(replica=number % 2) for number in range(50)]
    seated, reasons = await outcomes(*(call(player, "Sit", table_id=table.table_id) for player in others))
    assert len(seated) == 1
    assert set(reasons) == {"TABLE_FULL"}
    assert sum(bool(seat.account_id) for seat in (await table_of(owner, table)).seats) == 2


async def test_a_player_has_one_seat_at_a_waiting_table_at_a_time(backend: Backend) -> None:
    owners = [backend.player() for _ in range(4)]
    tables = [await open_table(owner) for owner in owners]
    player = backend.player()
    seated, reasons = await outcomes(*(call(player, "Sit", table_id=table.table_id) for table in tables))
    assert (len(seated), set(reasons)) == (1, {"SEATED_ELSEWHERE"})
    with refused("SEATED_ELSEWHERE"):
        await open_table(player)


async def test_an_owner_who_removes_somebody_at_the_deal_does_either(backend: Backend) -> None:
    owner, friend = backend.player(), backend.player()
    table = await open_table(owner)
    await call(friend, "Sit", table_id=table.table_id)
    await call(friend, "Ready", table_id=table.table_id, ready=True)
    for seat in (2, 3):
        await call(owner, "SetBot", table_id=table.table_id, seat=seat, bot_level="steady")
    removing = call(owner.at(1), "RemovePlayer", table_id=table.table_id, account_id=str(friend.account))
    done, reasons = await outcomes(call(owner, "Deal", table_id=table.table_id), removing)
    dealt = [each for each in done if isinstance(each, pb.DealResponse)]
    assert len(done) == 1, reasons
    if dealt:
        assert (await begun(friend, dealt[0].game_id)).seats[1].account_id == str(friend.account)
    else:
        assert (await table_of(owner, table)).seats[1].account_id == ""


async def test_the_role_passes_on_and_an_empty_table_closes(backend: Backend) -> None:
    owner, friend = backend.player(), backend.player()
    table = await open_table(owner)
    await call(friend, "Sit", table_id=table.table_id)
    await call(owner, "Stand", table_id=table.table_id)
    assert (await table_of(friend, table)).owner_account_id == str(friend.account)
    await call(friend, "Stand", table_id=table.table_id)
    await call(friend, "Stand", table_id=table.table_id)
    with refused("TABLE_NOT_FOUND"):
        await table_of(friend, table)


async def test_guests_sit_but_open_nothing(backend: Backend) -> None:
    owner, guest = backend.player(), backend.player(guest=True)
    with refused("REGISTERED_ONLY"):
        await open_table(guest)
    table = await open_table(owner)
    assert (await call(guest, "Sit", table_id=table.table_id)).table.seats[1].account_id == str(guest.account)
    with refused("NOT_THE_OWNER"):
        await call(guest, "SetBot", table_id=table.table_id, seat=2, bot_level="steady")


async def test_opening_twice_is_one_table(backend: Backend) -> None:
    owner, request_id = backend.player(), str(uuid4())
    first = (await call(owner, "OpenTable", request_id=request_id, options=EUCHRE)).table
    again = (await call(owner.at(1), "OpenTable", request_id=request_id, options=EUCHRE)).table
    assert again.table_id == first.table_id


async def test_thousands_of_tables_are_paged_through_whole(backend: Backend) -> None:
    """Rows as the store writes them, so that the list is long without thousands of calls."""
    owner = backend.player()
    await open_table(owner, pb.TableOptions(game_type="klaverjas"))
    await backend.rows(
        "matchmaker",
        """insert into friendly_table (table_id, code, game_type, free_seats, state, changed_us)
           select id, left(id::text, 13), game_type, free_seats, jsonb_set(state, '{table_id}', to_jsonb(id)), 1
           from friendly_table t, lateral (select gen_random_uuid() as id from generate_series(1, 5000)) ids
           where t.game_type = 'klaverjas'""",
    )
    seen: list[str] = []
    token = ""
    while token or not seen:
        page = await call(owner, "ListTables", game_type="klaverjas", page_size=200, page_token=token)
        seen += [table.table_id for table in page.tables]
        token = page.next_page_token
    assert len(seen) == len(set(seen)) >= 5001
    await backend.rows("matchmaker", "delete from friendly_table where game_type = 'klaverjas'")
