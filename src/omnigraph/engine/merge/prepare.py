"""From a relation to a plan: decide every table, collect every conflict, judge the merged graph, stage."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.commit.constraints import violations
from omnigraph.commit.delta import Deltas, deltas_of
from omnigraph.commit.plan import Header, WritePlan, plan_of
from omnigraph.commit.sidecar import PointerUpdate
from omnigraph.engine.diff.images import read_images_at, read_images_of
from omnigraph.engine.diff.row_cache import RowCache
from omnigraph.engine.diff.spread import Spread
from omnigraph.engine.merge.apply import TableMerge, table_write
from omnigraph.engine.merge.conflicts import (
    Conflict,
    in_order,
    kind_of,
    row_message,
)
from omnigraph.engine.merge.judged import change_of
from omnigraph.engine.merge.relate import Relation, TableRelation, Way, relate_tables
from omnigraph.engine.merge.resolve import Clash, Granularity, Resolved, adopt, three_way
from omnigraph.engine.merge.virtual import merge_over
from omnigraph.engine.merge_base import Base
from omnigraph.engine.snapshot_rows import SnapshotRows
from omnigraph.errors import MergeConflicts, Problem
from omnigraph.ids import TableKey, Version
from omnigraph.limits import AGREED_ROWS_MAX, MERGE_ROW_CACHE_BYTES
from omnigraph.manifest.records import Agreed
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.state import BranchState
from omnigraph.storage.tables import Table, Tables
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A merge that is decided but not written."""

    relation: Relation
    tables: tuple[TableMerge, ...]
    conflicts: tuple[Conflict, ...]
    read_set: Mapping[TableKey, Version]

    same_moves: tuple[TableKey, ...] = ()
    """Tables of which both sides show one version that the base does not have."""

    @property
    def agreed(self) -> Agreed | None:
        """Rows that both sides had changed in the same way; None when the base tells too little about it."""
        if not self.relation.is_exact:
            return None
        found = {one.relation.table_key: one.resolved.agreed for one in self.tables}
        noted = {key: _noted(rows) for key, rows in found.items() if rows is None or len(rows)}
        return tuple(sorted((noted | dict.fromkeys(self.same_moves)).items()))

    @property
    def counts(self) -> dict[TableKey, tuple[int, int, int]]:
        """Inserts, updates and deletes of every table that changes."""
        return {
            one.relation.table_key: one.resolved.counts
            for one in self.tables
            if not one.resolved.is_empty
        }


def _noted(rows: pa.Array | None) -> tuple[str, ...] | None:
    if rows is None or len(rows) > AGREED_ROWS_MAX:
        return None
    return tuple(sorted(rows.to_pylist()))


def judge(
    relation: Relation,
    catalog: Catalog,
    tables: Tables,
    granularity: Granularity,
    spread: Spread | None = None,
) -> Judged:
    """Decide a merge: rows first, then, when no row is in conflict, the rules over the merged graph."""
    assert relation.base is not None, "an up-to-date merge has nothing to judge"
    related = relate_tables(relation.base, relation.source.snapshot, relation.target.snapshot)
    merges = tuple(_merges(relation, related, catalog, tables, granularity, spread))
    looked_at = {m.relation.table_key: m.relation.target.version for m in merges}
    conflicts = in_order(c for merge in merges for c in _row_conflicts(merge, tables))
    if not conflicts:
        committed = SnapshotRows(snapshot=relation.target.snapshot, tables=tables)
        conflicts = in_order(_find_broken_rules(merges, committed, catalog, tables))
        looked_at |= committed.read_set()
    return Judged(
        relation=relation,
        tables=merges,
        conflicts=conflicts,
        read_set=looked_at,
        same_moves=tuple(one.table_key for one in related if one.is_same_move),
    )


def _merges(
    relation: Relation,
    related: Iterable[TableRelation],
    catalog: Catalog,
    tables: Tables,
    granularity: Granularity,
    spread: Spread | None,
) -> Iterator[TableMerge]:
    assert relation.base is not None, "an up-to-date merge has nothing to judge"
    row_cache = RowCache(MERGE_ROW_CACHE_BYTES, _key_columns(relation, catalog))
    for one in related:
        if one.way is not Way.SAME:
            resolved = _resolve_table(one, relation.base, tables, granularity, spread, row_cache)
            type_ = catalog.tables[one.table_key]
            yield TableMerge(type=type_, relation=one, resolved=resolved, row_cache=row_cache)


