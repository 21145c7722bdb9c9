"""A feed: whatever order snapshots and updates come in, streams end up with the newest, and never go back."""

import random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from levata.ledger.v1 import ledger_pb2
from levata.me.v1 import me_pb2, updates_pb2

from services.accounts.me.feed import ACCOUNT, BALANCES, GAMES, GONE_MAX, Feed
from services.accounts.me.stream import Stream

ACCOUNT_ID = UUID(int=1, version=4)


def account(number: int, name: str) -> updates_pb2.Update:
    return updates_pb2.Update(number=number, account=me_pb2.Account(account_id=str(ACCOUNT_ID), name=name))


def game(game_id: str, version: int, seat: int | None) -> updates_pb2.Update:
    told = None if seat is None else me_pb2.Game(game_id=game_id, seat=seat)
    return updates_pb2.Update(number=version, game=updates_pb2.GameUpdate(game_id=game_id, game=told))


def coins(number: int, free: int) -> updates_pb2.Update:
    told = me_pb2.Balances(balances=[ledger_pb2.Balance(currency="coin", free=free)])
    return updates_pb2.Update(number=number, balances=told)


class Client:
    """What a client has of each part: the last message of each kind, taken whenever it likes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.kinds: list[str] = []
        self.account: me_pb2.Account | None = None
        self.games: list[tuple[str, int]] | None = None
        self.coins: int | None = None
        self.unavailable: list[int] | None = None

    def read(self) -> "Client":
        while self._stream._waiting:
            response = me_pb2.WatchResponse.FromString(self._stream._waiting.pop(next(iter(self._stream._waiting))))
            kind = response.WhichOneof("kind")
            assert kind is not None
            self.kinds.append(kind)
            match kind:
                case "account":
                    self.account = response.account
                case "games":
                    self.games = [(each.game_id, each.seat) for each in response.games.games]
                case "balances":
                    self.coins = response.balances.balances[0].free
                case "status":
                    self.unavailable = list(response.status.unavailable)
        return self


def feed_with_client() -> tuple[Feed, Client]:
    feed = Feed(ACCOUNT_ID, [ACCOUNT, GAMES])
    return feed, Client(feed.join(1.0))


def ask(feed: Feed, source: str, *snapshot: updates_pb2.Update, at: float = 2.0) -> None:
    feed.begin(source)
    feed.take(source, snapshot, at)


def test_nothing_is_sent_before_every_source_was_asked_and_the_status_comes_last() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    feed.hear(game("a", 1, 0))
    assert client.read().kinds == []
    ask(feed, "table", game("a", 1, 0), game("b", 2, 3))
    assert client.read().kinds == ["account", "games", "status"]
    assert client.games == [("b", 3), ("a", 0)]
    assert client.unavailable == []


def test_a_part_that_changes_while_it_waits_still_comes_before_the_status() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    ask(feed, "table", game("a", 1, 0))
    feed.hear(account(2, "Zoe"))
    feed.hear(game("a", 2, 3))
    assert client.read().kinds == ["account", "games", "status"]
    assert client.games == [("a", 3)]
    # And a status that changes comes behind what it speaks of, wherever that stands.
    feed.begin("table")
    feed.miss("table", 3.0)
    ask(feed, "table", game("b", 1, 1))
    assert client.read().kinds[3:] == ["games", "status"]


def test_a_source_that_does_not_answer_is_told_and_comes_later() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    feed.begin("table")
    feed.miss("table", 2.0)
    assert client.read().kinds == ["account", "status"]
    assert client.unavailable == [me_pb2.PART_GAMES]
    feed.hear(game("a", 1, 0))
    assert client.read().games is None
    ask(feed, "table", game("a", 1, 0))
    client.read()
    assert (client.games, client.unavailable) == ([("a", 0)], [])
    feed.begin("table")
    feed.miss("table", 4.0)
    client.read()
    assert (client.games, client.unavailable) == ([("a", 0)], [me_pb2.PART_GAMES])


def test_an_answer_to_an_earlier_question_does_not_begin_a_stream() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"), at=0.5)
    ask(feed, "table", at=0.5)
    assert client.read().kinds == []
    ask(feed, "accounts", account(2, "Zoe"), at=1.0)
    ask(feed, "table", at=1.0)
    assert client.read().account is not None and client.account is not None and client.account.name == "Zoe"


def test_what_did_not_change_is_not_sent_again() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    ask(feed, "table", game("a", 1, 0))
    client.read().kinds.clear()
    ask(feed, "accounts", account(5, "Zoë"))
    ask(feed, "table", game("a", 7, 0))
    feed.hear(game("a", 8, 0))
    assert client.read().kinds == []
    feed.hear(game("a", 9, None))
    assert client.read().kinds == ["games"]
    assert client.games == []


def test_a_game_that_was_missed_to_its_end_goes_with_the_next_snapshot() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    ask(feed, "table", game("a", 1, 0), game("b", 1, 0))
    ask(feed, "table", game("b", 1, 0))
    assert client.read().games == [("b", 0)]


def test_a_slow_client_gets_the_present_and_no_more_than_a_message_a_part() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    ask(feed, "table")
    for version in range(1, 1000):
        feed.hear(game("a", version, version % 4))
    assert len(client._stream._waiting) == 3
    assert client.read().games == [("a", 999 % 4)]


def test_an_update_that_comes_late_brings_nothing_back() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    ask(feed, "table", game("a", 3, 0), game("b", 5, 1))
    feed.hear(game("a", 9, None))
    ask(feed, "table")
    feed.hear(game("a", 8, 0))
    feed.hear(game("b", 5, 1))
    assert client.read().games == []


def test_an_update_that_comes_late_while_the_service_is_asked_brings_nothing_back() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    feed.hear(game("a", 6, None))
    feed.begin("table")
    feed.hear(game("a", 3, 1))
    feed.take("table", [], 2.0)
    assert client.read().games == []


def test_what_is_gone_is_not_remembered_without_bound() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    for number in range(300):
        ask(feed, "table", game(f"{number}", 1, 0))
    assert len(feed._things) <= GONE_MAX + 2
    assert client.read().games == [("299", 0)]


def test_balances_of_an_earlier_moment_replace_none_of_a_later_one() -> None:
    feed = Feed(ACCOUNT_ID, [ACCOUNT, BALANCES])
    client = Client(feed.join(1.0))
    ask(feed, "accounts", account(1, "Zoë"))
    feed.hear(coins(7, 700))
    feed.begin("ledger")
    feed.hear(coins(9, 900))
    feed.hear(coins(8, 800))
    feed.take("ledger", [coins(8, 800)], 2.0)
    assert client.read().kinds == ["account", "balances", "status"]
    assert client.coins == 900
    feed.hear(coins(9, 1))
    feed.hear(coins(3, 300))
    assert (client.read().coins, client.kinds[3:]) == (900, [])
    feed.hear(coins(10, 0))
    assert client.read().coins == 0
    # What a rebuild has put right has no commit of a transfer, but a later moment.
    ask(feed, "ledger", coins(11, 50))
    assert client.read().coins == 50


def test_things_of_a_newer_service_are_passed_over() -> None:
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    # A kind that this version does not know is an update without a thing.
    feed.hear(updates_pb2.Update(number=3))
    feed.begin("table")
    feed.hear(updates_pb2.Update(number=4))
    feed.take("table", [updates_pb2.Update(number=5), game("a", 1, 2)], 2.0)
    ask(feed, "accounts", account(6, "Zoë"))
    assert client.read().games == [("a", 2)]


@given(st.integers(0, 1 << 32))
@settings(max_examples=300)
def test_any_order_of_updates_and_snapshots_ends_in_the_truth(seed: int) -> None:
    """Commits happen one after another; what is published of them comes late and in any order; every snapshot is read
    at some moment between its question and its answer."""
    chance = random.Random(seed)
    feed, client = feed_with_client()
    ask(feed, "accounts", account(1, "Zoë"))
    truth: dict[str, updates_pb2.Update] = {}
    in_flight: list[updates_pb2.Update] = []
    asked = False
    snapshot: list[updates_pb2.Update] | None = None

    def read_snapshot() -> list[updates_pb2.Update]:
        return [update for update in truth.values() if update.game.HasField("game")]

    for version in range(1, chance.randrange(20)):
        match chance.choice(("nothing", "begin", "read", "answer")):
            case "begin" if not asked:
                feed.begin("table")
                asked, snapshot = True, None
            case "read" if asked and snapshot is None:
                snapshot = read_snapshot()
            case "answer" if snapshot is not None:
                feed.take("table", snapshot, 2.0)
                asked, snapshot = False, None
        game_id = chance.choice(("a", "b", "c"))
        truth[game_id] = game(game_id, version, chance.choice((0, 1, 2, None)))
        in_flight.append(truth[game_id])
        while in_flight and chance.random() < 0.5:
            feed.hear(in_flight.pop(chance.randrange(len(in_flight))))
    if not asked:
        feed.begin("table")
    feed.take("table", read_snapshot() if snapshot is None else snapshot, 2.0)
    chance.shuffle(in_flight)
    for update in in_flight:
        feed.hear(update)
    expected = sorted(((each.game.game_id, each.game.game.seat) for each in read_snapshot()), reverse=True)
    assert client.read().games == expected
