"""The order of an export: by id, whatever the table holds, however it was written, in memory or by parts."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.history import by_id
from omnigraphdb.limits import ORDERED_PART_BYTES, ORDERED_WIDE_BYTES
from tests.support.settled import assert_settled

SCHEMA = """
node Doc { name: String @key  n: I32?  text: String?  scan: Blob? }
node Point { name: String @key  n: I32?  label: String }
"""
WIDE, NARROW = 1_500, 120_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """Tables of wide and of narrow rows, too large to be sorted in memory, with changed, removed and added rows."""
    drawn = random.Random(3)
    with omnigraphdb.init(tmp_path_factory.mktemp("order") / "g", SCHEMA) as opened:
        docs = drawn.sample(range(WIDE), WIDE)
        opened.load(
            pa.table(
                {
                    "name": [f"doc {n}" for n in docs],
                    "n": pa.array(docs, pa.int32()),
                    "text": ["ä" * 4000] * WIDE,
                    "scan": pa.array([bytes([n % 256]) * (n % 50) for n in docs]),
                }
            ),
            type="Doc",
            mode="append",
        )
        points = drawn.sample(range(NARROW), NARROW)
        opened.load(
            pa.table(
                {
                    "name": [f"p{n}" for n in points],
                    "n": pa.array(points, pa.int32()),
                    "label": [f"a label of some sixty characters, {n:030}" for n in points],
                }
            ),
            type="Point",
            mode="append",
        )
        opened.mutate("query m() { delete Point where n < 100 }")
        opened.mutate("query m() { delete Doc where n < 10 }")
        opened.mutate('query m() { update Doc set { text: "short" } where n = 11 }')
        for name in ("Doc", "Point"):
            opened.load(
                pa.table({"name": ["~last", "!first"], **more(name)}), type=name, mode="merge"
            )
        yield opened
        assert_settled(opened)


def more(name: str) -> dict[str, list[str]]:
    return {"label": ["z", "a"]} if name == "Point" else {}


@pytest.mark.parametrize("name", ["Doc", "Point"])
def test_a_large_table_is_exported_by_id(graph: Graph, name: str) -> None:
    table = graph.table(name)
    width = table.nbytes // table.num_rows
    assert table.nbytes > ORDERED_PART_BYTES
    assert (width >= ORDERED_WIDE_BYTES) == (name == "Doc")
    lines = b"".join(bytes(part) for part in graph.export_lines(types=[name])).splitlines()
    names = [json.loads(line)["data"]["name"] for line in lines]
    assert names == sorted(table["name"].to_pylist())
    assert names[0] == "!first"
    assert names[-1] == "~last"


def test_no_part_of_an_ordered_scan_is_much_larger_than_the_others(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_id, "ORDERED_PART_BYTES", 256 * 1024)
    table = graph.table("Point")
    with graph.snapshot() as seen, seen._reading():
        stored = seen._open("Point")
        sample = stored.read(limit=32)
        scanned = stored.scan(["id"], row_id=True)
        parts = [one.num_rows for one in by_id._sort_parts(stored, NARROW, 100, scanned)]
        fetched = by_id._fetch_by_id(stored, NARROW, sample)
        ids = [one for batch in fetched for one in batch["id"].to_pylist()]
    assert len(parts) > 40
    assert max(parts) < 3 * NARROW / len(parts)
    assert ids == sorted(table["id"].to_pylist())


def test_every_value_is_where_it_belongs(graph: Graph) -> None:
    for record in graph.export(types=["Doc"]):
        data = record["data"]
        if data["n"] is None:
            continue
        assert data["name"] == f"doc {data['n']}"
        assert data["text"] == ("short" if data["n"] == 11 else "ä" * 4000)
        assert data["scan"].startswith("base64:")
    for record in graph.export(types=["Point"]):
        data = record["data"]
        assert data["n"] is None or data["label"].endswith(f"{data['n']:030}")


def test_an_export_that_is_dropped_leaves_no_files(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines = graph.export_lines(types=["Point"])
    next(lines)
    assert any(tmp_path.iterdir())
    del lines
    assert not any(tmp_path.iterdir())
