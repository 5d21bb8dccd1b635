"""Commands run in this process: what they print, and their exit codes."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from omnigraph.surfaces.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a command with a text on its stdin."""

    def run(*arguments: str, stdin: str | None = None) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["omnigraph", *arguments])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        return Outcome(int(str(stop.value.code or 0)), told.out, told.err)

    return run
