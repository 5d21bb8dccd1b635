"""Which tables a query reads and writes, before it runs."""

from collections.abc import Iterator
from typing import assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.compile.checked import (
    Checked,
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
    Pattern,
    VariableKind,
)
from omnigraph.ids import TableKey, edge_key, node_key
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class Touched:
    """Table keys in order; a table that is written is also read."""

    written: tuple[TableKey, ...]
    read: tuple[TableKey, ...]


def list_touched_tables(query: Checked, catalog: Catalog) -> Touched:
    """List every table a query may write, and every one whose rows it depends on.

    This is what can be touched, not what will be: a delete of nodes may find no edge to take along.
    """
    match query:
        case CheckedRead(pattern=pattern):
            return Touched((), _sort_keys(_pattern_tables(pattern, catalog)))
        case CheckedMutation(statements=statements):
            written = {key for one in statements for key in _list_written(one, catalog)}
            ends = {key for one in statements for key in _ends(one, catalog)}
            return Touched(_sort_keys(iter(written)), _sort_keys(iter(written | ends)))
        case _:
            assert_never(query)


def _sort_keys(tables: Iterator[TableKey]) -> tuple[TableKey, ...]:
    return tuple(sorted(set(tables)))


def _pattern_tables(pattern: Pattern, catalog: Catalog) -> Iterator[TableKey]:
    for variable in pattern.variables:
        if variable.kind is VariableKind.NODE:
            yield node_key(variable.type_name)
    for hop in pattern.hops:
        edge = catalog.edges[hop.edge]
        yield from (edge.table_key, node_key(edge.source), node_key(edge.target))
    for block in (*pattern.negations, *pattern.optionals):
        yield from _pattern_tables(block, catalog)


def _list_written(statement: CheckedStatement, catalog: Catalog) -> Iterator[TableKey]:
    match statement:
        case CheckedUpdate(type_name=name):
            yield node_key(name)
        case CheckedInsert(type_name=name, kind=kind):
            yield _key(name, kind)
        case CheckedDelete(type_name=name, kind=kind):
            yield _key(name, kind)
            if kind is VariableKind.NODE:
                yield from (edge.table_key for edge in catalog.incident(name))
        case _:
            assert_never(statement)


def _ends(statement: CheckedStatement, catalog: Catalog) -> Iterator[TableKey]:
    """The node types whose entities an inserted edge must find."""
    if isinstance(statement, CheckedInsert) and statement.kind is VariableKind.EDGE:
        edge = catalog.edges[statement.type_name]
        yield from (node_key(edge.source), node_key(edge.target))


def _key(name: str, kind: VariableKind) -> TableKey:
    return node_key(name) if kind is VariableKind.NODE else edge_key(name)
