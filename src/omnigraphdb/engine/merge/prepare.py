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
from omnigraphdb.engine.merge.relate import Relation, TableRelation, Way, relate_tables
from omnigraphdb.engine.merge.resolve import Clash, Resolution, adopt, three_way
from omnigraphdb.engine.merge.virtual import list_other_versions, merge_over
from omnigraphdb.engine.merge_base import Base
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.errors import InternalError, MergeConflicts, Problem
from omnigraphdb.ids import Granularity, TableKey, Version
from omnigraphdb.limits import AGREED_ROWS_MAX, MERGE_ROW_CACHE_BYTES
from omnigraphdb.manifest.records import Agreed
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.pipeline.progress import Tell, tell_nobody, track_tables
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.values import dataclass

EVERY_PROBLEM = 2**62
"""A merge reports all conflicts at once."""


Counts = tuple[int, int, int]
"""Inserts, updates and deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedMerge:
    """What a merge comes to, whoever decided it."""

    relation: Relation
    counts: Mapping[TableKey, Counts] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    conflicts_total: int = 0
    read_set: Mapping[TableKey, Version] = field(default_factory=dict)

    @property
    def total_rows(self) -> int:
        """How many rows are inserted, updated or deleted."""
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
        """What the merge does to the table of the target."""
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
        found = {one.relation.table_key: one.resolution.agreed for one in self.tables}
        listed = {key: _list_agreed(ids) for key, ids in found.items() if ids is None or len(ids)}
        return tuple(sorted((listed | dict.fromkeys(self.same_moves)).items()))

    @property
    def decided(self) -> DecidedMerge:
        """What it comes to."""
        counts = {
            one.relation.table_key: one.rows.counts for one in self.tables if not one.rows.is_empty
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
    tell: Tell = tell_nobody,
) -> ResolvedMerge:
    """Decide a merge: rows first, then, when no row is in conflict, the rules over the merged graph."""
    if relation.base is None:
        return ResolvedMerge(relation=relation)
    related = relate_tables(relation.base, relation.source.snapshot, relation.target.snapshot)
    row_cache = RowCache(MERGE_ROW_CACHE_BYTES, list_key_columns(relation, catalog))
    merges = tuple(
        _merge_table(one, relation.base, catalog, tables, granularity, row_cache)
        for one in track_tables(
            tell, "compare", [one for one in related if one.way is not Way.SAME], _count_source_rows
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
        same_moves=tuple(one.table_key for one in related if one.is_same_move),
    )


def _count_source_rows(one: TableRelation) -> int:
    return one.source.row_count


def list_key_columns(relation: Relation, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Columns that follow from the id, by the path of their table: the key of a type, which it has from birth on."""
    types = (
        (entry, catalog.tables[key]) for key, entry in relation.target.snapshot.entries.items()
    )
    return {entry.at.path: t.key_columns for entry, t in types if isinstance(t, NodeType)}


def _merge_table(
    one: TableRelation,
    base: Base,
    catalog: Catalog,
    tables: Tables,
    granularity: Granularity,
    row_cache: RowCache,
) -> TableMerge:
    found = _resolve_table(one, base, tables, granularity, row_cache)
    # Rows that were read to be compared are checked and written from memory.
    rows = replace(found.rows, cached=row_cache.tables(one.source.at))
    type_ = catalog.tables[one.table_key]
    return TableMerge(type=type_, relation=one, resolution=replace(found, rows=rows))


def _resolve_table(
    one: TableRelation,
    whole: Base,
    tables: Tables,
    granularity: Granularity,
    row_cache: RowCache,
) -> Resolution:
    base = None if one.base is None else one.base.at
    source, target = one.source.at, one.target.at
    match one.way:
        case Way.SAME:
            raise InternalError(f"{one.table_key} is the same on both sides and needs no merge")
        case Way.POINT | Way.ADOPT:
            return adopt(tables, target, source, row_cache)
        case Way.THREE_WAY:
            return three_way(tables, base, source, target, granularity, row_cache)
        case Way.PUT_TOGETHER:
            moves = [candidates(tables, target, at, row_cache) for at in list_other_versions(one)]
            return merge_over(tables, whole.node, one, granularity, moves, row_cache)


