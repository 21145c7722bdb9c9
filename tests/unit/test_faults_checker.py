"""The checker of fault rounds finds nothing in a sound round, and every breach that is made in it.

The round is played here by the rules alone: a person in seat 0 with two devices, who came to it by a ticket, bots,
somebody who looks on, one decision left to the clock. Each test breaks one promise and names the checks that have to
say so.
"""

import copy
import dataclasses
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from levata.matchmaker.v1 import facts_pb2 as matches_pb2
from levata.table.v1 import facts_pb2, table_pb2

from chassis.log import Row, chain_start, next_chain
from rules import registry
from rules.cards import members
from rules.chance import Chance, game_seed
from rules.game import Rejection
from services.table import domain
from services.table.app.requests import PlayerCommand
from services.table.domain import Clock, Decider, Mode, Occupant, Secret, Step
from services.table.rpc.messages import CommitMessages, snapshot
from services.table.store.codec import encode
from services.table.store.facts import facts_of
from tools.faults.checker import check
from tools.faults.evidence import (
    Entrant,
    Evidence,
    Fact,
    Game,
    League,
    Ledger,
    Marks,
    Matches,
    Move,
    PlaceCount,
    SeatResult,
    Weeks,
)
from tools.faults.history import (
    Acknowledged,
    CancelAnswered,
    Client,
    Complained,
    Died,
    Enqueued,
    GameOpened,
    Heard,
    Held,
    History,
    Outage,
    Record,
    Refused,
    SaidHere,
    Sent,
    SignedIn,
    StreamOpened,
    TicketCancelled,
    TicketTold,
    Told,
)

GAME, OTHER_GAME = (f"00000000-0000-7000-8000-00000000000{number}" for number in (1, 2))
ACCOUNT, POOR = str(UUID(int=1)), str(UUID(int=2))
TICKET, OTHER_TICKET, TABLE = "ticket", "another ticket", "table"
SEATS = 6
OPENED_US = 1_000_000_000
# What the host is called in the log, and as a process.
HOST, PROCESS = "first host", "table-1"
CARD_SECONDS = 2
PHONE, BROWSER, ONLOOKER = "phone", "browser", "onlooker"


