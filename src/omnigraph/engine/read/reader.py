"""Everything one query reads from: a snapshot, the caches of the graph, parameter values, one instant."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import PropertyType
from omnigraph.catalog.values import to_arrow
from omnigraph.compile.checked import (
    Const,
    EntityRef,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
    VariableKind,
)
from omnigraph.compile.plan import Plan
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.cache import ByteCache
from omnigraph.engine.read.entities import Entities, Numbers
from omnigraph.engine.read.topology import Topology, topology_of
from omnigraph.ids import edge_key, node_key
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The world of one query; nothing in it changes while the query runs."""

    plan: Plan
    catalog: Catalog
    snapshot: Snapshot
    tables: Tables
    cache: ByteCache
    params: Mapping[str, object]
    now: datetime

    def nodes(self, type_name: str) -> Entities:
        """The nodes of a type."""
        entry = self.snapshot.entry(node_key(type_name))
        return Entities(self.catalog.nodes[type_name], entry, self.tables, self.cache)

    def edges(self, edge_name: str) -> Entities:
        """The edges of a type."""
        entry = self.snapshot.entry(edge_key(edge_name))
        return Entities(self.catalog.edges[edge_name], entry, self.tables, self.cache)

    def topology(self, edge_name: str) -> Topology:
        """Who is connected by edges of a type."""
        edge = self.catalog.edges[edge_name]
        return topology_of(self.edges(edge_name), self.nodes(edge.source), self.nodes(edge.target))

    def entities(self, variable: str) -> Entities:
        """What a variable ranges over."""
        slot = self.plan.by_name[variable]
        match slot.kind:
            case VariableKind.NODE:
                return self.nodes(slot.type_name)
            case VariableKind.EDGE:
                return self.edges(slot.type_name)

    def value(self, fixed: Const | ParamRef | Now) -> object:
        """The value of an operand that is the same for every row."""
        match fixed:
            case Const(value=value):
                return value
            case ParamRef(name=name):
                return self.params.get(name)
            case Now():
                return self.now

    def integer(self, fixed: Const | ParamRef) -> int | None:
        """The value of a limit or offset."""
        value = self.value(fixed)
        return value if isinstance(value, int) else None

    def column(self, operand: Operand, bindings: Bindings) -> pa.Array:
        """The values of an operand, one per row."""
        match operand:
            case PropertyRef(variable=variable, property=name):
                return self.entities(variable).values(name, bindings.columns[variable])
            case EntityRef(variable=variable):
                return self.entities(variable).id_texts(bindings.columns[variable])
            case Const() | ParamRef() | Now():
                return repeated(self.value(operand), operand.type, bindings.rows)

    def id_texts(self, variable: str, numbers: Numbers) -> pa.Array:
        """The ids a variable is bound to."""
        return self.entities(variable).id_texts(numbers)


def repeated(value: object, type_: PropertyType, rows: int) -> pa.Array:
    """One value as a column."""
    one = to_arrow([value], type_)
    return pa.nulls(rows, one.type) if one.null_count else pa.repeat(one[0], rows)