# ---- conflicts


def _find_row_conflicts(merge: TableMerge, tables: Tables) -> Iterator[Conflict]:
    for clash in merge.resolution.clashes:
        yield from describe_clash(merge.relation, clash, tables)


def describe_clash(relation: TableRelation, clash: Clash, tables: Tables) -> Iterator[Conflict]:
    """Describe rows that both sides changed, with their three images."""
    sides = [
        read_images_at(table, clash.rows[side].combine_chunks())
        for side, table in _open_sides(relation, tables).items()
    ]
    for number, row_id in enumerate(clash.rows["id"].to_pylist()):
        rows = (sides[0][number], sides[1][number], sides[2][number])
        marked = clash.properties[number]
        properties = tuple(n for n, there in zip(clash.names, marked, strict=True) if there)
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
    """What the one evaluator of rules says of the target with the merge's changes."""
    merges = tuple(merges)
    deltas = deltas_of({m.relation.table_key: _read_checked_columns(m, tables) for m in merges})
    found = violations(deltas, committed, catalog)
    yield from describe_problems(
        found.problems, [merge.relation for merge in merges], committed, tables
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
    related = {one.table_key: one for one in relations}
    for key, own in by_table.items():
        relation = related.get(TableKey(key))
        yield from _describe_table_problems(TableKey(key), own, relation, committed, tables)


def _read_checked_columns(merge: TableMerge, tables: Tables) -> TableDelta:
    """The delta of a table with the columns that rules look at in memory."""
    type_, rows = merge.type, merge.rows
    names = list_checked_columns(type_)
    addresses = pa.concat_arrays([rows.new, column(rows.changed, "source")])
    batches = [*stream_source(tables, rows, addresses, names), *read_mixed(tables, rows, names)]
    parts = [pa.Table.from_batches([batch]).select(names) for batch in batches]
    found = pa.concat_tables(parts) if parts else type_.schema.empty_table().select(names)
    checked = fill_required(found, type_)
    return replace(merge.delta, rows=checked, source=None, shown_max=EVERY_PROBLEM)


def list_checked_columns(type_: TableType) -> list[str]:
    """The columns that rules look at; vectors and blobs have none but that they are there."""
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
            **{side: found.get(row_id or "") for side, found in rows.items()},
        )


# ---- the plan


def plan_merge(
    merge: ResolvedMerge, tables: Tables, header: Header, tell: Tell = tell_nobody
) -> WritePlan:
    """Stage a resolved merge; conflicts are raised, all of them."""
    if merge.conflicts:
        raise MergeConflicts(merge.conflicts)
    relation = merge.relation
    branch = relation.target.branch
    moving = [one for one in merge.tables if not one.rows.is_empty]
    staged_tables = [one for one in moving if one.relation.way is not Way.POINT]
    writes = (
        stage_write(tables, one.relation.target, branch, one.delta, strict=True)
        for one in track_tables(tell, "stage", staged_tables, _count_moved_rows)
    )
    staged = [write for write in writes if write is not None]
    points = [one.relation.source for one in moving if one.relation.way is Way.POINT]
    plan = plan_of(header, relation.target.snapshot, staged, merge.read_set)
    return complete_plan(plan, relation, points, merge.agreed)


def complete_plan(
    plan: WritePlan, relation: Relation, points: Iterable[Entry], agreed: Agreed | None
) -> WritePlan:
    """Add to a plan what makes it a merge: pins that only move, the merged commit, and what both sides share."""
    return replace(
        plan,
        pointer_updates=tuple(map(_point_to, points)),
        merge_source=relation.source_commit,
        merge_source_at=_read_commit_time(relation.source),
        merged_commits=relation.merged_commits,
        agreed=agreed,
    )


def _count_moved_rows(one: TableMerge) -> int:
    return sum(one.rows.counts)


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