class Round:
    """A round as it was, to be doctored before it is checked."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        # The version at which the clock decided; 0 before it has.
        self.clock_version = 0
        self.records: list[Record] = [
            Client(PHONE, ACCOUNT, GAME),
            Client(BROWSER, ACCOUNT, GAME),
            Client(ONLOOKER, str(UUID(int=9)), GAME),
            SignedIn(1, "request", ACCOUNT),
            Held(1, GAME),
            GameOpened(1, GAME, 1),
            CancelAnswered(2, GAME, True),
            Held(3, OTHER_GAME),
            CancelAnswered(4, OTHER_GAME, False),
            Enqueued(1, 2, ACCOUNT, 1, TICKET),
            Enqueued(1, 3, ACCOUNT, 1, TICKET),
            TicketTold(3, ACCOUNT, TICKET, "WAITING"),
            SaidHere(4, 5, ACCOUNT),
            TicketTold(6, ACCOUNT, TICKET, "PLAYING", GAME),
            TicketTold(7, ACCOUNT, "", ""),
        ]
        self.facts: list[Fact] = []
        self.table_facts = [
            table_fact(1, opened=matches_pb2.TableOpenedFact(game_type="romanian_whist", variant="quick", room=2)),
            table_fact(2, seated=matches_pb2.PlayerSeatedFact(account_id=ACCOUNT)),
            table_fact(3, started=matches_pb2.GameStartedFact(game_id=GAME, account_ids=[ACCOUNT])),
        ]
        self.hosts = {HOST: PROCESS}
        self.league = League(0, frozenset(), frozenset(), ())
        self.ledger = Ledger(0, (), (), frozenset(), (), (), (), {}, (), ())
        self.begun = {GAME: True, OTHER_GAME: False}
        # The person becomes second.
        self._play(random.Random(2))
        self.ledger = self._pay()
        self.matches = Matches(len(self.facts), (), {}, ())

    def _play(self, chance: random.Random) -> None:
        step = _opened()
        before = None
        for client in (PHONE, BROWSER, ONLOOKER):
            self.records.append(StreamOpened(2, client, 1, 0))
        while True:
            table = step.table
            command = self._sent_for(step, before)
            self._append(step, before, command)
            if table.over:
                break
            # Bots decide at once, the person after a second, and once not at all.
            before = table
            if table.server_decides:
                decider, move, seconds = Decider.BOT, table.bot_move(), 0.001
            elif table.version > 12 and not any(row.kinds == domain.Kind.CLOCK_RESUMED for row in self.rows):
                # A host takes over.
                step = _done(domain.resume_clock(table, 2, HOST, table.opened_at_us + 100_000))
                continue
            elif table.version > 20 and not self.clock_version:
                decider, move, seconds = Decider.CLOCK, table.bot_move(), CARD_SECONDS + 0.1
                self.clock_version = table.version + 1
            else:
                decider, move, seconds = Decider.PERSON, chance.choice(list(members(table.legal))), 1.0
            now_us = table.opened_at_us + int(seconds * 1_000_000)
            step = _done(domain.move(table, table.turn, move, decider, now_us))
        finished = table.finished
        assert finished is not None
        result = SeatResult(GAME, 0, ACCOUNT, finished.standings[0])
        self.league = League(
            len(self.facts), frozenset({result}), frozenset({PlaceCount(ACCOUNT, result.place, 1)}), ()
        )

    def _pay(self) -> Ledger:
        """What the ledger has of the game, and of one that was cancelled; amounts are those of the platform page."""
        finished = self.game().tables[-1].finished
        assert finished is not None and finished.seats[0].eligible and finished.standings[0] == 2
        entrants, moves = [], []
        for game_id, end, kind in ((GAME, "entered", "post"), (OTHER_GAME, "released", "void")):
            of_game = f"{game_id}:{ACCOUNT}"
            entrants.append(Entrant(game_id, ACCOUNT, "", 200, 0, "coffee_2"))
            # Somebody who had too little.
            entrants.append(Entrant(game_id, POOR, "coin", 200, 0, ""))
            for currency, amount in (("coin", 200), ("coffee_2", 1)):
                moves.append(Move(f"entry:{of_game}", "pending", ACCOUNT, currency, -amount))
                moves.append(Move(f"{end}:{of_game}", kind, ACCOUNT, currency, -amount))
        moves.append(Move(f"prize:{GAME}:0", "posted", ACCOUNT, "coin", 700))
        moves.append(Move(f"first_game:2026-11-12:{ACCOUNT}", "posted", ACCOUNT, "gold", 5))
        sums = {"coin": 0, "gold": 0, "coffee_2": 0}
        return Ledger(len(self.facts), (), tuple(entrants), frozenset({GAME}), tuple(moves), (), (), sums, (), ())

    def _sent_for(self, step: Step, before: domain.Table | None) -> Sent | None:
        moved = step.commit.events[0]
        if before is None or not isinstance(moved, domain.Moved) or moved.decider is not Decider.PERSON:
            return None
        at_us = step.commit.decided_at_us
        sent = Sent(at_us - 1, PHONE, f"command {step.commit.version}", before.version, moved.move)
        self.records += [sent, Acknowledged(at_us + 1, PHONE, sent.command_id, step.commit.version)]
        return sent

    def _append(self, step: Step, before: domain.Table | None, sent: Sent | None) -> None:
        commit = step.commit
        payload, kinds = encode(commit), int(domain.kinds_of(commit))
        previous = self.rows[-1].chain if self.rows else chain_start(UUID(GAME))
        chain = next_chain(previous, commit.version, kinds, payload)
        command_id = None if sent is None else key(sent)
        self.rows.append(Row(commit.version, kinds, payload, chain, command_id, None, commit.decided_at_us))
        for fact in facts_of(UUID(GAME), before, commit, step.table):
            self.facts.append(Fact(len(self.facts) + 1, fact.subject, fact.payload, commit.decided_at_us))
        for client, viewer in ((PHONE, 0), (BROWSER, 0), (ONLOOKER, domain.SPECTATOR)):
            if before is None:
                response = table_pb2.WatchResponse.FromString(snapshot(step.table, viewer))
                kind, content = "snapshot", response.snapshot.SerializeToString()
            else:
                body = CommitMessages(before, commit, step.table).body(viewer)
                kind, content = "commit", table_pb2.Commit.FromString(body).SerializeToString()
            self.records.append(Told(commit.decided_at_us + 2, client, 1, kind, commit.version, content))

    def game(self) -> Game:
        """The game that the rows say."""
        return Game(GAME, self.rows)

    def evidence(self) -> Evidence:
        """What the checker is given."""
        history = History()
        for record in self.records:
            history.add(record)
        marks = Marks({"tables": 0, "matchmaker": 0})
        facts = {"tables": self.facts, "matchmaker": self.table_facts}
        games, league, ledger, matches = [self.game()], self.league, self.ledger, self.matches
        weeks = Weeks(None, (), (), (), frozenset(), (), ())
        return Evidence(history, games, facts, marks, league, ledger, matches, weeks, self.begun, self.hosts, 2)

    def findings(self) -> set[str]:
        """The checks that found something."""
        return {breach.partition(":")[0] for breach in check(self.evidence())}

    def index(self, kind: type[Record], number: int) -> int:
        """Where the record of a kind is that is the so-manieth of its kind."""
        return [index for index, record in enumerate(self.records) if isinstance(record, kind)][number]

    def told(self, client: str, version: int) -> int:
        """Where a client was told of a version."""
        for index, record in enumerate(self.records):
            if isinstance(record, Told) and (record.client, record.version) == (client, version):
                return index
        raise AssertionError("it never was")

    def tell_instead(self, client: str, version: int, other: tuple[str, int]) -> None:
        """Let a client be told of a version what another client, or it itself, was told of another one."""
        index = self.told(client, version)
        told, instead = self.records[index], self.records[self.told(*other)]
        assert isinstance(told, Told) and isinstance(instead, Told)
        self.records[index] = dataclasses.replace(told, content=instead.content)

    def clock_time(self) -> tuple[int, int]:
        """The decision that was left to the clock: when it opened and when it was taken, in microseconds."""
        game, version = self.game(), self.clock_version
        before = game.before(version)
        assert before is not None
        return before.opened_at_us, game.commits[version - 1].decided_at_us

    def hear_all(self) -> None:
        """Everybody has heard all facts, however many there are now."""
        last = self.facts[-1].number
        self.league = dataclasses.replace(self.league, heard=last)
        self.ledger = dataclasses.replace(self.ledger, heard=last)
        self.matches = dataclasses.replace(self.matches, heard=last)

    def rewrite(self, version: int, commit: domain.Commit) -> None:
        """Put another commit into the log, with a chain that holds from there on."""
        self.rows[version - 1].payload = encode(commit)
        self.rechain()

    def rechain(self) -> None:
        """Make the chain hold."""
        chain = chain_start(UUID(GAME))
        for row in self.rows:
            row.chain = chain = next_chain(chain, row.version, row.kinds, row.payload)


def table_fact(number: int, **told: Any) -> Fact:
    """A fact of the table at which the game began; it waited for as long as tables wait."""
    fact = matches_pb2.TableFact(table_id=TABLE, **told)
    subject = f"levata.matches.{fact.WhichOneof('kind')}.{TABLE}"
    return Fact(number, subject, fact.SerializeToString(), OPENED_US + (number - 3) * 5_000_000)


def key(sent: Sent) -> UUID:
    """What the log knows a command by."""
    return PlayerCommand.of(ACCOUNT, sent.command_id, sent.at_version, sent.move).name.key


def _opened() -> Step:
    game = registry.game("romanian_whist")
    assert game is not None
    secret = Secret(b"seed" * 8, (b"",) * SEATS)
    setup = game.setup("quick", SEATS, Chance(game_seed(secret.server_seed, UUID(GAME).bytes, secret.nonces)))
    assert not isinstance(setup, Rejection)
    return domain.open_table(
        game_id=UUID(GAME).bytes,
        game=game,
        setup=setup,
        mode=Mode.QUICK_PLAY,
        seats=[
            Occupant(ACCOUNT, room=2, coins=200, prize=500, coffee="coffee_2"),
            *[Occupant(bot_level="steady")] * (SEATS - 1),
        ],
        clock=Clock(CARD_SECONDS, CARD_SECONDS),
        secret=secret,
        host=HOST,
        now_us=OPENED_US,
    )


def _done(step: Step | Rejection) -> Step:
    assert isinstance(step, Step)
    return step


@pytest.fixture(scope="module")
def sound() -> Round:
    """A sound round."""
    return Round()


@pytest.fixture
def played(sound: Round) -> Round:
    """A sound round of one's own."""
    return copy.deepcopy(sound)


