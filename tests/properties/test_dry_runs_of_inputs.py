"""A dry run and the load that it stands for say the same of frames and files, in memory and in steps, and over HTTP."""

import csv
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import LoadResult
from tests.support.dry_runs import (
    DATA,
    MADE_UP,
    Write,
    check_writes,
    load_options,
    mutations,
    records,
)
from tests.support.served import serving
from tests.support.settled import digest
from tests.support.write_model import SCHEMA

IN_STEPS = {"small_work_bytes": 0, "small_work_rows": 0, "split_bytes": 200, "load_concurrency": 2}
FACTS = ("status", "tables", "created", "affected_nodes", "affected_edges", "rows")
"""The fields of an answer that a dry run has in common with its write."""

Rows = list[dict[str, Any]]


# ---- forms


def group_rows(rows: Rows) -> dict[str, Rows]:
    """The records as rows of their types; an edge has its ends among its columns."""
    groups: dict[str, Rows] = {}
    for record in rows:
        ends = {name: record[name] for name in ("from", "to") if name in record}
        name = record.get("type") or record["edge"]
        groups.setdefault(name, []).append(ends | record.get("data", {}))
    return groups


def make_table(rows: Rows) -> pa.Table:
    """The rows as columns; a column of several types becomes text."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: list[pa.Array] = []
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns.append(pa.array(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns.append(pa.array([None if one is None else str(one) for one in values]))
    return pa.table(columns, names=names)


def write_parquet(rows: Rows, path: Path) -> Path:
    pq.write_table(make_table(rows), path)
    return path


def write_csv(rows: Rows, path: Path) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_lines(rows: Rows, path: Path) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def make_frames(make: Callable[[Rows, Path], Any], suffix: str) -> Callable[[Rows, Path], Any]:
    """A form in which every type has a frame or a file of its own."""

    def form(rows: Rows, folder: Path) -> dict[str, Any]:
        groups = group_rows(rows).items()
        return {name: make(group, folder / f"{name}{suffix}") for name, group in groups}

    return form


FORMS: Mapping[str, Callable[[Rows, Path], Any]] = {
    "records": lambda rows, _: list(rows),
    "lines": lambda rows, folder: write_lines(rows, folder / "rows.jsonl"),
    "arrow": make_frames(lambda rows, _: make_table(rows), ""),
    "reader": make_frames(lambda rows, _: make_table(rows).to_reader(), ""),
    "pandas": make_frames(lambda rows, _: pd.DataFrame(rows), ""),
    "rows": make_frames(lambda rows, _: list(rows), ""),
    "lines of a type": make_frames(write_lines, ".jsonl"),
    "csv": make_frames(write_csv, ".csv"),
    "parquet": make_frames(write_parquet, ".parquet"),
}


@st.composite
def loads(draw: st.DrawFn) -> Write:
    form, rows, options = draw(st.sampled_from(sorted(FORMS))), draw(records), draw(load_options())
    options |= draw(st.fixed_dictionaries({}, optional={"batch_id": st.sampled_from(["b1", "b2"])}))

    drawn: Any = rows

    def call(graph: Graph, dry_run: bool) -> LoadResult:
        with tempfile.TemporaryDirectory() as folder:
            source = FORMS[form](drawn, Path(folder))
            return graph.load(source, dry_run=dry_run, spark=False, **options)

    return Write(form, (form, rows, options), call)


@settings(max_examples=1)
@given(data=st.data())
def test_a_dry_run_accepts_the_frames_and_files_that_the_load_accepts(data: st.DataObject) -> None:
    check_writes(data, loads(), {}, count=4)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("config", [{}, IN_STEPS], ids=["in memory", "in steps"])
@settings(max_examples=300)
@given(data=st.data())
def test_a_dry_run_accepts_the_frames_and_files_that_the_load_accepts_at_length(
    config: Mapping[str, Any], data: st.DataObject
) -> None:
    check_writes(data, loads(), config)


# ---- over HTTP


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """The route and the body of a write; a load of lines has its options in the target."""
    if draw(st.booleans()):
        told: Any = draw(mutations()).told
        source, params, _ = told
        return "/mutate", {"query": source, "params": params}
    rows, options = draw(records), draw(load_options())
    names = {"mode": "mode", "branch": "branch", "from_branch": "from"}
    body = {names[name]: value for name, value in options.items() if name in names}
    if "create_missing" in options:
        body["create_missing"] = [options["create_missing"]]
    body["data"] = "".join(f"{json.dumps(row)}\n" for row in rows)
    return draw(st.sampled_from(["/load", "/load/ndjson"])), body


def post(http: httpx.Client, path: str, body: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
    """Send a write; give the facts of its answer, without the ids that are made up for each write."""
    if path == "/load/ndjson":
        options = {name: value for name, value in body.items() if name != "data"}
        options["dry_run"] = str(dry_run).lower()
        headers = {"content-type": "application/x-ndjson"}
        answer = http.post(path, params=options, content=body["data"], headers=headers)
    else:
        answer = http.post(path, json=body | {"dry_run": dry_run})
    facts = answer.json() | {"status": answer.status_code}
    names = FACTS if answer.status_code == 200 else ("status", "kind", "code")
    return json.loads(MADE_UP.sub("*", json.dumps({name: facts.get(name) for name in names})))


def check_requests(folder: Path, examples: int) -> None:
    """Send random writes to a server, each as a dry run before; both are answered alike."""
    with omnigraphdb.init(folder / "g", SCHEMA) as graph:
        graph.load(DATA, mode="append")
        graph.branch_create("side")

    with (
        serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as server,
        server.client() as http,
    ):

        @settings(max_examples=examples)
        @given(request=requests())
        def check(request: tuple[str, dict[str, Any]]) -> None:
            path, body = request
            files = digest(folder / "g")
            dry = post(http, path, body, dry_run=True)
            assert digest(folder / "g") == files, "a dry run changed files"
            real = post(http, path, body, dry_run=False)
            event(f"{path}: {real['status']}")
            assert dry == real, request

        check()


def test_a_dry_run_over_http_accepts_what_the_write_accepts(tmp_path: Path) -> None:
    check_requests(tmp_path, 8)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_dry_run_over_http_accepts_what_the_write_accepts_at_length(tmp_path: Path) -> None:
    check_requests(tmp_path, 2_000)
