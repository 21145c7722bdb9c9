"""The fair-deal proof end to end: id and commitment before any nonce, the seed after the end, and anybody may check."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from rules import registry
from rules.registry import GAME_TYPES
from tests.conftest import Database
from tests.table_client import SEAT_ACCOUNTS, STRANGER, Player, Service, bot, person, running
from tools import check_deal, replay
from tools.data import DataFolder


@pytest.fixture
async def service(module_database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service."""
    async with running(module_database, keys) as started:
        yield started


def test_prepare_can_carry_no_nonce() -> None:
    """What fixes the seed knows nothing that a player chose."""
    fields = games_pb2.PrepareRequest.DESCRIPTOR.fields_by_name
    assert set(fields) == {"request_id", "game_type", "variant", "seats", "mode"}


@pytest.mark.parametrize("game_type", GAME_TYPES)
async def test_a_game_that_was_played_can_be_checked_from_its_export(
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    game_type: str,
) -> None:
    game = registry.game(game_type)
    assert game is not None
    variant, seats = game.daily
    request = games_pb2.PrepareRequest(
        request_id=str(uuid4()), game_type=game_type, variant=variant, seats=seats, mode=table_pb2.MODE_FRIENDLY
    )
    prepared = await service.games.Prepare(request)
    # Asked again, it is the same: there is one seed to each id, and nobody has a second try.
    assert await service.games.Prepare(request) == prepared
    assert len(prepared.commitment) == 32

    # Knowing these, two players and a bot's seat add their parts.
    create = games_pb2.CreateRequest(game_id=prepared.game_id)
    create.seats.extend([person(SEAT_ACCOUNTS[0]), person(SEAT_ACCOUNTS[1]), *[bot()] * (seats - 2)])
    nonces = [b"", b"the second player's", b"\x00" * 32, *[b""] * (seats - 3)]
    for setup, nonce in zip(create.seats, nonces, strict=True):
        setup.nonce = nonce
    await service.games.Create(create)
    players = [Player(service, account, prepared.game_id) for account in SEAT_ACCOUNTS[:2]]
    await asyncio.gather(*(player.watch_to_the_end() for player in players))
    for player in players:
        assert player.snapshot is not None
        assert player.snapshot.commitment == prepared.commitment
        *before, last = player.commits
        assert not any(event.HasField("finished") for commit in before for event in commit.events)
        finished = last.events[-1].finished
        assert sha256(finished.server_seed).digest() == prepared.commitment
        assert list(finished.nonces) == nonces

    # What `./levata replay GAME_ID --json` prints for anybody is all that the check needs.
    shown = [
        response async for response in service.table(STRANGER).Replay(table_pb2.ReplayRequest(game_id=prepared.game_id))
    ]

    async def read(_folder: DataFolder, _game_id: str, _seat: int | None) -> list[table_pb2.ReplayResponse]:
        return shown

    monkeypatch.setattr(replay, "_read", read)
    # What was printed so far is not the command's.
    capsys.readouterr()
    # The command runs a loop of its own.
    await asyncio.to_thread(replay.main, prepared.game_id, None, True, tmp_path)
    export = tmp_path / "game.json"
    export.write_text(capsys.readouterr().out)
    assert check_deal.main([str(export), "--commitment", prepared.commitment.hex()]) == check_deal.AGREES
    said = capsys.readouterr().out
    assert prepared.game_id in said
    assert said.endswith("All deals follow from the seed.\n")
