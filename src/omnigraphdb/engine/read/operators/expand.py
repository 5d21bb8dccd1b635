"""The operator Expand: walks edges from the rows of bindings, or tests that an edge exists."""

from collections.abc import Iterator

import numpy as np

from omnigraphdb.cancellation import check_between
from omnigraphdb.compile.plan.operators import Expand, FindPaths, Multiplicity
from omnigraphdb.engine.read.bindings import Bindings, weights_of
from omnigraphdb.engine.read.columns.row_ids import Integers, count_up, no_row_ids
from omnigraphdb.engine.read.graph.adjacency import Adjacency, NeighbourUnit
from omnigraphdb.engine.read.graph.reach import reach, reach_block
from omnigraphdb.engine.read.operators.steps import make_steps, read_bounds
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.limits import MORSEL_ROWS

_MERGE_ROWS = 4_096
"""Fewer rows are not worth merging."""
_MERGE_SPARSE = 4
"""Equal row ids are merged by counting if their range is at most this many times their number."""
_EXACT_MAX = 2**53
"""NumPy counts with floats, which are exact up to here."""


def expand(operator: Expand, bindings: Bindings, reader: Reader) -> Iterator[Bindings]:
    """Walk the edges of one operator; a large result comes in several tables."""
    if not bindings.rows:
        yield empty_result(operator, bindings)
        return
    unit = NeighbourUnit.PAIR if operator.edge_variable is None else NeighbourUnit.EDGE
    for part, adjacency in _find_adjacencies(operator, unit, bindings, reader):
        for block in check_between(_cut_blocks(operator, adjacency, part)):
            yield _merge_equal_rows(operator, _walk_edges(operator, adjacency, block))


def empty_result(operator: Expand | FindPaths, bindings: Bindings) -> Bindings:
    """Return the result of a walk from no rows."""
    rows = bindings.only(operator.keep)
    for name in operator.binds:
        if operator.keep is None or name in operator.keep:
            rows = rows.with_column(name, no_row_ids())
    return rows


# ---- choosing the adjacency


def _find_adjacencies(
    operator: Expand, unit: NeighbourUnit, bindings: Bindings, reader: Reader
) -> Iterator[tuple[Bindings, Adjacency]]:
    """Find the neighbours of the sources within the bounds of hops."""
    low, high = read_bounds(operator, reader)
    steps = make_steps(operator, high, reader)
    if low == high == 1:
        sources = bindings.columns[operator.source]
        counted = steps.counted(len(sources), unit) if _only_counts(operator) else None
        yield bindings, counted or steps.of(sources, unit)
        return
    size = reach_block(steps.near)
    for start in range(0, max(bindings.rows, 1), size):
        part = bindings.slice(start, start + size)
        distinct_sources = np.unique(part.columns[operator.source])
        yield (
            part,
            reach(
                lambda nodes: steps.of(nodes, unit),
                distinct_sources,
                low,
                high,
                ordered=operator.closes,
            ),
        )


def hop_note(operator: Expand | FindPaths, reader: Reader) -> str:
    """Describe how the first hop from a single node would be walked."""
    by_edge = isinstance(operator, FindPaths) or operator.edge_variable is not None
    unit = NeighbourUnit.EDGE if by_edge else NeighbourUnit.PAIR
    return make_steps(operator, 1, reader).describe(unit)


# ---- walking


def _cut_blocks(operator: Expand, adjacency: Adjacency, bindings: Bindings) -> Iterator[Bindings]:
    """Cut rows into blocks whose results have about `MORSEL_ROWS` rows."""
    if bindings.rows <= 1 or not _may_multiply(operator):
        yield bindings
        return
    ends = np.cumsum(adjacency.degrees(bindings.columns[operator.source]))
    if ends[-1] <= MORSEL_ROWS:
        yield bindings
        return
    blocks = ends // MORSEL_ROWS
    starts = np.flatnonzero(np.concatenate([[True], blocks[1:] != blocks[:-1]]))
    for start, end in zip(starts, [*starts[1:], bindings.rows], strict=True):
        yield bindings.slice(int(start), int(end))


