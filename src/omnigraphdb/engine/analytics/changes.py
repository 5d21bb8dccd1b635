"""The differences between two projections: the nodes that stayed, the arcs that are gone and the arcs that are new."""

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
    """The change between two projections; `places` are the present numbers of the former nodes, -1 for a removed node."""

    places: Nodes
    gone: tuple[Nodes, Nodes]
    """The ends of arcs that are gone, by former numbers."""
    new: tuple[Nodes, Nodes]
    """The ends of arcs that are new, by present numbers."""


def compare_projections(
    tables: Tables, before: Projected, current: Projected
) -> ProjectionChange | None:
    """Compare two projections by the fragments of their tables; None if these do not suffice, or most was rewritten."""
    if before.edges.keys() != current.edges.keys():
        return None
    present_numbers = _find_present_numbers(before, current)
    if present_numbers is None:
        return None
    removed: list[Ends] = []
    added: list[Ends] = []
    for name, (edge, ends) in current.edges.items():
        former_edge, former = before.edges[name]
        if ends.dangling or former.dangling:
            return None
        end_changes = compare_ends(tables, former, ends)
        if end_changes is None:
            return None
        lost = _number_ends(before.nodes, former_edge, end_changes[0])
        fresh = _number_ends(current.nodes, edge, end_changes[1])
        # Row ids are compared by the nodes that they stand for: two branches give the same row id to different nodes.
        renumbered = Ends(
            near=present_numbers[lost.near], far=present_numbers[lost.far], edges=lost.edges
        )
        removed.append(lost.keep(~contained_in(renumbered, fresh)))
        added.append(fresh.keep(~contained_in(fresh, renumbered)))
    return ProjectionChange(
        places=present_numbers, gone=_join_pairs(removed), new=_join_pairs(added)
    )


def _number_ends(nodes: ProjectedNodes, edge: EdgeType, ends: Ends) -> Ends:
    return Ends(
        near=nodes.number(edge.source, ends.near),
        far=nodes.number(edge.target, ends.far),
        edges=ends.edges,
    )


def _join_pairs(ends: list[Ends]) -> tuple[Nodes, Nodes]:
    return np.concatenate([part.near for part in ends]), np.concatenate([part.far for part in ends])


def _find_present_numbers(before: Projected, current: Projected) -> Nodes | None:
    """Find the present numbers of former nodes; None if a node was replaced by another of the same id."""
    present_numbers = np.full(before.nodes.count, ABSENT)
    for name, former in before.nodes.types.items():
        present = current.nodes.types.get(name)
        if present is None:
            return None
        numbers = _follow_nodes(former, present)
        if numbers is None:
            return None
        start = before.nodes.starts[name]
        renumbered = np.where(numbers == ABSENT, ABSENT, numbers + current.nodes.starts[name])
        present_numbers[start : start + len(numbers)] = renumbered
    return present_numbers


def _follow_nodes(former: NodeIds, present: NodeIds) -> Nodes | None:
    if former.layout is present.layout:
        return np.arange(len(former.ids))
    lost = find_lost_nodes(former, present)
    # A replaced node may have kept its edges, which then lead to the other row.
    replaced = pc.is_in(present.ids, value_set=former.ids.take(indices_of(lost)))
    if len(lost) and pc.any(replaced, min_count=0).as_py():
        return None
    positions = present.row_offsets.of(former.row_offsets.all())
    positions[lost] = ABSENT
    return positions