def test_sound_round(played: Round) -> None:
    assert check(played.evidence()) == []
    # There is something to be found in it.
    assert played.clock_version > 20
    assert len(played.rows) > 100
    assert len(played.facts) == 8


def lost_move(played: Round) -> None:
    """Acknowledged at a version that the log does not have."""
    index = played.index(Acknowledged, -1)
    last = played.records[index]
    assert isinstance(last, Acknowledged)
    played.records[index] = dataclasses.replace(last, version=len(played.rows) + 1)


def lost_tail(played: Round) -> None:
    """The last commits are gone, though they were acknowledged and told."""
    del played.rows[-40:]


def move_of_another(played: Round) -> None:
    """Where the acknowledged move should be, the log has another command."""
    first = next(record for record in played.records if isinstance(record, Acknowledged))
    played.rows[first.version - 1].command_id = UUID(int=77)


def doubled_move(played: Round) -> None:
    """Two rows carry one command."""
    first, second, *_ = [record for record in played.records if isinstance(record, Acknowledged)]
    played.rows[second.version - 1].command_id = played.rows[first.version - 1].command_id


def hole(played: Round) -> None:
    """A version is missing."""
    del played.rows[50]


def bent_chain(played: Round) -> None:
    """A row's payload is not what the chain was made of."""
    played.rows[50].payload += b"\x28\x01"


