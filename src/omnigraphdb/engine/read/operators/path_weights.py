"""The weights of paths: the cost of each edge of a walk, checked once for all edges that may be walked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.mixed import is_mixed, split_types
from omnigraphdb.catalog.types import FLOATS
from omnigraphdb.compile.plan.operators import FindPaths
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.mixed_entities import numbers_of, tag, untag
from omnigraphdb.engine.read.columns.row_ids import RowIds
from omnigraphdb.engine.read.operators.filter import keep_all
from omnigraphdb.engine.read.operators.steps import Steps
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.errors import QueryError

Weights = npt.NDArray[Any]

_WHOLE_MAX = 2**54
"""Whole weights up to here are added as whole numbers: a path has too few hops to reach the end of 64 bits."""


def read_weights(
    operator: FindPaths, steps: Steps, reader: Reader
) -> Callable[[RowIds], Weights] | None:
    """Return the function that weighs edges; None if paths are compared by hops."""
    by = operator.choice.by
    if by is None:
        return None
    names = split_types(operator.edge)
    tables = {reader.number_of_edge(name): reader.snapshot.edges(name) for name in names}
    weights_by_number = {
        number: _read_checked(table, number, by.property, operator, steps, reader)
        for number, table in tables.items()
    }
    kind = np.result_type(*weights_by_number.values())
    if not is_mixed(operator.edge):
        ((number, table),) = tables.items()
        return lambda edges: weights_by_number[number][table.row_offsets.of(edges)]

    def weigh(edges: RowIds) -> Weights:
        weights = np.empty(len(edges), dtype=kind)
        numbers = numbers_of(edges)
        for number, table in tables.items():
            mask = numbers == number
            weights[mask] = weights_by_number[number][table.row_offsets.of(untag(edges[mask]))]
        return weights

    return weigh


def _read_checked(
    edges: Entities, number: int, name: str, operator: FindPaths, steps: Steps, reader: Reader
) -> Weights:
    """Read the weights of all edges of a type, in column order, and refuse weights that no path can add."""

    def read() -> Weights:
        values = edges.whole(name)
        weights = _convert(values, is_float=edges.declared(name).scalar in FLOATS)
        wrong = np.asarray(pc.is_null(values).to_numpy(zero_copy_only=False), dtype=bool)
        wrong = wrong | ~np.isfinite(weights) | (weights < 0)
        if wrong.any():
            _refuse(edges, edges.all[wrong], number, name, operator, reader)
        return weights

    key = steps.key_of(edges.layout, "weights", name)
    if key is None:
        return read()
    weights: Weights = edges.cache.get(key, read, lambda array: int(array.nbytes))
    return weights


def _convert(values: pa.Array, *, is_float: bool) -> Weights:
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    is_large = not is_float and len(numbers) > 0 and int(numbers.max()) > _WHOLE_MAX
    kind = np.float64 if is_float or is_large else np.int64
    return np.asarray(numbers, dtype=kind)


def _refuse(
    edges: Entities, wrong: RowIds, number: int, name: str, operator: FindPaths, reader: Reader
) -> None:
    """Raise the error that names the first edge of the walk with a wrong weight; there may be none."""
    tagged = tag(wrong, number) if is_mixed(operator.edge) else wrong
    rows = keep_all(operator.where, Bindings({operator.walked: tagged}, len(tagged)), reader)
    if not rows.rows:
        return
    row_ids = untag(rows.columns[operator.walked])
    first = row_ids[np.argmin(edges.id_ranks(row_ids))][None]
    value = edges.values(name, first)[0].as_py()
    text = "NULL" if value is None else value
    raise QueryError(
        f"'{name}' of the edge {edges.id_texts(first)[0].as_py()} of {edges.type.name} is {text}, and the cost of a path "
        "adds numbers from 0 on; nothing was read",
        code="T68",
        hint=f"leave such edges out: {{… by {name} where {name} >= 0}}",
    )
