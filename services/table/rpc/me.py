"""What the table service tells accounts of their games: `levata.me.v1.Snapshots`, and updates for their streams."""

from typing import Final
from uuid import UUID

from levata.me.v1 import me_pb2, updates_pb2
from levata.table.v1 import table_pb2

from chassis.bus import Outbox
from chassis.rpc import Access, Call, Server
from services.table.app.own_games import News, own_games
from services.table.app.ports import GameLog, Store
from services.table.store.codec import day_text

_SERVICE: Final = updates_pb2.DESCRIPTOR.services_by_name["Snapshots"]


def serve(server: Server, store: Store, log: GameLog) -> None:
    """Add the service to a server."""
    server.add(_SERVICE, SnapshotsApi(store, log), Access.by("accounts", "matchmaker"))


class SnapshotsApi:
    """levata.me.v1.Snapshots."""

    def __init__(self, store: Store, log: GameLog) -> None:
        self._store = store
        self._log = log

    async def snapshot(self, request: updates_pb2.SnapshotRequest, call: Call) -> updates_pb2.SnapshotResponse:
        games = await own_games(self._store, self._log, UUID(request.account_id))
        return updates_pb2.SnapshotResponse(updates=[update_of(news) for news in games])


class NatsPlayers:
    """Implements `app.own_games.Players`."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def tell(self, news: News) -> None:
        """Publish it for the streams of the account."""
        self._outbox.send(f"levata.me.{news.account}", update_of(news).SerializeToString())


def update_of(news: News) -> updates_pb2.Update:
    """What an account is told of a game, as it goes over the wire."""
    game_id = str(news.game_id)
    game = None
    if news.game is not None:
        created = news.game.created
        game = me_pb2.Game(
            game_id=game_id,
            game_type=created.game_type,
            variant=created.setup.variant,
            mode=table_pb2.Mode.ValueType(created.mode.value),
            seat=news.game.seat,
            away=news.game.away,
            day=day_text(created.day),
        )
    return updates_pb2.Update(number=news.version, game=updates_pb2.GameUpdate(game_id=game_id, game=game))
