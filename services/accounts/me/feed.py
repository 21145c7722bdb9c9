"""What is known of one account, and how it is shown to its streams.

Services tell of *things*, each under a key and with a number; clients are shown *parts*, whole. A part is shown once
its service has been asked, and from then on whenever it looks different.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from levata.me.v1 import me_pb2, updates_pb2

from chassis.errors import Refused
from services.accounts.me.stream import Stream

# Which thing: its kind, and its name among those of the kind.
Key: TypeAlias = tuple[str, str]

_KIND: Final = me_pb2.WatchResponse.DESCRIPTOR.oneofs_by_name["kind"]
_SLOTS: Final = {field.name: field.number for field in _KIND.fields}


# Things that are no more are remembered, so that an update that comes late does not bring them back: so many of a feed.
GONE_MAX: Final = 100


class Thing(NamedTuple):
    """What was told last of a thing."""

    number: int
    # None: it is no more.
    state: updates_pb2.Update | None


Things: TypeAlias = dict[Key, Thing]


class Topic(NamedTuple):
    """What one source tells of."""

    source: str
    # The things' kind, and the part that they make up.
    thing: str
    part: "me_pb2.Part.ValueType"


ACCOUNT: Final = Topic("accounts", "account", me_pb2.PART_ACCOUNT)
GAMES: Final = Topic("table", "game", me_pb2.PART_GAMES)
BALANCES: Final = Topic("ledger", "balances", me_pb2.PART_BALANCES)
STANDING: Final = Topic("league", "standing", me_pb2.PART_STANDING)
SEARCH: Final = Topic("matchmaker", "search", me_pb2.PART_SEARCH)
WAITING_TABLE: Final = Topic("matchmaker", "waiting_table", me_pb2.PART_WAITING_TABLE)
_TOPIC_OF: Final = {topic.thing: topic for topic in (ACCOUNT, GAMES, BALANCES, STANDING, SEARCH, WAITING_TABLE)}


class Feed:
    """One account's state and streams. Does not wait, and knows no network."""

    def __init__(self, account_id: UUID, topics: Sequence[Topic]) -> None:
        self.account_id = account_id
        self.streams: set[Stream] = set()
        self._sources = {topic.source for topic in topics}
        self._things: Things = {}
        # By source that is being asked: what was heard since it was.
        self._heard: dict[str, Things] = {}
        # Sources that have answered at least once, and those that did not the last time.
        self._known: set[str] = set()
        self._unavailable: set[str] = set()
        # What is shown, by slot.
        self._shown: dict[int, bytes] = {}

    # Streams

    def join(self, now: float) -> Stream:
        """A stream that begins as soon as each source has been asked from now on."""
        stream = Stream(now, set(self._sources))
        self.streams.add(stream)
        return stream

    def close(self, reason: str) -> None:
        """End all streams in order."""
        closing = me_pb2.WatchResponse(closing=me_pb2.Closing(reason=reason)).SerializeToString()
        for stream in self.streams:
            stream.end(_SLOTS["closing"], closing)

    def refuse(self, refused: Refused) -> None:
        """End all streams with an error."""
        for stream in self.streams:
            stream.refuse(refused)

    # What comes in

    def hear(self, update: updates_pb2.Update) -> None:
        """A service has published this."""
        key, thing = _read(update)
        topic = _TOPIC_OF.get(key[0])
        if topic is None:
            # Of a kind that a newer service knows.
            return
        if _keep_newer(self._things, key, thing):
            if topic.source in self._heard:
                self._heard[topic.source][key] = thing
            if topic.source in self._known:
                self._show(topic)

    def begin(self, source: str) -> None:
        """This source is being asked."""
        self._heard[source] = {}

    def take(self, source: str, snapshot: Iterable[updates_pb2.Update], began_at: float) -> None:
        """It has answered with all that it knows. What it published meanwhile may be newer, or be in it already."""
        fresh: Things = {}
        for key, thing in map(_read, snapshot):
            topic = _TOPIC_OF.get(key[0])
            # A newer service may tell of more than is known here.
            if topic is not None and topic.source == source:
                _keep_newer(fresh, key, thing)
        for key, thing in self._heard.pop(source).items():
            _keep_newer(fresh, key, thing)
        others, own = self._split(source)
        gone = [(key, Thing(thing.number, None)) for key, thing in own.items() if key not in fresh]
        self._things = others | dict(gone[-GONE_MAX:]) | fresh
        self._known.add(source)
        self._unavailable.discard(source)
        for topic in _TOPIC_OF.values():
            if topic.source == source:
                self._show(topic)
        self._show_status()
        self._asked(source, began_at)

    def miss(self, source: str, began_at: float) -> None:
        """It has not answered."""
        del self._heard[source]
        self._unavailable.add(source)
        self._show_status()
        self._asked(source, began_at)

    def _split(self, source: str) -> tuple[Things, Things]:
        """Things of other sources, and of this one."""
        others: Things = {}
        own: Things = {}
        for key, thing in self._things.items():
            (own if _TOPIC_OF[key[0]].source == source else others)[key] = thing
        return others, own

    # What goes out

    def _asked(self, source: str, began_at: float) -> None:
        for stream in self.streams:
            if stream.awaits and stream.opened_at <= began_at:
                stream.awaits.discard(source)
                if not stream.awaits:
                    # The status has the highest number: it speaks of what was sent before it.
                    for slot in sorted(self._shown):
                        _put(stream, slot, self._shown[slot])

    def _show(self, topic: Topic) -> None:
        """Show what has changed of one topic, and look at no other: this runs for every update."""
        message = _part(topic.thing, list(self._states(topic.thing)))
        if message is not None:
            self._put(message)

    def _show_status(self) -> None:
        unavailable = sorted(topic.part for topic in _TOPIC_OF.values() if topic.source in self._unavailable)
        self._put(me_pb2.WatchResponse(status=me_pb2.Status(unavailable=unavailable)))

    def _put(self, message: me_pb2.WatchResponse) -> None:
        """Show this, if it looks different from what was shown before."""
        kind, encoded = message.WhichOneof("kind"), message.SerializeToString()
        assert kind is not None
        slot = _SLOTS[kind]
        if self._shown.get(slot) == encoded:
            return
        self._shown[slot] = encoded
        for stream in self.streams:
            if not stream.awaits:
                _put(stream, slot, encoded)

    def _states(self, kind: str) -> Iterator[updates_pb2.Update]:
        for (kind_of_thing, _), thing in self._things.items():
            if kind_of_thing == kind and thing.state is not None:
                yield thing.state


