"""What the table service tells accounts of their games: `levata.me.v1.Snapshots`, and updates for their streams."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from levata.me.v1 import me_pb2, updates_pb2
from levata.table.v1 import table_pb2

from chassis import snapshots
from chassis.bus import Outbox
from chassis.rpc import Access, Server
from services.table.app.own_games import News, own_games
from services.table.app.ports import GameLog, Store
from services.table.store.codec import day_text


def serve(server: Server, store: Store, log: GameLog) -> None:
    """Add the service to a server."""

    async def read(accounts: Sequence[UUID]) -> Iterable[Sequence[updates_pb2.Update]]:
        return [list(map(update_of, games)) for games in await own_games(store, log, accounts)]

    snapshots.serve(server, read, Access.by("accounts", "matchmaker"))


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
