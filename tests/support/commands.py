"""Commands run in this process, or on a terminal: what they print, and their exit codes."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraphdb.surfaces.cli.main import main

PROGRAM = [sys.executable, "-m", "omnigraphdb"]


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
        monkeypatch.setattr(sys, "argv", ["omnigraphdb", *arguments])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        return Outcome(int(str(stop.value.code or 0)), told.out, told.err)

    return run


def look(folder: Path, *typed: str, answer: str = "", **environment: str) -> Outcome:
    """Run a command on a terminal, and answer what it asks; what it shows comes without colours and ages."""
    ours, theirs = pty.openpty()
    kept = {"COLUMNS": "80", "TERM": "xterm", "OMNIGRAPH_HOME": str(folder / "home")}
    process = subprocess.Popen(
        [*PROGRAM, *typed],
        cwd=folder,
        env=os.environ | kept | environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode() if answer else b"")
    shown = b""
    # The end of what a terminal shows is an error on Linux, and nothing elsewhere.
    with suppress(OSError):
        while part := os.read(ours, 65_536):
            shown += part
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;]*m|\r", "", shown.decode())
    text = re.sub(r"(?:just now|\d+ (?:second|minute)s? ago) +", "lately ", text)
    return Outcome(process.wait(), text, "")
