"""A baseline: a file with one whole state, and the cursor from which the change feed continues."""

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from omnigraph.engine.history.changes import Baseline
from omnigraph.engine.history.export import export_lines
from omnigraph.engine.history.feed import cursor_at
from omnigraph.engine.results import Commit
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import InternalError, StorageError
from omnigraph.ids import BranchName
from omnigraph.manifest.view import View


def baseline(
    engine: Engine, branch: BranchName, out: Path, types: Sequence[str] | None = None
) -> Baseline:
    """Write every entity of a branch to a file; the file appears whole or not at all, and survives a power failure."""
    view = engine.view(branch)
    head = view.state.head
    if head is None:
        raise InternalError(f"branch '{branch}' has no commit")
    records = write_lines(out, export_lines(engine, view, types))
    return Baseline(commit=Commit.of(head), cursor=resume(view), records=records)


def resume(view: View) -> str:
    """Make the cursor that continues after the head of a view."""
    head = view.state.head
    after = None if head is None or head.parent is None else head.id
    return cursor_at(view.state, after)


def write_lines(out: Path, lines: Iterable[pa.Buffer]) -> int:
    """Replace a file by these lines in one step; return the number of lines."""
    partial = out.with_name(f".{out.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        count = 0
        with partial.open("wb") as stream:
            for text in lines:
                count += text.to_pybytes().count(b"\n")
                stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, out)
        _sync_directory(out.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(out, error) from error
        raise
    return count


def _unwritable(out: Path, error: OSError) -> StorageError:
    return StorageError(
        f"'{out}' cannot be written: {error.strerror}; nothing was written",
        hint="name a file in a directory that is there, may be written to and has room",
    )


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
