"""Rules about the ends of edges: each names a node that is there, and no node leaves an edge behind."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType
from omnigraphdb.commit.constraints.committed import RowsAfterWrite
from omnigraphdb.commit.constraints.report import Violations, first_by_id, of_indices
from omnigraphdb.commit.delta import Deltas, TableDelta
from omnigraphdb.errors import Problem, shorten
from omnigraphdb.storage.arrow import column

SIDES = (("src", "from"), ("dst", "to"))


def endpoints(deltas: Deltas, final: RowsAfterWrite) -> Violations:
    """Check that both ends of every put edge exist after the write."""
    violations = Violations()
    for delta in deltas:
        if isinstance(delta.type, EdgeType) and delta.rows.num_rows:
            for side, word in SIDES:
                violations = violations + check_end(delta, delta.type, side, word, final)
    return violations


def check_end(
    delta: TableDelta, edge: EdgeType, side: str, word: str, final: RowsAfterWrite
) -> Violations:
    """Check that one end of every put edge exists after the write."""
    type_name = edge.source if side == "src" else edge.target
    ends = column(delta.rows, side)
    missing = final.missing_nodes(type_name, ends)
    if not len(missing):
        return Violations()
    marked = pc.indices_nonzero(pc.fill_null(pc.is_in(ends, value_set=missing), False))
    described = first_by_id(delta, marked)
    other_types = _find_under_other_types(
        ends.take(pa.array(described, pa.int64())), type_name, final
    )

    def describe(row: int) -> str:
        end = ends[row].as_py()
        hint = f" (a '{other_types[end]}' has this id)" if end in other_types else ""
        return (
            f"edge {edge.name}: {word} ({side}) '{shorten(end)}' not found, it must be the id of a "
            f"node of type '{type_name}'{hint}"
        )

    return of_indices(delta, marked, "W15", describe, word)


def _find_under_other_types(
    ends: pa.Array, type_name: str, final: RowsAfterWrite
) -> dict[str, str]:
    """Map ids that exist under another type to its name; every type is searched once, for all of them."""
    unknown = pc.unique(ends)
    types_by_id: dict[str, str] = {}
    for other in sorted(final.catalog.nodes):
        if other != type_name and len(unknown):
            missing = final.missing_nodes(other, unknown)
            present = unknown.filter(pc.invert(pc.is_in(unknown, value_set=missing)))
            types_by_id |= dict.fromkeys(present.to_pylist(), other)
            unknown = missing
    return types_by_id


def check_stranded_edges(deltas: Deltas, final: RowsAfterWrite) -> Violations:
    """Check that no remaining edge names a removed node."""
    violations = Violations()
    for delta in deltas:
        if isinstance(delta.type, NodeType) and (delta.replaces or len(delta.deleted)):
            for edge, side in list_incident_sides(delta.type, final.catalog):
                violations = violations + orphans(delta, edge, side, final)
    return violations


def list_incident_sides(node: NodeType, catalog: Catalog) -> Iterator[tuple[EdgeType, str]]:
    """List every edge type that has a node type at an end, with the side."""
    for edge in catalog.incident(node.name):
        if edge.source == node.name:
            yield edge, "src"
        if edge.target == node.name:
            yield edge, "dst"


def orphans(delta: TableDelta, edge: EdgeType, side: str, final: RowsAfterWrite) -> Violations:
    """Check that no remaining edge of a type names, at one side, a removed node."""
    stranded = _find_edges_of_deleted_nodes(delta, edge, side, final)
    if not stranded.num_rows:
        return Violations()
    described = stranded.sort_by("id").slice(0, delta.shown_max)
    problems = tuple(
        Problem(
            rule="W16",
            message=f"edge {edge.name} '{edge_id}' would keep {side} '{shorten(end)}', a "
            f"{delta.type.name} that this write removes",
            table_key=edge.table_key,
            row_id=edge_id,
        )
        for edge_id, end in zip(
            described["id"].to_pylist(), described[side].to_pylist(), strict=True
        )
    )
    return Violations(problems, stranded.num_rows)


def _find_edges_of_deleted_nodes(
    delta: TableDelta, edge: EdgeType, side: str, final: RowsAfterWrite
) -> pa.Table:
    """Find the edges that stay although the node at this side is removed."""
    if not delta.replaces:
        return final.kept_where(edge.table_key, side, delta.deleted, [side])
    remaining = final.kept(edge.table_key, [side])
    return remaining.filter(pc.invert(pc.is_in(remaining[side], value_set=delta.ids)))
