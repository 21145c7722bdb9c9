"""What a service logs when something fails: where it failed, and no secret that was in a variable there."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from chassis.telemetry import configure_logging

FORMATS: tuple[Literal["text", "json"], ...] = ("text", "json")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize("through_the_standard_library", [False, True])
def test_a_traceback_shows_no_variables(
    log_format: Literal["text", "json"], through_the_standard_library: bool
) -> None:
    out = io.StringIO()
    configure_logging("probe", log_format, "info", out)
    try:
        _fail("correct horse " + "battery staple")
    except ValueError:
        if through_the_standard_library:
            logging.getLogger("grpc").exception("failed")
        else:
            structlog.get_logger("probe").exception("failed")
    logged = out.getvalue()
    assert "_fail" in logged
    assert "ValueError" in logged
    assert "correct horse battery staple" not in logged
    if log_format == "json":
        assert json.loads(logged)["event"] == "failed"


def _fail(password: str) -> None:
    raise ValueError(len(password))
