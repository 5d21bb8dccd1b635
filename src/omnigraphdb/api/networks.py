"""A snapshot as a networkx graph: nodes by type and id, parallel edges, properties as attributes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraphdb.catalog.border import public_rows
from omnigraphdb.catalog.model import EdgeType, TableType, order_columns
from omnigraphdb.packages import load_package
from omnigraphdb.storage.tables import Table

if TYPE_CHECKING:
    import networkx

Node = tuple[str, str]
"""The type of a node and its id: two types may have the same id."""


def make_network(tables: Sequence[tuple[TableType, Table]]) -> "networkx.MultiDiGraph[Node]":
    """Make a graph of the rows of some types; the ends of an edge are nodes even if their type is not among them."""
    network: networkx.MultiDiGraph[Node] = load_package("networkx", "to_networkx()").MultiDiGraph()
    for type_, table in tables:
        rows = _read(type_, table)
        if isinstance(type_, EdgeType):
            network.add_edges_from(_list_edges(type_, rows))
        else:
            network.add_nodes_from(_list_nodes(type_, rows))
    return network


def _read(type_: TableType, table: Table) -> pa.Table:
    """Read the columns that become attributes: all but blobs."""
    blobs = {name for name, one in type_.properties.items() if one.type.is_blob}
    names = order_columns(type_, table.schema.names)
    return public_rows(table.read([name for name in names if name not in blobs]))


def _list_nodes(type_: TableType, rows: pa.Table) -> Iterator[tuple[Node, Mapping[str, Any]]]:
    ids = rows["id"].to_pylist()
    return (
        ((type_.name, id_), row) for id_, row in zip(ids, _attributes(type_, rows), strict=True)
    )


def _list_edges(
    type_: EdgeType, rows: pa.Table
) -> Iterator[tuple[Node, Node, str, Mapping[str, Any]]]:
    ends = (rows[name].to_pylist() for name in ("src", "dst", "id"))
    found = zip(*ends, _attributes(type_, rows.drop_columns(["src", "dst"])), strict=True)
    return (
        ((type_.source, source), (type_.target, target), id_, row)
        for source, target, id_, row in found
    )


def _attributes(type_: TableType, rows: pa.Table) -> Iterator[Mapping[str, Any]]:
    """The type, the id and the properties of every row; a property that is NULL is left out."""
    for row in rows.to_pylist():
        yield {"type": type_.name} | {k: v for k, v in row.items() if v is not None}
