"""Lookups from memory: an id index and adjacencies lead from an id to the rows of the result in one step."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.compile.checked import CheckedRead, Const, ParamRef
from omnigraphdb.compile.plan.lookup import Lookup
from omnigraphdb.compile.plan.operators import Expand
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.id_index import IdIndex
from omnigraphdb.engine.read.columns.row_ids import ABSENT
from omnigraphdb.engine.read.columns.row_offsets import RowOffsets
from omnigraphdb.engine.read.graph.adjacency import Adjacency, NeighbourUnit
from omnigraphdb.engine.read.snapshot_tables import SnapshotTables
from omnigraphdb.limits import MORSEL_ROWS
from omnigraphdb.values import dataclass

SMALL_ROWS_MAX: Final = 64
SMALL_BYTES_MAX: Final = 16 * 1024
"""A small answer has at most so many rows, and so many bytes of texts and lists: it is spelt within a millisecond."""
_TAKE: Final = pc.get_function("take")
_OPTIONS: Final = pc.TakeOptions(boundscheck=True)


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop from a node to the rows of its neighbours."""

    adjacency: Adjacency
    row_offsets: RowOffsets
    target_offsets: pa.Array | None
    """The offsets of all targets of the adjacency, if they equal their row ids."""

    def count(self, node: int) -> int:
        """Count the neighbours of a node."""
        start, end = self.adjacency.span(node)
        return end - start

    def offsets_of(self, node: int) -> pa.Array:
        """Find the offsets of the neighbours of a node."""
        if self.target_offsets is None:
            return self.row_offsets.indices(self.adjacency.neighbours(node))
        start, end = self.adjacency.span(node)
        return self.target_offsets.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The parts of a lookup of columns: the id index, the row offsets, the hop, and the rows of the result table."""

    index: IdIndex
    row_offsets: RowOffsets
    hop: Hop | None
    rows: pa.RecordBatch
    varying: tuple[int, ...]
    """The columns whose values have no fixed size."""

    def answer(self, text: str) -> pa.RecordBatch:
        """Select the rows for one id."""
        row_id = self.index.row_id_of(text)
        if self.hop is not None:
            return _TAKE.call([self.rows, self.hop.offsets_of(row_id)], _OPTIONS)
        offset = self.row_offsets.offset_of(row_id)
        return self.rows.slice(offset, 1) if offset >= 0 else self.nothing

    def answer_small(self, text: str) -> pa.RecordBatch | None:
        """Select the rows for one id, if they are few and short; else None."""
        if self.hop is not None and self.hop.count(self.index.row_id_of(text)) > SMALL_ROWS_MAX:
            return None
        rows = self.answer(text)
        size = sum(rows.column(number).nbytes for number in self.varying)
        return rows if size <= SMALL_BYTES_MAX else None

    @property
    def nothing(self) -> pa.RecordBatch:
        """No rows."""
        return self.rows.slice(0, 0)


@dataclass(frozen=True, slots=True)
class CountedWalks:
    """The parts of a lookup that counts walks: the id index, the adjacency of every hop, and the result schema."""

    index: IdIndex
    adjacencies: tuple[Adjacency, ...]
    schema: pa.Schema

    def answer(self, text: str) -> pa.RecordBatch | None:
        """Count the walks from one id; None if there are so many walks at once that they must be counted in parts."""
        row_id = self.index.row_id_of(text)
        count = 0 if row_id == ABSENT else self._count(row_id)
        return None if count is None else self._result(count)

    def answer_small(self, text: str) -> pa.RecordBatch | None:
        """Count the walks from one id, if they have one hop, which takes one step; None for longer ones."""
        return self.answer(text) if len(self.adjacencies) == 1 else None

    @property
    def nothing(self) -> pa.RecordBatch:
        """The number of walks from no node."""
        return self._result(0)

    def _count(self, node: int) -> int | None:
        first, rest = self.adjacencies[0], self.adjacencies[1:]
        start, end = first.span(node)
        if not rest:
            return end - start
        nodes = first.targets[start:end]
        for adjacency in rest[:-1]:
            slots = adjacency.slots.of(nodes)
            starts = adjacency.offsets[slots]
            counts = adjacency.offsets[slots + 1] - starts
            ends = np.cumsum(counts)
            total = int(ends[-1]) if len(ends) else 0
            if total > MORSEL_ROWS:
                return None
            nodes = adjacency.targets[
                np.arange(total) + np.repeat(starts - (ends - counts), counts)
            ]
        slots, offsets = rest[-1].slots.of(nodes), rest[-1].offsets
        return int(offsets[slots + 1].sum(dtype=np.int64) - offsets[slots].sum(dtype=np.int64))

    def _result(self, count: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array((count,), pa.int64())], schema=self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLookup:
    """A lookup with all its parts of one snapshot: from parameters to rows in one step."""

    query_name: str
    types: tuple[PropertyType, ...]
    id: Const | ParamRef
    only_parameter: str | None
    """The name of the id, if it is the only parameter."""
    tables: ShownRows | CountedWalks
    named_by: tuple[object, ...]
    """The objects whose identities name the lookup. The references keep other objects from getting their identities."""

    def answer_plain(self, params: Mapping[str, Any] | None) -> pa.RecordBatch | None:
        """Answer for a parameter that binds as it is; None for any other."""
        text = self._find_plain(params)
        return None if text is None else self.tables.answer(text)

    def answer_small(self, params: Mapping[str, Any] | None) -> pa.RecordBatch | None:
        """Answer like `answer_plain` if a few steps give a small answer; None for any other."""
        text = self._find_plain(params)
        return None if text is None else self.tables.answer_small(text)

    def _find_plain(self, params: Mapping[str, Any] | None) -> str | None:
        if type(params) is not dict or len(params) != 1:
            return None
        text = params.get(self.only_parameter)
        # Text that is ASCII can be stored; other text is looked at when it is bound.
        return text if type(text) is str and text.isascii() else None

    def answer(self, values: Mapping[str, object]) -> pa.RecordBatch | None:
        """Answer for parameters that are bound."""
        fixed = self.id
        text = fixed.value if isinstance(fixed, Const) else values[fixed.name]
        return self.tables.answer(text) if isinstance(text, str) else self.tables.nothing


def prepare_lookup(
    checked: CheckedRead, plan: Plan, snapshot: SnapshotTables, *named_by: object
) -> PreparedLookup | None:
    """Prepare a plan that is a lookup; None if it is not a lookup, or if a part of it is not cached."""
    lookup = plan.lookup
    tables = None if lookup is None else _find_tables(plan, lookup, snapshot)
    if lookup is None or tables is None:
        return None
    is_only = len(checked.params) == 1 and isinstance(lookup.id, ParamRef) and not checked.demands
    return PreparedLookup(
        query_name=checked.name,
        types=plan.types,
        id=lookup.id,
        only_parameter=lookup.id.name if is_only and isinstance(lookup.id, ParamRef) else None,
        tables=tables,
        named_by=(snapshot, *named_by),
    )


def _find_tables(
    plan: Plan, lookup: Lookup, snapshot: SnapshotTables
) -> ShownRows | CountedWalks | None:
    index = snapshot.nodes(lookup.type_name).cached_id_index
    if index is None:
        return None
    if not lookup.columns:
        cached = [_find_adjacency(hop, snapshot) for hop in lookup.hops]
        adjacencies = tuple(adjacency for adjacency in cached if adjacency is not None)
        return (
            CountedWalks(index, adjacencies, plan.schema)
            if len(adjacencies) == len(cached)
            else None
        )
    nodes = snapshot.nodes(lookup.shown_type)
    row_offsets, rows = nodes.cached_row_offsets, _find_rows(plan, lookup.columns, nodes)
    if row_offsets is None or rows is None:
        return None
    varying = tuple(n for n, kind in enumerate(plan.arrow_types) if not pa.types.is_primitive(kind))
    if not lookup.hops:
        return ShownRows(index, row_offsets, None, rows, varying)
    adjacency = _find_adjacency(lookup.hops[0], snapshot)
    return (
        None
        if adjacency is None
        else ShownRows(index, row_offsets, _make_hop(adjacency, row_offsets), rows, varying)
    )


def _find_rows(plan: Plan, names: Sequence[str], nodes: Entities) -> pa.RecordBatch | None:
    """Return all rows of the table with the columns of the result, if they are cached with their declared types."""
    columns = [nodes.cached_column(name) for name in names]
    kinds = tuple(None if column is None else column.type for column in columns)
    if kinds != plan.arrow_types:
        return None
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema)


def _find_adjacency(hop: Expand, snapshot: SnapshotTables) -> Adjacency | None:
    return snapshot.topology(hop.edge).cached(hop.direction, NeighbourUnit.PAIR)


def _make_hop(adjacency: Adjacency, row_offsets: RowOffsets) -> Hop:
    offsets = pa.array(adjacency.targets) if row_offsets.are_row_ids else None
    return Hop(adjacency, row_offsets, offsets)
