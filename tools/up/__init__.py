"""`./levata up`: the whole backend on this machine, on embedded Postgres, NATS and Envoy; Ctrl-C stops it.

LEVATA_POSTGRES_DSN (a role that may create roles and schemas) and LEVATA_NATS_URL (users and rights as in
deploy/nats.conf) make it use servers of one's own. The layout of the data folder is told in tools/data.py.
"""

import asyncio
import os
import signal
import socket
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chassis.settings import Address
from tools.data import DEFAULT_DATA, DataFolder, DataFolderRefused
from tools.embedded.part import PartFailed
from tools.embedded.postgres import EmbeddedPostgres
from tools.embedded.process import free_port
from tools.up.backend import Backend, Options
from tools.up.screen import JsonScreen, Screen
from tools.up.servers import POSTGRES_VARIABLE
from tools.up.service import KINDS

PUBLIC_HOST = "127.0.0.1"


class LogFormat(StrEnum):
    """How logs are written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important log entries that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class OptionRefused(Exception):
    """An option cannot be had; the message is a sentence."""


def main(
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Where everything is kept.")] = DEFAULT_DATA,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The public port; 0 takes a free one.")] = 7400,
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS on the public port, with a self-made certificate.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the data folder's content first.")] = False,
    replicas: Annotated[
        list[str] | None, typer.Option(metavar="SERVICE=N", help="How many processes of a service; may be repeated.")
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Logs for people or for machines.")] = LogFormat.TEXT,
    log_level: Annotated[LogLevel, typer.Option(help="The least important entries shown.")] = LogLevel.INFO,
) -> None:
    """Start the whole backend on this machine and run it until Ctrl-C."""
    screen = JsonScreen() if log_format is LogFormat.JSON else Screen()
    try:
        counts = parse_replicas(replicas or [])
        folder = DataFolder(data)
        with folder.held():
            public = _free_public_address(port)
            if fresh:
                _wipe(folder, screen)
            folder.check_version()
            options = Options(public, tls, counts, log_format.value, log_level.value)
            asyncio.run(_run(Backend(folder, options, screen)))
    except (OptionRefused, DataFolderRefused, PartFailed) as problem:
        sys.exit(f"levata: {problem}")


def parse_replicas(wanted: list[str]) -> dict[str, int]:
    """Counts by service from `SERVICE=N`; OptionRefused with a sentence for what cannot be."""
    counts: dict[str, int] = {}
    for entry in wanted:
        service, _, number = entry.partition("=")
        if service not in KINDS:
            raise OptionRefused(f"--replicas {entry}: there is no service {service!r}, but {', '.join(KINDS)}.")
        if not number.isdecimal() or int(number) < 1:
            raise OptionRefused(f"--replicas {entry}: write it as {service}=N with N of at least 1.")
        counts[service] = int(number)
    return counts


def _free_public_address(port: int) -> Address:
    with socket.socket() as probe:
        # As servers do it, so that connections of an earlier run that are still closing do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((PUBLIC_HOST, port))
        except OSError as error:
            raise OptionRefused(f"Port {port} cannot be had ({error.strerror}); name another with --port.") from None
    return Address(PUBLIC_HOST, port or free_port())


def _wipe(folder: DataFolder, screen: Screen) -> None:
    folder.refuse_foreign()
    if folder.postgres.exists():
        # It may live elsewhere than in the folder.
        EmbeddedPostgres(folder.postgres).wipe()
    folder.wipe()
    if os.environ.get(POSTGRES_VARIABLE):
        screen.note(f"--fresh has emptied {folder.path}; the database of {POSTGRES_VARIABLE} stays as it is.")


async def _run(backend: Backend) -> None:
    told_to_stop = asyncio.Event()

    def stop() -> None:
        if told_to_stop.is_set():
            # Asked a second time: not waiting for anything. All parts die with this process.
            os._exit(130)
        told_to_stop.set()

    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop)
    await backend.run(told_to_stop)
