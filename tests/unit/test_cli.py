"""The levata command's table of commands and its answers to mistakes (tools/cli.py)."""

import importlib

import pytest

from tools import cli

ALL = [command for commands in cli.COMMANDS.values() for command in commands]


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.name)
def test_a_command_in_the_help_is_there_and_explains_itself(
    command: cli.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(command.module)
    assert hasattr(module, "app") or callable(module.main)
    assert f"  {command.name} " in cli.help_text(is_terminal=False)
    if command.name != "test":  # whose options are pytest's
        with pytest.raises(SystemExit) as end:
            cli.main(["help", command.name])
        assert end.value.code == 0
        assert f"levata {command.name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(arguments)
    told = capsys.readouterr().out
    assert [command.name for command in ALL if command.summary not in told] == []


def test_a_mistyped_command_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SystemExit, match=r"there is no command 'chekc'\. Did you mean check\?"):
        cli.main(["chekc"])


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"there is no command 'zzz'\. \./levata help lists them\."):
        cli.main(["zzz"])
