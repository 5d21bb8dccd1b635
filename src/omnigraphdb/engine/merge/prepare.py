"""From a relation to a plan: resolve every table, collect every conflict, check the merged graph, stage."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType, TableType
from omnigraphdb.commit.addressed import AddressedRows, read_mixed, stream_source
from omnigraphdb.commit.constraints import violations
from omnigraphdb.commit.delta import DeltaKind, TableDelta, deltas_of
from omnigraphdb.commit.plan import Header, WritePlan, plan_of
from omnigraphdb.commit.sidecar import PointerUpdate
from omnigraphdb.commit.stage import stage_write
from omnigraphdb.engine.diff.candidates import candidates
from omnigraphdb.engine.diff.row_cache import RowCache
from omnigraphdb.engine.diff.rows import read_images_at, read_images_of
from omnigraphdb.engine.merge.conflicts import (
    Conflict,
    in_order,
    kind_of,
    row_message,
)
from omnigraphdb.engine.merge.relate import MergeStrategy, Relation, TableRelation, relate_tables
from omnigraphdb.engine.merge.resolve import Resolution, RowConflicts, adopt, three_way
from omnigraphdb.engine.merge.virtual import list_other_versions, merge_over
from omnigraphdb.engine.merge_base import Base
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.errors import InternalError, MergeConflicts, Problem
from omnigraphdb.ids import Granularity, TableKey, Version
from omnigraphdb.limits import AGREED_ROWS_MAX, MERGE_ROW_CACHE_BYTES
from omnigraphdb.manifest.records import Agreed
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.pipeline.progress import OnProgress, ignore_progress, track_tables
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.values import dataclass

EVERY_PROBLEM = 2**62
"""A merge reports all conflicts at once."""


Counts = tuple[int, int, int]
"""Inserts, updates and deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedMerge:
    """The decision of a merge, by this process or by workers."""

    relation: Relation
    counts: Mapping[TableKey, Counts] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    conflicts_total: int = 0
    read_set: Mapping[TableKey, Version] = field(default_factory=dict)

    @property
    def total_rows(self) -> int:
        """The number of rows that are inserted, updated or deleted."""
        return sum(map(sum, self.counts.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """One table of a merge: how its sides relate, which rows move, and which are in conflict."""

    type: TableType
    relation: TableRelation
    resolution: Resolution

    @property
    def rows(self) -> AddressedRows:
        """The rows that move."""
        return self.resolution.rows

    @property
    def delta(self) -> TableDelta:
        """The changes of the merge to the table of the target."""
        return TableDelta(
            type=self.type,
            kind=DeltaKind.MERGE,
            rows=self.type.schema.empty_table(),
            deleted=column(self.rows.removed, "id"),
            source=self.rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedMerge:
    """A merge that is decided but not written."""

    relation: Relation
    tables: tuple[TableMerge, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    read_set: Mapping[TableKey, Version] = field(default_factory=dict)
    same_moves: tuple[TableKey, ...] = ()
    """Tables of which both sides show one version that the base does not have."""

    @property
    def agreed(self) -> Agreed | None:
        """Rows that both sides had changed in the same way; None when the base tells too little about it."""
        if not self.relation.is_exact:
            return None
        ids_by_table = {table.relation.table_key: table.resolution.agreed for table in self.tables}
        listed = {
            key: _list_agreed(ids) for key, ids in ids_by_table.items() if ids is None or len(ids)
        }
        return tuple(sorted((listed | dict.fromkeys(self.same_moves)).items()))

    @property
    def decided(self) -> DecidedMerge:
        """The decision: counts by table, conflicts, and the versions that were read."""
        counts = {
            table.relation.table_key: table.rows.counts
            for table in self.tables
            if not table.rows.is_empty
        }
        return DecidedMerge(
            relation=self.relation,
            counts=counts,
            conflicts=self.conflicts,
            conflicts_total=len(self.conflicts),
            read_set=self.read_set,
        )


def _list_agreed(ids: pa.Array | None) -> tuple[str, ...] | None:
    if ids is None or len(ids) > AGREED_ROWS_MAX:
        return None
    return tuple(sorted(ids.to_pylist()))


def resolve_merge(
    relation: Relation,
    catalog: Catalog,
    tables: Tables,
    granularity: Granularity,
    report: OnProgress = ignore_progress,
) -> ResolvedMerge:
    """Decide a merge: rows first, then, when no row is in conflict, the rules over the merged graph."""
    if relation.base is None:
        return ResolvedMerge(relation=relation)
    related = relate_tables(relation.base, relation.source.snapshot, relation.target.snapshot)
    row_cache = RowCache(MERGE_ROW_CACHE_BYTES, list_key_columns(relation, catalog))
    merges = tuple(
        _merge_table(table, relation.base, catalog, tables, granularity, row_cache)
        for table in track_tables(
            report,
            "compare",
            [table for table in related if table.way is not MergeStrategy.SAME],
            _count_source_rows,
        )
    )
    read_set = {m.relation.table_key: m.relation.target.version for m in merges}
    conflicts = in_order(c for merge in merges for c in _find_row_conflicts(merge, tables))
    if not conflicts:
        committed = SnapshotRows(snapshot=relation.target.snapshot, tables=tables)
        conflicts = in_order(_find_broken_rules(merges, committed, catalog, tables))
        read_set |= committed.read_set()
    return ResolvedMerge(
        relation=relation,
        tables=merges,
        conflicts=conflicts,
        read_set=read_set,
        same_moves=tuple(table.table_key for table in related if table.is_same_move),
    )


def _count_source_rows(relation: TableRelation) -> int:
    return relation.source.row_count


def list_key_columns(relation: Relation, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """List the columns that follow from the id, by the path of their table: the key of a type, which it has from birth on."""
    types = (
        (entry, catalog.tables[key]) for key, entry in relation.target.snapshot.entries.items()
    )
    return {entry.at.path: t.key_columns for entry, t in types if isinstance(t, NodeType)}


def _merge_table(
    relation: TableRelation,
    base: Base,
    catalog: Catalog,
    tables: Tables,
    granularity: Granularity,
    row_cache: RowCache,
) -> TableMerge:
    resolution = _resolve_table(relation, base, tables, granularity, row_cache)
    # Rows that were read to be compared are checked and written from memory.
    rows = replace(resolution.rows, cached=row_cache.tables(relation.source.at))
    type_ = catalog.tables[relation.table_key]
    return TableMerge(type=type_, relation=relation, resolution=replace(resolution, rows=rows))


def _resolve_table(
    relation: TableRelation,
    merge_base: Base,
    tables: Tables,
    granularity: Granularity,
    row_cache: RowCache,
) -> Resolution:
    base = None if relation.base is None else relation.base.at
    source, target = relation.source.at, relation.target.at
    match relation.way:
        case MergeStrategy.SAME:
            raise InternalError(
                f"{relation.table_key} is the same on both sides and needs no merge"
            )
        case MergeStrategy.POINT | MergeStrategy.ADOPT:
            return adopt(tables, target, source, row_cache)
        case MergeStrategy.THREE_WAY:
            return three_way(tables, base, source, target, granularity, row_cache)
        case MergeStrategy.PUT_TOGETHER:
            moves = [
                candidates(tables, target, at, row_cache) for at in list_other_versions(relation)
            ]
            return merge_over(tables, merge_base.node, relation, granularity, moves, row_cache)


# ---- conflicts


def _find_row_conflicts(merge: TableMerge, tables: Tables) -> Iterator[Conflict]:
    for clash in merge.resolution.clashes:
        yield from describe_clash(merge.relation, clash, tables)


def describe_clash(
    relation: TableRelation, clash: RowConflicts, tables: Tables
) -> Iterator[Conflict]:
    """Describe rows that both sides changed, with their three images."""
    sides = [
        read_images_at(table, clash.rows[side].combine_chunks())
        for side, table in _open_sides(relation, tables).items()
    ]
    for number, row_id in enumerate(clash.rows["id"].to_pylist()):
        rows = (sides[0][number], sides[1][number], sides[2][number])
        marked = clash.properties[number]
        properties = tuple(n for n, is_marked in zip(clash.names, marked, strict=True) if is_marked)
        yield Conflict(
            table_key=relation.table_key,
            row_id=row_id,
            kind=clash.kind,
            message=row_message(relation.table_key, clash.kind, row_id, rows, properties),
            base=rows[0],
            source=rows[1],
            target=rows[2],
            properties=properties,
        )


def _open_sides(relation: TableRelation, tables: Tables) -> dict[str, Table | None]:
    entries: dict[str, Entry | None] = {
        "base": relation.base,
        "source": relation.source,
        "target": relation.target,
    }
    return {side: None if e is None else tables.open(e.at) for side, e in entries.items()}


def _find_broken_rules(
    merges: Iterable[TableMerge], committed: SnapshotRows, catalog: Catalog, tables: Tables
) -> Iterator[Conflict]:
    """Apply the rules to the target with the changes of the merge, by the evaluator that all writes share."""
    merges = tuple(merges)
    deltas = deltas_of({m.relation.table_key: _read_checked_columns(m, tables) for m in merges})
    broken_rules = violations(deltas, committed, catalog)
    yield from describe_problems(
        broken_rules.problems, [merge.relation for merge in merges], committed, tables
    )


def describe_problems(
    problems: Iterable[Problem],
    relations: Iterable[TableRelation],
    committed: SnapshotRows,
    tables: Tables,
) -> Iterator[Conflict]:
    """Describe rules that the merged graph would break, with the three images of the rows that break them."""
    by_table: dict[str, list[Problem]] = {}
    for problem in problems:
        by_table.setdefault(problem.table_key or "", []).append(problem)
    related = {relation.table_key: relation for relation in relations}
    for key, own in by_table.items():
        relation = related.get(TableKey(key))
        yield from _describe_table_problems(TableKey(key), own, relation, committed, tables)


def _read_checked_columns(merge: TableMerge, tables: Tables) -> TableDelta:
    """Make the delta of a table with the columns that rules look at in memory."""
    type_, rows = merge.type, merge.rows
    names = list_checked_columns(type_)
    addresses = pa.concat_arrays([rows.new, column(rows.changed, "source")])
    batches = [*stream_source(tables, rows, addresses, names), *read_mixed(tables, rows, names)]
    parts = [pa.Table.from_batches([batch]).select(names) for batch in batches]
    incoming = pa.concat_tables(parts) if parts else type_.schema.empty_table().select(names)
    checked = fill_required(incoming, type_)
    return replace(merge.delta, rows=checked, source=None, shown_max=EVERY_PROBLEM)


def list_checked_columns(type_: TableType) -> list[str]:
    """List the columns that rules look at; of vectors and blobs rules look only at their presence."""
    ends = ["src", "dst"] if isinstance(type_, EdgeType) else []
    ruled = {name for group in type_.unique for name in group.columns}
    if isinstance(type_, NodeType):
        ruled |= {rule.property for rule in type_.ranges} | {c.property for c in type_.checks}
    properties = type_.properties
    ruled |= {n for n, p in properties.items() if p.type.is_enum or not p.type.nullable}
    narrow = {n for n in ruled if n in properties and not _is_wide(type_, n)}
    return ["id", *ends, *sorted(narrow)]


def _is_wide(type_: TableType, name: str) -> bool:
    declared = type_.properties[name].type
    return declared.is_vector or declared.is_blob


def fill_required(rows: pa.Table, type_: TableType) -> pa.Table:
    """Add stand-ins for required vectors and blobs: storage refuses a NULL there, so none was written."""
    for name, declared in sorted(type_.properties.items()):
        if not declared.type.nullable and _is_wide(type_, name):
            rows = rows.append_column(name, pa.array(np.ones(rows.num_rows, dtype=bool)))
    return rows


def _describe_table_problems(
    key: TableKey,
    problems: list[Problem],
    relation: TableRelation | None,
    committed: SnapshotRows,
    tables: Tables,
) -> Iterator[Conflict]:
    ids = sorted({problem.row_id for problem in problems if problem.row_id is not None})
    target = committed.table(key)
    sides: dict[str, Table | None] = dict.fromkeys(("base", "source", "target"), target)
    if relation is not None:
        sides = _open_sides(relation, tables)
    rows = {side: read_images_of(table, ids) for side, table in sides.items()}
    for problem in problems:
        row_id = problem.row_id
        yield Conflict(
            table_key=key,
            row_id=row_id,
            kind=kind_of(problem),
            message=problem.message,
            properties=tuple(problem.property.split(", ")) if problem.property else (),
            **{side: images.get(row_id or "") for side, images in rows.items()},
        )


# ---- the plan


def plan_merge(
    merge: ResolvedMerge, tables: Tables, header: Header, report: OnProgress = ignore_progress
) -> WritePlan:
    """Stage a resolved merge; conflicts are raised, all of them."""
    if merge.conflicts:
        raise MergeConflicts(merge.conflicts)
    relation = merge.relation
    branch = relation.target.branch
    moving = [table for table in merge.tables if not table.rows.is_empty]
    staged_tables = [table for table in moving if table.relation.way is not MergeStrategy.POINT]
    writes = (
        stage_write(tables, table.relation.target, branch, table.delta, strict=True)
        for table in track_tables(report, "stage", staged_tables, _count_moved_rows)
    )
    staged = [write for write in writes if write is not None]
    points = [
        table.relation.source for table in moving if table.relation.way is MergeStrategy.POINT
    ]
    plan = plan_of(header, relation.target.snapshot, staged, merge.read_set)
    return complete_plan(plan, relation, points, merge.agreed)


def complete_plan(
    plan: WritePlan, relation: Relation, points: Iterable[Entry], agreed_ids: Agreed | None
) -> WritePlan:
    """Add the parts of a merge to a plan: pins that only move, the merged commit, and the rows on which both sides agree."""
    return replace(
        plan,
        pointer_updates=tuple(map(_point_to, points)),
        merge_source=relation.source_commit,
        merge_source_at=_read_commit_time(relation.source),
        merged_commits=relation.merged_commits,
        agreed=agreed_ids,
    )


def _count_moved_rows(table: TableMerge) -> int:
    return sum(table.rows.counts)


def _read_commit_time(source: BranchState) -> int:
    return 0 if source.head is None else source.head.created_at


def _point_to(entry: Entry) -> PointerUpdate:
    return PointerUpdate(
        table_key=entry.table_key,
        version=entry.version,
        branch=entry.at.branch,
        row_count=entry.row_count,
        path=entry.at.path,
    )