def _key_columns(relation: Relation, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Columns that follow from the id, by the path of their table: the key of a type, which it has from birth on."""
    types = (
        (entry, catalog.tables[key]) for key, entry in relation.target.snapshot.entries.items()
    )
    return {entry.at.path: t.key_columns for entry, t in types if isinstance(t, NodeType)}


def _resolve_table(
    one: TableRelation,
    whole: Base,
    tables: Tables,
    granularity: Granularity,
    spread: Spread | None,
    row_cache: RowCache,
) -> Resolved:
    base = None if one.base is None else one.base.at
    match one.way:
        case Way.SAME:
            return Resolved()
        case Way.POINT | Way.ADOPT:
            return adopt(tables, base, one.source.at, spread, row_cache)
        case Way.THREE_WAY:
            target = one.target.at
            return three_way(tables, base, one.source.at, target, granularity, spread, row_cache)
        case Way.PUT_TOGETHER:
            return merge_over(tables, whole.node, one, granularity, spread, row_cache)


# ---- conflicts


def _row_conflicts(merge: TableMerge, tables: Tables) -> Iterator[Conflict]:
    for clash in merge.resolved.clashes:
        yield from _clash_conflicts(merge, clash, tables)


def _clash_conflicts(merge: TableMerge, clash: Clash, tables: Tables) -> Iterator[Conflict]:
    sides = [
        read_images_at(table, clash.rows[side].combine_chunks())
        for side, table in _open_sides(merge, tables).items()
    ]
    for number, row_id in enumerate(clash.rows["id"].to_pylist()):
        rows = (sides[0][number], sides[1][number], sides[2][number])
        marked = clash.properties[number]
        properties = tuple(n for n, there in zip(clash.names, marked, strict=True) if there)
        yield Conflict(
            table_key=merge.relation.table_key,
            row_id=row_id,
            kind=clash.kind,
            message=row_message(merge.relation.table_key, clash.kind, row_id, rows, properties),
            base=rows[0],
            source=rows[1],
            target=rows[2],
            properties=properties,
        )


def _open_sides(merge: TableMerge, tables: Tables) -> dict[str, Table | None]:
    relation = merge.relation
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
    changes = _changes(merges, tables)
    found = violations(changes, committed, catalog)
    by_table: dict[str, list[Problem]] = {}
    for problem in found.problems:
        by_table.setdefault(problem.table_key or "", []).append(problem)
    opened = {merge.relation.table_key: merge for merge in merges}
    for key, problems in by_table.items():
        merge = opened.get(TableKey(key))
        yield from _rule_conflicts(TableKey(key), problems, merge, committed, tables)


def _changes(merges: Iterable[TableMerge], tables: Tables) -> Deltas:
    return deltas_of({m.relation.table_key: change_of(m, tables) for m in merges})


def _rule_conflicts(
    key: TableKey,
    problems: list[Problem],
    merge: TableMerge | None,
    committed: SnapshotRows,
    tables: Tables,
) -> Iterator[Conflict]:
    ids = sorted({problem.row_id for problem in problems if problem.row_id is not None})
    target = committed.table(key)
    sides: dict[str, Table | None] = dict.fromkeys(("base", "source", "target"), target)
    if merge is not None:
        sides = _open_sides(merge, tables)
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


def plan_merge(judged: Judged, tables: Tables, header: Header) -> WritePlan:
    """Stage a judged merge; conflicts are raised, all of them."""
    if judged.conflicts:
        raise MergeConflicts(judged.conflicts)
    branch = judged.relation.target.branch
    moving = [one for one in judged.tables if not one.resolved.is_empty]
    writes = [
        table_write(one, tables, branch) for one in moving if one.relation.way is not Way.POINT
    ]
    return replace(
        plan_of(header, branch, writes, judged.read_set),
        pointer_updates=tuple(
            _pointer(one.relation.source) for one in moving if one.relation.way is Way.POINT
        ),
        merge_source=judged.relation.source_commit,
        merge_source_at=_dated(judged.relation.source),
        brought=judged.relation.brought,
        agreed=judged.agreed,
    )


def _dated(source: BranchState) -> int:
    return 0 if source.head is None else source.head.created_at


def _pointer(entry: Entry) -> PointerUpdate:
    return PointerUpdate(
        table_key=entry.table_key,
        version=entry.version,
        branch=entry.at.branch,
        row_count=entry.row_count,
        path=entry.at.path,
    )
