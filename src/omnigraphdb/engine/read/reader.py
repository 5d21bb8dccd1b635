"""The reader of one query: a snapshot with its caches, parameter values and one instant."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraphdb.catalog.mixed import is_mixed, number_types, split_types
from omnigraphdb.compile.checked import (
    Const,
    EntityRef,
    Field,
    Now,
    ParamRef,
    PropertyRef,
    Ranking,
    VariableKind,
)
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.embedding.services import Embedder, LazyEmbedder
from omnigraphdb.engine.cached.traversal import Traversal, traversal_of
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.mixed_entities import MixedEntities, tag
from omnigraphdb.engine.read.columns.row_ids import RowIds
from omnigraphdb.engine.read.evaluate import Leaf
from omnigraphdb.engine.read.profile import Profile
from omnigraphdb.engine.read.snapshot_tables import SnapshotTables
from omnigraphdb.errors import QueryError
from omnigraphdb.later import Later
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.engine.read.graph import path_store
else:
    # Most queries bind no path.
    path_store = Later("omnigraphdb.engine.read.graph.path_store")


@dataclass(frozen=True, slots=True)
class Scored:
    """Entities in the order of a ranking, with their scores."""

    row_ids: RowIds
    scores: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The sources of one query: its plan, its tables and its parameters; they do not change while the query runs."""

    plan: Plan
    snapshot: SnapshotTables
    params: Mapping[str, object]
    now: datetime
    embedder: Embedder = field(default_factory=LazyEmbedder)
    traversal: Traversal = field(default_factory=traversal_of)
    profile: Profile | None = None
    scored: dict[Ranking, Scored] = field(default_factory=dict)
    """The scores of `Rank`: a fused score cannot be computed from the remaining rows alone."""
    found_paths: "list[path_store.PathStore]" = field(default_factory=list)

    @property
    def paths(self) -> "path_store.PathStore":
        """The paths that the query has found; a path variable holds their numbers."""
        if not self.found_paths:
            self.found_paths.append(path_store.PathStore(self.traversal.path_bytes_max))
        return self.found_paths[0]

    def entities(self, variable: str) -> Entities | MixedEntities:
        """Return the entities that a variable ranges over."""
        slot = self.plan.by_name[variable]
        of_nodes = slot.kind is VariableKind.NODE
        if is_mixed(slot.type_name):
            return self.snapshot.mixed(slot.type_name, of_nodes=of_nodes)
        return (self.snapshot.nodes if of_nodes else self.snapshot.edges)(slot.type_name)

    def nodes(self, variable: str) -> Entities:
        """Return the nodes that a variable of one type ranges over."""
        return self.snapshot.nodes(self.plan.by_name[variable].type_name)

    def is_mixed(self, variable: str) -> bool:
        """Whether a variable ranges over several types: its row ids then carry their numbers."""
        return is_mixed(self.plan.by_name[variable].type_name)

    def types_of(self, variable: str) -> tuple[str, ...]:
        """List the types that a variable ranges over."""
        return split_types(self.plan.by_name[variable].type_name)

    def number_of_node(self, type_name: str) -> int:
        """Return the number of a node type."""
        return number_types(self.snapshot.catalog, of_nodes=True).index(type_name)

    def number_of_edge(self, type_name: str) -> int:
        """Return the number of an edge type."""
        return number_types(self.snapshot.catalog, of_nodes=False).index(type_name)

    def identities(self, variable: str, row_ids: RowIds) -> RowIds:
        """Convert row ids so that they can be compared with the row ids of every variable of the kind."""
        slot = self.plan.by_name[variable]
        unmixed = not any(is_mixed(other.type_name) for other in self.plan.slots)
        if unmixed or is_mixed(slot.type_name) or slot.kind is VariableKind.EDGE:
            return row_ids
        return tag(row_ids, self.number_of_node(slot.type_name))

    def value(self, fixed: Const | ParamRef | Now) -> object:
        """Return the value of an operand that is the same for every row."""
        match fixed:
            case Const(value=value):
                return value
            case ParamRef(name=name):
                return self.params.get(name)
            case Now():
                return self.now

    def integer(self, fixed: Const | ParamRef) -> int | None:
        """Return the value of a limit, an offset or a distance."""
        value = self.value(fixed)
        return value if isinstance(value, int) else None

    def fraction(self, fixed: Const | ParamRef | None) -> float | None:
        """Return the fraction of a percentile."""
        value = None if fixed is None else self.value(fixed)
        if not isinstance(value, int | float):
            return None
        if not 0 <= value <= 1:
            raise QueryError(
                f"the fraction of percentile is a number from 0 to 1, not {value}; nothing was read",
                code="T60",
            )
        return float(value)

    def column(self, reference: Leaf, bindings: Bindings) -> pa.Array:
        """Return the values of a reference, one per row."""
        match reference:
            case PropertyRef(variable=variable, property=name):
                return self.entities(variable).values(name, bindings.columns[variable])
            case EntityRef(variable=variable):
                return self.entities(variable).id_texts(bindings.columns[variable])
            case Field(name=name):
                return bindings.values[name]

    def note(self, text: str) -> None:
        """Note the access path of the current operator, if there is a profile."""
        if self.profile is not None:
            self.profile.note(text)
