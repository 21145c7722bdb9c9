"""`./levata mail`: what a developer sees of the mails that were written instead of sent."""

import asyncio
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from services.accounts.mail.letters import code_letter
from services.accounts.mail.maildir import MaildirTransport
from services.accounts.mail.message import compose, sender_from
from tools import mail
from tools.data import DataFolder

PATIENCE_SECONDS = 20
AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


async def write(data: Path, to: str, code: str) -> None:
    async with MaildirTransport(DataFolder(data).mail).session() as session:
        await session.send(compose(code_letter(code, 600, "en"), sender_from("x@localhost"), to, uuid4(), AT))


async def test_the_newest_mail_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(7):
        await write(tmp_path, "zoe@example.com", f"00000{number}")
    mail.main(data=tmp_path)
    shown = capsys.readouterr().out
    subjects = [line for line in shown.splitlines() if "is your Levata code" in line]
    assert subjects == [f"00000{number} is your Levata code" for number in (6, 5, 4, 3, 2)]
    assert "to zoe@example.com" in shown and "Give it to nobody" in shown


async def test_mails_to_one_address_are_picked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await write(tmp_path, "zoe@example.com", "111111")
    await write(tmp_path, "adam@example.com", "222222")
    mail.main(to="Zoe@example.com", data=tmp_path)
    shown = capsys.readouterr().out
    assert "111111" in shown and "222222" not in shown
    with pytest.raises(SystemExit, match=r"no mails to eve@example\.com"):
        mail.main(to="eve@example.com", data=tmp_path)


def test_without_any_mail_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="There are no mails in"):
        mail.main(data=tmp_path / "nothing here")


async def test_followed_mails_are_printed_as_they_come(tmp_path: Path) -> None:
    await write(tmp_path, "zoe@example.com", "111111")
    command = [sys.executable, "-c", "from tools.cli import main; main()", "mail", "--follow", "--data", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    first_line = asyncio.create_task(process.stdout.readline())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # It may not have begun to look yet: mails come until one of them is seen.
            while not first_line.done():
                await write(tmp_path, "zoe@example.com", "222222")
                await asyncio.wait([first_line], timeout=0.2)
            assert first_line.result() == b"222222 is your Levata code\n"
            process.send_signal(signal.SIGINT)
            await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
