"""Join equalities of one column in an `or` into one `in`, which an index answers at once."""

from omnigraph.catalog.types import PropertyType
from omnigraph.compile.checked import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Condition,
    Const,
    EntityRef,
    PropertyRef,
)
from omnigraph.compile.coerce import coerce_choices
from omnigraph.compile.plan.algebra import Test, all_of, any_of
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import change_tests
from omnigraph.compile.plan.visit import Reference


def merge_alternatives(plan: Plan) -> Plan:
    """Merge alternatives at every depth; the first of them keeps its place."""
    return change_tests(plan, _merge_test)


def _merge_test(test: Test) -> Test:
    match test:
        case AllOf(parts=parts):
            return all_of(map(_merge_test, parts))
        case AnyOf(parts=parts):
            return any_of(_together(tuple(map(_merge_test, parts))))
        case _:
            return test


def _together(parts: tuple[Test, ...]) -> tuple[Test, ...]:
    choices: dict[Reference, list[object]] = {}
    several: set[Reference] = set()
    kept: dict[Test | Reference, Test] = {}
    for part in parts:
        choice = _choice(part)
        if choice is None:
            kept[part] = part
            continue
        column, values = choice
        if column in choices:
            several.add(column)
        choices.setdefault(column, []).extend(values)
        kept.setdefault(column, part)
    for column in several:
        kept[column] = _among(column, tuple(choices[column]))
    return tuple(kept.values())


def _choice(test: Test) -> tuple[Reference, tuple[object, ...]] | None:
    match test:
        case Compare(left=(PropertyRef() | EntityRef()) as column, op="=", right=Const(value=one)):
            return column, (one,)
        case Among(
            operand=(PropertyRef() | EntityRef()) as column, choices=Const(value=tuple() as values)
        ):
            return column, values
        case _:
            return None


def _among(column: Reference, values: tuple[object, ...]) -> Condition:
    kind = PropertyType(scalar=column.type.scalar, is_list=True)
    return Among(
        operand=column, choices=Const(value=coerce_choices(values, column.type), type=kind)
    )
