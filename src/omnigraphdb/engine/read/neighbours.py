"""The neighbourhood of one node: its edges by type and direction, a bounded number of each, and how many there are."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, EdgeType
from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.read.past_schema import find_shown_schema
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

_ENDS: Final = {Direction.OUT: ("src", "dst"), Direction.IN: ("dst", "src")}


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeGroup:
    """The edges of one type that leave or reach a node: the first ones by id, and how many there are in all."""

    edge: EdgeType
    direction: Direction
    ids: tuple[str, ...]
    others: tuple[str, ...]
    """The node at the other end of each."""
    total: int

    @property
    def other_type(self) -> str:
        """The type of the nodes at the other end."""
        return self.edge.target if self.direction is Direction.OUT else self.edge.source


def list_edge_groups(
    engine: Engine,
    view: View,
    type_name: str,
    identity: str,
    *,
    limit: int,
    edge: str | None = None,
    direction: Direction = Direction.BOTH,
) -> Iterator[EdgeGroup]:
    """List the edges of a node, at most `limit` of each type and direction; a group without edges is left out."""
    schema = find_shown_schema(engine.plans, view)
    for type_, towards in _list_ways(schema.contract.catalog, type_name):
        if edge in (None, type_.name) and direction in (Direction.BOTH, towards):
            group = _find_group(engine, schema.snapshot, type_, towards, identity, limit)
            if group is not None and group.total:
                yield group


def _list_ways(catalog: Catalog, type_name: str) -> Iterator[tuple[EdgeType, Direction]]:
    for type_ in catalog.edges.values():
        if type_.source == type_name:
            yield type_, Direction.OUT
        if type_.target == type_name:
            yield type_, Direction.IN


def _find_group(
    engine: Engine,
    snapshot: Snapshot,
    type_: EdgeType,
    direction: Direction,
    identity: str,
    limit: int,
) -> EdgeGroup | None:
    entry = snapshot.entries.get(type_.table_key)
    if entry is None:
        return None
    near, far = _ENDS[direction]
    table = engine.store.tables.open(entry.at)
    rows = table.lookup(near, pa.array([identity], pa.string()), ["id", far])
    first = rows.take(pc.select_k_unstable(rows, limit, [("id", "ascending")]))
    return EdgeGroup(
        edge=type_,
        direction=direction,
        ids=tuple(first["id"].to_pylist()),
        others=tuple(first[far].to_pylist()),
        total=rows.num_rows,
    )
