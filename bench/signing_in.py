"""People who sign in by mail, as fast as the service lets them."""

import asyncio
import re
import time
from pathlib import Path
from uuid import uuid4

from levata.accounts.v1 import accounts_pb2

from chassis import rpc
from tools.patience import within

LOOK_SECONDS = 0.02
CALL_SECONDS = 30.0
_TO = re.compile(rb"^To: .*?([^\s<>]+@[^\s<>]+)", re.MULTILINE)
_CODE = re.compile(rb"\b(\d{6})\b")


class Codes:
    """The codes in the mails of a Maildir, by address, as they come."""

    def __init__(self, mails: Path) -> None:
        self._new = mails / "new"
        self._read: set[str] = set()
        self._waiting: dict[str, asyncio.Future[str]] = {}

    def of(self, address: str) -> asyncio.Future[str]:
        """The code that will be mailed to an address."""
        return self._waiting.setdefault(address, asyncio.get_running_loop().create_future())

    async def read(self) -> None:
        """Look for new mails, until cancelled."""
        while True:
            for file in self._new.iterdir() if self._new.exists() else ():
                if file.name not in self._read:
                    self._read.add(file.name)
                    self._take(file.read_bytes())
            await asyncio.sleep(LOOK_SECONDS)

    def _take(self, mail: bytes) -> None:
        headers, _, body = mail.partition(b"\n\n")
        to, code = _TO.search(headers), _CODE.search(body)
        assert to is not None and code is not None, mail
        self.of(to[1].decode()).set_result(code[1].decode())


async def sign_ins_per_second(public: str, mails: Path, sign_ins: int, at_once: int) -> float:
    """Sign in under so many new addresses."""
    codes = Codes(mails)
    reading = asyncio.create_task(codes.read())
    turns = asyncio.Semaphore(at_once)
    async with rpc.channel(public, own_connection=True) as channel:
        accounts = rpc.stub(channel, accounts_pb2.DESCRIPTOR.services_by_name["Accounts"])

        async def sign_in() -> None:
            address = f"{uuid4()}@cards.example"
            async with turns:
                request = accounts_pb2.RequestCodeRequest(address=address, language="en")
                await accounts.RequestCode(request, timeout=CALL_SECONDS)
                code = await within(CALL_SECONDS, codes.of(address))
                verify = accounts_pb2.VerifyCodeRequest(address=address, code=code, request_id=str(uuid4()))
                answer = await accounts.VerifyCode(verify, timeout=CALL_SECONDS)
                assert answer.access_token

        began = time.perf_counter()
        await asyncio.gather(*(sign_in() for _ in range(sign_ins)))
        seconds = time.perf_counter() - began
    reading.cancel()
    return sign_ins / seconds
