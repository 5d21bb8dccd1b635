"""A load by Spark does what a load in memory does: the same rows, or the same refusal in the same words."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.ids import MAIN, node_key
from omnigraphdb.spark import spark_runner
from tests.properties.test_runners import frames_of, modes, records, rows_by_type, sound, texts
from tests.support.two_ways import base_graph, loaded

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MANY = [
    {"type": "Person", "data": {"name": "v", "age": 3, "mail": "日本"}},
    {"type": "Person", "data": {"name": "é", "kind": "a", "sig": [1.0, 2.5]}},
    {"type": "Note", "data": {"id": "7", "text": "seven"}},
    {"type": "Note", "data": {"text": "fresh"}},
    {"edge": "Knows", "from": "v", "to": "p", "data": {"id": "9", "w": 1}},
    {"edge": "Wrote", "from": "é", "to": "7", "data": {}},
    {"edge": "Wrote", "from": "v", "to": "7", "data": {}},
]
WRONG: dict[str, Any] = {
    "a value out of range": {"type": "Person", "data": {"name": "u", "age": 99}},
    "a key that is there": {"type": "Person", "data": {"name": "p"}},
    "a key twice": {"type": "Person", "data": {"name": "v"}},
    "an end that is not there": {"edge": "Knows", "from": "v", "to": "nobody", "data": {}},
    "a taken mail": {"type": "Person", "data": {"name": "u", "mail": "x"}},
    "too many edges": {"edge": "Knows", "from": "p", "to": "s", "data": {"id": "n-5"}},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base_graph(tmp_path_factory.mktemp("ways"))


def lines(some: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in some)


def both_ways(
    base: Path,
    source: Any,
    mode: str,
    spark: Any,
    split_bytes: int = 100,
    create: tuple[str, ...] = (),
) -> None:
    whole = loaded(base, source, mode, create=create)
    runner = spark_runner(spark)
    found = loaded(base, source, mode, runner=runner, split_bytes=split_bytes, create=create)
    assert found == whole


LONG = pytest.mark.soak


@pytest.mark.parametrize(
    "mode",
    [pytest.param("append", marks=LONG), "merge", pytest.param("overwrite", marks=LONG)],
)
def test_records_are_loaded_alike(base: Path, spark: Any, mode: str) -> None:
    path = base.with_name("many.jsonl")
    path.write_text(lines(MANY))
    both_ways(base, path, mode, spark)


@pytest.mark.parametrize(
    "mode", ["overwrite", pytest.param("append", marks=LONG), pytest.param("merge", marks=LONG)]
)
def test_missing_ends_are_created_alike(base: Path, spark: Any, mode: str) -> None:
    edges = [("w1", "p"), ("w2", "w3"), ("p", "w1"), ("w3", "w4"), ("w4", "w5")]
    rows = [{"edge": "Knows", "from": a, "to": b, "data": {}} for a, b in edges]
    both_ways(base, rows, mode, spark, create=("Person",))


@pytest.mark.parametrize("mode", ["append", pytest.param("overwrite", marks=LONG)])
@pytest.mark.parametrize("wrong", [(), ({"type": "Person", "data": {"name": "u", "age": 99}}, 7)])
def test_records_from_memory_are_loaded_alike(
    base: Path, spark: Any, mode: str, wrong: tuple[Any, ...]
) -> None:
    both_ways(base, [*MANY, *wrong], mode, spark)


@pytest.mark.parametrize(
    "wrong",
    [pytest.param(one, marks=[LONG] if one != "a key twice" else []) for one in WRONG],
)
def test_what_breaks_a_rule_is_told_alike(base: Path, spark: Any, wrong: str) -> None:
    path = base.with_name("wrong.jsonl")
    path.write_text(lines([*MANY, WRONG[wrong]]) + "{not json\n" * (wrong == "a key twice"))
    both_ways(base, path, "append", spark)


@pytest.mark.soak
@settings(max_examples=15)
@given(text=texts(), mode=modes, split_bytes=st.integers(20, 400))
def test_files_nobody_chose(base: Path, spark: Any, text: str, mode: str, split_bytes: int) -> None:
    path = base.with_name("random.jsonl")
    path.write_text(text)
    both_ways(base, path, mode, spark, split_bytes)


@pytest.mark.soak
@settings(max_examples=10)
@given(some=records.filter(bool), mode=modes, split_bytes=st.integers(20, 400), typed=st.booleans())
def test_records_nobody_chose(
    base: Path, spark: Any, some: list[Any], mode: str, split_bytes: int, typed: bool
) -> None:
    both_ways(base, rows_by_type(some) if typed else some, mode, spark, split_bytes)


@pytest.mark.soak
@settings(max_examples=10)
@given(some=records.filter(bool), mode=modes, stored=st.booleans())
def test_frames_nobody_chose(
    base: Path, spark: Any, some: list[dict[str, Any]], mode: str, stored: bool
) -> None:
    source: dict[str, Any] = dict(frames_of(some))
    if stored:
        for name, frame in source.items():
            path = base.with_name(f"{name}.parquet")
            pyarrow.parquet.write_table(frame, path, row_group_size=2)
            source[name] = path
    both_ways(base, source, mode, spark)


@pytest.mark.soak
@settings(max_examples=10)
@given(some=sound(), framed=st.booleans())
def test_merges_nobody_chose(
    base: Path, spark: Any, some: list[dict[str, Any]], framed: bool
) -> None:
    path = base.with_name("sound.jsonl")
    path.write_text(lines(some))
    both_ways(base, frames_of(some) if framed else path, "merge", spark)


def test_tasks_are_cut_by_bytes_and_rows(spark: Any, tmp_path: Path) -> None:
    numbers = range(140_000)
    rows = pa.table({"k": [f"{n:06}" for n in numbers]})
    for start in range(0, 400, 2):
        pyarrow.parquet.write_table(rows.slice(start, 2), tmp_path / f"{start:03}.parquet")
    large = tmp_path / "large" / "one.parquet"
    large.parent.mkdir()
    pyarrow.parquet.write_table(rows, large, row_group_size=rows.num_rows)
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key }  node B { k: String @key }") as graph:  # fmt: skip
        graph.load(
            {"A": sorted(tmp_path.glob("*.parquet")), "B": large}, mode="append", spark=spark
        )
        snapshot = graph._engine.view(MAIN).snapshot
        fragments = [
            graph._engine.store.tables.open(snapshot.entry(node_key(name)).at).fragments()
            for name in "AB"
        ]
        # Two hundred small files are one task; one row group is a task for each of two cores.
        assert [len(one) for one in fragments] == [1, 2]
        assert graph.table("A")["k"].to_pylist() == rows["k"].to_pylist()[:400]
        assert sorted(graph.table("B")["k"].to_pylist()) == rows["k"].to_pylist()