def _may_multiply(operator: Expand) -> bool:
    """Whether one row may become several."""
    if operator.edge_variable is not None:
        return True
    if operator.closes:
        return False
    return not (_is_unseen(operator) and operator.multiplicity is not Multiplicity.EACH)


def _is_unseen(operator: Expand) -> bool:
    """Whether no later operator uses the target."""
    return operator.keep is not None and operator.target not in operator.keep


def _only_counts(operator: Expand) -> bool:
    """Whether one hop needs only the numbers of neighbours."""
    return not operator.closes and operator.edge_variable is None and _is_unseen(operator)


def _walk_edges(operator: Expand, adjacency: Adjacency, bindings: Bindings) -> Bindings:
    sources = bindings.columns[operator.source]
    if operator.edge_variable is not None:
        return _walk_by_edge(operator, adjacency, bindings)
    if operator.closes:
        targets = bindings.columns[operator.target]
        return bindings.keep(adjacency.connected(sources, targets)).only(operator.keep)
    if _is_unseen(operator):
        return _count_matches(operator, adjacency.degrees(sources), bindings.only(operator.keep))
    walk = adjacency.walk(sources)
    rest = bindings.only(operator.keep)
    return rest.take(walk.rows).with_column(operator.target, walk.targets)


def _count_matches(operator: Expand, degrees: Integers, bindings: Bindings) -> Bindings:
    """Count the matches of rows whose target no later operator uses."""
    match operator.multiplicity:
        case Multiplicity.ANY:
            return bindings.keep(degrees > 0)
        case Multiplicity.COUNTED:
            mask = degrees > 0
            return bindings.keep(mask).weighted(degrees[mask])
        case Multiplicity.EACH:
            return bindings.take(np.repeat(count_up(bindings.rows), degrees))


def _walk_by_edge(operator: Expand, adjacency: Adjacency, bindings: Bindings) -> Bindings:
    walk = adjacency.walk(bindings.columns[operator.source])
    rows, targets, edges = walk.rows, walk.targets, walk.edges
    assert operator.edge_variable is not None
    assert edges is not None
    if operator.closes:
        closing = targets == bindings.columns[operator.target][rows]
        rows, targets, edges = rows[closing], targets[closing], edges[closing]
    joined = bindings.only(operator.keep).take(rows)
    new_columns = {operator.edge_variable: edges} if operator.closes else {
        operator.target: targets,
        operator.edge_variable: edges,
    }  # fmt: skip
    for name, row_ids in new_columns.items():
        if operator.keep is None or name in operator.keep:
            joined = joined.with_column(name, row_ids)
    return joined


# ---- merging equal rows


def _merge_equal_rows(operator: Expand, rows: Bindings) -> Bindings:
    """Replace many equal rows by one row with a weight, if only their number matters."""
    if operator.multiplicity is Multiplicity.EACH or rows.rows < _MERGE_ROWS or rows.values:
        return rows
    if not rows.columns:
        weight = 1 if operator.multiplicity is Multiplicity.ANY else rows.total
        return Bindings({}, 1, np.array([weight], dtype=np.int64))
    if len(rows.columns) > 1:
        return rows
    ((name, row_ids),) = rows.columns.items()
    if bool((row_ids[1:] > row_ids[:-1]).all()):
        return rows
    low = int(row_ids.min())
    if int(row_ids.max()) - low > _MERGE_SPARSE * rows.rows or rows.total > _EXACT_MAX:
        return rows
    counts = np.bincount(row_ids - low, weights_of(rows) if rows.weights is not None else None)
    offsets = np.flatnonzero(counts)
    if operator.multiplicity is Multiplicity.ANY:
        return Bindings({name: offsets + low}, len(offsets))
    return Bindings({name: offsets + low}, len(offsets), counts[offsets].astype(np.int64))