def other_bot_move(played: Round) -> None:
    """The server played something else than its bot would; the chain holds."""
    game = played.game()
    for version in range(len(played.rows), 1, -1):
        before, commit = game.before(version), game.commits[version - 1]
        assert before is not None
        moved = commit.events[0]
        if isinstance(moved, domain.Moved) and moved.decider is Decider.BOT:
            others = [move for move in members(before.legal) if move != moved.move]
            if others:
                other = domain.move(before, moved.seat, others[0], Decider.BOT, commit.decided_at_us)
                played.rewrite(version, _done(other).commit)
                return
    raise AssertionError("no bot ever had a choice")


def unequal_views(played: Round) -> None:
    """The browser is shown another thing than the phone."""
    played.tell_instead(BROWSER, 30, (BROWSER, 31))


def shown_too_much(played: Round) -> None:
    """The onlooker is shown the hand of seat 0."""
    played.tell_instead(ONLOOKER, 1, (PHONE, 1))


def told_too_early(played: Round) -> None:
    """The phone was told of a commit that never came to be."""
    played.records.append(Told(1, PHONE, 1, "commit", len(played.rows) + 1, b"x"))


def skipped_version(played: Round) -> None:
    """A stream skips a version."""
    del played.records[played.told(BROWSER, 30)]


def version_twice(played: Round) -> None:
    """A stream tells a version twice."""
    index = played.told(BROWSER, 30)
    played.records.insert(index, played.records[index])


