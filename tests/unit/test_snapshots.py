"""What services tell of many accounts in one answer: each account for itself, and never more than a client takes."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
from levata.me.v1 import me_pb2, updates_pb2
from levata.table.v1 import table_pb2

from chassis.errors import Refused
from chassis.rpc import validate
from chassis.snapshots import SnapshotsApi
from rules.chat import LINE_CHARACTERS_MAX
from services.accounts.me.sources import ACCOUNTS_MAX
from services.matchmaker.app.ports import Line, Told
from services.matchmaker.domain.friendly import Chair, FriendlyTable, Options
from services.matchmaker.rpc.me import friendly_message
from services.matchmaker.store.friendly import RECENT_LINES
from services.table.app.own_games import OWN_GAMES_MAX

# grpc's own limit for an answer.
ANSWER_BYTES_MAX = 4 * 1024 * 1024
AWAY = Refused("TEMPORARILY_UNAVAILABLE", grpc.StatusCode.UNAVAILABLE, "The database is away.")
CALL: Any = None


def update_of(account: UUID) -> updates_pb2.Update:
    return updates_pb2.Update(number=1, account=me_pb2.Account(account_id=str(account)))


def request_for(accounts: Sequence[UUID]) -> updates_pb2.SnapshotAllRequest:
    return updates_pb2.SnapshotAllRequest(account_ids=map(str, accounts))


async def test_one_that_cannot_be_read_is_refused_and_the_others_are_answered() -> None:
    accounts = [uuid4() for _ in range(3)]
    bad = accounts[1]

    async def read(asked: Sequence[UUID]) -> list[list[updates_pb2.Update]]:
        if bad in asked:
            raise ValueError("a game that cannot be decoded")
        return [[update_of(account)] for account in asked]

    response = await SnapshotsApi(read).snapshot_all(request_for(accounts), CALL)
    assert [outcome.WhichOneof("outcome") for outcome in response.accounts] == ["snapshot", "refusal", "snapshot"]
    assert Refused.from_status(response.accounts[1].refusal).code is grpc.StatusCode.INTERNAL
    for nth in (0, 2):
        assert list(response.accounts[nth].snapshot.updates) == [update_of(accounts[nth])]


async def test_a_service_that_cannot_tell_now_says_so_once() -> None:
    asked: list[int] = []

    async def read(accounts: Sequence[UUID]) -> list[list[updates_pb2.Update]]:
        asked.append(len(accounts))
        raise AWAY

    with pytest.raises(Refused) as caught:
        await SnapshotsApi(read).snapshot_all(request_for([uuid4(), uuid4()]), CALL)
    assert (caught.value, asked) == (AWAY, [2])


@pytest.mark.parametrize(
    "account_ids", [[str(uuid4()) for _ in range(ACCOUNTS_MAX + 1)], [str(UUID(int=1))] * 2, ["Zoë"]]
)
def test_bad_questions_are_refused(account_ids: list[str]) -> None:
    with pytest.raises(Refused) as caught:
        validate(updates_pb2.SnapshotAllRequest(account_ids=account_ids))
    assert caught.value.reason == "INVALID_REQUEST"


def test_as_many_accounts_as_accounts_asks_for_are_taken() -> None:
    validate(request_for([uuid4() for _ in range(ACCOUNTS_MAX)]))


def test_an_answer_is_never_bigger_than_a_client_takes() -> None:
    for updates in (_most_games(), _fullest_table()):
        outcome = updates_pb2.SnapshotOutcome(snapshot=updates_pb2.SnapshotResponse(updates=updates))
        response = updates_pb2.SnapshotAllResponse(accounts=[outcome] * ACCOUNTS_MAX)
        assert ANSWER_BYTES_MAX // 20 < response.ByteSize() < ANSWER_BYTES_MAX


def _most_games() -> list[updates_pb2.Update]:
    """Of one account."""
    game_id = str(uuid4())
    game = me_pb2.Game(
        game_id=game_id,
        game_type="romanian_whist",
        variant="a rather long variant",
        mode=table_pb2.MODE_DAILY,
        seat=6,
        away=True,
        day="2026-11-30",
    )
    update = updates_pb2.GameUpdate(game_id=game_id, game=game)
    return [updates_pb2.Update(number=2**63 - 1, game=update)] * OWN_GAMES_MAX


def _fullest_table() -> list[updates_pb2.Update]:
    """A friendly table at which everybody has said all that can be kept, in the widest script."""
    account = uuid4()
    table = FriendlyTable(
        uuid4(),
        "ABCDEF",
        Options("romanian_whist", "8-1-8", 3600, 300),
        account,
        (Chair(account, kept_for=account),) * 7,
    )
    line = Line(2**31 - 1, account, "\U00020000" * LINE_CHARACTERS_MAX)
    message = friendly_message(Told(table, 2**63 - 1, 2**63 - 1, [line] * RECENT_LINES))
    return [updates_pb2.Update(number=2**63 - 1, waiting_table=me_pb2.WaitingTable(table=message))]
