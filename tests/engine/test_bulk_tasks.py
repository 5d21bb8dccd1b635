"""Inputs become tasks by their bytes and their rows: small files are read together, one large row group by all workers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.write.load import load
from omnigraphdb.engine.write.runner_choice import RunnerChoice
from omnigraphdb.ids import MAIN
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.progress import Progress
from omnigraphdb.pipeline.reporting import ReportingRunner
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
FILES, ROWS = 200, 10


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        yield graph
        assert_settled(graph)
        assert not list((tmp_path / "g").glob("__staging/*"))


def stepped(graph: Graph, source: Any, workers: int, mode: str = "append") -> dict[str, int]:
    """Load in steps, and say how many tasks each step had."""
    seen: list[Progress] = []
    runner = ReportingRunner(LocalRunner(workers), seen.append)
    load(graph._engine, source, mode=mode, choose_runner=lambda _: RunnerChoice(runner, "a test"))
    return {one.phase: one.total or 0 for one in seen}


def fragments(graph: Graph, table: str) -> int:
    entry = graph._engine.view(MAIN).snapshot.entry(graph.catalog.table(table).table_key)
    return len(graph._engine.store.tables.open(entry.at).fragments())


def write_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".csv":
            pyarrow.csv.write_csv(pa.Table.from_pylist(rows), path)
        case _:
            pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def small_files(home: Path, suffix: str, wrong: int | None = None) -> list[Path]:
    """Files of a few people each; one of them may hold somebody of an impossible age in its third row."""
    paths = []
    for number in range(FILES):
        rows: list[dict[str, Any]] = [
            {"name": f"p{number * ROWS + row:04}", "age": row} for row in range(ROWS)
        ]
        if number == wrong:
            rows[2]["age"] = 2**40
        paths.append(write_file(home / f"{number:03}{suffix}", rows))
    return paths


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_small_files_are_one_task_and_one_fragment(
    graph: Graph, tmp_path: Path, suffix: str
) -> None:
    tasks = stepped(graph, {"Person": small_files(tmp_path, suffix)}, workers=4)
    assert (tasks["check"], tasks["stage"], fragments(graph, "Person")) == (1, 1, 1)
    people = graph.table("Person").select(["name", "age"]).to_pylist()
    assert people == [{"name": f"p{n:04}", "age": n % ROWS} for n in range(FILES * ROWS)]


@pytest.mark.parametrize(
    ("suffix", "where"), [(".jsonl", "line 3"), (".csv", "record 3"), (".parquet", "record 3")]
)
def test_a_bad_record_of_a_small_file_is_told_by_its_own_file(
    graph: Graph, tmp_path: Path, suffix: str, where: str
) -> None:
    paths = small_files(tmp_path, suffix, wrong=137)
    with pytest.raises(omnigraphdb.DataError) as caught:
        stepped(graph, {"Person": paths}, workers=2)
    assert caught.value.total == 1
    assert f"{paths[137]}, {where}" in str(caught.value)
    assert "1099511627776" in str(caught.value)


def test_small_files_of_nodes_and_edges_meet(graph: Graph, tmp_path: Path) -> None:
    people = small_files(tmp_path, ".parquet")
    ends = [[f"p{n:04}", f"p{n * 7 % 2000:04}"] for n in range(40)]
    edges = [
        write_file(tmp_path / f"e{n}.parquet", [{"from": near, "to": far}])
        for n, (near, far) in enumerate(ends)
    ]
    tasks = stepped(graph, {"Knows": edges, "Person": people}, workers=2)
    # Ends are looked for among the nodes of the other files while edges are read: no step of its own is needed.
    assert (tasks["check"], "ends" in tasks) == (2, False)
    found = graph.table("Knows").select(["src", "dst"]).to_pylist()
    assert [[row["src"], row["dst"]] for row in found] == ends


@pytest.fixture(scope="module")
def one_group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet file whose rows are all in one row group."""
    path = tmp_path_factory.mktemp("large") / "one.parquet"
    numbers = np.arange(200_000)
    names = pa.array(np.char.add("p", np.char.zfill(numbers.astype(str), 6)))
    rows = pa.table({"name": names, "age": pa.array(numbers % 100, pa.int32())})
    pyarrow.parquet.write_table(rows, path, row_group_size=len(rows))
    return path


def test_one_row_group_is_the_work_of_all_workers(graph: Graph, one_group: Path) -> None:
    tasks = stepped(graph, {"Person": one_group}, workers=3)
    assert tasks["check"] == 3
    rows = pyarrow.parquet.read_table(one_group)
    found = graph.table("Person").sort_by("name").select(["name", "age"])
    assert found.equals(rows.cast(found.schema))


def test_rows_of_one_group_replace_others_and_are_told_by_their_number(
    graph: Graph, one_group: Path, tmp_path: Path
) -> None:
    rows = pyarrow.parquet.read_table(one_group)
    stepped(graph, {"Person": rows.slice(60_000, 80_000)}, workers=2)
    assert stepped(graph, {"Person": one_group}, workers=3, mode="merge")["check"] == 3
    assert graph.table("Person").num_rows == rows.num_rows
    wrong = rows.set_column(0, "name", pa.concat_arrays([rows["name"].combine_chunks()[:-1], pa.array([None], pa.string())]))  # fmt: skip
    pyarrow.parquet.write_table(wrong, tmp_path / "w.parquet", row_group_size=wrong.num_rows)
    with pytest.raises(omnigraphdb.DataError, match="record 200000"):
        stepped(graph, {"Person": tmp_path / "w.parquet"}, workers=3, mode="merge")
