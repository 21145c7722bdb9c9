"""Holds the matchmaker against the games' log: one seat for each player, whatever its replicas went through.

What is true of seats is read from the facts of games, which are numbered by the very commits that give and take them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from levata.matchmaker.v1 import facts_pb2 as matches_pb2
from levata.table.v1 import facts_pb2, table_pb2

from services.matchmaker.domain.pairing import DEALS_AFTER_US
from services.matchmaker.domain.quick_play import GONE_US, Pool
from tools.faults.evidence import Evidence
from tools.faults.history import Enqueued, SaidHere, TicketCancelled, TicketTold

# By so much the clocks of those who open a table and who deal it may differ on a slow way to the database.
CLOCKS_US: Final = 1_000_000


def nobody_has_two_seats(evidence: Evidence) -> Iterator[str]:
    """At no position of the log does anybody hold seats of two quick-play games, or two seats of one game."""
    # The quick-play games in which accounts hold a seat at this position.
    seats: defaultdict[str, set[str]] = defaultdict(set)
    for fact in evidence.facts["tables"]:
        told = facts_pb2.GameFact.FromString(fact.payload)
        match told.WhichOneof("kind"):
            case "created":
                accounts = [seat.account_id for seat in told.created.seats if seat.account_id]
                for account, count in Counter(accounts).items():
                    if count > 1:
                        yield f"fact {fact.number}: {account} has {count} seats of game {told.game_id}"
                    if told.created.mode == table_pb2.MODE_QUICK_PLAY:
                        if seats[account]:
                            yield f"fact {fact.number}: {account} sits in {seats[account]} and in game {told.game_id}"
                        seats[account].add(told.game_id)
            case "seat_changed":
                seats[told.seat_changed.left_account_id].discard(told.game_id)
            case "finished" | "cancelled":
                for games in seats.values():
                    games.discard(told.game_id)


def nobody_searches_for_ever(evidence: Evidence) -> Iterator[str]:
    """When all is over the matchmaker has heard so, and nobody has a ticket."""
    matches = evidence.matches
    last = evidence.facts["tables"][-1].number if evidence.facts["tables"] else evidence.marks.facts["tables"]
    if matches.heard < last:
        yield f"the matchmaker has heard {matches.heard} of {last} facts"
    if matches.parked:
        yield f"the matchmaker could not take facts {list(matches.parked)}"
    for account, state in matches.tickets.items():
        yield f"{account} still has a ticket in state {state}"
    for table_id in matches.tables:
        yield f"table {table_id} is still there"


def a_search_has_one_ticket(evidence: Evidence) -> Iterator[str]:
    """Who asks from two devices is given one ticket."""
    tickets: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for answer in evidence.history.of(Enqueued):
        tickets[answer.account, answer.search].add(answer.ticket_id)
    for (account, search), answered in tickets.items():
        if len(answered) > 1:
            yield f"search {search} of {account} was answered with several tickets: {sorted(answered)}"


def nobody_is_gone_who_was_heard(evidence: Evidence) -> Iterator[str]:
    """No ticket ends because its player is gone who was heard all the time."""
    # When somebody was heard: not before the first of the two, not after the second.
    signs: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    asked: dict[str, int] = {}
    for record in evidence.history.records:
        match record:
            case Enqueued():
                signs[record.account].append((record.sent_us, record.at_us))
                asked.setdefault(record.ticket_id, record.sent_us)
            case SaidHere():
                signs[record.account].append((record.sent_us, record.at_us))
            case TicketTold(at_us, account, ticket_id, "ENDED", _, "GONE"):
                heard = [sign for sign in signs[account] if sign[0] >= asked.get(ticket_id, 0)]
                silences = [later[1] - earlier[0] for earlier, later in pairwise([*heard, (at_us, at_us)])]
                if heard and max(silences) < GONE_US:
                    yield f"ticket {ticket_id} of {account} ended, never silent for longer than {max(silences)} us"


def tickets_never_go_back(evidence: Evidence) -> Iterator[str]:
    """Who was told that a ticket has become a game, or has ended, is not told otherwise afterwards."""
    last: dict[str, TicketTold] = {}
    for told in evidence.history.of(TicketTold):
        before = last.get(told.ticket_id)
        if before is not None and before.state in ("PLAYING", "ENDED") and told.state != before.state:
            yield f"ticket {told.ticket_id} of {told.account} was {before.state}, and is {told.state} again"
        if told.ticket_id:
            last[told.ticket_id] = told


def players_know_their_games(evidence: Evidence) -> Iterator[str]:
    """Each game of who looked for one was told to its players as what became of a ticket, and of none that was given
    up."""
    told = {(each.account, each.game_id): each for each in evidence.history.of(TicketTold) if each.state == "PLAYING"}
    given_up = {each.ticket_id for each in evidence.history.of(TicketCancelled)}
    seekers = {each.account for each in evidence.history.of(Enqueued)}
    seated = {
        (account, game_id)
        for game_id, accounts in _seated(evidence).items()
        for account in accounts
        if account in seekers
    }
    for account, game_id in sorted(seated ^ told.keys()):
        if (account, game_id) in seated:
            yield f"{account} sits in game {game_id} and was never told so"
        else:
            yield f"{account} was told to play game {game_id} without a seat there"
    for (account, game_id), each in told.items():
        if each.ticket_id in given_up:
            yield f"{account} gave ticket {each.ticket_id} up, and plays game {game_id} with it"


def tables_become_games_once(evidence: Evidence) -> Iterator[str]:
    """A table is opened, then taken, and ends in one game with those who took it, or in none."""
    seated = _seated(evidence)
    games: Counter[str] = Counter()
    for table_id, facts in _tables(evidence).items():
        kinds = [fact.WhichOneof("kind") for fact, _ in facts]
        if kinds[0] != "opened" or set(kinds[1:-1]) - {"seated"} or kinds[-1] not in ("started", "closed"):
            yield f"table {table_id} went through {kinds}"
        for fact, _ in facts:
            if fact.WhichOneof("kind") == "started":
                game_id, accounts = fact.started.game_id, set(fact.started.account_ids)
                games[game_id] += 1
                if accounts != seated.get(game_id):
                    yield f"game {game_id} began at table {table_id} with {accounts}, and has {seated.get(game_id)}"
                if not accounts <= {each.seated.account_id for each, _ in facts}:
                    yield f"game {game_id} has people who never sat at table {table_id}"
    for game_id, count in games.items():
        if count > 1:
            yield f"game {game_id} began at {count} tables"
    seekers = {each.account for each in evidence.history.of(Enqueued)}
    for game_id, accounts in seated.items():
        if accounts & seekers and game_id not in games:
            yield f"game {game_id} began, and no table says so"


def tables_are_not_dealt_short(evidence: Evidence) -> Iterator[str]:
    """Before its time is over a table is dealt only when it is full."""
    entrants = Counter(each.game_id for each in evidence.ledger.entrants)
    for table_id, facts in _tables(evidence).items():
        opened, opened_us = facts[0]
        last, last_us = facts[-1]
        is_whole = opened.HasField("opened") and last.HasField("started")
        if is_whole and last_us - opened_us < DEALS_AFTER_US - CLOCKS_US:
            capacity = Pool(opened.opened.game_type, opened.opened.variant).capacity
            count = entrants[last.started.game_id]
            if count != capacity:
                yield f"table {table_id} was dealt after {last_us - opened_us} us with {count} of {capacity} people"


def _seated(evidence: Evidence) -> dict[str, set[str]]:
    """Who sat in each quick-play game when it began."""
    return {
        told.game_id: {seat.account_id for seat in told.created.seats if seat.account_id}
        for fact in evidence.facts["tables"]
        if (told := facts_pb2.GameFact.FromString(fact.payload)).created.mode == table_pb2.MODE_QUICK_PLAY
    }


def _tables(evidence: Evidence) -> dict[str, list[tuple[matches_pb2.TableFact, int]]]:
    """The facts of each table in their order, with their times."""
    tables: defaultdict[str, list[tuple[matches_pb2.TableFact, int]]] = defaultdict(list)
    for fact in evidence.facts.get("matchmaker", ()):
        told = matches_pb2.TableFact.FromString(fact.payload)
        tables[told.table_id].append((told, fact.at_us))
    return tables
