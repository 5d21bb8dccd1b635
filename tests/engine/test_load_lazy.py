"""Loading from what other libraries compute, and from JSON arrays; the same rows as from a table in memory."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import DataError, OmniError, UserInputError

SCHEMA = """
node Thing { key: String @key  n: I64?  at: DateTime?  day: Date?  tags: [String]?  mood: enum(a, b)? }
edge Link: Thing -> Thing
"""
ROWS = 5_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    keys = [f"k{n:05}" for n in range(ROWS)]
    moments = pa.array(range(ROWS), pa.int64()).cast(pa.timestamp("ms", "UTC"))
    return pa.table(
        {
            "key": keys,
            "n": pa.array([None if n % 7 == 0 else n for n in range(ROWS)], pa.int64()),
            "at": moments,
            "day": pa.array(range(ROWS), pa.int32()).cast(pa.date32()),
            "tags": [[str(n), "x"] for n in range(ROWS)],
            "mood": ["a" if n % 2 else "b" for n in range(ROWS)],
        }
    )


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as made:
        yield made


def dataset(table: pa.Table, folder: Path) -> Any:
    pyarrow.parquet.write_table(table.slice(0, 3_000), folder / "a.parquet")
    pyarrow.parquet.write_table(table.slice(3_000), folder / "b.parquet")
    return pyarrow.dataset.dataset(folder, format="parquet")


LAZY: dict[str, Callable[[pa.Table, Path], Any]] = {
    "dataset": dataset,
    "scanner": lambda table, folder: dataset(table, folder).scanner(batch_size=500),
    "polars": lambda table, _: polars.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "polars of a file": lambda table, folder: polars.scan_parquet(
        str(dataset(table, folder).files[0]).replace("a.parquet", "*.parquet")
    ),
    "duckdb": lambda table, _: duckdb.connect().from_arrow(table),
}


@pytest.mark.parametrize("kind", LAZY)
def test_a_lazy_frame_brings_the_rows_of_its_table(
    graph: Graph, table: pa.Table, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "files").mkdir()
    done = graph.load(LAZY[kind](table, tmp_path / "files"), type="Thing", mode="append")
    assert done.tables == {"node:Thing": ROWS}
    found = graph.table("Thing").select(table.column_names).sort_by("key")
    assert found.to_pydict() == table.to_pydict()


def test_a_query_of_duckdb_is_loaded_as_it_is_computed(graph: Graph, table: pa.Table) -> None:
    connection = duckdb.connect()
    connection.register("source", table)
    chosen = connection.sql("select key, sum(n) as n from source where n < 10 group by key")
    graph.load({"Thing": chosen}, mode="append")
    assert sorted(graph.table("Thing")["n"].to_pylist()) == [1, 2, 3, 4, 5, 6, 8, 9]


def test_a_large_lazy_frame_is_loaded_in_steps(tmp_path: Path, table: pa.Table) -> None:
    config = {"small_work_rows": 100}
    with omnigraphdb.init(tmp_path / "g", SCHEMA):
        pass
    with omnigraphdb.open(tmp_path / "g", config=config) as graph:
        done = graph.load(polars.from_arrow(table).lazy(), type="Thing", mode="append", spark=False)  # type: ignore[union-attr]
        assert "past" in done.reason or "steps" in done.reason, done.reason
        assert graph.snapshot().tables()["node:Thing"] == ROWS


def test_what_a_library_cannot_compute_is_told_and_nothing_is_written(graph: Graph) -> None:
    broken = polars.LazyFrame({"key": ["a"]}).select(polars.col("key").str.to_integer())
    with pytest.raises(UserInputError, match="the frame of 'Thing' cannot be read"):
        graph.load({"Thing": broken}, mode="append")
    with pytest.raises(UserInputError, match=r"a frame \(LazyFrame\) needs type="):
        graph.load(broken, mode="append")
    assert graph.snapshot().tables()["node:Thing"] == 0


# ---- JSON arrays

RECORDS = [
    {"type": "Thing", "data": {"key": "a", "n": 12, "tags": ["]", "é,"]}},
    {"type": "Thing", "data": {"key": "b"}},
    {"edge": "Link", "from": "a", "to": "b"},
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["all.json", "all.json.gz"])
def test_a_file_may_hold_one_array_of_records(
    graph: Graph, tmp_path: Path, name: str, indent: int | None
) -> None:
    text = ("\ufeff" + json.dumps(RECORDS, indent=indent, ensure_ascii=False) + "\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    done = graph.load(tmp_path / name, mode="append")
    assert done.tables == {"node:Thing": 2, "edge:Link": 1}
    assert graph.entity("Thing", "a")["tags"] == ["]", "é,"]  # type: ignore[index]


def test_a_file_may_hold_an_array_of_rows_of_one_type(graph: Graph, tmp_path: Path) -> None:
    many = [{"key": f"k{n}", "n": n, "tags": ["x" * 200]} for n in range(9_000)]
    (tmp_path / "rows.json").write_text(json.dumps(many))
    assert (tmp_path / "rows.json").stat().st_size > 2 * 1024 * 1024
    graph.load({"Thing": tmp_path / "rows.json"}, mode="append")
    assert sum(graph.table("Thing")["n"].to_pylist()) == sum(range(9_000))


def test_lines_in_a_json_file_are_still_records(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, RECORDS)))
    assert graph.load(tmp_path / "lines.json", mode="append").total_rows == 3


@pytest.mark.parametrize("config", [{}, {"small_work_bytes": 1, "split_bytes": 200}])
def test_a_problem_in_an_array_names_the_file_and_the_item(
    tmp_path: Path, config: dict[str, int]
) -> None:
    path = tmp_path / "all.json"
    wrong = [
        {"type": "Thing", "data": {"key": "c", "n": "many"}},
        {"edge": "Link", "from": "a", "to": "no"},
    ]
    path.write_text(json.dumps([*RECORDS, *wrong]))
    with (
        omnigraphdb.init(tmp_path / "in.omni", SCHEMA, config=config) as graph,
        pytest.raises(OmniError) as refused,
    ):
        graph.load(path, mode="append", spark=False)
    found = [(one["file"], one["record"]) for one in refused.value.details["data_errors"]]
    assert found == [(str(path), 4), (str(path), 5)]
    assert f"{path}, record 4: [J07]" in str(refused.value)


BROKEN = {
    "not ended": (
        '[{"type": "Thing", "data": {"key": "a"}}',
        "item 2: expected ']', found the end",
    ),
    "no comma": ('[{"type": "Thing", "data": {"key": "a"}} {}]', "item 2: expected ']', found '{'"),
    "cut": ('[{"type": "Thing", "data": {"key": "a"', "item 1: Expecting"),
    "more": ("[] []", "follows the end of the array"),
    "constant": ('[{"type": "Thing", "data": {"key": "a", "n": NaN}}]', "NaN is no JSON number"),
    "trailing comma": ('[{"type": "Thing", "data": {"key": "a"}},]', "item 2: Expecting value"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_array_is_told_by_its_item(graph: Graph, tmp_path: Path, case: str) -> None:
    text, told = BROKEN[case]
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UserInputError) as refused:
        graph.load(tmp_path / "bad.json", mode="append")
    assert told in str(refused.value)
    assert "bad.json" in str(refused.value)
    assert graph.snapshot().tables()["node:Thing"] == 0


def test_an_item_that_is_no_record_is_told(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('[{"type": "Thing", "data": {"key": "a"}}, 12]')
    with pytest.raises(DataError, match="record"):
        graph.load(tmp_path / "bad.json", mode="append")
