"""Holds what clients were told, and what other services made of it, against the log: every promise is a check.

A check is a function from the evidence of a round to a sentence for each way in which it was broken. It trusts nothing
but the stored rows and the rules: the fold of a game says what each viewer had to be sent, byte by byte.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias
from uuid import UUID

from levata.table.v1 import table_pb2

from rules.game import Rejection
from services.table import domain
from services.table.app.presence import GRACE_SECONDS
from services.table.app.requests import PlayerCommand
from services.table.domain import ClockResumed, Decider, Moved, SeatChanged
from services.table.rpc.messages import CommitMessages, snapshot
from services.table.store.facts import facts_of
from tools.faults import matches, money, weeks
from tools.faults.evidence import Evidence, Game, PlaceCount, SeatResult
from tools.faults.history import (
    Acknowledged,
    Client,
    Complained,
    Died,
    GameOpened,
    Heard,
    Outage,
    Refused,
    Sent,
    SignedIn,
    StreamOpened,
    Told,
)

Check: TypeAlias = Callable[[Evidence], Iterator[str]]

# An outage that took less than this from a decision's time may go unnoticed by its host: a heartbeat a second, and half
# a second by which a loop may be late.
TOLERATED_SECONDS: Final = 1.5
# From when the server heard somebody to when they are told so.
ROUND_TRIP_SECONDS: Final = 1.0


def check(evidence: Evidence) -> list[str]:
    """Every breach of every promise."""
    return [f"{each.__name__}: {breach}" for each in CHECKS for breach in each(evidence)]


def logs_are_sound(evidence: Evidence) -> Iterator[str]:
    """Versions run without holes, the chain holds, and the log folds."""
    for game in evidence.games.values():
        if game.problem:
            yield f"game {game.game_id}: {game.problem}"


def games_finish(evidence: Evidence) -> Iterator[str]:
    """Every game reaches its end, and everybody who followed it was told so."""
    for game in evidence.games.values():
        if not game.tables or game.tables[-1].finished is None:
            yield f"game {game.game_id} is not finished: {_where(game)}"
    told = {each.client: each.version for each in evidence.history.of(Told)}
    for client in evidence.history.of(Client):
        game = evidence.games[client.game_id]
        if told.get(client.name, 0) != game.version:
            yield f"{client.name} was told up to version {told.get(client.name, 0)} of {game.version}"


def _where(game: Game) -> str:
    if not game.tables:
        return "it never began"
    table = game.tables[-1]
    last = game.commits[-1]
    return f"version {table.version}, decided at {last.decided_at_us}, waits for seat {table.turn}"


def commits_follow_the_rules(evidence: Evidence) -> Iterator[str]:
    """Every move is one that the rules allow, with all that follows from it; the server plays only as its bots do."""
    for game in evidence.games.values():
        for commit in game.commits:
            before = game.before(commit.version)
            for event in commit.events:
                if isinstance(event, Moved) and before is not None:
                    where = f"game {game.game_id}, version {commit.version}"
                    step = domain.move(before, event.seat, event.move, event.decider, commit.decided_at_us)
                    if isinstance(step, Rejection) or step.commit != commit:
                        yield f"{where}: {commit} does not follow, but {step}"
                    if event.decider is not Decider.PERSON and event.move != before.bot_move():
                        yield f"{where}: the server played {event.move}, its bot {before.bot_move()}"
                    if (event.decider is Decider.BOT) != before.server_decides:
                        yield f"{where}: {event.decider.name} decided for {before.occupants[event.seat]}"


def acknowledged_moves_are_kept(evidence: Evidence) -> Iterator[str]:
    """What a client was told is in the log, is there at that version, as that client's move."""
    sent = _sent(evidence)
    for answer in evidence.history.of(Acknowledged):
        client, command = sent[answer.client, answer.command_id]
        game = evidence.games[client.game_id]
        if not 1 < answer.version <= game.version:
            yield f"{client.name}: the move acknowledged at version {answer.version} is lost; there are {game.version}"
        elif game.rows[answer.version - 1].command_id != _key(client, command):
            yield f"{client.name}: version {answer.version} was acknowledged, but another command is there"


