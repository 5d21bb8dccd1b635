"""Readers that cleanup overtakes: the past is told to be gone, the present is read anew."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.errors import ChangeFeedGap, HistoryReclaimed, StorageError
from omnigraphdb.pipeline.local import LocalRunner

SCHEMA = """\
node Port { code: String @key  depth: I32?  note: String? @index }
edge Feeds: Port -> Port { weight: I32? }
"""
WALK = "query q() { match { $a: Port  $a feeds $b } return { $a.code, $b.note } }"
FOUND = 'query q() { match { $a: Port  search($a.note, "deep") } return { $a } }'
COUNTED = "query q() { match { $a: Port } return { count($a) as n, max($a.depth) as depth } }"
BOUND = "query q($d: I32) { match { $a: Port  $a.depth = $d } return { count($a) as n } }"

READS: dict[str, Callable[[Snapshot, Path], Any]] = {
    "walk": lambda seen, _: seen.query(WALK),
    "search": lambda seen, _: seen.query(FOUND),
    "count": lambda seen, _: seen.query(COUNTED),
    "stream": lambda seen, _: list(seen.stream(WALK)),
    "explain": lambda seen, _: seen.explain(WALK, profile=True),
    "table": lambda seen, _: seen.table("Port"),
    "scan": lambda seen, _: seen.scan("Port").read_all(),
    "entity": lambda seen, _: seen.entity("Port", "p1"),
    "export": lambda seen, _: list(seen.export()),
    "files": lambda seen, place: seen.export_files(place / "out", "jsonl", None, LocalRunner(2)),
}


def filled(graph: Graph, depth: int) -> None:
    ports = (
        {"type": "Port", "data": {"code": f"p{n}", "depth": depth, "note": f"{depth} deep"}}
        for n in range(20)
    )
    graph.load([*ports, {"edge": "Feeds", "from": "p0", "to": "p1"}], mode="overwrite")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as opened:
        for depth in range(4):
            filled(opened, depth)
        yield opened


def touched(seen: Snapshot) -> Snapshot:
    """Open the tables, without reading a row of them."""
    for type_name in ("Port", "Feeds"):
        seen._open(type_name)
    return seen


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_a_reader_whose_tables_cleanup_removes_is_told_that_history_is_gone(
    graph: Graph, tmp_path: Path, read: Callable[[Snapshot, Path], Any]
) -> None:
    old = graph.commits()[2]
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        seen, newest = touched(reader.snapshot(at=old)), touched(reader.snapshot())
        graph.cleanup(keep=1, confirm=True)
        with pytest.raises(HistoryReclaimed) as told:
            read(seen, tmp_path)
        assert told.value.details["history_reclaimed"]["table_key"] in ("node:Port", "edge:Feeds")
        assert read(newest, tmp_path) is not None


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_a_reader_whose_table_is_dropped_with_its_history_is_told_so(
    graph: Graph, tmp_path: Path, read: Callable[[Snapshot, Path], Any]
) -> None:
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        seen = touched(reader.snapshot())
        graph.schema_apply("node Other { k: String @key }", allow_data_loss=True)
        with pytest.raises(HistoryReclaimed):
            read(seen, tmp_path)


def test_a_stream_that_cleanup_overtakes_ends_with_the_reason(graph: Graph) -> None:
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        begun = touched(reader.snapshot(at=graph.commits()[2])).stream(WALK)
        graph.cleanup(keep=1, confirm=True)
        with pytest.raises(HistoryReclaimed):
            list(begun)


def test_a_diff_and_a_feed_whose_tables_were_open_tell_what_is_gone(graph: Graph) -> None:
    old, newer = graph.commits()[2], graph.commits()[1]
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        touched(reader.snapshot(at=old))
        touched(reader.snapshot(at=newer))
        graph.cleanup(keep=1, confirm=True)
        with pytest.raises(HistoryReclaimed):
            reader.diff(old, newer)
        with pytest.raises(ChangeFeedGap):
            reader.changes(since=old)


def test_a_file_that_is_lost_is_no_history_that_was_removed(graph: Graph) -> None:
    old = graph.commits()[2]
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        for seen in (touched(reader.snapshot(at=old)), touched(reader.snapshot())):
            path = seen._view.snapshot.entries["node:Port"].at.path  # type: ignore[index]
            for file in Path(graph.uri, path, "data").iterdir():
                file.unlink()
            with pytest.raises(StorageError, match="is gone"):
                seen.query(COUNTED)


class Overtaken(Mapping[str, int]):
    """Parameters that let a writer and a cleanup pass between the capture of a head and the reading of it."""

    def __init__(self, graph: Graph, times: int) -> None:
        self.graph, self.left = graph, times

    def __getitem__(self, name: str) -> int:
        return {"d": 9}[name]

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        if self.left:
            self.left -= 1
            filled(self.graph, 9)
            self.graph.cleanup(keep=1, confirm=True)
        yield "d"


def test_a_query_of_the_head_is_never_told_that_its_history_is_gone(graph: Graph) -> None:
    with omnigraphdb.open(graph.uri, read_only=True) as reader:
        params = Overtaken(graph, 2)
        assert reader.query(BOUND, params).rows == [{"n": 20}]
        assert params.left == 0
    with omnigraphdb.open(graph.uri, read_only=True) as cold, pytest.raises(HistoryReclaimed):
        cold.query(BOUND, Overtaken(graph, 1), at=graph.commits()[0])


# ---- writers


def test_a_writer_goes_on_after_the_version_it_knew_is_gone(graph: Graph) -> None:
    more = [{"type": "Port", "data": {"code": "p1", "depth": 7}}]
    graph.load(more, mode="merge")
    with omnigraphdb.open(graph.uri) as other:
        filled(other, 9)
    graph.cleanup(keep=1, confirm=True)
    graph.load(more, mode="merge")
    assert graph.query(BOUND, {"d": 7}).rows == [{"n": 1}]


def test_a_writer_goes_on_after_a_drop_that_took_the_history_along(graph: Graph) -> None:
    fewer = [{"type": "Port", "data": {"code": "p1", "note": "shallow"}}]
    graph.load(fewer, mode="merge")
    graph.schema_apply(SCHEMA.replace("depth: I32?", ""), allow_data_loss=True)
    graph.load(fewer, mode="merge")
    assert graph.query(FOUND).rows == [{"a": f"p{n}"} for n in range(20) if n != 1]
