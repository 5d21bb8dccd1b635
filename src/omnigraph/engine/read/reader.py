"""Everything one query reads from: a snapshot, the caches of the graph, parameter values, one instant."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog, TableType
from omnigraph.catalog.types import PropertyType
from omnigraph.catalog.values import to_arrow
from omnigraph.compile.checked import (
    Const,
    EntityRef,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
    Ranking,
    VariableKind,
)
from omnigraph.compile.plan import Plan
from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.lazy import LazyEmbedder
from omnigraph.engine.held.cache import ByteCache
from omnigraph.engine.held.traversal import Traversal, traversal_of
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.entities import Entities
from omnigraph.engine.read.numbers import Numbers
from omnigraph.engine.read.profile import Profile
from omnigraph.engine.read.topology import Topology
from omnigraph.ids import TableKey, edge_key, node_key
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Scored:
    """Entities a ranking has put in order, with their scores."""

    numbers: Numbers
    scores: pa.Array


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
    names: Mapping[TableKey, Mapping[str, str]] = field(default_factory=dict)
    """The columns of properties that were called otherwise at the time that is read, by table."""
    embedder: Embedder = field(default_factory=LazyEmbedder)
    traversal: Traversal = field(default_factory=traversal_of)
    profile: Profile | None = None
    scored: dict[Ranking, Scored] = field(default_factory=dict)
    """What `Rank` found: a fused score cannot be told from the rows that are left."""
    opened: dict[TableKey, Entities] = field(default_factory=dict)
    walked: dict[str, Topology] = field(default_factory=dict)

    def nodes(self, type_name: str) -> Entities:
        """The nodes of a type; none when the snapshot is older than the type."""
        key = node_key(type_name)
        found = self.opened.get(key)
        if found is None:
            found = self._opened(key, self.catalog.nodes[type_name])
        return found

    def edges(self, edge_name: str) -> Entities:
        """The edges of a type; none when the snapshot is older than the type."""
        key = edge_key(edge_name)
        found = self.opened.get(key)
        if found is None:
            found = self._opened(key, self.catalog.edges[edge_name])
        return found

    def _opened(self, key: TableKey, type_: TableType) -> Entities:
        entry = self.snapshot.entries.get(key)
        found = Entities(type_, entry, self.tables, self.cache, self.names.get(key))
        self.opened[key] = found
        return found

    def topology(self, edge_name: str) -> Topology:
        """Who is connected by edges of a type."""
        found = self.walked.get(edge_name)
        if found is None:
            edge = self.catalog.edges[edge_name]
            found = Topology(
                edges=self.edges(edge_name),
                sources=self.nodes(edge.source),
                targets=self.nodes(edge.target),
            )
            self.walked[edge_name] = found
        return found

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
        """The value of a limit, an offset or a distance."""
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

    def note(self, text: str) -> None:
        """Say how the current operator went about its work, if anyone listens."""
        if self.profile is not None:
            self.profile.note(text)


def repeated(value: object, type_: PropertyType, rows: int) -> pa.Array:
    """One value as a column."""
    one = to_arrow([value], type_)
    return one.take(pa.array(np.zeros(rows, dtype=np.int64)))