def moves_are_made_once(evidence: Evidence) -> Iterator[str]:
    """A command is in the log at most once, as it was sent and for the decision that it was for; nobody else moves."""
    keys = {(client.game_id, _key(client, command)): (client, command) for client, command in _sent(evidence).values()}
    for game in evidence.games.values():
        for command_id, count in Counter(row.command_id for row in game.rows).items():
            if command_id is not None and count > 1:
                yield f"game {game.game_id}: command {command_id} is in the log {count} times"
        for commit, row in zip(game.commits, game.rows, strict=False):
            for event in commit.events:
                if not isinstance(event, Moved) or event.decider is not Decider.PERSON:
                    continue
                sender = keys.get((game.game_id, row.command_id)) if row.command_id else None
                if sender is None:
                    yield f"game {game.game_id}, version {commit.version}: a move that nobody sent"
                    continue
                client, command = sender
                before = game.before(commit.version)
                assert before is not None
                if (event.seat, event.move) != (before.seat_of(client.account), command.move):
                    yield f"game {game.game_id}, version {commit.version}: {event} is not what {client.name} sent"
                if command.at_version < before.opened_version:
                    yield f"game {game.game_id}, version {commit.version}: the move was for an earlier decision"


def refused_moves_are_not_made(evidence: Evidence) -> Iterator[str]:
    """What a client was told is refused is not in the log, and its decision was closed by then."""
    sent = _sent(evidence)
    for refusal in evidence.history.of(Refused):
        client, command = sent[refusal.client, refusal.command_id]
        game = evidence.games[client.game_id]
        version = game.version_of.get(_key(client, command))
        if version is not None:
            yield f"{client.name}: a move was refused as {refusal.reason}, but is in the log at version {version}"
            continue
        closed_at_us = _closed_at_us(game, command.at_version)
        if closed_at_us is None or closed_at_us > refusal.at_us:
            yield f"{client.name}: the move at version {command.at_version} was refused as {refusal.reason} too early"


def _closed_at_us(game: Game, at_version: int) -> int | None:
    """When the decision that was open at a version was closed by a commit."""
    for commit in game.commits[at_version:]:
        if any(isinstance(event, Moved) for event in commit.events):
            return commit.decided_at_us
    return None


def _sent(evidence: Evidence) -> dict[tuple[str, str], tuple[Client, Sent]]:
    """What was sent, by client and command id."""
    clients = {client.name: client for client in evidence.history.of(Client)}
    return {(sent.client, sent.command_id): (clients[sent.client], sent) for sent in evidence.history.of(Sent)}


def _key(client: Client, command: Sent) -> UUID:
    return PlayerCommand.of(client.account, command.command_id, command.at_version, command.move).name.key


def viewers_see_the_log(evidence: Evidence) -> Iterator[str]:
    """What anybody was told of a version is, byte by byte, what the log says to that viewer."""
    messages: dict[tuple[str, int, domain.Viewer, str], bytes] = {}
    for client, told in _told(evidence):
        game = evidence.games[client.game_id]
        if told.kind not in ("snapshot", "commit"):
            continue
        if not 1 <= told.version <= game.version:
            yield f"{client.name} was told of version {told.version}, which is not in the log"
            continue
        viewer = game.viewer(client.account)
        key = game.game_id, told.version, viewer, told.kind
        if key not in messages:
            messages[key] = _message(game, told.version, viewer, told.kind)
        if told.content != messages[key]:
            yield f"{client.name} was told of version {told.version} ({told.kind}) what the log does not say"


def _message(game: Game, version: int, viewer: domain.Viewer, kind: str) -> bytes:
    if kind == "snapshot":
        response = table_pb2.WatchResponse.FromString(snapshot(game.after(version), viewer))
        return response.snapshot.SerializeToString()
    messages = CommitMessages(game.before(version), game.commits[version - 1], game.after(version))
    return table_pb2.Commit.FromString(messages.body(viewer)).SerializeToString()


def _told(evidence: Evidence) -> Iterator[tuple[Client, Told]]:
    clients = {client.name: client for client in evidence.history.of(Client)}
    for told in evidence.history.of(Told):
        yield clients[told.client], told


def views_are_equal(evidence: Evidence) -> Iterator[str]:
    """What two connections of one account were told of a version is the same, whatever the log says."""
    first: dict[tuple[str, str, str, int], tuple[Client, Told]] = {}
    for client, told in _told(evidence):
        if told.kind in ("snapshot", "commit"):
            other, earlier = first.setdefault((client.game_id, client.account, told.kind, told.version), (client, told))
            if earlier.content != told.content:
                yield f"{client.name} was told of version {told.version} ({told.kind}) other things than {other.name}"


