"""What clients do with an opened graph: each verb by the functions of the engine below the public API."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.commit.delta import DeltaKind, TableDelta
from omnigraphdb.commit.plan import (
    ANONYMOUS,
    Header,
    TableWrite,
    WriteOptions,
    mint_header,
    plan_of,
)
from omnigraphdb.commit.sidecar import PointerUpdate, WriterKind
from omnigraphdb.commit.stage import stage_write
from omnigraphdb.engine import branching
from omnigraphdb.engine.attempt import attempt
from omnigraphdb.engine.branching import create_once, delete_once
from omnigraphdb.engine.keyed import (
    Replay,
    RequestKind,
    attempt_once,
    find_replay,
    find_status,
    make_write_request,
)
from omnigraphdb.engine.maintenance.cleanup import cleanup
from omnigraphdb.engine.results import OperationStatus
from omnigraphdb.engine.writer import CompletedWrite, Prepared
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.view import View
from tests.simulation.handles import TABLES, Handle
from tests.simulation.lines import Commit
from tests.simulation.tables import as_tables

LIST: Final = "list"
"""The row that writers extend: its name lists them, each with a mark of the attempt."""
MARK: Final = "~"
_READ: Final = " read "
"""Stands in the id of a row between its name and what its writer read."""
NO_COMMIT: Final = CommitId("00000000000000000000000000")
"""A head that no branch has."""


@dataclass(frozen=True)
class Answer:
    """What a keyed write is told: its commit, and the receipt of whoever carried it out."""

    commit: CommitId | None
    receipt: str
    is_replayed: bool


def insert_once(
    handle: Handle,
    branch: str,
    name: str,
    tables: Sequence[TableKey],
    *,
    key: str | None = None,
    expects_no_head: bool = False,
) -> Answer:
    """Insert a row under a key, which is its name if nothing else is said.

    `expects_no_head` names a head that no branch has, and is refused.
    """
    engine, target = handle.engine, BranchName(branch)
    options = WriteOptions(key=key or name, if_commit=NO_COMMIT if expects_no_head else None)
    request = make_write_request(
        RequestKind.MUTATE, target, options, name=name, tables=list(tables)
    )
    known = find_replay(engine, request)
    if known is not None:
        return _answer_of(known)
    header = _mint(handle, options)

    def prepare(view: View) -> Prepared[str]:
        return Prepared(handle.plan_insert(view, header, name, tables), handle.client.new_id())

    done = attempt_once(
        engine,
        target,
        request,
        header,
        prepare,
        lambda mark: {"mark": mark},
        "insert",
        only_inserts=True,
    )
    if isinstance(done, Replay):
        return _answer_of(done)
    return Answer(_commit_of(done), done.outcome, is_replayed=False)


def _answer_of(known: Replay) -> Answer:
    commit = None if known.commit is None else known.commit.id
    return Answer(commit, known.receipt["mark"], is_replayed=True)


def find_key(handle: Handle, branch: str, key: str) -> OperationStatus:
    """Say what became of the request of a key."""
    return find_status(handle.engine, BranchName(branch), None, key)


def extend(handle: Handle, branch: str, name: str, tables: Sequence[TableKey]) -> CommitId:
    """Add a name to the list of each table, in one commit that reads what was there."""
    header = _mint(handle, ANONYMOUS)

    def prepare(view: View) -> Prepared[None]:
        staged = (_stage_longer(handle, view, table, name) for table in tables)
        writes = [write for write in staged if write is not None]
        return Prepared(plan_of(header, view.snapshot, writes), None)

    return _commit_of(attempt(handle.engine, BranchName(branch), prepare, "extend"))


def _stage_longer(handle: Handle, view: View, table: TableKey, name: str) -> TableWrite | None:
    type_, entry = view.catalog.tables[table], view.snapshot.entry(table)
    rows = handle.tables.open(entry.at).commit.rows.values()
    before = next(row["name"] for row in rows if row["id"] == LIST)
    longer = f"{before},{name}{MARK}{handle.client.new_id()}"
    changed = pa.table({"id": [LIST], "name": [longer]}, schema=type_.schema)
    delta = TableDelta(type=type_, kind=DeltaKind.UPDATE, rows=changed)
    return stage_write(as_tables(handle.tables), entry, view.branch, delta)


@dataclass(frozen=True)
class Reading:
    """What the writer of a row read: the version of another table that it relied on."""

    row: str
    table: TableKey
    version: int


def insert_by_reading(
    handle: Handle, branch: str, name: str, table: TableKey, read: TableKey
) -> CommitId:
    """Insert a row that relies on what another table shows, and says which version that was."""
    header = _mint(handle, ANONYMOUS)

    def prepare(view: View) -> Prepared[None]:
        version = view.snapshot.entry(read).version
        staged = handle.stage_insert(view, table, name, f"{name}{_READ}{read} {version}")
        writes = [] if staged is None else [staged]
        return Prepared(plan_of(header, view.snapshot, writes, {read: version}), None)

    return _commit_of(attempt(handle.engine, BranchName(branch), prepare, "insert"))


def list_readings(commit: Commit) -> Iterator[Reading]:
    """List what the writers of the rows of a table read."""
    for row in commit.rows.values():
        name, said, read = str(row["id"]).partition(_READ)
        if said:
            table, _, version = read.rpartition(" ")
            yield Reading(name, TableKey(table), int(version))


def adopt(handle: Handle, branch: str) -> CommitId:
    """Let a branch that owns no table show what main shows: a merge that moves pins alone."""
    engine, client = handle.engine, handle.client
    header = mint_header(client, WriterKind.BRANCH_MERGE, CommitKind.BRANCH_MERGE, ANONYMOUS)
    source = engine.view(MAIN).state

    def prepare(view: View) -> Prepared[None]:
        pins = [view.snapshot.entry(key).at for key in TABLES]
        if any(at.branch is not None for at in pins):
            raise UserInputError(f"'{branch}' owns tables; nothing was written")
        shown = [source.snapshot.entry(key) for key in TABLES]
        points = tuple(
            PointerUpdate(
                table_key=entry.table_key,
                version=entry.version,
                branch=None,
                row_count=entry.row_count,
                path=entry.at.path,
            )
            for entry, at in zip(shown, pins, strict=True)
            if entry.version > at.version
        )
        if not points:
            raise UserInputError(f"'{branch}' shows what main shows; nothing was written")
        # Of a pin that only moves, the version that it moves from is what the merge relied on.
        read = {point.table_key: view.snapshot.pins[point.table_key] for point in points}
        plan = plan_of(header, view.snapshot, [], read)
        merged = None if source.head is None else source.head.id
        return Prepared(replace(plan, pointer_updates=points, merge_source=merged), None)

    return _commit_of(attempt(engine, BranchName(branch), prepare, "adopt"))


def create_branch_once(handle: Handle, name: str, key: str) -> None:
    """Make a branch of main under a key."""
    create_once(handle.engine, name, MAIN, None, None, key)


def delete_branch_once(handle: Handle, name: str, key: str) -> None:
    """Delete a branch under a key."""
    delete_once(handle.engine, name, MAIN, None, key)


def delete_merged_branch(handle: Handle, name: str) -> None:
    """Delete a branch, unless it has a commit that main has not."""
    branching.delete(handle.engine, name, MAIN, merged_into=MAIN)


def clean(handle: Handle) -> int:
    """Remove every version that nothing needs; says how many went."""
    report = cleanup(handle.engine, keep=1, confirm=True)
    return sum(one.versions_removed for one in (*report.tables, report.manifest))


def fold(handle: Handle, branch: str) -> bool:
    """Store the rows of the manifest as one fragment."""
    return handle.manifest.fold(BranchName(branch))


def _mint(handle: Handle, options: WriteOptions) -> Header:
    return mint_header(handle.client, WriterKind.MUTATION, CommitKind.MUTATION, options)


def _commit_of(done: CompletedWrite[Any]) -> CommitId:
    assert done.commit is not None, "a write that changes something makes a commit"
    return done.commit.id