def heartbeat_ahead(played: Round) -> None:
    """A heartbeat tells of a version that was not sent."""
    played.records.insert(played.told(BROWSER, 31), Told(1, BROWSER, 1, "heartbeat", 31))


def end_untold(played: Round) -> None:
    """The browser never heard how the game ended."""
    del played.records[played.told(BROWSER, len(played.rows))]


def refused_and_made(played: Round) -> None:
    """The phone was told that a move was not taken, and it was."""
    sent = next(record for record in played.records if isinstance(record, Sent))
    played.records.append(Refused(10**15, PHONE, sent.command_id, "STALE"))


def refused_too_early(played: Round) -> None:
    """A move is refused as stale while its decision is open."""
    sent = Sent(5, PHONE, "another", 1, 0)
    played.records += [sent, Refused(5, PHONE, "another", "STALE")]


def move_of_nobody(played: Round) -> None:
    """A person's move that nobody sent."""
    index = played.index(Sent, 3)
    sent = played.records[index]
    assert isinstance(sent, Sent)
    played.records = [record for record in played.records if getattr(record, "command_id", "") != sent.command_id]


def late_for_another_decision(played: Round) -> None:
    """What was sent for an earlier decision is played in a later one."""
    index = played.index(Sent, 3)
    sent = played.records[index]
    assert isinstance(sent, Sent)
    later = dataclasses.replace(sent, at_version=1)
    played.records[index] = later
    acknowledged = next(
        record for record in played.records if isinstance(record, Acknowledged) and record.command_id == sent.command_id
    )
    played.rows[acknowledged.version - 1].command_id = key(later)


def early_expiry(played: Round) -> None:
    """The clock decides a moment before its time; all that follows in the same commit is right."""
    version = played.clock_version
    game = played.game()
    before = game.before(version)
    assert before is not None
    moved = game.commits[version - 1].events[0]
    assert isinstance(moved, domain.Moved)
    early = domain.move(before, moved.seat, moved.move, Decider.CLOCK, before.deadline_us - 1)
    played.rewrite(version, _done(early).commit)


def outage(target: str, seconds: float) -> Callable[[Round], None]:
    """Something was out within the time that was left to the clock."""

    def doctor(played: Round) -> None:
        opened_us, _ = played.clock_time()
        played.records.append(Outage(target, "stall", opened_us + 1, opened_us + 1 + int(seconds * 1_000_000)))

    return doctor


def away_though_heard(played: Round) -> None:
    """A person is sent away a moment after having been heard; the game goes on from there by itself."""
    game = played.game()
    version = next(
        version for version in range(40, 200) if not game.after(version).server_decides and not game.after(version).over
    )
    table = game.after(version)
    del played.rows[version:]
    step = _done(domain.go_away(table, [0], table.opened_at_us + 500_000))
    payload, kinds = encode(step.commit), int(domain.kinds_of(step.commit))
    chain = next_chain(played.rows[-1].chain, step.commit.version, kinds, payload)
    played.rows.append(Row(step.commit.version, kinds, payload, chain, None, None, 0))
    played.records.append(Heard(table.opened_at_us + 400_000, PHONE))


def earlier_epoch(played: Round) -> None:
    """A host that was overtaken writes again."""
    version = next(row.version for row in played.rows if row.kinds == domain.Kind.CLOCK_RESUMED)
    later = domain.Commit(
        version,
        played.game().commits[version - 1].decided_at_us,
        (domain.ClockResumed(3, HOST), domain.ClockResumed(1, HOST)),
    )
    played.rewrite(version, later)


def lost_fact(played: Round) -> None:
    """A number is missing among the facts."""
    del played.facts[3]


def doubled_fact(played: Round) -> None:
    """A fact is told twice, under two numbers."""
    last = played.facts[-1]
    played.facts.append(Fact(last.number + 1, last.subject, last.payload, last.at_us))
    played.hear_all()


def deaf_league(played: Round) -> None:
    """The league has not heard the end."""
    played.league = League(played.league.heard - 1, frozenset(), frozenset(), ())


