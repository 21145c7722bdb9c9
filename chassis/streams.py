"""Streams that are open on a server: how many each caller has, and which of them stand behind which session."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from chassis.errors import Refused


@dataclass(slots=True, eq=False)
class OpenStream:
    """One call that goes on until somebody ends it."""

    task: "asyncio.Task[object]"
    # Its session was revoked: this is why its task is cancelled.
    revoked: bool = False


class OpenStreams:
    """All of one server. Bounded by the server's limit of calls."""

    def __init__(self, per_caller: int) -> None:
        self._per_caller = per_caller
        self._by_caller: Counter[str] = Counter()
        self._by_session: dict[str, set[OpenStream]] = {}

    @contextmanager
    def opened(self, payer: str, session: str) -> Iterator[OpenStream]:
        """The current task serves a stream of this payer (empty: of none) and session (empty: of none); refused if
        the payer has too many."""
        if payer and self._by_caller[payer] >= self._per_caller:
            raise Refused(
                "TOO_MANY_STREAMS", grpc.StatusCode.RESOURCE_EXHAUSTED, "You have too many streams open; end some."
            )
        task = asyncio.current_task()
        assert task is not None
        stream = OpenStream(task)
        if payer:
            self._by_caller[payer] += 1
        if session:
            self._by_session.setdefault(session, set()).add(stream)
        try:
            yield stream
        finally:
            if payer:
                self._by_caller[payer] -= 1
                if not self._by_caller[payer]:
                    del self._by_caller[payer]
            if session:
                streams = self._by_session[session]
                streams.discard(stream)
                if not streams:
                    del self._by_session[session]

    def end(self, session: str) -> None:
        """End a session's streams."""
        for stream in self._by_session.get(session, ()):
            stream.revoked = True
            stream.task.cancel()

    def sessions(self) -> Iterable[str]:
        """Sessions that have streams open."""
        return self._by_session.keys()
