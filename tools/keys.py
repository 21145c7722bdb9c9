"""`./levata keys`: the keys that tokens are signed with, changed while everything runs.

`rotate` publishes a new key, waits until all replicas have read the set, and then has tokens signed with it; the old
key checks its tokens until the last has run out. `withdraw` is for a key that was stolen: every token that it signed
is refused within seconds, so that players sign in again with their refresh tokens.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chassis.auth import KeyFiles, key_files
from chassis.keys import PUBLISHED_SECONDS, TOKEN_SECONDS_MAX, Key, NoSuchKey, keys, publish_next, sign_with
from chassis.keys import withdraw as withdraw_key
from tools.data import DEFAULT_DATA, DataFolder

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__, no_args_is_help=True)
console = Console(highlight=False)

Data = Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")]


@app.command("list")
def list_(data: Data = DEFAULT_DATA) -> None:
    """The keys that tokens are checked with."""
    for key in keys(_files(data)):
        # Never cut: the ids are there to be copied.
        console.print(f"{key.key_id}  {_state(key)}", soft_wrap=True)


@app.command()
def rotate(data: Data = DEFAULT_DATA) -> None:
    """Sign with a new key from now on."""
    files = _files(data)
    private = publish_next(files)
    console.print(f"{private['kid']} is published; in {PUBLISHED_SECONDS:g} seconds tokens are signed with it.")
    time.sleep(PUBLISHED_SECONDS)
    sign_with(files, private)
    console.print("It signs now.")


# An id may begin with a hyphen.
@app.command(context_settings={"ignore_unknown_options": True})
def withdraw(
    key: Annotated[str, typer.Argument(help="The key's id, as `list` shows it.")], data: Data = DEFAULT_DATA
) -> None:
    """Have all tokens of a retired key refused."""
    try:
        withdraw_key(_files(data), key)
    except NoSuchKey as problem:
        raise SystemExit(str(problem)) from None
    console.print(f"Tokens that {key} signed are refused within seconds.")


def _state(key: Key) -> str:
    if key.signs:
        return "signs"
    if key.retired_at is None:
        return "published, signs soon"
    gone = datetime.fromtimestamp(key.retired_at + TOKEN_SECONDS_MAX, UTC)
    return f"retired; its last token has run out by {gone:%Y-%m-%d %H:%M} UTC"


def _files(data: Path) -> KeyFiles:
    files = key_files(DataFolder(data).keys)
    if not files.signing_key.exists():
        raise SystemExit(f"{data} has no keys; ./levata up makes them.")
    return files
