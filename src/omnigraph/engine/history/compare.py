"""Diff: which entities differ between two states of the graph, by table key, then id, streaming."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.diff.images import Row, read_images_at
from omnigraph.engine.diff.rows import Step, find_changed_steps
from omnigraph.engine.history.changes import Change, Endpoints, EntityKind, Op
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import HistoryReclaimed, TableNotFound
from omnigraph.ids import MAIN, BranchName, TableKey, is_node
from omnigraph.manifest.snapshot import Entry, Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import At, find_commit, state_at, state_of
from omnigraph.storage.addresses import rows_at
from omnigraph.storage.arrow import column
from omnigraph.storage.tables import Tables
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which changes are asked for; None asks for all. With `images` they carry their rows."""

    tables: Collection[TableKey] | None = None
    kinds: Collection[EntityKind] | None = None
    ops: Collection[Op] | None = None
    images: bool = False

    def covers(self, table: TableKey) -> bool:
        """Whether any change of a table is wanted."""
        kind = EntityKind.NODE if is_node(table) else EntityKind.EDGE
        return (self.tables is None or table in self.tables) and (
            self.kinds is None or kind in self.kinds
        )


EVERYTHING = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePosition:
    """A change as a place to go on after: the how-manieth table of the comparison, and an id in it."""

    table: int
    after: str


def resolve_state(engine: Engine, reference: At, branch: BranchName) -> BranchState:
    """The state a reference names: a live branch, a commit of any branch, else a point of `branch`."""
    if not isinstance(reference, str):
        return state_at(engine.manifest, branch, reference)
    if reference == MAIN or reference in engine.manifest.rows.branches():
        return engine.manifest.current(BranchName(reference))
    commit = find_commit(engine.manifest, reference)
    return state_of(engine.manifest, commit.branch, commit)


def list_changes(
    tables: Tables, base: BranchState, head: BranchState, wanted: Wanted = EVERYTHING
) -> Iterator[Change]:
    """Give one change after the other; ids of one table and a chunk of rows are held."""
    for _, change in list_changes_from(tables, base, head, wanted):
        yield change


def list_changes_from(
    tables: Tables,
    base: BranchState,
    head: BranchState,
    wanted: Wanted = EVERYTHING,
    start: ChangePosition | None = None,
) -> Iterator[tuple[ChangePosition, Change]]:
    """Give changes with their places, from the beginning or after one of them."""
    for number, (key, before, after) in enumerate(_pair_tables(base.snapshot, head.snapshot)):
        passed = start is not None and number < start.table
        same = before is not None and after is not None and before.at == after.at
        if passed or same or not wanted.covers(key):
            continue
        floor = start.after if start is not None and number == start.table else None
        for change in _table(tables, key, before, after, head, wanted, floor):
            yield ChangePosition(table=number, after=change.id), change


def _pair_tables(
    base: Snapshot, head: Snapshot
) -> Iterator[tuple[TableKey, Entry | None, Entry | None]]:
    """Pair tables by the place of their rows: a renamed type keeps it, a re-created one has another."""
    old = {entry.at.path: entry for entry in base.entries.values()}
    new = {entry.at.path: entry for entry in head.entries.values()}
    found = []
    for path in old.keys() | new.keys():
        before, after = old.get(path), new.get(path)
        key = after.table_key if after is not None else old[path].table_key
        found.append((key, path, before, after))
    for key, _, before, after in sorted(found, key=lambda one: one[:2]):
        yield key, before, after


def _table(
    tables: Tables,
    key: TableKey,
    before: Entry | None,
    after: Entry | None,
    head: BranchState,
    wanted: Wanted,
    floor: str | None,
) -> Iterator[Change]:
    left = None if before is None else before.at
    right = None if after is None else after.at
    try:
        for step, names in find_changed_steps(tables, left, right):
            yield from _changes(tables, key, before, after, _past(step, floor), names, head, wanted)
    except TableNotFound as error:
        gone = before or after
        raise HistoryReclaimed(key, 0 if gone is None else gone.version) from error


def _past(step: Step, floor: str | None) -> Step:
    """Leave out the rows up to an id."""
    if floor is None:
        return step
    kept = pc.greater(step.moves["id"], floor)
    return Step(step.moves.filter(kept), step.properties[kept.to_numpy()])


def _changes(
    tables: Tables,
    key: TableKey,
    before: Entry | None,
    after: Entry | None,
    step: Step,
    names: Sequence[str],
    head: BranchState,
    wanted: Wanted,
) -> Iterator[Change]:
    moves = step.moves
    ops = _ops(moves)
    chosen = [n for n, op in enumerate(ops) if wanted.ops is None or op in wanted.ops]
    ends = {} if is_node(key) else _ends(tables, before, after, moves, chosen)
    images = _images(tables, before, after, moves, chosen) if wanted.images else ({}, {})
    ids, versions = moves["id"].to_pylist(), moves["version"].to_pylist()
    newest = after or before
    for n in chosen:
        yield Change(
            op=ops[n],
            table_key=key,
            id=ids[n],
            manifest_version=head.version,
            table_version=versions[n] or (0 if newest is None else newest.version),
            endpoints=ends.get(n),
            properties=_name_properties(step, n, names) if ops[n] is Op.UPDATE else (),
            before=images[0].get(n),
            after=images[1].get(n),
        )


def _images(
    tables: Tables, before: Entry | None, after: Entry | None, moves: pa.Table, chosen: list[int]
) -> tuple[dict[int, Row | None], dict[int, Row | None]]:
    """The chosen rows as they were and as they are."""
    numbers = pa.array(chosen, pa.int64())
    was, now = (
        read_images_at(
            None if entry is None else tables.open(entry.at),
            column(moves, side).take(numbers),
        )
        for entry, side in ((before, "before"), (after, "after"))
    )
    return dict(zip(chosen, was, strict=True)), dict(zip(chosen, now, strict=True))


def _name_properties(step: Step, row: int, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name, differs in zip(names, step.properties[row], strict=True) if differs)


def _ops(moves: pa.Table) -> list[Op]:
    fresh, gone = pc.is_null(moves["before"]), pc.is_null(moves["after"])
    texts = pc.if_else(fresh, Op.INSERT.value, pc.if_else(gone, Op.DELETE.value, Op.UPDATE.value))
    return [Op(text) for text in texts.to_pylist()]


def _ends(
    tables: Tables, before: Entry | None, after: Entry | None, moves: pa.Table, chosen: list[int]
) -> dict[int, Endpoints]:
    """The ends of the chosen edges: as they are, or as they were for edges that are gone."""
    numbers = pa.array(chosen, pa.int64())
    found: dict[int, Endpoints] = {}
    there = column(moves, "after").take(numbers)
    was = column(moves, "before").take(numbers)
    gone = pc.and_(pc.is_null(there), pc.is_valid(was))
    for entry, rows, mask in ((after, there, pc.is_valid(there)), (before, was, gone)):
        if entry is not None and pc.any(mask, min_count=0).as_py():
            ends = rows_at(tables.open(entry.at), rows.filter(mask), ["src", "dst"])
            pairs = zip(ends["src"].to_pylist(), ends["dst"].to_pylist(), strict=True)
            found |= dict(
                zip(numbers.filter(mask).to_pylist(), (Endpoints(*p) for p in pairs), strict=True)
            )
    return found
