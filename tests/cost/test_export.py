"""What an export costs: its lines are spelled column by column, so the calls of Python do not grow with the rows."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.surfaces.cli import data

SCHEMA = """
node Person { name: String @key  age: I32?  joined: Date?  tags: [String]? }
edge Knows: Person -> Person { since: I32? }
"""
ROWS = 4_000
ROWS_PER_CALL_MIN = 5
"""A way through records takes several calls a row; through columns it takes some hundred for a whole batch."""


def _count_calls(do: Callable[[], object]) -> int:
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return calls


def _people(count: int) -> pa.Table:
    return pa.table(
        {
            "name": [f"p{number:06}" for number in range(count)],
            "age": pa.array(range(count), pa.int32()),
            "joined": pa.array(range(count), pa.int32()).cast(pa.date32()),
            "tags": [["a", "b"]] * count,
        }
    )


@pytest.mark.parametrize("to_file", [False, True], ids=["stdout", "file"])
def test_the_calls_of_an_export_do_not_grow_with_its_rows(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], to_file: bool
) -> None:
    calls = {}
    for count in (10, 10 + ROWS):
        uri, out = tmp_path / f"{count}.omni", tmp_path / f"{count}.jsonl"
        with omnigraphdb.init(uri, SCHEMA) as graph:
            graph.load({"Person": _people(count)}, mode="append")
        calls[count] = _count_calls(partial(data.export, str(uri), out=out if to_file else None))
        printed = out.read_bytes() if to_file else capfdbinary.readouterr().out
        assert printed.count(b"\n") == count
    assert calls[10 + ROWS] - calls[10] < ROWS / ROWS_PER_CALL_MIN
