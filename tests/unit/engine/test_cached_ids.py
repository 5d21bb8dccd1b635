"""Ids that are known of table versions, beside a plain set: never one too many, never one too few."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.catalog.model import Columns, NodeType, Property
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.commit.delta import DeltaKind, TableDelta
from omnigraphdb.engine.cached import ids as module
from omnigraphdb.engine.cached.ids import CachedIds, Ids
from omnigraphdb.ids import TableKey
from omnigraphdb.storage.counters import counting

TYPE = NodeType(
    name="T", properties={"k": Property(name="k", type=PropertyType(scalar=Scalar.STRING))}, key=Columns(("k",))
)  # fmt: skip
names = st.sets(st.sampled_from("abcdefgh"), max_size=4)


def change(kind: DeltaKind, put: set[str], gone: set[str]) -> TableDelta:
    texts = pa.array(sorted(put), pa.string())
    rows = pa.Table.from_arrays([texts, texts], schema=TYPE.schema)
    deleted = pa.array(sorted(gone), pa.string())
    return TableDelta(type=TYPE, kind=kind, rows=rows, deleted=deleted)


@given(
    st.lists(st.tuples(st.sampled_from(["put", "delete", "replace"]), names), max_size=12),
    st.integers(0, 6),
)
def test_ids_follow_every_change(steps: list[tuple[str, set[str]]], overlay: int) -> None:
    kept = module._OVERLAY_MIN
    module._OVERLAY_MIN = overlay
    try:
        ids, plain = Ids(frozenset()), set[str]()
        for verb, some in steps:
            if verb == "put":
                ids, plain = ids.after(change(DeltaKind.MERGE, some, set())), plain | some
            elif verb == "delete":
                ids, plain = ids.after(change(DeltaKind.DELETE, set(), some)), plain - some
            else:
                ids, plain = ids.after(change(DeltaKind.REPLACE, some, set())), set(some)
            assert {one for one in "abcdefgh" if one in ids} == plain
    finally:
        module._OVERLAY_MIN = kept


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(
        tmp_path / "g", "node T { k: String @key  n: I32? }", config={"maintenance": "off"}
    ) as graph:
        graph.load([{"type": "T", "data": {"k": k}} for k in "abc"], mode="append")
        yield graph


def asked(graph: Graph, known: CachedIds, texts: str) -> tuple[str | None, dict[str, int]]:
    entry = graph.snapshot()._view.snapshot.entry(TableKey("node:T"))
    with counting() as costs:
        found = known.find_existing(
            entry, graph._engine.store.tables, pa.array(list(texts), pa.string())
        )
    told = None if found is None else "".join(found.to_pylist())
    return told, {name: n for name, n in costs.as_dict().items() if name == "table_scans"}


def test_a_small_table_is_read_once_and_then_known(graph: Graph) -> None:
    known = CachedIds(100)
    assert asked(graph, known, "axb") == ("ab", {"table_scans": 1})
    assert asked(graph, known, "cz") == ("c", {})


def test_what_others_appended_is_all_that_is_read(graph: Graph) -> None:
    known = CachedIds(100)
    asked(graph, known, "a")
    graph.mutate('query q() { insert T { k: "d" } }')
    before = graph._engine.store.tables.open(
        graph.snapshot()._view.snapshot.entry(TableKey("node:T")).at
    )
    assert len(before.fragments()) == 2
    assert asked(graph, known, "adz") == ("ad", {"table_scans": 1})


def test_what_others_changed_is_read_anew(graph: Graph) -> None:
    known = CachedIds(100)
    asked(graph, known, "a")
    graph.mutate('query q() { delete T where k = "a" }')
    graph.mutate('query q() { insert T { k: "b", n: 3 } }')
    assert asked(graph, known, "abc") == ("bc", {"table_scans": 1})


def test_an_empty_table_is_known_without_a_look(tmp_path: Path) -> None:
    graph = omnigraphdb.init(tmp_path / "empty", "node T { k: String @key }")
    assert asked(graph, CachedIds(100), "abc") == ("", {})


def test_no_more_ids_are_kept_than_allowed(graph: Graph) -> None:
    known = CachedIds(2)
    assert asked(graph, known, "a") == (None, {})
    roomy = CachedIds(3)
    assert asked(graph, roomy, "a")[0] == "a"
    graph.branch_create("side")
    graph.mutate('query q() { insert T { k: "s" } }', branch="side")
    entry = graph.snapshot(branch="side")._view.snapshot.entry(TableKey("node:T"))
    assert roomy.find_existing(entry, graph._engine.store.tables, pa.array(["s"])) is None


def test_a_large_table_is_read_when_its_lookups_have_cost_as_much(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHED_IDS_SMALL", 1)
    known = CachedIds(100)
    found = [asked(graph, known, "a")[0] for _ in range(3)]
    assert found == [None, "a", "a"]
