"""A plan is data: it can be printed, compared and stored, and it says how many commits each table takes."""

import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa
import pytest

from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.commit.addressed import AddressedRows
from omnigraphdb.commit.delta import DeltaKind, TableDelta, UnwrittenRows, WrittenRows
from omnigraphdb.commit.plan import (
    BuildIndexes,
    ClearSettings,
    CompactFragments,
    Header,
    IndexChoice,
    NewTable,
    ReleaseSegments,
    ReshapeColumns,
    RewriteRows,
    Step,
    TableWrite,
    TakeOver,
    WritePlan,
    plan_of,
)
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.ids import MAIN, CommitId, OperationId, Version
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.storage.values import MAIN_INCARNATION, DropColumn, Successors, TableAt, Written

TYPE = compile_schema(Source("node Person { name: String @key }", "s.pg")).nodes["Person"]
BASE = TableAt(path="nodes/a", branch=None, version=Version(3))
SIDE = TableAt(path="nodes/a", branch="side", version=Version(5))
SNAPSHOT = Snapshot(
    branch=MAIN, version=Version(1), branch_incarnation=MAIN_INCARNATION, entries={}
)
WRITTEN = Written(fragments=("{}",), rows=1)


def delta(**facts: Any) -> TableDelta:
    rows = pa.table({name: ["a"] for name in TYPE.schema.names}, schema=TYPE.schema)
    return TableDelta(type=TYPE, kind=DeltaKind.MERGE, rows=rows, **facts)


def addressed(**facts: Any) -> TableDelta:
    rows = AddressedRows(source=SIDE, target=BASE, new=pa.array([1, 2], pa.uint64()), **facts)
    return delta(source=rows)


STEPS: dict[str, tuple[Step, int]] = {
    "rows in memory": (delta(), 1),
    "written rows": (delta(source=WrittenRows((WRITTEN,))), 1),
    "rows to write": (delta(source=UnwrittenRows(("splits",))), 1),
    "rows by address": (addressed(), 1),
    "rows that take over": (addressed(takes_over=True), 2),
    "the second commit": (
        TakeOver(
            written=WRITTEN,
            successors=Successors(pa.array([7], pa.uint64()), pa.array([2], pa.uint64())),
            addresses=pa.array([4], pa.uint64()),
            like=SIDE,
            is_adopted=True,
            removes=False,
        ),
        1,
    ),
    "columns": (ReshapeColumns((DropColumn("age"),)), 1),
    "a rewrite": (RewriteRows(), 1),
    "settings": (ClearSettings(), 1),
    "segments": (ReleaseSegments(), 1),
    "compaction": (CompactFragments(10), 1),
    "indexes": (BuildIndexes(TYPE, IndexChoice.INCOMPLETE), 1),
}


def plan(step: Step) -> WritePlan:
    header = Header(
        kind=WriterKind.LOAD,
        commit_kind=CommitKind.LOAD,
        actor="ann",
        operation_id=OperationId("o"),
        commit_id=CommitId("c"),
    )
    write = TableWrite(
        table_key=TYPE.table_key, base=BASE, strict=False, steps=(step,), fork="side"
    )
    return plan_of(header, SNAPSHOT, [write], {TYPE.table_key: BASE.version})


@pytest.mark.parametrize("name", STEPS)
def test_a_plan_can_be_printed_compared_and_stored(name: str) -> None:
    step, commits = STEPS[name]
    found = plan(step)
    assert found.tables[0].commits == commits
    assert type(step).__name__ in repr(found)
    assert "<function" not in repr(found)
    assert found == plan(step)
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_table_that_a_plan_writes_is_not_in_its_read_set() -> None:
    assert plan(delta()).read_set == {}


@pytest.mark.parametrize("value", [WritePlan, TableWrite, TableDelta, AddressedRows, NewTable])
def test_no_field_of_a_plan_holds_a_function(value: type) -> None:
    assert is_dataclass(value)
    assert not [one.name for one in fields(value) if "Callable" in str(one.type)]
