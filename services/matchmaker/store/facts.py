"""What the matchmaker publishes of its tables: ids only."""

from collections.abc import Sequence
from uuid import UUID

from levata.matchmaker.v1 import facts_pb2
from levata.table.v1 import table_pb2

from chassis.log import NewFact
from services.matchmaker.domain.friendly import FriendlyTable
from services.matchmaker.domain.quick_play import Pool

SUBJECT = "levata.matches.{kind}.{table_id}"


def opened(
    table_id: UUID, pool: Pool, room: int = 0, mode: table_pb2.Mode.ValueType = table_pb2.MODE_QUICK_PLAY
) -> NewFact:
    """A table is there."""
    fact = facts_pb2.TableOpenedFact(mode=mode, game_type=pool.game_type, variant=pool.variant, room=room)
    return _fact(facts_pb2.TableFact(table_id=str(table_id), opened=fact))


def friendly_opened(table: FriendlyTable) -> NewFact:
    """A friendly table is there."""
    pool = Pool(table.options.game_type, table.options.variant)
    return opened(table.table_id, pool, mode=table_pb2.MODE_FRIENDLY)


def seated(table_id: UUID, account: UUID) -> NewFact:
    """Somebody took a seat."""
    fact = facts_pb2.PlayerSeatedFact(account_id=str(account))
    return _fact(facts_pb2.TableFact(table_id=str(table_id), seated=fact))


def started(table_id: UUID, game_id: UUID, accounts: Sequence[UUID]) -> NewFact:
    """Its game began."""
    fact = facts_pb2.GameStartedFact(game_id=str(game_id), account_ids=map(str, accounts))
    return _fact(facts_pb2.TableFact(table_id=str(table_id), started=fact))


def closed(table_id: UUID, reason: str) -> NewFact:
    """It is no more, and no game came of it."""
    return _fact(facts_pb2.TableFact(table_id=str(table_id), closed=facts_pb2.TableClosedFact(reason=reason)))


def _fact(fact: facts_pb2.TableFact) -> NewFact:
    subject = SUBJECT.format(kind=fact.WhichOneof("kind"), table_id=fact.table_id)
    return NewFact(subject, fact.SerializeToString())
