"""Walks whose ends or edges are of several types: each type by itself, then together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from omnigraphdb.catalog.mixed import split_types
from omnigraphdb.compile.checked import Direction
from omnigraphdb.compile.plan.operators import Expand, FindPaths, Multiplicity
from omnigraphdb.engine.read.bindings import Bindings, codes, concat
from omnigraphdb.engine.read.columns.mixed_entities import numbers_of, tag, untag
from omnigraphdb.engine.read.columns.row_ids import count_up
from omnigraphdb.engine.read.operators.expand import empty_result, expand
from omnigraphdb.engine.read.reader import Reader

_ROW = "#row"
"""The column that numbers the rows before a walk; no variable has such a name."""
_BLOCK_ROWS = 1 << 16
"""The rows from which one step walks: the results of all types for them are in memory together."""


def expand_any(operator: Expand, bindings: Bindings, reader: Reader) -> Iterator[Bindings]:
    """Walk edges of any type and direction, keeping the order of the rows."""
    for start in range(0, max(bindings.rows, 1), _BLOCK_ROWS):
        rows = bindings.slice(start, start + _BLOCK_ROWS)
        yield _walk_each(operator, rows, reader) if rows.rows else empty_result(operator, rows)


def _walk_each(operator: Expand, rows: Bindings, reader: Reader) -> Bindings:
    numbered = rows.with_column(_ROW, count_up(rows.rows))
    tables = (
        _tag_edges(step, table, reader)
        for step in list_steps(operator, reader)
        for table in expand_mixed(step, numbered, reader)
    )
    joined = concat(list(tables))
    if operator.edge_variable is None:
        # Two edges of different types between the same nodes are one pair.
        _, firsts = np.unique(codes(joined, (_ROW, operator.target)), return_index=True)
        joined = joined.take(firsts)
    ordered = joined.take(np.argsort(joined.columns[_ROW], kind="stable"))
    left = [name for name in ordered.columns if name != _ROW]
    return ordered.only(left).only(operator.keep)


def list_steps(operator: Expand, reader: Reader) -> Iterator[Expand]:
    """List the walks over one edge type in one direction that a walk over any edge consists of."""
    near, far = (reader.types_of(name) for name in (operator.source, operator.target))
    for name in split_types(operator.edge):
        edge = reader.snapshot.catalog.edges[name]
        plain = replace(
            operator, edge=name, any_edge=False, keep=None, multiplicity=Multiplicity.EACH
        )
        if edge.source == edge.target:
            yield replace(plain, direction=Direction.BOTH)
            continue
        if edge.source in near and edge.target in far:
            yield replace(plain, direction=Direction.OUT)
        if edge.target in near and edge.source in far:
            yield replace(plain, direction=Direction.IN)


def _tag_edges(step: Expand, table: Bindings, reader: Reader) -> Bindings:
    name = step.edge_variable
    if name is None or not reader.is_mixed(name):
        return table
    return table.with_column(name, tag(table.columns[name], reader.number_of_edge(step.edge)))


def expand_mixed(operator: Expand, bindings: Bindings, reader: Reader) -> Iterator[Bindings]:
    """Walk between variables of which some are of several types."""
    return walk_mixed(expand, operator, bindings, reader)


def walk_mixed(
    walk: Callable[..., Iterator[Bindings]],
    operator: Expand | FindPaths,
    bindings: Bindings,
    reader: Reader,
) -> Iterator[Bindings]:
    """Walk as between variables of one type; row ids of variables of several types carry the number of their type."""
    edge = reader.snapshot.catalog.edges[split_types(operator.edge)[0]]
    near, far = edge.source, edge.target
    if operator.direction is Direction.IN:
        near, far = far, near
    ends = {operator.source: near} | ({operator.target: far} if operator.closes else {})
    mixed_inputs = {name: type_name for name, type_name in ends.items() if reader.is_mixed(name)}
    outputs = {operator.target: far, operator.source: near}
    mixed_outputs = {
        name: type_name for name, type_name in outputs.items() if reader.is_mixed(name)
    }
    for table in walk(operator, _narrow(bindings, mixed_inputs, reader), reader):
        yield _widen(table, mixed_outputs, reader)


def _narrow(bindings: Bindings, types: Mapping[str, str], reader: Reader) -> Bindings:
    """Keep the rows whose entities are of the given types, as entities of one type."""
    for name, type_name in types.items():
        bindings = bindings.keep(
            numbers_of(bindings.columns[name]) == reader.number_of_node(type_name)
        )
        bindings = bindings.with_column(name, untag(bindings.columns[name]))
    return bindings


def _widen(bindings: Bindings, types: Mapping[str, str], reader: Reader) -> Bindings:
    """Make entities of one type entities of several."""
    for name, type_name in types.items():
        if name in bindings.columns:
            number = reader.number_of_node(type_name)
            bindings = bindings.with_column(name, tag(bindings.columns[name], number))
    return bindings
