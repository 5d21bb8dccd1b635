"""Values of paths: hops, nodes, edges, and aggregates over the edges of each path."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.mixed import split_types
from omnigraphdb.compile.checked import PathValue
from omnigraphdb.compile.plan.operators import Tally
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers, RowIds
from omnigraphdb.engine.read.operators.tally import Tallied, finish_tally, tally_values
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.language.query.tree import AggregateName

EvaluateEdges = Callable[[Bindings], pa.Array]


def path_column(
    path_value: PathValue, numbers: RowIds, reader: Reader, evaluate_edges: EvaluateEdges
) -> pa.Array:
    """Compute a value of each path; NULL for no path.

    `evaluate_edges` computes the argument for the edges of all paths.
    """
    if path_value.function == "hops":
        return pa.array(reader.paths.hops(numbers), mask=numbers == ABSENT)
    if path_value.function == "nodes":
        rows, nodes = reader.paths.nodes(numbers)
        name = split_types(reader.plan.by_name[path_value.walked].type_name)[0]
        ends = reader.snapshot.nodes(reader.snapshot.catalog.edges[name].source)
        return _list_values(ends.id_texts(nodes), rows, numbers)
    rows, edges = reader.paths.edges(numbers)
    values = evaluate_edges(Bindings({path_value.walked: edges}, len(edges)))
    if path_value.function == "edges":
        return _list_values(values, rows, numbers)
    return _aggregate(path_value, path_value.function, values, rows, numbers, reader)


def _list_values(values: pa.Array, rows: Integers, numbers: RowIds) -> pa.Array:
    """Make a list of the values of each row; they come row by row."""
    counts = np.bincount(rows, minlength=len(numbers))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    missing = numbers == ABSENT
    offsets = pa.array(ends, mask=np.append(missing, False)) if missing.any() else pa.array(ends)
    return pa.ListArray.from_arrays(offsets, values)


def _aggregate(
    path_value: PathValue,
    function: AggregateName,
    values: pa.Array,
    rows: Integers,
    numbers: RowIds,
    reader: Reader,
) -> pa.Array:
    tally = Tally(
        name=function,
        function=function,
        argument=path_value.argument,
        type=path_value.type,
        distinct=path_value.distinct,
        fraction=path_value.fraction,
    )
    tallied = Tallied(
        tally=tally,
        values=values,
        codes=rows,
        weights=None,
        groups=len(numbers),
        fraction=reader.fraction(path_value.fraction),
    ).present()
    if path_value.distinct:
        tallied = tallied.once()
    aggregates = finish_tally(tally, *tally_values(tallied))
    missing = numbers == ABSENT
    if not missing.any():
        return aggregates
    return pc.if_else(pa.array(missing), pa.scalar(None, aggregates.type), aggregates)
