"""What differs between two projections: the nodes that stayed, the arcs that are gone and those that are new."""

import numpy as np
import pyarrow.compute as pc

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.engine.analytics.arcs import Nodes
from omnigraphdb.engine.analytics.project import Projected, ProjectedNodes
from omnigraphdb.engine.read.columns.row_ids import ABSENT, indices_of
from omnigraphdb.engine.read.graph.adjacency import Ends
from omnigraphdb.engine.read.graph.edge_ends import (
    NodeIds,
    compare_ends,
    contained_in,
    find_lost_nodes,
)
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionChange:
    """`places` are the present numbers of the former nodes, -1 for one that is gone."""

    places: Nodes
    gone: tuple[Nodes, Nodes]
    """The ends of arcs that are gone, by former numbers."""
    new: tuple[Nodes, Nodes]
    """The ends of arcs that are new, by present numbers."""


def compare_projections(
    tables: Tables, before: Projected, now: Projected
) -> ProjectionChange | None:
    """Compare two projections by the fragments of their tables; None if that does not tell, or most was written anew."""
    if before.edges.keys() != now.edges.keys():
        return None
    places = _find_present_numbers(before, now)
    if places is None:
        return None
    gone: list[Ends] = []
    new: list[Ends] = []
    for name, (edge, ends) in now.edges.items():
        former_edge, former = before.edges[name]
        if ends.dangling or former.dangling:
            return None
        found = compare_ends(tables, former, ends)
        if found is None:
            return None
        lost = _number_ends(before.nodes, former_edge, found[0])
        fresh = _number_ends(now.nodes, edge, found[1])
        # Row ids are compared by the nodes that they stand for: two branches give the same one to different nodes.
        moved = Ends(near=places[lost.near], far=places[lost.far], edges=lost.edges)
        gone.append(lost.keep(~contained_in(moved, fresh)))
        new.append(fresh.keep(~contained_in(fresh, moved)))
    return ProjectionChange(places=places, gone=_join_pairs(gone), new=_join_pairs(new))


def _number_ends(nodes: ProjectedNodes, edge: EdgeType, ends: Ends) -> Ends:
    return Ends(
        near=nodes.number(edge.source, ends.near),
        far=nodes.number(edge.target, ends.far),
        edges=ends.edges,
    )


def _join_pairs(ends: list[Ends]) -> tuple[Nodes, Nodes]:
    return np.concatenate([one.near for one in ends]), np.concatenate([one.far for one in ends])


def _find_present_numbers(before: Projected, now: Projected) -> Nodes | None:
    """Find the present numbers of former nodes; None if a node was replaced by another of the same id."""
    places = np.full(before.nodes.count, ABSENT)
    for name, former in before.nodes.types.items():
        present = now.nodes.types.get(name)
        if present is None:
            return None
        found = _follow_nodes(former, present)
        if found is None:
            return None
        start = before.nodes.starts[name]
        moved = np.where(found == ABSENT, ABSENT, found + now.nodes.starts[name])
        places[start : start + len(found)] = moved
    return places


def _follow_nodes(former: NodeIds, present: NodeIds) -> Nodes | None:
    if former.layout is present.layout:
        return np.arange(len(former.ids))
    lost = find_lost_nodes(former, present)
    # A replaced node may have kept its edges, which then lead to the other row.
    replaced = pc.is_in(present.ids, value_set=former.ids.take(indices_of(lost)))
    if len(lost) and pc.any(replaced, min_count=0).as_py():
        return None
    found = present.row_offsets.of(former.row_offsets.all())
    found[lost] = ABSENT
    return found
