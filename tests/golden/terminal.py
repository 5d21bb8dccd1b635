"""Commands run in this process: what they print on stdout and stderr, and their exit codes."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnigraphdb.surfaces.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """The end of one command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Terminal:
    """Runs commands in a folder, with a configuration of its own and no terminal."""

    folder: Path

    def run(self, *words: str, stdin: str = "") -> Outcome:
        """Run a command with a text on its stdin."""
        out, err = _open_stream(), _open_stream()
        source = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        with self._settle(), _replace_streams(source, out, err):
            sys.argv = ["omnigraphdb", *words]
            try:
                main()
                code: object = 0
            except SystemExit as stop:
                code = stop.code
        return Outcome(int(str(code or 0)), _read(out), _read(err))

    @contextmanager
    def _settle(self) -> Iterator[None]:
        """Stand in the folder; what a command sets for itself is gone afterwards."""
        environment, place, typed = dict(os.environ), Path.cwd(), sys.argv
        os.environ["OMNIGRAPH_HOME"] = str(self.folder / "home")
        os.chdir(self.folder)
        try:
            yield
        finally:
            sys.argv = typed
            os.chdir(place)
            os.environ.clear()
            os.environ.update(environment)


@contextmanager
def _replace_streams(
    source: io.TextIOWrapper, out: io.TextIOWrapper, err: io.TextIOWrapper
) -> Iterator[None]:
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = source, out, err
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams


def _open_stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.detach()
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "replace")
