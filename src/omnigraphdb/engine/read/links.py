"""The edges between the nodes of a picture."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.engine.read.past_schema import find_shown_schema
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.ids import TableKey
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

Node = tuple[str, str]
"""A node by its type and id."""


@dataclass(frozen=True, slots=True)
class Link:
    """An edge between two of the nodes."""

    type_name: str
    id: str
    source: Node
    target: Node


def list_links(
    engine: Engine, view: View, nodes: Iterable[Node], find_others: Callable[[TableKey], pa.Array]
) -> list[Link]:
    """List the edges whose ends are both among `nodes`, by type and id.

    `find_others` returns the ids of a table that are left out.
    """
    ids: dict[str, list[str]] = {}
    for type_name, identity in nodes:
        ids.setdefault(type_name, []).append(identity)
    schema = find_shown_schema(engine.plans, view)
    link_groups = (
        _spell_links(
            edge, rows.filter(pc.invert(pc.is_in(rows["id"], find_others(edge.table_key))))
        )
        for edge in schema.contract.catalog.edges.values()
        if edge.source in ids and edge.target in ids
        for rows in _find_rows(engine, schema.snapshot, edge, ids[edge.source], ids[edge.target])
    )
    return list(chain.from_iterable(link_groups))


def _find_rows(
    engine: Engine, snapshot: Snapshot, edge: EdgeType, sources: list[str], targets: list[str]
) -> Iterator[pa.Table]:
    """Find the edges of one type between two groups of nodes; nothing when there is none."""
    entry = snapshot.entries.get(edge.table_key)
    if entry is None or not entry.row_count:
        return
    table = engine.store.tables.open(entry.at)
    rows = table.lookup("src", pa.array(sources, pa.string()), ["id", "src", "dst"])
    rows = rows.filter(pc.is_in(rows["dst"], pa.array(targets, pa.string())))
    if rows.num_rows:
        yield rows


def _spell_links(edge: EdgeType, rows: pa.Table) -> Iterator[Link]:
    columns = rows.sort_by("id").to_pydict()
    return (
        Link(edge.name, identity, (edge.source, source), (edge.target, target))
        for identity, source, target in zip(*columns.values(), strict=True)
    )
