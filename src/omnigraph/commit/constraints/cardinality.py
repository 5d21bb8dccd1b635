"""How many edges leave one source, counted for every source the write touches."""

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.commit.changes import Changes, TableChange, column
from omnigraph.commit.constraints.committed import Final
from omnigraph.commit.constraints.report import Violations
from omnigraph.commit.origins import Origin
from omnigraph.errors import Problem, shorten


def cardinality(changes: Changes, final: Final) -> Violations:
    """Every touched source that is still there has a count within bounds."""
    found = Violations()
    for change in changes:
        if isinstance(change.type, EdgeType) and not change.type.cardinality.is_free:
            found = found + edge_counts(change, change.type, final)
    return found


def edge_counts(change: TableChange, edge: EdgeType, final: Final) -> Violations:
    """Every touched source of one edge type has a count within bounds."""
    sources = find_touched_sources(change, edge, final)
    if not len(sources):
        return Violations()
    missing = final.missing_nodes(edge.source, sources)
    living = sources.filter(pc.invert(pc.is_in(sources, value_set=missing)))
    counts = _counts(change, edge, living, final)
    return _outside(edge, counts, change)


def find_touched_sources(change: TableChange, edge: EdgeType, final: Final) -> pa.Array:
    """Sources that gain an edge, and former sources of edges that move or go."""
    if change.replaces:
        before = final.committed.all(edge.table_key, ["src"])
    else:
        before = final.committed.where(edge.table_key, "id", change.touched, ["src"])
    return pc.unique(pa.concat_arrays([column(change.rows, "src"), column(before, "src")]))


def _counts(change: TableChange, edge: EdgeType, sources: pa.Array, final: Final) -> pa.Table:
    """Edges per source after the write; a source without any counts 0."""
    kept = column(final.kept_where(edge.table_key, "src", sources, ["src"]), "src")
    put = column(change.rows, "src")
    put = put.filter(pc.is_in(put, value_set=sources))
    # Every source enters once more, so that one without edges is counted; that one is taken off again.
    together = pa.table({"src": pa.concat_arrays([kept, put, sources])})
    grouped = together.group_by("src").aggregate([("src", "count")])
    return pa.table({"src": grouped["src"], "n": pc.subtract(grouped["src_count"], 1)})


def _outside(edge: EdgeType, counts: pa.Table, change: TableChange) -> Violations:
    bounds = edge.cardinality
    bad = pc.less(counts["n"], bounds.low)
    if bounds.high is not None:
        bad = pc.or_(bad, pc.greater(counts["n"], bounds.high))
    wrong = counts.filter(bad).sort_by("src")
    shown = wrong.slice(0, change.shown_max)
    problems = tuple(
        _problem(edge, source, n, change)
        for source, n in zip(shown["src"].to_pylist(), shown["n"].to_pylist(), strict=True)
    )
    return Violations(problems, wrong.num_rows)


def _problem(edge: EdgeType, source: str, n: int, change: TableChange) -> Problem:
    bounds = edge.cardinality
    limit = f"min {bounds.low}" if n < bounds.low else f"max {bounds.high}"
    rows = pc.indices_nonzero(pc.equal(column(change.rows, "src"), source))
    origin = change.origin(rows[-1].as_py()) if len(rows) else Origin()
    return origin.problem(
        "W14",
        f"@card violation on edge {edge.name}: source '{shorten(source)}' would have {n} "
        f"edges, {limit}",
        table_key=edge.table_key,
        row_id=source,
    )
