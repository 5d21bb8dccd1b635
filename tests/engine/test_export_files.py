"""Export to part files: what was written loads to the same graph, whoever wrote it."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.history import export_files
from tests.support.maintenance import SCHEMA, content, scattered

if TYPE_CHECKING:
    from omnigraphdb.api.types import FileFormat


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = scattered(tmp_path / "g")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_files, "EXPORT_PART_ROWS", 4)


def test_json_lines_in_many_files_load_to_the_same_graph(graph: Graph, tmp_path: Path) -> None:
    report = graph.export_files(tmp_path / "out")
    people = [one for one in report.parts if one.table_key == "node:Person"]
    assert (report.engine, report.commit) == ("local", graph.snapshot().commit)
    assert len(people) > 1
    assert sum(one.rows for one in people) == graph.table("Person").num_rows
    assert sorted(one.file for one in report.parts) == sorted(
        str(one) for one in (tmp_path / "out").iterdir()
    )
    with omnigraphdb.init(tmp_path / "copy", SCHEMA) as copy:
        copy.load(tmp_path / "out", mode="append")
        assert content(copy) == content(graph)


def test_parquet_files_hold_the_columns_as_they_are_stored(graph: Graph, tmp_path: Path) -> None:
    report = graph.export_files(tmp_path / "out", format="parquet", types=["Person"])
    assert {one.table_key for one in report.parts} == {"node:Person"}
    found = pyarrow.parquet.read_table(tmp_path / "out").sort_by("id")
    assert found.to_pylist() == content(graph)["node:Person"]
    assert found.schema.field("age").type == "int32"


def test_an_old_commit_is_exported_as_it_was(graph: Graph, tmp_path: Path) -> None:
    before = graph.snapshot().commit
    rows = content(graph)["node:Person"]
    graph.mutate('query q() { delete Person where name = "p1" }')
    graph.export_files(tmp_path / "out", format="parquet", at=before, types=["Person"])
    assert pyarrow.parquet.read_table(tmp_path / "out").sort_by("id").to_pylist() == rows


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"format": "csv"}, "format 'csv' is unknown"),
        ({"directory": "s3://elsewhere/out"}, "not a directory of this file system"),
        ({"types": ["Persn"]}, "Persn"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_a_file_is_written(
    graph: Graph, tmp_path: Path, given: dict[str, object], reason: str
) -> None:
    with pytest.raises(omnigraphdb.OmniError, match=reason):
        graph.export_files(**({"directory": tmp_path / "out"} | given))  # type: ignore[arg-type]
    assert not list(tmp_path.glob("out/*"))


def test_a_directory_that_holds_files_is_left_alone(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(omnigraphdb.OmniError, match="not empty"):
        graph.export_files(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_that_fails_leaves_no_file(
    graph: Graph, tmp_path: Path, format: "FileFormat", monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "_write_lines" if format == "jsonl" else "_write_parquet"
    write, turns = getattr(export_files, name), count()

    def failing(path: str, *rest: Any) -> int:
        rows: int = write(path, *rest)
        if next(turns) >= 2:
            raise OSError("the disk is full")
        return rows

    monkeypatch.setattr(export_files, name, failing)
    with pytest.raises(OSError, match="the disk is full"):
        graph.export_files(tmp_path / "out", format=format)
    assert list((tmp_path / "out").iterdir()) == []
    monkeypatch.setattr(export_files, name, write)
    assert graph.export_files(tmp_path / "out", format=format).parts
