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
from tests.matchmaking import CALL_SECONDS, PATIENCE_SECONDS, POLL_SECONDS, Backend, Player, start_backend
from tools.client import Client
from tools.up.service import ServiceProcess

EUCHRE = pb.TableOptions(game_type="euchre")
# Everybody at a table says every two seconds that they are there.
GONE_SECONDS = 15
# Nobody who answers is too late.
ANSWERS_SECONDS = 20


@pytest.fixture(scope="module")
def running(module_start_service: Callable[..., ServiceProcess], module_database: Database, keys: KeyFiles) -> Backend:
    settings = {
        "LEVATA_FRIENDLY_GONE_SECONDS": str(GONE_SECONDS),
        "LEVATA_FRIENDLY_ANSWERS_SECONDS": str(ANSWERS_SECONDS),
    }
    return start_backend(module_start_service, module_database, keys, replicas=2, settings=settings)


@pytest.fixture
async def backend(running: Backend) -> AsyncIterator[Backend]:
    async with running.attended():
        yield running


async def call(player: Player, method: str, **fields: Any) -> Any:
    if method in ("OpenTable", "Sit", "Rematch"):
        player.backend.present.add(player)
    address = player.backend.addresses["matchmaker"][player.replica]
    service = pb.DESCRIPTOR.services_by_name["FriendlyTables"]
    request = getattr(pb, f"{method}Request")(**fields)
    return await getattr(player.backend.stub(address, player.token, service), method)(request, timeout=CALL_SECONDS)


async def open_table(player: Player, options: pb.TableOptions = EUCHRE) -> pb.FriendlyTable:
    table: pb.FriendlyTable = (await call(player, "OpenTable", request_id=str(uuid4()), options=options)).table
    return table


async def table_of(player: Player, table: pb.FriendlyTable) -> pb.FriendlyTable:
    now: pb.FriendlyTable = (await call(player, "GetTable", table_id=table.table_id)).table
    return now


async def begun(player: Player, game_id: str) -> table_pb2.GameSummary:
    """The player's game, once it runs and its table is no more."""
    async with asyncio.timeout(60):
        # The matchmaker hears last that it runs.
        while game_id not in {each.game_id for each in (await call(player, "ListTables", running=True)).tables}:
            await asyncio.sleep(0.1)
    listed = await player.table().List(table_pb2.ListRequest())
    game: table_pb2.GameSummary
    (game,) = (each for each in listed.games if each.game_id == game_id)
    return game


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
    await asyncio.gather(*(play_out(player, game_id) for player in (owner, friend)))
    # Each takes the own seat again, and so do the bots; who comes first is the owner.
    again = (await call(friend, "Rematch", game_id=game_id)).table
    assert again.owner_account_id == str(friend.account)
    assert [seat.bot_level for seat in again.seats] == ["", "steady", "", "steady"]
    assert again.seats[0].reserved_account_id == str(owner.account)
    with refused("TABLE_FULL"):
        await call(backend.player(), "Sit", table_id=again.table_id)
    with refused("TABLE_NOT_FOUND"):
        await call(backend.player(), "Rematch", game_id=game_id)
    both = (await call(owner, "Rematch", game_id=game_id)).table
    assert both.table_id == again.table_id
    assert [seat.account_id for seat in both.seats] == [str(owner.account), "", str(friend.account), ""]
    await call(owner, "Ready", table_id=again.table_id, ready=True)
    second = (await call(friend, "Deal", table_id=again.table_id)).game_id
    for player in (owner, friend):
        await player.answer(second)
    assert [seat.account_id for seat in (await begun(owner, second)).seats] == [seat.account_id for seat in both.seats]
    # Whoever wants the first game's table once more gets one that is dealt anew.
    await leave(second, owner, friend)
    third = (await call(owner, "Rematch", game_id=game_id)).table
    await call(owner, "SetBot", table_id=third.table_id, seat=2, bot_level="steady")
    assert (await call(owner, "Deal", table_id=third.table_id)).game_id not in (game_id, second)


async def play_out(player: Player, game_id: str) -> None:
    """Play anything that is legal until the game is over."""
    async with Client(str(player.backend.addresses["table"][0]), player.token) as client:
        playing = client.play(game_id)
        async for _ in playing.changes():
            if playing.legal_moves:
                await playing.act(playing.legal_moves[0])


async def leave(game_id: str, *players: Player) -> None:
    for player in players:
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
        for player in (owner, friend):
            await player.answer(dealt[0].game_id)
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


async def test_an_owner_who_is_not_heard_loses_the_role_and_the_seat(backend: Backend) -> None:
    owner, friend = backend.player(), backend.player(replica=1)
    table = await open_table(owner)
    await call(friend, "Sit", table_id=table.table_id)
    backend.present.remove(owner)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (now := await table_of(friend, table)).owner_account_id == str(owner.account):
            # As if the time had passed; a sign of life may be on its way still.
            await backend.rows(
                "matchmaker",
                "update friendly_seat set seen_at = levata_now() - $2 * interval '1 second' where account_id = $1",
                owner.account,
                GONE_SECONDS + 1,
            )
            await asyncio.sleep(POLL_SECONDS)
    assert [seat.account_id for seat in now.seats] == ["", str(friend.account), "", ""]
    assert now.owner_account_id == str(friend.account)


async def test_guests_sit_but_open_nothing(backend: Backend) -> None:
    owner, guest = backend.player(), backend.player(guest=True)
    with refused("REGISTERED_ONLY"):
        await open_table(guest)
    table = await open_table(owner)
    assert (await call(guest, "Sit", table_id=table.table_id)).table.seats[1].account_id == str(guest.account)
    with refused("NOT_THE_OWNER"):
        await call(guest, "SetBot", table_id=table.table_id, seat=2, bot_level="steady")


