"""Comparing two states of the graph: lists the entities that differ, by table key, then id, as a stream."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.cancellation import check_between
from omnigraphdb.engine.diff.rows import Row, Step, find_changed_steps, read_images_at
from omnigraphdb.engine.history.changes import Change, Endpoints
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import HistoryReclaimed, NotFound, TableNotFound
from omnigraphdb.ids import MAIN, BranchName, EntityKind, Op, TableKey, is_node
from omnigraphdb.manifest.lineage import SPELL_COMMIT, parse_moment
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import At, find_commit, state_at, state_of
from omnigraphdb.storage.addresses import rows_at
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """The filters of a caller for changes; None means all. With `images` the changes carry their rows.

    `properties` selects updates of these properties. `actors` selects changes by commits of these actors; `entities` names
    the changed entities by the path of their table.
    """

    tables: Collection[TableKey] | None = None
    kinds: Collection[EntityKind] | None = None
    ops: Collection[Op] | None = None
    properties: Collection[str] | None = None
    actors: Collection[str] | None = None
    entities: Mapping[str, pa.Array] | None = None
    images: bool = False

    def covers(self, table: TableKey) -> bool:
        """Whether the filters let any change of a table through."""
        kind = EntityKind.NODE if is_node(table) else EntityKind.EDGE
        return (self.tables is None or table in self.tables) and (
            self.kinds is None or kind in self.kinds
        )

    @property
    def digest(self) -> str:
        """A short text of the filters: a token is valid under the same filters only."""
        later = [names for names in (self.properties, self.actors) if names is not None]
        # A token of a release that knew fewer filters stays valid.
        parts = [
            self.tables,
            self.kinds,
            self.ops,
            *((self.properties, self.actors) if later else ()),
        ]
        text = json.dumps([None if p is None else sorted(map(str, p)) for p in parts])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


EVERYTHING = ChangeFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePosition:
    """The position of a change, after which a page may continue: the ordinal of the table in the comparison, and an id."""

    table: int
    after: str


def resolve_state(engine: Engine, reference: At, branch: BranchName) -> BranchState:
    """Find the state that a reference names: a live branch, a commit of any branch, else a moment of `branch`."""
    if not isinstance(reference, str):
        return state_at(engine.manifest, branch, reference)
    branches = engine.manifest.rows.branches()
    if reference == MAIN or reference in branches:
        return engine.manifest.current(BranchName(reference))
    if parse_moment(reference) is not None:
        return state_at(engine.manifest, branch, reference)
    try:
        commit = find_commit(engine.manifest, reference)
    except NotFound as error:
        names = (MAIN, *sorted(branches))
        raise NotFound("branch or commit", reference, known=names, hint=SPELL_COMMIT) from error
    return state_of(engine.manifest, commit.branch, commit)


def list_changes(
    tables: Tables, base: BranchState, head: BranchState, filters: ChangeFilter = EVERYTHING
) -> Iterator[Change]:
    """List changes one after the other; memory holds the ids of one table and a chunk of rows."""
    for _, change in list_changes_from(tables, base, head, filters):
        yield change


def list_changes_from(
    tables: Tables,
    base: BranchState,
    head: BranchState,
    filters: ChangeFilter = EVERYTHING,
    start: ChangePosition | None = None,
    *,
    nodes_first: bool = False,
) -> Iterator[tuple[ChangePosition, Change]]:
    """List changes with their positions, from the beginning or after a position.

    The order is by table key. With `nodes_first` nodes come before edges, each by type id, the order to apply the changes.
    """
    for number, pair in number_pairs(base, head, filters, nodes_first=nodes_first):
        if start is not None and number < start.table:
            continue
        after_id = start.after if start is not None and number == start.table else None
        for change in compare_pair(tables, pair, filters, after_id):
            yield ChangePosition(table=number, after=change.id), change


def number_pairs(
    base: BranchState, head: BranchState, filters: ChangeFilter, *, nodes_first: bool
) -> list[tuple[int, "TablePair"]]:
    """Number the tables of both states, and return the tables that have different versions."""
    pairs = enumerate(_pair_tables(base, head, nodes_first=nodes_first))
    return [(number, pair) for number, pair in pairs if pair.may_differ(filters)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePair:
    """Two versions of one table that are to be compared; any process that reaches the store can compare them."""

    key: TableKey
    path: str
    before: Entry | None
    after: Entry | None
    manifest_version: int
    """The version at which the later state is visible."""

    def may_differ(self, filters: ChangeFilter) -> bool:
        """Whether the two versions differ and the filters cover their table."""
        before, after = self.before, self.after
        is_same = before is not None and after is not None and before.at == after.at
        return not is_same and filters.covers(self.key)

    @property
    def row_count(self) -> int:
        """The number of rows of both versions together."""
        return sum(entry.row_count for entry in (self.before, self.after) if entry is not None)


def list_differing_pairs(
    base: BranchState, head: BranchState, filters: ChangeFilter
) -> tuple[TablePair, ...]:
    """List the tables that have different versions in two states, by table key."""
    pairs = _pair_tables(base, head, nodes_first=False)
    return tuple(pair for pair in pairs if pair.may_differ(filters))


def explain_local(rows: int, bound: int) -> str:
    """Say why this process compares so many rows, where a small comparison has at most `bound`."""
    if rows <= bound:
        return f"{rows} rows are little enough for memory"
    return "a page is compared by the process that gives it"


def _pair_tables(base: BranchState, head: BranchState, *, nodes_first: bool) -> list[TablePair]:
    """Pair tables by path: a renamed type keeps its path, a re-created type has another one."""
    old = {entry.at.path: entry for entry in base.snapshot.entries.values()}
    new = {entry.at.path: entry for entry in head.snapshot.entries.values()}
    pairs = [
        TablePair(
            key=(new[path] if path in new else old[path]).table_key,
            path=path,
            before=old.get(path),
            after=new.get(path),
            manifest_version=head.version,
        )
        for path in sorted(old.keys() | new.keys())
    ]
    return sorted(pairs, key=_order_by_type if nodes_first else _order_by_key)


def _order_by_key(pair: TablePair) -> tuple[Any, ...]:
    return pair.key, pair.path


def _order_by_type(pair: TablePair) -> tuple[Any, ...]:
    return not is_node(pair.key), _type_id(pair.path)


def _type_id(path: str) -> str:
    """Return the id of a type: the directory of its table, which renaming the type does not move."""
    return path.rpartition("/")[2]


def compare_pair(
    tables: Tables, pair: TablePair, filters: ChangeFilter, after_id: str | None = None
) -> Iterator[Change]:
    """List the differences between two versions of a table, by id, from the beginning or after an id."""
    for step, names in find_steps(tables, pair):
        with naming_reclaimed(pair):
            yield from make_changes(tables, pair, _drop_up_to(step, after_id), names, filters)


def find_steps(tables: Tables, pair: TablePair) -> Iterator[tuple[Step, tuple[str, ...]]]:
    """Find the rows that differ between two versions of a table, a bounded number at a time, by id."""
    left = None if pair.before is None else pair.before.at
    right = None if pair.after is None else pair.after.at
    with naming_reclaimed(pair):
        yield from check_between(find_changed_steps(tables, left, right))


@contextmanager
def naming_reclaimed(pair: TablePair) -> Iterator[None]:
    """Raise a missing version as history that cleanup reclaimed."""
    try:
        yield
    except TableNotFound as error:
        entry = pair.before or pair.after
        raise HistoryReclaimed(pair.key, 0 if entry is None else entry.version) from error


def _drop_up_to(step: Step, after_id: str | None) -> Step:
    """Drop the rows up to an id."""
    return step if after_id is None else step.filter(pc.greater(step.moves["id"], after_id))


def make_changes(
    tables: Tables, pair: TablePair, step: Step, names: Sequence[str], filters: ChangeFilter
) -> Iterator[Change]:
    """Describe rows that differ between two versions of a table."""
    step = filter_changes(step, pair, names, filters)
    moves, before, after = step.moves, pair.before, pair.after
    ops = _find_ops(moves)
    ends = [None] * len(ops) if is_node(pair.key) else _read_ends(tables, before, after, moves)
    was, now = (
        _read_images(tables, entry, moves, side, filters)
        for entry, side in ((before, "before"), (after, "after"))
    )
    ids, versions = moves["id"].to_pylist(), moves["version"].to_pylist()
    newest = after or before
    for n, op in enumerate(ops):
        yield Change(
            op=op,
            table_key=pair.key,
            id=ids[n],
            manifest_version=pair.manifest_version,
            table_version=versions[n] or (0 if newest is None else newest.version),
            type_id="" if newest is None else _type_id(newest.at.path),
            endpoints=ends[n],
            properties=_name_properties(step, n, names) if op is Op.UPDATE else (),
            before=was[n],
            after=now[n],
        )


def filter_changes(
    step: Step, pair: TablePair, names: Sequence[str], filters: ChangeFilter
) -> Step:
    """Keep the rows that the filters select: by operation, by the properties that an update changed, by id."""
    if filters.ops is not None:
        ops = pa.array([op.value for op in filters.ops], pa.string())
        step = step.filter(pc.is_in(_spell_ops(step.moves), ops))
    if filters.properties is not None:
        columns = [number for number, name in enumerate(names) if name in filters.properties]
        step = step.filter(pa.array(step.properties[:, columns].any(axis=1)))
    if filters.entities is not None:
        ids = filters.entities.get(pair.path, pa.array([], pa.string()))
        step = step.filter(pc.is_in(step.moves["id"], value_set=ids))
    return step


def _read_images(
    tables: Tables, entry: Entry | None, moves: pa.Table, side: str, filters: ChangeFilter
) -> list[Row | None]:
    """Read rows as they were or as they are, if the filters ask for images."""
    if entry is None or not filters.images:
        return [None] * moves.num_rows
    return read_images_at(tables.open(entry.at), column(moves, side))


def _name_properties(step: Step, row: int, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name, differs in zip(names, step.properties[row], strict=True) if differs)


def _find_ops(moves: pa.Table) -> list[Op]:
    return [Op(text) for text in _spell_ops(moves).to_pylist()]


def _spell_ops(moves: pa.Table) -> pa.ChunkedArray:
    is_insert, is_delete = pc.is_null(moves["before"]), pc.is_null(moves["after"])
    return pc.if_else(
        is_insert, Op.INSERT.value, pc.if_else(is_delete, Op.DELETE.value, Op.UPDATE.value)
    )


def _read_ends(
    tables: Tables, before: Entry | None, after: Entry | None, moves: pa.Table
) -> list[Endpoints | None]:
    """Read the ends of edges: as they are, or as they were if the edge was deleted."""
    endpoints: list[Endpoints | None] = [None] * moves.num_rows
    current, former = column(moves, "after"), column(moves, "before")
    is_deleted = pc.and_(pc.is_null(current), pc.is_valid(former))
    for entry, rows, mask in ((after, current, pc.is_valid(current)), (before, former, is_deleted)):
        if entry is not None and pc.any(mask, min_count=0).as_py():
            ends = rows_at(tables.open(entry.at), rows.filter(mask), ["src", "dst"])
            pairs = zip(ends["src"].to_pylist(), ends["dst"].to_pylist(), strict=True)
            for n, pair in zip(pc.indices_nonzero(mask).to_pylist(), pairs, strict=True):
                endpoints[n] = Endpoints(*pair)
    return endpoints