def streams_have_no_holes(evidence: Evidence) -> Iterator[str]:
    """A stream begins where it was asked to, tells every version once, and its heartbeats tell the version reached."""
    reached = {(opened.client, opened.stream): opened.after_version for opened in evidence.history.of(StreamOpened)}
    for told in evidence.history.of(Told):
        stream = told.client, told.stream
        version = reached[stream]
        match told.kind:
            case "snapshot":
                if version != 0:
                    yield f"{told.client} was sent a snapshot after version {version}"
                reached[stream] = told.version
            case "commit":
                if told.version != version + 1:
                    yield f"{told.client} was sent version {told.version} after {version}"
                reached[stream] = told.version
            case "heartbeat":
                if told.version != version:
                    yield f"{told.client} was at version {version} when a heartbeat said {told.version}"


def nobody_loses_on_time_through_an_outage(evidence: Evidence) -> Iterator[str]:
    """The clock decides only after the deadline, and only where nothing was out while the decision's time ran.

    The time runs from when it began by the log, be it a move, a deal or a clock that starts afresh, to the clock's
    decision. Out are: the game's host, Postgres, the host's way to it, and, where clients may be at other replicas,
    NATS and the host's way to that. What was out for less than TOLERATED_SECONDS of the time is left aside.
    """
    outages = list(evidence.history.of(Outage))
    for game in evidence.games.values():
        host = ""
        for commit in game.commits:
            before = game.before(commit.version)
            for event in commit.events:
                match event:
                    case domain.Created():
                        host = event.host
                    case ClockResumed():
                        host = event.host
                    case Moved(_, _, Decider.CLOCK):
                        assert before is not None
                        where = f"game {game.game_id}, version {commit.version}"
                        if not 0 < before.deadline_us <= commit.decided_at_us:
                            yield f"{where}: the clock decided before its time"
                        process = evidence.hosts.get(host, "")
                        relevant = _out_of_which_time_stops(process, evidence.replicas)
                        for outage in outages:
                            seconds = _overlap_seconds(outage, before.opened_at_us, commit.decided_at_us)
                            if seconds > TOLERATED_SECONDS and outage.target in relevant:
                                yield (
                                    f"{where}: the clock decided for seat {before.turn} though {outage.target} was out"
                                    f" ({outage.deed}) for {seconds:.1f} s of its time; the host is {process}"
                                )


def _overlap_seconds(outage: Outage, began_us: int, ended_us: int) -> float:
    return (min(outage.ended_us, ended_us) - max(outage.began_us, began_us)) / 1_000_000


def _out_of_which_time_stops(host: str, replicas: int) -> set[str]:
    """What a game of this host needs, so that people can play in it."""
    needed = {host, "postgres", f"{host}>postgres"}
    return needed | {"nats", f"{host}>nats"} if replicas > 1 else needed


def nobody_is_away_who_was_heard(evidence: Evidence) -> Iterator[str]:
    """Who told the server a moment ago that they are there is not taken for absent, whatever fails meanwhile."""
    clients = {client.name: client for client in evidence.history.of(Client)}
    heard: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    signs: list[Heard | Acknowledged] = [*evidence.history.of(Heard), *evidence.history.of(Acknowledged)]
    for sign in signs:
        client = clients[sign.client]
        heard[client.game_id, client.account].append(sign.at_us)
    for game in evidence.games.values():
        for commit in game.commits:
            if any(isinstance(event, Moved) for event in commit.events):
                # The clock ran out too often.
                continue
            for event in commit.events:
                if isinstance(event, SeatChanged) and event.away:
                    for at_us in heard[game.game_id, event.occupant.account]:
                        if 0 < commit.decided_at_us - at_us < (GRACE_SECONDS - ROUND_TRIP_SECONDS) * 1_000_000:
                            seconds = (commit.decided_at_us - at_us) / 1_000_000
                            yield (
                                f"game {game.game_id}, version {commit.version}: seat {event.seat} is away, "
                                f"heard {seconds:.1f} s before"
                            )


def hosts_take_turns(evidence: Evidence) -> Iterator[str]:
    """A game's epochs never go back: a host that was overtaken writes nothing any more."""
    for game in evidence.games.values():
        epochs = [event.epoch for commit in game.commits for event in commit.events if isinstance(event, ClockResumed)]
        for earlier, later in pairwise(epochs):
            if later < earlier:
                yield f"game {game.game_id}: epoch {later} wrote after epoch {earlier}"


def creations_are_kept(evidence: Evidence) -> Iterator[str]:
    """A game whose creation was acknowledged is there."""
    for opened in evidence.history.of(GameOpened):
        game = evidence.games.get(opened.game_id)
        if game is None or game.created is None or opened.version != 1:
            yield f"game {opened.game_id} was created at version {opened.version} and is not there"


