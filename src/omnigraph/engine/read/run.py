"""Running a plan: each operator in turn, from bindings to rows."""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.compile.operators import (
    Anti,
    Argument,
    Expand,
    Filter,
    Group,
    Operator,
    OptionalJoin,
    Product,
    Project,
    Rank,
    Scan,
    Slice,
    Sort,
)
from omnigraph.engine.read.bindings import Bindings, codes
from omnigraph.engine.read.evaluate import holds
from omnigraph.engine.read.expand import expand
from omnigraph.engine.read.join import anti, optional, product
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.scan import scan
from omnigraph.engine.read.search import rank
from omnigraph.engine.read.shape import Groups, Rows, cut, group, project, sort
from omnigraph.errors import InternalError


def run(reader: Reader) -> pa.Table:
    """Run the reader's plan and give its result."""
    root = reader.plan.root
    return project(root.columns, _rows(root.input, reader, ()), reader)


def _rows(operator: Operator, reader: Reader, outer: Sequence[Bindings]) -> Rows:
    match operator:
        case Group():
            return group(operator, _bindings(operator.input, reader, outer), reader)
        case Sort():
            return sort(operator, _rows(operator.input, reader, outer), reader)
        case Slice():
            return cut(operator, _rows(operator.input, reader, outer), reader)
        case Project():
            raise InternalError("a projection is only at the top of a plan")
        case _:
            return _bindings(operator, reader, outer)


def _bindings(operator: Operator, reader: Reader, outer: Sequence[Bindings]) -> Bindings:
    match operator:
        case Scan():
            return scan(operator, reader)
        case Argument(variables=variables):
            return _distinct(outer[-1], variables)
        case Expand():
            return expand(operator, _bindings(operator.input, reader, outer), reader)
        case Filter(conditions=conditions):
            rows = _bindings(operator.input, reader, outer)
            for condition in conditions:
                rows = rows.keep(holds(condition, rows, reader))
            return rows
        case Product():
            left = _bindings(operator.left, reader, outer)
            return product(operator, left, _bindings(operator.right, reader, outer), reader)
        case Anti():
            rows = _bindings(operator.input, reader, outer)
            return anti(operator, rows, _bindings(operator.inner, reader, (*outer, rows)))
        case OptionalJoin():
            rows = _bindings(operator.input, reader, outer)
            return optional(operator, rows, _bindings(operator.inner, reader, (*outer, rows)))
        case Rank():
            return rank(operator, _bindings(operator.input, reader, outer), reader)
        case Sort() | Slice():
            found = _rows(operator, reader, outer)
            if isinstance(found, Groups):
                raise InternalError("groups cannot be bound again")
            return found
        case Group() | Project():
            raise InternalError(f"{type(operator).__name__} gives no bindings")
        case _:
            assert_never(operator)


def _distinct(rows: Bindings, variables: tuple[str, ...]) -> Bindings:
    """The values of some variables, each combination once."""
    if not variables:
        return Bindings({}, min(rows.rows, 1))
    _, firsts = np.unique(codes(rows, variables), return_index=True)
    return Bindings({name: rows.columns[name] for name in variables}, rows.rows).take(firsts)
