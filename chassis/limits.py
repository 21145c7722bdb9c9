"""What a server bears, and how much of it one caller may have.

A caller is a player's account, or the peer's address where no token says who calls. Services are no callers in this
sense: their own tokens are exempt. Every table here is bounded, whoever calls.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import grpc

from chassis.errors import Refused

# Callers remembered, 100 bytes each; twice as many at most. Who is forgotten begins with a full allowance.
CALLERS_MAX: Final = 50_000


@dataclass(frozen=True)
class Limits:
    """What a server bears. Every client pays for its own excess only."""

    # For the library that reads it from the environment: a misspelt name is an error.
    __pydantic_config__: ClassVar = {"extra": "forbid"}

    # A bigger request is refused with a reason; from four times as much on grpc itself ends the call, without one.
    message_bytes: int = 64 * 1024
    streams_per_connection: int = 4096
    # Calls at once, over all connections; an idle stream takes 24 to 28 KB.
    calls: int = 20_000
    # Calls of one caller: so many at once, and so many a second for good. Messages on a stream count too, but instead
    # of being refused they are read later.
    caller_burst: int = 200
    caller_calls_per_second: float = 50
    # Streams of one caller that are open at once.
    caller_streams: int = 64
    # How many proxies of ours a call passes: so many addresses at the end of `x-forwarded-for` are their own word.
    forwarded_hops: int = 1
    # A peer that is silent for so long is pinged, and taken for dead when it does not answer in time.
    keepalive_ms: int = 15_000
    keepalive_timeout_ms: int = 5_000
    # Peers may ping us this often, also without a call: the edge pings every two seconds.
    ping_interval_min_ms: int = 500
    # A connection that has not said what it speaks by then, or that has had no call for so long, is closed.
    handshake_timeout_ms: int = 10_000
    idle_connection_ms: int = 300_000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0 or (value == 0 and name != "forwarded_hops"):
                raise ValueError(f"{name} must be positive")

    def options(self) -> list[tuple[str, int]]:
        """As grpc's channel arguments."""
        return [
            # Two processes on one port would share its calls at random: a taken port is an error.
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", 4 * self.message_bytes),
            ("grpc.max_concurrent_streams", self.streams_per_connection),
            # Calls that came and were not yet taken up. Of more than a thousand grpc ends some at random, without a
            # word, and so many come at once when an edge or a replica was lost. We refuse by `calls`, with a reason.
            ("grpc.server.max_pending_requests", self.calls),
            ("grpc.server.max_pending_requests_hard_limit", self.calls),
            ("grpc.keepalive_time_ms", self.keepalive_ms),
            ("grpc.keepalive_timeout_ms", self.keepalive_timeout_ms),
            # The one that counts: its default of a minute is what a ping of a keepalive was seen to wait for.
            ("grpc.http2.ping_timeout_ms", self.keepalive_timeout_ms),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_ping_interval_without_data_ms", self.ping_interval_min_ms),
            ("grpc.server_handshake_timeout_ms", self.handshake_timeout_ms),
            ("grpc.max_connection_idle_ms", self.idle_connection_ms),
        ]


class Rates:
    """How often each caller calls: a token bucket for each, kept as the one time at which it will be full again."""

    __slots__ = ("_allowance", "_interval", "_now", "_recent", "_seldom", "callers_max", "waits")

    def __init__(
        self,
        burst: int,
        per_second: float,
        *,
        callers_max: int = CALLERS_MAX,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = 1 / per_second
        self._allowance = (burst - 1) * self._interval
        self._now = now
        self.callers_max = callers_max
        # Messages that were made to wait.
        self.waits = 0
        # Full again at, by caller. What was not used while `callers_max` others were is dropped without being looked
        # for: it is in `_seldom` then, which `_recent` replaces when it is full.
        self._recent: dict[str, float] = {}
        self._seldom: dict[str, float] = {}

    def take(self, caller: str) -> None:
        """One call; refused, and not counted, if the caller has had its share."""
        self._put(caller, self._allowed(caller) + self._interval)

    def check(self, caller: str) -> None:
        """Refused if `take` would be; nothing is counted."""
        self._allowed(caller)

    def wait(self, caller: str) -> float:
        """One message of a stream, which is counted in any case: the seconds after which it may be handled."""
        now = self._now()
        full_at = self._full_at(caller, now)
        self._put(caller, full_at + self._interval)
        seconds = full_at - now - self._allowance
        if seconds <= 0:
            return 0.0
        self.waits += 1
        return seconds

    def __len__(self) -> int:
        """Callers that are remembered."""
        return len(self._recent) + len(self._seldom)

    def _allowed(self, caller: str) -> float:
        now = self._now()
        full_at = self._full_at(caller, now)
        if full_at - now > self._allowance:
            raise rate_limited(full_at - now - self._allowance)
        return full_at

    def _full_at(self, caller: str, now: float) -> float:
        full_at = self._recent.get(caller)
        if full_at is None:
            full_at = self._seldom.get(caller, now)
        return max(full_at, now)

    def _put(self, caller: str, full_at: float) -> None:
        self._recent[caller] = full_at
        if len(self._recent) > self.callers_max:
            self._seldom, self._recent = self._recent, {caller: full_at}


def rate_limited(seconds: float) -> Refused:
    """The caller must wait for so long."""
    milliseconds = str(int(seconds * 1000) + 1)
    return Refused(
        "RATE_LIMITED",
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "You call too often; wait, and call again.",
        {"retry_after_ms": milliseconds},
    )
