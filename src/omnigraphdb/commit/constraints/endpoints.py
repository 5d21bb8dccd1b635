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
    """Both ends of every put edge exist after the write."""
    found = Violations()
    for delta in deltas:
        if isinstance(delta.type, EdgeType) and delta.rows.num_rows:
            for side, word in SIDES:
                found = found + check_end(delta, delta.type, side, word, final)
    return found


def check_end(
    delta: TableDelta, edge: EdgeType, side: str, word: str, final: RowsAfterWrite
) -> Violations:
    """One end of every put edge exists after the write."""
    type_name = edge.source if side == "src" else edge.target
    ends = column(delta.rows, side)
    missing = final.missing_nodes(type_name, ends)
    if not len(missing):
        return Violations()
    marked = pc.indices_nonzero(pc.fill_null(pc.is_in(ends, value_set=missing), False))
    shown = first_by_id(delta, marked)
    homes = _find_under_other_types(ends.take(pa.array(shown, pa.int64())), type_name, final)

    def describe(row: int) -> str:
        end = ends[row].as_py()
        hint = f" (a '{homes[end]}' has this id)" if end in homes else ""
        return (
            f"edge {edge.name}: {word} ({side}) '{shorten(end)}' not found, it must be the id of a "
            f"node of type '{type_name}'{hint}"
        )

    return of_indices(delta, marked, "W15", describe, word)


def _find_under_other_types(
    ends: pa.Array, type_name: str, final: RowsAfterWrite
) -> dict[str, str]:
    """The ids that exist under another type, with its name; every type is looked into once, for all of them."""
    unknown = pc.unique(ends)
    found: dict[str, str] = {}
    for other in sorted(final.catalog.nodes):
        if other != type_name and len(unknown):
            missing = final.missing_nodes(other, unknown)
            there = unknown.filter(pc.invert(pc.is_in(unknown, value_set=missing)))
            found |= dict.fromkeys(there.to_pylist(), other)
            unknown = missing
    return found


def check_stranded_edges(deltas: Deltas, final: RowsAfterWrite) -> Violations:
    """No edge that stays names a node that goes."""
    found = Violations()
    for delta in deltas:
        if isinstance(delta.type, NodeType) and (delta.replaces or len(delta.deleted)):
            for edge, side in list_incident_sides(delta.type, final.catalog):
                found = found + orphans(delta, edge, side, final)
    return found


def list_incident_sides(node: NodeType, catalog: Catalog) -> Iterator[tuple[EdgeType, str]]:
    """Every edge type that has a node type at an end, with the side."""
    for edge in catalog.incident(node.name):
        if edge.source == node.name:
            yield edge, "src"
        if edge.target == node.name:
            yield edge, "dst"


def orphans(delta: TableDelta, edge: EdgeType, side: str, final: RowsAfterWrite) -> Violations:
    """No edge of a type that stays names, at one side, a node that goes."""
    gone = _find_edges_of_deleted_nodes(delta, edge, side, final)
    if not gone.num_rows:
        return Violations()
    shown = gone.sort_by("id").slice(0, delta.shown_max)
    problems = tuple(
        Problem(
            rule="W16",
            message=f"edge {edge.name} '{edge_id}' would keep {side} '{shorten(end)}', a "
            f"{delta.type.name} that this write removes",
            table_key=edge.table_key,
            row_id=edge_id,
        )
        for edge_id, end in zip(shown["id"].to_pylist(), shown[side].to_pylist(), strict=True)
    )
    return Violations(problems, gone.num_rows)


def _find_edges_of_deleted_nodes(
    delta: TableDelta, edge: EdgeType, side: str, final: RowsAfterWrite
) -> pa.Table:
    """Edges that stay although the node at this side goes."""
    if not delta.replaces:
        return final.kept_where(edge.table_key, side, delta.deleted, [side])
    kept = final.kept(edge.table_key, [side])
    return kept.filter(pc.invert(pc.is_in(kept[side], value_set=delta.ids)))
