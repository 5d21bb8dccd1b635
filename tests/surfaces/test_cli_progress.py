"""How far a long command is: a bar on a terminal, lines elsewhere, nothing for programs."""

import io
import sys
import threading
from typing import Any

import pytest

from omnigraphdb.pipeline.progress import Progress, Unit
from omnigraphdb.surfaces.cli import progress
from omnigraphdb.surfaces.cli.progress import watch
from omnigraphdb.surfaces.cli.terminal import OutputSettings, choose_manner

HALF = Progress("check", 50, 100, Unit.ROWS, 50)
SECONDS_MAX = 30


class Screen(io.StringIO):
    """A stderr that tells when a text was written to it."""

    def __init__(self, wanted: str, *, terminal: bool) -> None:
        super().__init__()
        self._wanted, self._terminal = wanted, terminal
        self.shown = threading.Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._wanted in self.getvalue():
            self.shown.set()
        return written


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Nothing waits for seconds, and the manner is as it was."""
    for name in ("BAR_AFTER_SECONDS", "BAR_EVERY_SECONDS", "LINE_EVERY_SECONDS"):
        monkeypatch.setattr(progress, name, 0.01)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    choose_manner(OutputSettings())
    yield
    choose_manner(OutputSettings())


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_command_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    screen = Screen("50 of 100 rows", terminal=terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    with watch("load") as on_progress:
        assert on_progress is not None
        on_progress(HALF)
        assert screen.shown.wait(SECONDS_MAX), screen.getvalue()
    assert "load: check" in screen.getvalue()
    assert ("s so far" in screen.getvalue()) is not terminal


@pytest.mark.parametrize(
    "manner",
    [OutputSettings(quiet=True), OutputSettings(progress=False), OutputSettings(as_json=True)],
)
def test_nothing_is_told_to_who_does_not_look(manner: OutputSettings) -> None:
    choose_manner(manner)
    with watch("load") as on_progress:
        assert on_progress is None


def test_a_failure_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("50 of 100 rows", terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)

    def fail() -> None:
        with watch("load") as on_progress:
            assert on_progress is not None
            on_progress(HALF)
            screen.shown.wait(SECONDS_MAX)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not [one for one in threading.enumerate() if one.name == "progress"]
