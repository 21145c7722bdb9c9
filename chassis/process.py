"""A service's process: it reads settings, runs until it is told to stop, and stops in order.

Each service's `__main__` is one call of `run` with the service's own `build`, the function that tests build it with
as well: an asynchronous context manager that starts the service, answers with its address, and stops it at the end.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NoReturn, TypeVar

import structlog
import uvloop

from chassis.settings import Address, Settings, SettingsError, read_settings
from chassis.telemetry import configure_logging

log = structlog.get_logger(__name__)

S = TypeVar("S", bound=Settings)


def run(service_name: str, kind: type[S], build: Callable[[S], AbstractAsyncContextManager[Address]]) -> NoReturn:
    """Run a service until SIGTERM or Ctrl-C; exits with 0 then, 2 for bad settings, 1 if it fails."""
    try:
        settings = read_settings(kind, service_name)
        configure_logging(service_name, settings.log_format, settings.log_level)
        uvloop.run(_serve(build(settings)))
    except SettingsError as error:
        sys.stderr.write(f"{service_name}: {error}\n")
        sys.exit(2)
    except Exception:
        log.exception("failed")
        sys.exit(1)
    sys.exit(0)


def calm_the_collector() -> None:
    """Look for garbage in cycles seldom: a service makes next to none, but thousands of long-lived objects, and each
    full look at them would hold up every game for tens of milliseconds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _serve(service: AbstractAsyncContextManager[Address]) -> None:
    told_to_stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, told_to_stop.set)
    async with service as address:
        calm_the_collector()
        log.info("listening", address=str(address))
        await told_to_stop.wait()
        log.info("stopping")
    log.info("stopped")
