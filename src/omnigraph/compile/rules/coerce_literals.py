"""Give every constant the exact type of the column it meets, so that an index stays usable."""

from dataclasses import replace

from omnigraph.catalog.types import PropertyType
from omnigraph.compile.checked import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Condition,
    Const,
    EntityRef,
    Not,
    PropertyRef,
)
from omnigraph.compile.coerce import Either, Exact, Settled, coerce, coerce_choices
from omnigraph.compile.plan.algebra import FLIPPED, NEVER, Always, Test, all_of, any_of, is_present
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.rebuild import change_tests
from omnigraph.compile.plan.visit import Reference


def coerce_literals(plan: Plan) -> Plan:
    """Rewrite comparisons with the column on the left and its own type on the right."""
    return change_tests(plan, coerce_test)


def coerce_test(test: Test) -> Test:
    """Rewrite one test in which only single tests are negated."""
    match test:
        case AllOf(parts=parts):
            return all_of(map(coerce_test, parts))
        case AnyOf(parts=parts):
            return any_of(map(coerce_test, parts))
        case Not(part=part):
            return _leaf(part, negated=True)
        case Always():
            return test
        case _:
            return _leaf(test, negated=False)


def _leaf(leaf: Condition, *, negated: bool) -> Test:
    match leaf:
        case Compare(left=left, op=op, right=(PropertyRef() | EntityRef()) as right) if (
            op in FLIPPED and not isinstance(left, PropertyRef | EntityRef)
        ):
            return _leaf(Compare(left=right, op=FLIPPED[op], right=left), negated=negated)
        case Compare(left=(PropertyRef() | EntityRef()) as column, right=Const() as constant):
            return _coerce_comparison(leaf, column, constant, negated=negated)
        case Among(operand=(PropertyRef() | EntityRef()) as column, choices=Const() as constant):
            return _coerce_choice(leaf, column, constant, negated=negated)
        case _:
            return _polar(leaf, negated=negated)


def _polar(leaf: Condition, *, negated: bool) -> Condition:
    return Not(part=leaf) if negated else leaf


def _coerce_comparison(leaf: Compare, column: Reference, constant: Const, *, negated: bool) -> Test:
    match coerce(leaf.op, constant.value, column.type):
        case Exact() as exact:
            return _polar(_exact(leaf, column, exact), negated=negated)
        case Either(first=exact):
            # The two zeros are equal constants: a reader of the list calls `coerce` for both again.
            return _polar(_exact(leaf, column, exact), negated=negated)
        case Settled() as answer:
            return _keep_present(answer, column, negated=negated)


def _exact(leaf: Compare, column: Reference, exact: Exact) -> Compare:
    typed = Const(value=exact.value, type=_item(column.type))
    return replace(leaf, left=column, op=exact.op, right=typed)


def _item(column: PropertyType) -> PropertyType:
    return PropertyType(scalar=column.scalar)


def _keep_present(answer: Settled, column: Reference, *, negated: bool) -> Test:
    """Keep every row with a value, or none: where there is no value, the test is unknown."""
    wanted = Settled.FALSE if negated else Settled.TRUE
    return is_present(column) if answer is wanted else NEVER


def _coerce_choice(leaf: Among, column: Reference, constant: Const, *, negated: bool) -> Test:
    if not isinstance(constant.value, tuple):
        return NEVER
    if not constant.value:
        # Nothing is in an empty list, not even NULL.
        return Always(negated)
    choices = coerce_choices(constant.value, column.type)
    if negated and None in constant.value:
        return NEVER
    if not choices:
        return _keep_present(Settled.FALSE, column, negated=negated)
    typed = Const(value=choices, type=PropertyType(scalar=column.type.scalar, is_list=True))
    return _polar(replace(leaf, choices=typed), negated=negated)
