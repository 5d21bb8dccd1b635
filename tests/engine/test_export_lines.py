"""Export as lines: the same bytes as the records give, spelled many at a time."""

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA = """
node Thing {
  name: String @key
  real: F64?
  short: F32?
  reals: [F64]?
  whole: I64?
  big: U64?
  day: Date?
  at: DateTime?
  flag: Bool?
  kind: enum(a, b)?
  words: [String]?
  place: Vector(2)?
  file: Blob?
}
edge Near: Thing -> Thing { how: F64? }
"""
REALS = [
    0.0,
    -0.0,
    0.1,
    1.0,
    -3.0,
    1e15,
    9999999999999998.0,
    1e16,
    -1e16,
    12345678901234567000.0,
    1e21,
]
REALS += [1e22, 1e-4, 9.999e-5, -1e-5, 1e-6, 1e-7, 5e-324, 1.7976931348623157e308, 2**53 + 2.0]


def _things() -> Iterator[dict[str, Any]]:
    seeded = random.Random(7)
    drawn = [struct.unpack("<d", seeded.randbytes(8))[0] for _ in range(300)]
    for number, real in enumerate([*REALS, *(x for x in drawn if x - x == 0)]):
        yield {
            "name": f"{number:04}",
            "real": real,
            "short": None if abs(real) > 1e38 else real,
            "reals": [real, 1.0],
            "place": [0.5, min(1.0, abs(real))],
        }
    yield {"name": "nothing"}
    yield {
        "name": 'q"\\\n\u2028é𝄞\x7f',
        "whole": -(2**63),
        "big": 2**64 - 1,
        "day": "1969-12-31",
        "at": "2026-01-31T10:00:00.250Z",
        "flag": True,
        "kind": "b",
        "words": ["", 'a"b', "\t"],
        "file": "base64:AAEC",
    }


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    records: list[dict[str, Any]] = [{"type": "Thing", "data": data} for data in _things()]
    records += [{"edge": "Near", "from": "0000", "to": "0001", "data": {"how": 1e-7}}]
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(records, mode="append")
        yield graph


def spelled(graph: Graph, **which: Any) -> bytes:
    """What the records give, one by one."""
    dumped = (
        json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in graph.export(**which)
    )
    return "".join(f"{line}\n" for line in dumped).encode()


def test_lines_are_the_records_byte_by_byte(graph: Graph) -> None:
    assert b"".join(graph.export_lines()) == spelled(graph)
    assert b"".join(graph.export_lines(types=["Near"])) == spelled(graph, types=["Near"])


def test_a_baseline_holds_and_counts_the_same_lines(graph: Graph, tmp_path: Path) -> None:
    told = graph.baseline(tmp_path / "state.jsonl")
    expected = spelled(graph)
    assert (tmp_path / "state.jsonl").read_bytes() == expected
    assert told.records == expected.count(b"\n")
