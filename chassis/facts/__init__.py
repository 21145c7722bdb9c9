"""Facts: what a service tells others about commits of its own, numbered without holes in commit order.

The owner appends them (`chassis.log`, or `publish`), serves them (`FactsService` on a `FactLog`) and relays them to
JetStream (`Relay`). Another service gives them their effects with a `Consumer`. A `Report` tells how either stands.
"""

from chassis.facts.consumer import Consumer, rebuild
from chassis.facts.health import State, Status
from chassis.facts.parked import accept_incarnation, discard, request_retry
from chassis.facts.relay import Relay
from chassis.facts.reporting import Report
from chassis.facts.service import FactsOwner, FactsService, RemoteFacts
from chassis.facts.store import Fact, FactLog, Head, Page, publish
from chassis.facts.stream import ACCOUNTS, GAMES, LEAGUE, LEDGER, MATCHES, FactStream

__all__ = [
    "ACCOUNTS",
    "GAMES",
    "LEAGUE",
    "LEDGER",
    "MATCHES",
    "Consumer",
    "Fact",
    "FactLog",
    "FactStream",
    "FactsOwner",
    "FactsService",
    "Head",
    "Page",
    "Relay",
    "RemoteFacts",
    "Report",
    "State",
    "Status",
    "accept_incarnation",
    "discard",
    "publish",
    "rebuild",
    "request_retry",
]
