"""The reader of one query: a snapshot with its caches, parameter values and one instant."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

import numpy as np
import pyarrow as pa

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
from omnigraph.compile.plan.plan import Plan
from omnigraph.embedding.services import Embedder, LazyEmbedder
from omnigraph.engine.cached.traversal import Traversal, traversal_of
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.columns.entities import Entities
from omnigraph.engine.read.columns.row_ids import RowIds
from omnigraph.engine.read.profile import Profile
from omnigraph.engine.read.snapshot_tables import SnapshotTables
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class Scored:
    """Entities in the order of a ranking, with their scores."""

    row_ids: RowIds
    scores: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """What one query reads from; it does not change while the query runs."""

    plan: Plan
    snapshot: SnapshotTables
    params: Mapping[str, object]
    now: datetime
    embedder: Embedder = field(default_factory=LazyEmbedder)
    traversal: Traversal = field(default_factory=traversal_of)
    profile: Profile | None = None
    scored: dict[Ranking, Scored] = field(default_factory=dict)
    """The scores of `Rank`: a fused score cannot be computed from the remaining rows alone."""

    def entities(self, variable: str) -> Entities:
        """The entities that a variable ranges over."""
        slot = self.plan.by_name[variable]
        match slot.kind:
            case VariableKind.NODE:
                return self.snapshot.nodes(slot.type_name)
            case VariableKind.EDGE:
                return self.snapshot.edges(slot.type_name)

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
                return repeat_value(self.value(operand), operand.type, bindings.rows)

    def note(self, text: str) -> None:
        """Note the access path of the current operator, if there is a profile."""
        if self.profile is not None:
            self.profile.note(text)


def repeat_value(value: object, type_: PropertyType, rows: int) -> pa.Array:
    """Repeat one value as a column."""
    one = to_arrow([value], type_)
    return one.take(pa.array(np.zeros(rows, dtype=np.int64)))
