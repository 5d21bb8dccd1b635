"""The number of edges that leave one source, counted for every source the write touches."""

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.commit.constraints.committed import RowsAfterWrite
from omnigraphdb.commit.constraints.report import Violations
from omnigraphdb.commit.delta import Deltas, TableDelta
from omnigraphdb.commit.origins import Origin
from omnigraphdb.errors import Problem, shorten
from omnigraphdb.storage.arrow import column


def cardinality(deltas: Deltas, final: RowsAfterWrite) -> Violations:
    """Check that every touched source that still exists has a count within bounds."""
    violations = Violations()
    for delta in deltas:
        if isinstance(delta.type, EdgeType) and not delta.type.cardinality.is_free:
            violations = violations + edge_counts(delta, delta.type, final)
    return violations


def edge_counts(delta: TableDelta, edge: EdgeType, final: RowsAfterWrite) -> Violations:
    """Check that every touched source of one edge type has a count within bounds."""
    sources = find_touched_sources(delta, edge, final)
    if not len(sources):
        return Violations()
    missing = final.missing_nodes(edge.source, sources)
    existing = sources.filter(pc.invert(pc.is_in(sources, value_set=missing)))
    counts = _counts(delta, edge, existing, final)
    return _find_violations(edge, counts, delta)


def find_touched_sources(delta: TableDelta, edge: EdgeType, final: RowsAfterWrite) -> pa.Array:
    """Sources that gain an edge, and former sources of edges that move or go."""
    if delta.replaces:
        before = final.committed.all(edge.table_key, ["src"])
    else:
        before = final.committed.where(edge.table_key, "id", delta.touched, ["src"])
    sources = pa.concat_arrays([column(delta.rows, "src"), column(before, "src")])
    return pc.unique(sources.drop_null())


def _counts(
    delta: TableDelta, edge: EdgeType, sources: pa.Array, final: RowsAfterWrite
) -> pa.Table:
    """Count the edges per source after the write; a source without any counts 0."""
    remaining = column(final.kept_where(edge.table_key, "src", sources, ["src"]), "src")
    incoming = column(delta.rows, "src")
    incoming = incoming.filter(pc.is_in(incoming, value_set=sources))
    # Every source enters once more, so that a source without edges is counted; it is taken off again.
    combined = pa.table({"src": pa.concat_arrays([remaining, incoming, sources])})
    grouped = combined.group_by("src").aggregate([("src", "count")])
    return pa.table({"src": grouped["src"], "n": pc.subtract(grouped["src_count"], 1)})


def _find_violations(edge: EdgeType, counts: pa.Table, delta: TableDelta) -> Violations:
    bounds = edge.cardinality
    bad = pc.less(counts["n"], bounds.low)
    if bounds.high is not None:
        bad = pc.or_(bad, pc.greater(counts["n"], bounds.high))
    wrong = counts.filter(bad).sort_by("src")
    described = wrong.slice(0, delta.shown_max)
    problems = tuple(
        _problem(edge, source, n, delta)
        for source, n in zip(described["src"].to_pylist(), described["n"].to_pylist(), strict=True)
    )
    return Violations(problems, wrong.num_rows)


def _problem(edge: EdgeType, source: str, n: int, delta: TableDelta) -> Problem:
    bounds = edge.cardinality
    limit = f"min {bounds.low}" if n < bounds.low else f"max {bounds.high}"
    rows = pc.indices_nonzero(pc.equal(column(delta.rows, "src"), source))
    origin = delta.origin(rows[-1].as_py()) if len(rows) else Origin()
    return origin.problem(
        "W14",
        f"@card violation on edge {edge.name}: source '{shorten(source)}' would have {n} "
        f"edges, {limit}",
        table_key=edge.table_key,
        row_id=source,
        value=shorten(source),
    )
