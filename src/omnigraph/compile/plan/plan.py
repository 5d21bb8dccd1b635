"""A compiled read: what to do, in which order, with nothing done yet."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from omnigraph.catalog.types import PropertyType
from omnigraph.compile.checked import Parameter, VariableKind
from omnigraph.compile.plan.explain import explain
from omnigraph.compile.plan.lookup import Lookup, lookup_of
from omnigraph.compile.plan.operators import Operator, Output, Project, execution_order
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A variable of the plan. Names are unique over all nested blocks.

    `key` is the one String property whose value is also the id; `optional` variables may be NULL.
    """

    name: str
    kind: VariableKind
    type_name: str
    anonymous: bool = False
    optional: bool = False
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A read query as a tree of operators: a value that can be compared, hashed, cached and sent."""

    name: str
    params: tuple[Parameter, ...]
    slots: tuple[Slot, ...]
    root: Project

    @property
    def columns(self) -> tuple[Output, ...]:
        """The columns of the result."""
        return self.root.columns

    @cached_property
    def types(self) -> tuple[PropertyType, ...]:
        """The types of the columns of the result."""
        return tuple(one.type for one in self.columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """The declared types of the result, whatever its rows."""
        return pa.schema([pa.field(one.name, one.type.arrow) for one in self.columns])

    @cached_property
    def arrow_types(self) -> tuple[pa.DataType, ...]:
        """The declared types of the columns of the result."""
        return tuple(self.schema.types)

    @cached_property
    def lookup(self) -> Lookup | None:
        """The plan as a lookup, if it is no more than that."""
        return lookup_of(self.root)

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """All operators in execution order, those of nested blocks included."""
        return tuple(execution_order(self.root))

    @cached_property
    def by_name(self) -> dict[str, Slot]:
        """The variables by name."""
        return {slot.name: slot for slot in self.slots}

    @cached_property
    def text(self) -> str:
        """The readable tree."""
        return explain(self)

    def __str__(self) -> str:
        return self.text

    def with_root(self, change: Callable[[Operator], Operator]) -> "Plan":
        """The same plan over a changed tree; the root stays a projection."""
        root = change(self.root)
        if root is self.root:
            return self
        assert isinstance(root, Project), "a rule may not replace the final projection"
        return replace(self, root=root)