def doubled_effect(played: Round) -> None:
    """The league counted a place twice."""
    [count] = played.league.counts
    played.league = dataclasses.replace(
        played.league, counts=frozenset({PlaceCount(count.account, count.place, count.games + 1)})
    )


def parked_fact(played: Round) -> None:
    """The league could not take a fact."""
    played.league = dataclasses.replace(played.league, parked=(5,))


def lost_creation(played: Round) -> None:
    """A game whose creation was acknowledged is not there."""
    played.records.append(GameOpened(1, str(UUID(int=5)), 1))


def two_guests(played: Round) -> None:
    """One request made two guests."""
    played.records.append(SignedIn(2, "request", str(UUID(int=4))))


def money(**doctored: object) -> Callable[[Round], None]:
    """The ledger has something else."""

    def doctor(played: Round) -> None:
        played.ledger = dataclasses.replace(played.ledger, **doctored)  # type: ignore[arg-type]

    return doctor


def instead(prefix: str, **doctored: object) -> Callable[[Round], None]:
    """The ledger has moved something else under the keys that begin so; with nothing doctored it has moved nothing."""

    def doctor(played: Round) -> None:
        assert any(move.key.startswith(prefix) for move in played.ledger.moves)
        moves = [
            dataclasses.replace(move, **doctored) if move.key.startswith(prefix) else move  # type: ignore[arg-type]
            for move in played.ledger.moves
            if doctored or not move.key.startswith(prefix)
        ]
        played.ledger = dataclasses.replace(played.ledger, moves=tuple(moves))

    return doctor


def twice(prefix: str) -> Callable[[Round], None]:
    """The ledger has done something twice."""

    def doctor(played: Round) -> None:
        again = tuple(move for move in played.ledger.moves if move.key.startswith(prefix))
        assert again
        played.ledger = dataclasses.replace(played.ledger, moves=played.ledger.moves + again)

    return doctor


def taken_though_cancelled(played: Round) -> None:
    """The entry of a game that never began is taken."""
    released = next(move for move in played.ledger.moves if move.key.startswith("released:"))
    instead("released:", key=released.key.replace("released", "entered"), kind="post")(played)


def cancelled_and_played(played: Round) -> None:
    """Who cancelled was told that it is no game."""
    played.records[played.index(CancelAnswered, 0)] = CancelAnswered(2, GAME, False)


def second_seat(played: Round) -> None:
    """Another quick-play game begins with the person before the first one is over."""
    fact = facts_pb2.GameFact(game_id=OTHER_GAME, version=1)
    fact.created.mode = table_pb2.MODE_QUICK_PLAY
    fact.created.seats.add(account_id=ACCOUNT)
    other = Fact(0, f"levata.games.created.{OTHER_GAME}", fact.SerializeToString(), OPENED_US)
    facts = [played.facts[0], other, *played.facts[1:]]
    played.facts = [dataclasses.replace(each, number=number) for number, each in enumerate(facts, start=1)]
    played.hear_all()


def matchmaker(**doctored: object) -> Callable[[Round], None]:
    """The matchmaker has something else."""

    def doctor(played: Round) -> None:
        played.matches = dataclasses.replace(played.matches, **doctored)  # type: ignore[arg-type]

    return doctor


def history(*records: Record) -> Callable[[Round], None]:
    """This happened as well."""

    def doctor(played: Round) -> None:
        played.records += records

    return doctor


def untold(played: Round) -> None:
    """The person was never told that the game has begun."""
    played.records = [
        record for record in played.records if not (isinstance(record, TicketTold) and record.state == "PLAYING")
    ]


def table(*kept: int, seconds: float = 0) -> Callable[[Round], None]:
    """The table's facts are these, by number, numbered anew; its game began so much earlier."""

    def doctor(played: Round) -> None:
        facts = [played.table_facts[number - 1] for number in kept]
        played.table_facts = [dataclasses.replace(fact, number=nth) for nth, fact in enumerate(facts, start=1)]
        last = played.table_facts[-1]
        played.table_facts[-1] = dataclasses.replace(last, at_us=last.at_us - int(seconds * 1_000_000))

    return doctor


