"""Binding a variable: every node of a type that passes its tests."""

import numpy as np
import pyarrow as pa

from omnigraph.compile.algebra import Test
from omnigraph.compile.checked import Compare, Const, EntityRef, ParamRef
from omnigraph.compile.operators import Scan
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.entities import ABSENT, Numbers
from omnigraph.engine.read.evaluate import holds
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.search import text_mask


def scan(operator: Scan, reader: Reader) -> Bindings:
    """Bind the variable; an equality on the id goes through the key map, other tests over columns."""
    numbers, rest = _start(operator, reader)
    rows = Bindings({operator.variable: numbers}, len(numbers))
    for test in rest:
        rows = rows.keep(holds(test, rows, reader))
    for search in operator.search:
        rows = rows.keep(text_mask(search, rows, reader))
    return rows


def _start(operator: Scan, reader: Reader) -> tuple[Numbers, tuple[Test, ...]]:
    nodes = reader.nodes(operator.type_name)
    for test in operator.filter:
        if (
            isinstance(test, Compare)
            and test.op == "="
            and isinstance(test.left, EntityRef)
            and isinstance(test.right, Const | ParamRef)
        ):
            text = reader.value(test.right)
            numbers = nodes.numbers_of(pa.array([text], pa.string()))
            rest = tuple(one for one in operator.filter if one is not test)
            return np.asarray(numbers[numbers != ABSENT], dtype=np.int64), rest
    return nodes.all(), operator.filter
