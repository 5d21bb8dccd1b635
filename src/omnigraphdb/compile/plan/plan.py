"""A query plan: its operators, its bindings, and whether it is a lookup by id."""

from collections.abc import Callable, Iterable
from functools import cached_property

import pyarrow as pa

from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.compile.checked import Parameter, VariableKind
from omnigraphdb.compile.plan.algebra import Test, all_of, split_conjunction
from omnigraphdb.compile.plan.explain import explain
from omnigraphdb.compile.plan.lookup import Lookup, find_lookup
from omnigraphdb.compile.plan.operators import Filter, Operator, Output, Project, Scan
from omnigraphdb.compile.plan.visit import Change, change_part, execution_order, rewrite
from omnigraphdb.values import dataclass, replace


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

    @property
    def is_hidden(self) -> bool:
        """Whether a row cannot be named by it: it has no name of its own, or no id."""
        return self.anonymous or self.kind is VariableKind.PATH


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
        return tuple(column.type for column in self.columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """The declared types of the result; they do not depend on its rows."""
        return pa.schema([pa.field(column.name, column.type.arrow) for column in self.columns])

    @cached_property
    def arrow_types(self) -> tuple[pa.DataType, ...]:
        """The declared types of the columns of the result."""
        return tuple(self.schema.types)

    @cached_property
    def lookup(self) -> Lookup | None:
        """The plan as a lookup, if it is no more than that."""
        return find_lookup(self.root)

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
        return explain(self.name, self.params, self.root)

    def __str__(self) -> str:
        return self.text

    def with_root(self, change: Callable[[Operator], Operator]) -> "Plan":
        """Return the same plan over a changed tree; the root stays a projection."""
        root = change(self.root)
        if root is self.root:
            return self
        assert isinstance(root, Project), "a rule may not replace the final projection"
        return replace(self, root=root)


# ---- changing
# Changing plans: all tests, or all expressions; unchanged parts stay shared.


def add_filter(operator: Operator, tests: Iterable[Test]) -> Operator:
    """Put a filter on an operator, unless there is nothing to test."""
    conditions = split_conjunction(all_of(tests))
    return Filter(operator, conditions) if conditions else operator


def change_tests(plan: Plan, change: Callable[[Test], Test]) -> Plan:
    """Change every test of the filters and scans; filters left without one disappear."""

    def visit(operator: Operator) -> Operator:
        match operator:
            case Filter(input=below, conditions=tests):
                changed = _conjoin(tests, change)
                return operator if changed == tests else add_filter(below, changed)
            case Scan(filter=tests):
                changed = _conjoin(tests, change)
                return operator if changed == tests else replace(operator, filter=changed)
            case _:
                return operator

    return plan.with_root(lambda root: rewrite(root, visit))


def _conjoin(tests: tuple[Test, ...], change: Callable[[Test], Test]) -> tuple[Test, ...]:
    return split_conjunction(all_of(map(change, tests))) if tests else tests


def _itself(test: Test) -> Test:
    return test


def change_leaves(plan: Plan, change: Change, simplify: Callable[[Test], Test] = _itself) -> Plan:
    """Change every leaf of every expression of the plan, and simplify the tests that this changes."""

    def visit(operator: Operator) -> Operator:
        changed = change_part(operator, change)
        match operator, changed:
            case Filter(input=below, conditions=tests), Filter(conditions=new) if new is not tests:
                return add_filter(below, _simplify(tests, new, simplify))
            case Scan(filter=tests), Scan(filter=new) if new is not tests:
                return replace(changed, filter=_simplify(tests, new, simplify))
            case _:
                return changed

    return plan.with_root(lambda root: rewrite(root, visit))


def _simplify(
    old: tuple[Test, ...], new: tuple[Test, ...], simplify: Callable[[Test], Test]
) -> tuple[Test, ...]:
    """Conjoin tests; changed tests are simplified first."""
    pairs = zip(new, old, strict=True)
    return split_conjunction(
        all_of(test if test is before else simplify(test) for test, before in pairs)
    )
