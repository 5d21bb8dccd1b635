"""Lookups from memory: an id index and an adjacency lead from an id to the rows of the result in one step."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compile.checked import Const
from omnigraph.compile.plan.plan import Lookup, Plan
from omnigraph.engine.read.columns.entities import Entities
from omnigraph.engine.read.columns.id_index import IdIndex
from omnigraph.engine.read.columns.row_offsets import RowOffsets
from omnigraph.engine.read.graph.adjacency import Adjacency, NeighbourUnit
from omnigraph.engine.read.snapshot_tables import SnapshotTables
from omnigraph.values import dataclass

_TAKE: Final = pc.get_function("take")
_OPTIONS: Final = pc.TakeOptions(boundscheck=True)


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop from a node to the rows of its neighbours."""

    adjacency: Adjacency
    row_offsets: RowOffsets
    target_offsets: pa.Array | None
    """The offsets of all targets of the adjacency, if they equal their row ids."""

    def offsets_of(self, node: int) -> pa.Array:
        """Find the offsets of the neighbours of a node."""
        if self.target_offsets is None:
            return self.row_offsets.indices(self.adjacency.neighbours(node))
        start, end = self.adjacency.span(node)
        return self.target_offsets.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class LookupTables:
    """What a lookup needs: the id index, the row offsets, the hop, and the rows of the result table."""

    index: IdIndex
    row_offsets: RowOffsets
    hop: Hop | None
    rows: pa.RecordBatch

    def answer(self, text: str) -> pa.RecordBatch:
        """Select the rows for one id."""
        row_id = self.index.row_id_of(text)
        if self.hop is not None:
            return _TAKE.call([self.rows, self.hop.offsets_of(row_id)], _OPTIONS)
        offset = self.row_offsets.offset_of(row_id)
        return self.rows.slice(offset, 1) if offset >= 0 else self.nothing

    @property
    def nothing(self) -> pa.RecordBatch:
        """No rows."""
        return self.rows.slice(0, 0)


def answer_lookup(
    plan: Plan, snapshot: SnapshotTables, params: Mapping[str, object]
) -> pa.RecordBatch | None:
    """Answer a plan that is a lookup; None if it is none, or if something it needs is not cached."""
    lookup = plan.lookup
    if lookup is None:
        return None
    tables = snapshot.cache.derive(
        (snapshot, lookup), lambda: _prepare_lookup(plan, lookup, snapshot)
    )
    if tables is None:
        return None
    fixed = lookup.id
    text = fixed.value if isinstance(fixed, Const) else params[fixed.name]
    return tables.answer(text) if isinstance(text, str) else tables.nothing


def _prepare_lookup(plan: Plan, lookup: Lookup, snapshot: SnapshotTables) -> LookupTables | None:
    nodes, shown = snapshot.nodes(lookup.type_name), snapshot.nodes(lookup.shown_type)
    index, row_offsets, rows = (
        nodes.cached_id_index,
        shown.cached_row_offsets,
        _find_rows(plan, lookup, shown),
    )
    if index is None or row_offsets is None or rows is None:
        return None
    if lookup.hop is None:
        return LookupTables(index, row_offsets, None, rows)
    hop = _find_hop(lookup, snapshot, row_offsets)
    return None if hop is None else LookupTables(index, row_offsets, hop, rows)


def _find_rows(plan: Plan, lookup: Lookup, shown: Entities) -> pa.RecordBatch | None:
    """All rows of the table with the columns of the result, if they are cached with their declared types."""
    columns = [shown.cached_column(name) for name in lookup.columns]
    kinds = tuple(None if one is None else one.type for one in columns)
    if kinds != plan.arrow_types:
        return None
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema)


def _find_hop(lookup: Lookup, snapshot: SnapshotTables, row_offsets: RowOffsets) -> Hop | None:
    assert lookup.hop is not None
    topology = snapshot.topology(lookup.hop.edge)
    adjacency = topology.cached(lookup.hop.direction, NeighbourUnit.PAIR)
    if adjacency is None:
        return None
    return Hop(
        adjacency, row_offsets, pa.array(adjacency.targets) if row_offsets.are_row_ids else None
    )
