"""JetStream's stream of games is deleted and purged by an operator while games finish: the league ends exact.

The table and the league run as `up` runs them. Nobody tells them that anything was deleted: the relay has to make the
stream anew, and the league has to read from the table's own log what the stream does not bring any more.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack

import pytest
from levata.facts.v1 import facts_pb2
from levata.league.v1 import league_pb2
from levata.table.v1 import games_pb2
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from chassis import bus
from chassis.auth import KeyFiles, Signer
from chassis.facts import GAMES
from chassis.log import LogReader
from chassis.rpc import Stub, stub
from services.table.domain import Finished
from tests.conftest import NOBODY, Database
from tests.facts import until
from tests.table_client import SEAT_ACCOUNTS, GameLog, Player, Service, bot, log_reader, person, prepare_game
from tools.embedded.nats import EmbeddedNats
from tools.up.service import ServiceProcess

GAME_COUNT = 20
SEATS = 6
# Games that are over when the operator strikes again: four deletions, with a purge among them.
STRIKES = {1: "delete", 5: "delete", 9: "purge", 12: "delete", 16: "delete"}
# Games begin that far apart, so that they also end one after the other: the relay needs half a second to come back.
STAGGER_SECONDS = 0.25

# How often a place was reached, from place 1, by account.
Places = Mapping[str, Sequence[int]]

_FACTS = facts_pb2.DESCRIPTOR.services_by_name["Facts"]
_LEAGUE = league_pb2.DESCRIPTOR.services_by_name["League"]


@pytest.fixture
async def jetstream(nats: EmbeddedNats) -> AsyncIterator[JetStreamContext]:
    """JetStream with an operator's rights."""
    client = await bus.connect(nats.admin_url, "operator")
    yield client.jetstream()
    await client.close()


@pytest.mark.faults
@pytest.mark.slow
async def test_the_stream_is_deleted_while_games_finish_and_the_records_are_exact(
    database: Database,
    keys: KeyFiles,
    start_service: Callable[..., ServiceProcess],
    jetstream: JetStreamContext,
) -> None:
    table_process = start_service("table")
    league_process = start_service(
        "league", peers={"table": [table_process.address], "ledger": [NOBODY], "accounts": [NOBODY]}
    )
    signer = Signer.from_file(keys.signing_key)
    async with AsyncExitStack() as stack:
        table = Service(str(table_process.address), signer)
        stack.push_async_callback(table.close)
        league = Service(str(league_process.address), signer)
        stack.push_async_callback(league.close)

        game_ids = await played_under_strikes(table, jetstream)
        assert len(game_ids) == GAME_COUNT

        facts: Stub = stub(table.channel(signer.service_token("league", 3600)), _FACTS)
        last = (await facts.Head(facts_pb2.HeadRequest())).last
        await until(lambda: has_heard(league, last))
        # The stream, made anew once more, could not have told it all.
        await until(lambda: exists(jetstream))
        assert (await jetstream.stream_info(GAMES.name)).state.messages < last

        async with log_reader(database) as reader:
            expected = await places_in_logs(reader, game_ids)
        assert expected.keys() == set(SEAT_ACCOUNTS)
        assert {account: await places_in_record(league, account, last) for account in SEAT_ACCOUNTS} == expected


async def seated(table: Service, number: int) -> list[Player]:
    """The two people of a new game: other ones, in other seats, from game to game."""
    setups = [bot() for _ in range(SEATS)]
    accounts = SEAT_ACCOUNTS[number % SEATS], SEAT_ACCOUNTS[(number + 1) % SEATS]
    for seat, account in zip((number % SEATS, (number + 2) % SEATS), accounts, strict=True):
        setups[seat] = person(account)
    game_id = await prepare_game(table, seats=SEATS, variant="quick")
    await table.games.Create(games_pb2.CreateRequest(game_id=game_id, seats=setups))
    return [Player(table, account, game_id) for account in accounts]


async def played(table: Service, number: int, later_seconds: float = 0.0) -> str:
    """The id of a game that was played to its end by people who were there from its beginning."""
    await asyncio.sleep(later_seconds)
    players = await seated(table, number)
    await asyncio.gather(*(player.watch_to_the_end() for player in players))
    return players[0].game_id


async def played_under_strikes(table: Service, jetstream: JetStreamContext) -> Sequence[str]:
    """Delete or purge the stream whenever so many games are over, each time with at least one that has just begun."""
    first = range(GAME_COUNT - len(STRIKES))
    playing = [asyncio.create_task(played(table, number, number * STAGGER_SECONDS)) for number in first]
    for games_over, deed in STRIKES.items():
        await until(lambda games_over=games_over: sum(task.done() for task in playing) >= games_over)  # type: ignore[misc]
        # What was deleted before, the relay has made anew.
        await until(lambda: exists(jetstream))
        # However fast the others are, one game's facts come after this.
        playing.append(asyncio.create_task(played(table, len(playing))))
        if deed == "purge":
            await jetstream.purge_stream(GAMES.name)
        else:
            await jetstream.delete_stream(GAMES.name)
    return await asyncio.gather(*playing)


async def exists(jetstream: JetStreamContext) -> bool:
    """Whether the stream is there."""
    try:
        await jetstream.stream_info(GAMES.name)
    except NotFoundError:
        return False
    return True


async def places_in_logs(reader: LogReader, game_ids: Sequence[str]) -> Places:
    """What the games' own logs say."""
    reached: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for game_id in game_ids:
        log = GameLog(reader, game_id)
        await log.assert_sound()
        finished = log.commit(log.version).events[-1]
        assert isinstance(finished, Finished)
        for occupant, place in zip(log.table.occupants, finished.standings, strict=True):
            if occupant.account:
                reached[occupant.account][place] += 1
    return {account: [counts[place] for place in range(1, max(counts) + 1)] for account, counts in reached.items()}


async def record(league: Service, account: str) -> league_pb2.GetRecordResponse:
    """What the league says of an account now."""
    api = stub(league.channel(league.player_token(account)), _LEAGUE)
    response: league_pb2.GetRecordResponse = await api.GetRecord(league_pb2.GetRecordRequest())
    return response


async def has_heard(league: Service, last: int) -> bool:
    """Whether the league is through to a fact."""
    return (await record(league, SEAT_ACCOUNTS[0])).as_of_fact == last


async def places_in_record(league: Service, account: str, last: int) -> Sequence[int]:
    """The places of an account as of the last fact, with their sum checked."""
    answer = await record(league, account)
    assert (answer.account_id, answer.as_of_fact) == (account, last)
    [whist] = answer.records
    assert whist.game_type == "romanian_whist"
    assert whist.games_played == sum(whist.places)
    return list(whist.places)