def _part(kind: str, states: Sequence[updates_pb2.Update]) -> me_pb2.WatchResponse | None:
    """A part as clients are shown it; None where its service has told nothing of it."""
    match kind:
        case "game":
            # Their ids begin with the time.
            games = sorted((update.game.game for update in states), key=lambda game: game.game_id, reverse=True)
            return me_pb2.WatchResponse(games=me_pb2.Games(games=games))
        case "search":
            return me_pb2.WatchResponse(search=states[0].search if states else me_pb2.Search())
        case "waiting_table":
            table = states[0].waiting_table if states else me_pb2.WaitingTable()
            return me_pb2.WatchResponse(waiting_table=table)
        case "account" if states:
            return me_pb2.WatchResponse(account=states[0].account)
        case "balances" if states:
            return me_pb2.WatchResponse(balances=states[0].balances)
        case "standing" if states:
            return me_pb2.WatchResponse(standing=states[0].standing)
        case _:
            return None


def _put(stream: Stream, slot: int, message: bytes) -> None:
    # A status overtakes nothing that it speaks of, and a part that changes while it waits stays in front of it.
    stream.put(slot, message, last=slot == _SLOTS["status"])


def _read(update: updates_pb2.Update) -> tuple[Key, Thing]:
    kind = update.WhichOneof("thing") or ""
    if kind != "game":
        return (kind, ""), Thing(update.number, update)
    is_there = update.game.HasField("game")
    return (kind, update.game.game_id), Thing(update.number, update if is_there else None)


def _keep_newer(things: Things, key: Key, thing: Thing) -> bool:
    known = things.get(key)
    if known is not None and known.number >= thing.number:
        return False
    things[key] = thing
    return True