async def test_what_is_others_is_left_alone(backend: Backend) -> None:
    owner, friend, stranger = backend.player(), backend.player(), backend.player(replica=1)
    table = await open_table(owner)
    await call(friend, "Sit", table_id=table.table_id)
    await call(friend, "SayAtTable", table_id=table.table_id, text="for us")
    theirs: dict[str, Any] = {"table_id": table.table_id}
    for player in (friend, stranger):
        for method, fields in (
            ("SetBot", {"seat": 2, "bot_level": "steady"}),
            ("SetOptions", {"options": EUCHRE}),
            ("RemovePlayer", {"account_id": str(owner.account)}),
            ("Deal", {}),
        ):
            with refused("NOT_THE_OWNER"):
                await call(player, method, **theirs, **fields)
    with refused("NOT_AT_THE_TABLE"):
        await call(stranger, "SayAtTable", **theirs, text="hello")
    with refused("NOT_AT_THE_TABLE"):
        await call(stranger, "Ready", **theirs, ready=True)
    with refused("NOT_AT_THE_TABLE"):
        await call(owner, "RemovePlayer", **theirs, account_id=str(stranger.account))
    with refused("SEAT_TAKEN"):
        await call(owner, "SetBot", **theirs, seat=1, bot_level="steady")
    await call(stranger, "Stand", **theirs)
    # Who does not sit there is not told what is said there.
    assert not (await table_of(stranger, table)).lines
    assert [line.text for line in (await table_of(friend, table)).lines] == ["for us"]
    await call(owner, "RemovePlayer", **theirs, account_id=str(friend.account))
    with refused("REMOVED_FROM_TABLE"):
        await call(friend, "Sit", **theirs)
    assert [seat.account_id for seat in (await table_of(owner, table)).seats] == [str(owner.account), "", "", ""]


async def test_what_makes_no_sense_is_refused(backend: Backend) -> None:
    owner = backend.player()
    table = await open_table(owner)
    own: dict[str, Any] = {"table_id": table.table_id}
    long = "x" * 10_000
    for reasons, method, fields in (
        ("INVALID_REQUEST", "OpenTable", {"request_id": "1", "options": EUCHRE}),
        ("INVALID_REQUEST", "OpenTable", {"request_id": str(uuid4())}),
        ("INVALID_REQUEST", "OpenTable", {"request_id": str(uuid4()), "options": pb.TableOptions(game_type=long)}),
        ("UNKNOWN_GAME", "SetOptions", own | {"options": pb.TableOptions(game_type="poker")}),
        ("UNKNOWN_GAME", "SetOptions", own | {"options": pb.TableOptions(game_type="euchre\0")}),
        ("UNKNOWN_VARIANT", "SetOptions", own | {"options": pb.TableOptions(game_type="euchre", variant="8-1-8")}),
        ("INVALID_REQUEST", "SetOptions", own | {"options": pb.TableOptions(game_type="euchre", bid_seconds=11)}),
        ("INVALID_REQUEST", "GetTable", {}),
        ("INVALID_REQUEST", "GetTable", {"table_id": long}),
        ("INVALID_REQUEST", "GetTable", {"code": long}),
        ("TABLE_NOT_FOUND", "GetTable", {"code": "nobody"}),
        ("INVALID_REQUEST", "GetTable", {"code": "\0" * 6}),
        ("INVALID_REQUEST", "ListTables", {"game_type": "\0"}),
        ("TABLE_NOT_FOUND", "Sit", {"table_id": str(uuid4())}),
        ("NO_SUCH_SEAT", "Sit", own | {"seat": 4}),
        ("INVALID_REQUEST", "Sit", own | {"seat": 7}),
        ("NO_SUCH_SEAT", "SetBot", own | {"seat": 6, "bot_level": "steady"}),
        ("UNKNOWN_BOT", "SetBot", own | {"seat": 2, "bot_level": "clever"}),
        ("INVALID_REQUEST", "SetBot", own | {"seat": 2, "bot_level": long}),
        ("NOT_AT_THE_TABLE", "RemovePlayer", own | {"account_id": str(owner.account)}),
        ("INVALID_REQUEST", "RemovePlayer", own | {"account_id": "me"}),
        ("TOO_FEW_SEATED", "Deal", own),
        ("INVALID_REQUEST", "ListTables", {"page_size": 201}),
        ("INVALID_REQUEST", "ListTables", {"page_token": "the next one"}),
        ("TABLE_NOT_FOUND", "Rematch", {"game_id": str(uuid4())}),
    ):
        stranger = backend.player()
        with refused(reasons):
            await call(stranger if method == "Sit" else owner, method, **fields)
    assert await table_of(owner, table) == table


async def test_lines_are_plain_text_of_some_length_and_not_too_many(backend: Backend) -> None:
    owner = backend.player()
    table = await open_table(owner)

    async def say(text: str) -> None:
        await call(owner, "SayAtTable", table_id=table.table_id, text=text)

    with refused("LINE_TOO_LONG"):
        await say("x" * 281)
    with refused("INVALID_REQUEST"):
        await say("x" * 10_000)
    with refused("LINE_EMPTY"):
        await say("\0\u200b\n ")
    said = ["<b onclick='x()'>hi</b>", "'; drop table friendly_line; --", "\u202eolleh\0", "{}%s\\u0000", "x" * 280]
    for text in said:
        await say(text)
    with refused("TOO_MANY_LINES"):
        await say("one more")
    lines = (await table_of(owner, table)).lines
    assert [line.text for line in lines] == [*said[:2], "olleh", *said[3:]]


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
