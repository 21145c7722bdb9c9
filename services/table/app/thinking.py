"""Bots that think for longer than the event loop may wait: their decisions are made in processes of their own.

A bot's move is a pure function of what its seat may see, so that it does not matter where, or how often, it is made.
"""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final

import structlog

from rules.moves import Move
from services.table.domain import BotQuestion

log = structlog.get_logger(__name__)

# Of this replica's cores, those that bots may have; the event loop and Postgres need the others.
WORKERS: Final = max(1, (os.cpu_count() or 1) // 2)
ATTEMPTS_MAX: Final = 3

_PR_SET_PDEATHSIG: Final = 1


class Thinkers:
    """A pool of processes for slow bots, started when the first decision is asked for."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    async def decide(self, question: BotQuestion) -> Move:
        """The bot's move."""
        loop = asyncio.get_running_loop()
        for attempt in range(1, ATTEMPTS_MAX + 1):
            pool = self._started()
            try:
                return await loop.run_in_executor(pool, question.answer)
            except BrokenProcessPool:
                log.warning("a thinking process has died", attempt=attempt)
                if self._pool is pool:
                    self._pool = None
        # Processes keep dying here. The move must come all the same, and be the same.
        return await asyncio.to_thread(question.answer)

    def stop(self) -> None:
        """End the processes; decisions under way are dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned: a fork would take connections and threads of this process along.
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, spawn, _begin, (os.getpid(),))
        return self._pool


def _begin(parent: int) -> None:
    """In a fresh process: die with the parent, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # Waiting for work, a worker would not notice that nobody is left to give it any.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