def guests_stay_who_they_are(evidence: Evidence) -> Iterator[str]:
    """The same request for a guest is answered with the same account."""
    accounts: defaultdict[str, set[str]] = defaultdict(set)
    for answer in evidence.history.of(SignedIn):
        accounts[answer.request_id].add(answer.account)
    for request_id, answered in accounts.items():
        if len(answered) > 1:
            yield f"request {request_id} was answered with several guests: {sorted(answered)}"


def facts_are_the_log(evidence: Evidence) -> Iterator[str]:
    """Facts are numbered without holes, and tell of each game what its log says, in order and once."""
    for schema, facts in evidence.facts.items():
        first = evidence.marks.facts[schema] + 1
        for number, fact in enumerate(facts, start=first):
            if fact.number != number:
                yield f"{schema}: fact {number} is missing; the next is {fact.number}"
                break
    told: defaultdict[str, list[tuple[str, bytes]]] = defaultdict(list)
    for fact in evidence.facts["tables"]:
        told[fact.subject.rpartition(".")[2]].append((fact.subject, fact.payload))
    for game in evidence.games.values():
        if told[game.game_id] != _facts(game):
            yield f"game {game.game_id}: its facts are not what its log says"


def _facts(game: Game) -> list[tuple[str, bytes]]:
    return [
        (fact.subject, fact.payload)
        for commit in game.commits
        for fact in facts_of(UUID(game.game_id), game.before(commit.version), commit, game.after(commit.version))
    ]


def league_counts_the_log(evidence: Evidence) -> Iterator[str]:
    """The league has heard every fact, and has each place of each finished game once."""
    league = evidence.league
    last = evidence.facts["tables"][-1].number if evidence.facts["tables"] else evidence.marks.facts["tables"]
    if league.heard < last:
        yield f"the league has heard {league.heard} of {last} facts"
    if league.parked:
        yield f"the league could not take facts {list(league.parked)}"
    expected = frozenset(_results(list(evidence.games.values())))
    for result in sorted(expected ^ league.results, key=str):
        yield f"the league {'lacks' if result in expected else 'made up'} {result}"
    counts = Counter((result.account, result.place) for result in expected)
    expected_counts = frozenset(PlaceCount(account, place, games) for (account, place), games in counts.items())
    for count in sorted(expected_counts ^ league.counts, key=str):
        yield f"the league {'lacks' if count in expected_counts else 'made up'} {count}"


def _results(games: Sequence[Game]) -> Iterator[SeatResult]:
    for game in games:
        finished = game.tables[-1].finished if game.tables else None
        if finished is not None:
            for seat, result in enumerate(finished.seats):
                if result.holder.account:
                    yield SeatResult(game.game_id, seat, result.holder.account, result.place)


def processes_hold_out(evidence: Evidence) -> Iterator[str]:
    """Nothing ends but what was killed, and no client meets what no server may do."""
    for died in evidence.history.of(Died):
        yield f"{died.process} ended by itself with exit code {died.exit_code}"
    complaints = Counter((complaint.client, complaint.what) for complaint in evidence.history.of(Complained))
    for (client, what), count in complaints.items():
        yield f"{client} met {count} times: {what}"


CHECKS: Final[tuple[Check, ...]] = (
    logs_are_sound,
    games_finish,
    commits_follow_the_rules,
    acknowledged_moves_are_kept,
    moves_are_made_once,
    refused_moves_are_not_made,
    viewers_see_the_log,
    views_are_equal,
    streams_have_no_holes,
    nobody_loses_on_time_through_an_outage,
    nobody_is_away_who_was_heard,
    hosts_take_turns,
    creations_are_kept,
    guests_stay_who_they_are,
    facts_are_the_log,
    league_counts_the_log,
    money.money_is_conserved,
    money.games_move_what_their_facts_say,
    money.nothing_is_held_for_good,
    money.cancellation_and_creation_agree,
    money.entries_and_prizes_are_right,
    money.first_games_are_paid_once_a_day,
    matches.nobody_has_two_seats,
    matches.nobody_searches_for_ever,
    matches.a_search_has_one_ticket,
    matches.nobody_is_gone_who_was_heard,
    matches.tickets_never_go_back,
    matches.players_know_their_games,
    matches.tables_become_games_once,
    matches.tables_are_not_dealt_short,
    weeks.weeks_are_closed_once,
    weeks.standings_follow_from_the_ledger,
    weeks.rewards_are_paid_once,
    processes_hold_out,
)
