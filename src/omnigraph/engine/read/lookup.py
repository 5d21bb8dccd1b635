"""Lookups answered from memory: one step from an id to the rows of the result."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compile.checked import Const
from omnigraph.compile.plan.plan import Lookup, Plan
from omnigraph.engine.read.columns.entities import Entities
from omnigraph.engine.read.columns.id_index import KeyMap
from omnigraph.engine.read.columns.row_offsets import Places
from omnigraph.engine.read.graph.adjacency import Adjacency, Each
from omnigraph.engine.read.opened import Opened
from omnigraph.values import dataclass

_TAKE: Final = pc.get_function("take")
_OPTIONS: Final = pc.TakeOptions(boundscheck=True)


@dataclass(frozen=True, slots=True)
class Hop:
    """From a node to the rows of its neighbours."""

    adjacency: Adjacency
    places: Places
    known: pa.Array | None
    """The places of all neighbours of all nodes, where they are their numbers."""

    def from_one(self, node: int) -> pa.Array:
        """The places of the neighbours of a node."""
        if self.known is None:
            return self.places.indices(self.adjacency.neighbours(node))
        start, end = self.adjacency.span(node)
        return self.known.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class Ready:
    """All that a lookup needs: who has an id, whom it leads to, and the rows to pick from."""

    keys: KeyMap
    places: Places
    hop: Hop | None
    rows: pa.RecordBatch

    def answer(self, text: str) -> pa.RecordBatch:
        """The rows for one id."""
        number = self.keys.number(text)
        if self.hop is not None:
            return _TAKE.call([self.rows, self.hop.from_one(number)], _OPTIONS)
        place = self.places.place(number)
        return self.rows.slice(place, 1) if place >= 0 else self.nothing

    @property
    def nothing(self) -> pa.RecordBatch:
        """No rows."""
        return self.rows.slice(0, 0)


def answer_lookup(
    plan: Plan, opened: Opened, params: Mapping[str, object]
) -> pa.RecordBatch | None:
    """Answer a plan that is a lookup; None when it is none, or while memory does not hold all it needs."""
    lookup = plan.lookup
    if lookup is None:
        return None
    ready = opened.cache.made((opened, lookup), lambda: _ready(plan, lookup, opened))
    if ready is None:
        return None
    fixed = lookup.id
    text = fixed.value if isinstance(fixed, Const) else params[fixed.name]
    return ready.answer(text) if isinstance(text, str) else ready.nothing


def _ready(plan: Plan, lookup: Lookup, opened: Opened) -> Ready | None:
    nodes, shown = opened.nodes(lookup.type_name), opened.nodes(lookup.shown_type)
    keys, places, rows = nodes.held_keys, shown.held_places, _rows(plan, lookup, shown)
    if keys is None or places is None or rows is None:
        return None
    if lookup.hop is None:
        return Ready(keys, places, None, rows)
    hop = _hop(lookup, opened, places)
    return None if hop is None else Ready(keys, places, hop, rows)


def _rows(plan: Plan, lookup: Lookup, shown: Entities) -> pa.RecordBatch | None:
    """All rows of the table with the columns of the result, if memory holds them as they are declared."""
    columns = [shown.held_column(name) for name in lookup.columns]
    kinds = tuple(None if one is None else one.type for one in columns)
    if kinds != plan.arrow_types:
        return None
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema)


def _hop(lookup: Lookup, opened: Opened, places: Places) -> Hop | None:
    assert lookup.hop is not None
    topology = opened.topology(lookup.hop.edge)
    adjacency = topology.held(lookup.hop.direction, Each.PAIR)
    if adjacency is None:
        return None
    return Hop(adjacency, places, pa.array(adjacency.targets) if places.are_numbers else None)
