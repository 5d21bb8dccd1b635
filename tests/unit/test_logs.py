"""Events are sent through the standard logging, as one line of fields."""

import logging

import pytest

from omnigraphdb.logs import get_logger


def test_an_event_is_one_line_of_fields(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("omnigraphdb.somewhere")
    with caplog.at_level(logging.WARNING):
        log.info("load.begun", rows=3)
        log.warning("load.slow", reason="100 % 's\n", tables=["node:A"])
    (said,) = caplog.records
    assert (said.name, said.levelname) == ("omnigraphdb.somewhere", "WARNING")
    assert said.getMessage() == (
        "event='load.slow' reason=\"100 % 's\\n\" tables=['node:A'] level='warning'"
    )
