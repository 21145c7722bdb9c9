"""`./levata money`: what an operator does to an account's balances by hand.

`grant` gives something, `correct` puts something right. Both stand in the player's statement with the reason, so write
it for the player to read, without names.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID, uuid4

import grpc
import typer
from google.protobuf.message import Message
from levata.ledger.v1 import operations_pb2
from rich.console import Console

from chassis import rpc
from tools.data import DEFAULT_DATA, DataFolder, NotRunning

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__, no_args_is_help=True)
console = Console(highlight=False)

SECONDS: Final = 20.0
# After these it is not known whether the ledger has done it.
_UNKNOWN: Final = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN}

Account = Annotated[UUID, typer.Argument(help="The account's id.")]
Amounts = Annotated[list[str], typer.Argument(metavar="CURRENCY=AMOUNT...", help="Such as coin=500 gold=5.")]
Reason = Annotated[str, typer.Option(help="Why, for the player to read.")]
RequestId = Annotated[UUID | None, typer.Option(help="Of a call whose outcome is not known, to repeat it.")]
Data = Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")]


@app.command()
def grant(
    account: Account, amounts: Amounts, reason: Reason, request_id: RequestId = None, data: Data = DEFAULT_DATA
) -> None:
    """Give an account something."""
    _run(data, "Grant", operations_pb2.GrantRequest, account, reason, request_id, {"gifts": _amounts(amounts)})


# A negative amount would else be taken for an option.
@app.command(context_settings={"ignore_unknown_options": True})
def correct(
    account: Account, amounts: Amounts, reason: Reason, request_id: RequestId = None, data: Data = DEFAULT_DATA
) -> None:
    """Put an account's balances right: coin=-5 takes five coins, which it must have free."""
    differences = {"differences": _amounts(amounts)}
    _run(data, "Correct", operations_pb2.CorrectRequest, account, reason, request_id, differences)


def _amounts(amounts: list[str]) -> list[dict[str, str | int]]:
    parsed: list[dict[str, str | int]] = []
    for each in amounts:
        currency, _, amount = each.partition("=")
        try:
            parsed.append({"currency": currency, "amount": int(amount)})
        except ValueError:
            raise SystemExit(f"{each} is not CURRENCY=AMOUNT, such as coin=500.") from None
    return parsed


def _run(
    data: Path,
    method: str,
    request_of: Callable[..., Message],
    account: UUID,
    reason: str,
    request_id: UUID | None,
    amounts: dict[str, Any],
) -> None:
    request_id = request_id or uuid4()
    try:
        request = request_of(request_id=str(request_id), account_id=str(account), reason=reason, **amounts)
    except ValueError as error:
        raise SystemExit(f"That cannot be: {error}.") from None
    try:
        number = asyncio.run(_call(DataFolder(data), method, request))
    except NotRunning as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        told = error.details() or error.code().name
        if error.code() in _UNKNOWN:
            told += f"\nPerhaps it is done. Repeat it with --request-id {request_id}: it is done once."
        raise SystemExit(told) from None
    console.print(f"Done: entry {number}.")


async def _call(folder: DataFolder, method: str, request: Message) -> int:
    address, token = folder.endpoints().services["ledger"][0], folder.operator_token()
    async with rpc.channel(address, token) as channel:
        operations = rpc.stub(channel, operations_pb2.DESCRIPTOR.services_by_name["Operations"])
        return int((await getattr(operations, method)(request, timeout=SECONDS)).number)