def dead_process(played: Round) -> None:
    """A service ended by itself."""
    played.records.append(Died(1, PROCESS, 1))


def complaint(played: Round) -> None:
    """A client met what must not be."""
    played.records.append(Complained(1, PHONE, "a refusal without a reason"))


@pytest.mark.parametrize(
    ("doctor", "findings"),
    [
        (lost_move, {"acknowledged_moves_are_kept"}),
        (
            lost_tail,
            {
                "games_finish",
                "acknowledged_moves_are_kept",
                "viewers_see_the_log",
                "facts_are_the_log",
                "league_counts_the_log",
                "entries_and_prizes_are_right",
                "first_games_are_paid_once_a_day",
            },
        ),
        (move_of_another, {"acknowledged_moves_are_kept", "moves_are_made_once"}),
        (doubled_move, {"acknowledged_moves_are_kept", "moves_are_made_once"}),
        (
            hole,
            {
                "logs_are_sound",
                "games_finish",
                "acknowledged_moves_are_kept",
                "viewers_see_the_log",
                "facts_are_the_log",
                "league_counts_the_log",
                "entries_and_prizes_are_right",
                "first_games_are_paid_once_a_day",
            },
        ),
        (
            bent_chain,
            {
                "logs_are_sound",
                "games_finish",
                "acknowledged_moves_are_kept",
                "viewers_see_the_log",
                "facts_are_the_log",
                "league_counts_the_log",
                "entries_and_prizes_are_right",
                "first_games_are_paid_once_a_day",
            },
        ),
        (unequal_views, {"viewers_see_the_log", "views_are_equal"}),
        (shown_too_much, {"viewers_see_the_log"}),
        (told_too_early, {"viewers_see_the_log", "games_finish"}),
        (skipped_version, {"streams_have_no_holes"}),
        (version_twice, {"streams_have_no_holes"}),
        (heartbeat_ahead, {"streams_have_no_holes"}),
        (end_untold, {"games_finish"}),
        (refused_and_made, {"refused_moves_are_not_made"}),
        (refused_too_early, {"refused_moves_are_not_made"}),
        (move_of_nobody, {"moves_are_made_once"}),
        (late_for_another_decision, {"moves_are_made_once"}),
        (early_expiry, {"nobody_loses_on_time_through_an_outage", "viewers_see_the_log"}),
        (outage(PROCESS, 2), {"nobody_loses_on_time_through_an_outage"}),
        (outage("postgres", 2), {"nobody_loses_on_time_through_an_outage"}),
        (outage(f"{PROCESS}>postgres", 2), {"nobody_loses_on_time_through_an_outage"}),
        (outage("nats", 2), {"nobody_loses_on_time_through_an_outage"}),
        # Too short to be noticed; another host's; somebody's own network.
        (outage(PROCESS, 1), set()),
        (outage("table-2", 2), set()),
        (outage(f">{PROCESS}", 2), set()),
        (earlier_epoch, {"hosts_take_turns", "viewers_see_the_log"}),
        (lost_fact, {"facts_are_the_log"}),
        (doubled_fact, {"facts_are_the_log"}),
        (deaf_league, {"league_counts_the_log"}),
        (doubled_effect, {"league_counts_the_log"}),
        (parked_fact, {"league_counts_the_log"}),
        (lost_creation, {"creations_are_kept"}),
        (two_guests, {"guests_stay_who_they_are"}),
        (money(sums={"coin": 1, "gold": 0}), {"money_is_conserved"}),
        (money(rebuilt=("a balance",)), {"money_is_conserved"}),
        (money(audited=("an entry",)), {"games_move_what_their_facts_say"}),
        (money(heard=7), {"games_move_what_their_facts_say"}),
        (money(parked=(3,)), {"games_move_what_their_facts_say"}),
        (money(open_holds=(OTHER_GAME,)), {"nothing_is_held_for_good"}),
        (money(pending=("entry:…",)), {"nothing_is_held_for_good"}),
        (money(settled=frozenset()), {"entries_and_prizes_are_right"}),
        (money(settled=frozenset({GAME, OTHER_GAME})), {"entries_and_prizes_are_right"}),
        (instead("prize:"), {"entries_and_prizes_are_right"}),
        (instead("prize:", amount=699), {"entries_and_prizes_are_right"}),
        (instead("prize:", account=POOR), {"entries_and_prizes_are_right"}),
        (twice("prize:"), {"entries_and_prizes_are_right"}),
        (twice("entered:"), {"entries_and_prizes_are_right"}),
        (instead("entered:"), {"entries_and_prizes_are_right"}),
        (taken_though_cancelled, {"entries_and_prizes_are_right"}),
        (cancelled_and_played, {"cancellation_and_creation_agree"}),
        (instead("first_game:"), {"first_games_are_paid_once_a_day"}),
        (instead("first_game:", amount=10), {"first_games_are_paid_once_a_day"}),
        (twice("first_game:"), {"first_games_are_paid_once_a_day"}),
        (second_seat, {"nobody_has_two_seats", "players_know_their_games", "tables_become_games_once"}),
        (matchmaker(heard=7), {"nobody_searches_for_ever"}),
        (matchmaker(parked=(3,)), {"nobody_searches_for_ever"}),
        (matchmaker(tickets={ACCOUNT: 1}), {"nobody_searches_for_ever"}),
        (matchmaker(tables=(TABLE,)), {"nobody_searches_for_ever"}),
        (history(Enqueued(1, 4, ACCOUNT, 1, OTHER_TICKET)), {"a_search_has_one_ticket"}),
        (history(TicketTold(9, POOR, OTHER_TICKET, "ENDED", "", "GONE")), set()),
        (
            history(
                Enqueued(8, 9, POOR, 1, OTHER_TICKET),
                SaidHere(5_000_000, 5_000_001, POOR),
                TicketTold(11_000_000, POOR, OTHER_TICKET, "ENDED", "", "GONE"),
            ),
            {"nobody_is_gone_who_was_heard"},
        ),
        (
            history(
                Enqueued(8, 9, POOR, 1, OTHER_TICKET),
                SaidHere(5_000_000, 10_000_009, POOR),
                TicketTold(11_000_000, POOR, OTHER_TICKET, "ENDED", "", "GONE"),
            ),
            set(),
        ),
        (history(TicketTold(9, ACCOUNT, TICKET, "SEATED")), {"tickets_never_go_back"}),
        (untold, {"players_know_their_games"}),
        (history(TicketTold(9, ACCOUNT, OTHER_TICKET, "PLAYING", OTHER_GAME)), {"players_know_their_games"}),
        (history(TicketCancelled(9, ACCOUNT, TICKET)), {"players_know_their_games"}),
        (table(1, 2), {"tables_become_games_once"}),
        (table(1, 3), {"tables_become_games_once"}),
        (table(2, 1, 3), {"tables_become_games_once"}),
        (table(1, 2, 3, 3), {"tables_become_games_once"}),
        (table(1, 2, 3, seconds=9), {"tables_are_not_dealt_short"}),
        (table(1, 2, 3, seconds=0.5), set()),
        (dead_process, {"processes_hold_out"}),
        (complaint, {"processes_hold_out"}),
    ],
)
def test_breach_is_found(played: Round, doctor: Callable[[Round], None], findings: set[str]) -> None:
    doctor(played)
    assert played.findings() == findings


@pytest.mark.parametrize(
    ("doctor", "finding"),
    [(other_bot_move, "commits_follow_the_rules"), (away_though_heard, "nobody_is_away_who_was_heard")],
)
def test_breach_is_found_among_its_consequences(played: Round, doctor: Callable[[Round], None], finding: str) -> None:
    """What the log says from there on is another game than the clients saw."""
    doctor(played)
    assert finding in played.findings()
