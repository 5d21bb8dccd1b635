"""Decide every test whose outcome is the same for all rows."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.compile.checked import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Condition,
    Const,
    EntityRef,
    IsNull,
    Not,
    Operand,
    PropertyRef,
)
from omnigraph.compile.coerce import Settled
from omnigraph.compile.plan.algebra import NEVER, Always, Test, all_of, any_of
from omnigraph.compile.plan.plan import Plan, Slot
from omnigraph.compile.plan.rebuild import change_tests
from omnigraph.language.query.tree import Comparison

_COMPARE: dict[Comparison, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
    "starts_with": str.startswith,
}


def fold_constants(plan: Plan) -> Plan:
    """Drop what always holds, and let one test that never does decide its whole conjunction."""
    slots = plan.by_name
    return change_tests(plan, lambda test: fold_test(test, slots))


def fold_test(test: Test, slots: Mapping[str, Slot]) -> Test:
    """Decide the constant parts of one test in which only single tests are negated."""
    match test:
        case AllOf(parts=parts):
            return all_of(fold_test(part, slots) for part in parts)
        case AnyOf(parts=parts):
            return any_of(fold_test(part, slots) for part in parts)
        case Always():
            return test
        case Not(part=part):
            return _make_decided(test, _answer(part, slots), Settled.FALSE)
        case _:
            return _make_decided(test, _answer(test, slots), Settled.TRUE)


def _make_decided(test: Test, answer: Settled | None, wanted: Settled) -> Test:
    if answer is None:
        return test
    return Always(True) if answer is wanted else NEVER


def _answer(leaf: Condition, slots: Mapping[str, Slot]) -> Settled | None:
    match leaf:
        case Compare(left=Const(value=left), op=op, right=Const(value=right)):
            return _compare_constants(left, op, right)
        case Among(choices=Const(value=())):
            return Settled.FALSE
        case Among(operand=Const(value=value), choices=Const(value=choices)):
            return _among(value, choices)
        case IsNull(operand=Const(value=value), negated=negated):
            return _truth((value is None) != negated)
        case IsNull(operand=operand, negated=negated) if _is_never_null(operand, slots):
            return _truth(negated)
        case _:
            return None


def _truth(value: bool) -> Settled:
    return Settled.TRUE if value else Settled.FALSE


def _compare_constants(left: object, op: Comparison, right: object) -> Settled:
    if left is None or right is None:
        return Settled.UNKNOWN
    return _truth(_COMPARE[op](left, right))


def _among(value: object, choices: object) -> Settled:
    if value is None or not isinstance(choices, tuple):
        return Settled.UNKNOWN
    if value in choices:
        return Settled.TRUE
    return Settled.UNKNOWN if None in choices else Settled.FALSE


def _is_never_null(operand: Operand, slots: Mapping[str, Slot]) -> bool:
    match operand:
        case PropertyRef(variable=variable, type=kind) | EntityRef(variable=variable, type=kind):
            always = isinstance(operand, EntityRef) or not kind.nullable
            return always and not slots[variable].optional
        case _:
            return False
