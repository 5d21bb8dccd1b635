"""Algebra of conditions: the names that they mention, their negations and combinations; three-valued throughout."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraphdb.compile.checked import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Const,
    InList,
    IsNull,
    Not,
    Now,
    Operand,
    ParamRef,
    TextMatch,
)
from omnigraphdb.language.query.tree import Comparison
from omnigraphdb.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Always:
    """Keep every row, or none; stands alone, never inside another condition."""

    value: bool


Test = Condition | Always
"""A condition in the place of a filter, where unknown and false are the same: the row is not kept."""

NEVER = Always(False)

FLIPPED: dict[Comparison, Comparison] = {
    "=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
"""The comparison that says the same with its operands exchanged."""

_INVERTED: dict[Comparison, Comparison] = {
    "=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip


def all_of(parts: Iterable[Test]) -> Test:
    """Conjoin tests: flat, each once, `Always` absorbed."""
    conditions: dict[Condition, None] = {}
    for part in parts:
        match part:
            case Always(value=False):
                return part
            case Always():
                continue
            case AllOf(parts=inner):
                conditions |= dict.fromkeys(inner)
            case _:
                conditions[part] = None
    if len(conditions) > 1:
        return AllOf(parts=tuple(conditions))
    return next(iter(conditions), Always(True))


def any_of(parts: Iterable[Test]) -> Test:
    """Disjoin tests: flat, each once, `Always` absorbed."""
    conditions: dict[Condition, None] = {}
    for part in parts:
        match part:
            case Always(value=True):
                return part
            case Always():
                continue
            case AnyOf(parts=inner):
                conditions |= dict.fromkeys(inner)
            case _:
                conditions[part] = None
    if len(conditions) > 1:
        return AnyOf(parts=tuple(conditions))
    return next(iter(conditions), NEVER)


def split_conjunction(test: Test) -> tuple[Test, ...]:
    """Split a conjunction into its parts; a test that always holds has no parts."""
    match test:
        case Always(value=True):
            return ()
        case AllOf(parts=parts):
            return tuple(inner for part in parts for inner in split_conjunction(part))
        case _:
            return (test,)


def is_present(operand: Operand) -> IsNull:
    """Say that an operand has a value."""
    return IsNull(operand=operand, negated=True)


def push_down_negations(condition: Condition) -> Condition:
    """Move every `not` down to a single test, or into its operator."""
    match condition:
        case Not(part=part):
            return _negate(part)
        case AllOf(parts=parts):
            return AllOf(parts=tuple(push_down_negations(part) for part in parts))
        case AnyOf(parts=parts):
            return AnyOf(parts=tuple(push_down_negations(part) for part in parts))
        case _:
            return condition


def _negate(condition: Condition) -> Condition:
    match condition:
        case Not(part=part):
            return push_down_negations(part)
        case AllOf(parts=parts):
            return AnyOf(parts=tuple(_negate(part) for part in parts))
        case AnyOf(parts=parts):
            return AllOf(parts=tuple(_negate(part) for part in parts))
        case Compare(op=op) if op in _INVERTED:
            return replace(condition, op=_INVERTED[op])
        case IsNull(negated=negated):
            return replace(condition, negated=not negated)
        case Compare() | InList() | TextMatch():
            return Not(part=condition)
        case _:
            assert_never(condition)


def negate_test(condition: Condition) -> Test:
    """Return a test for the rows that a condition does not keep: where it is false, or unknown."""
    match push_down_negations(condition):
        case AllOf(parts=parts):
            return any_of(negate_test(part) for part in parts)
        case AnyOf(parts=parts):
            return all_of(negate_test(part) for part in parts)
        case IsNull() as leaf:
            return _negate(leaf)
        case InList(choices=Const(value=())):
            return Always(True)
        case Not(part=InList(choices=Const(value=()))):
            return NEVER
        case InList(choices=Const(value=tuple() as values) as choices) as leaf if None in values:
            # A NULL choice never makes the test true, so leaving it out changes nothing here.
            non_null = replace(choices, value=tuple(value for value in values if value is not None))
            return negate_test(replace(leaf, choices=non_null))
        case Not(part=InList(choices=Const(value=tuple() as values))) if None in values:
            return Always(True)
        case leaf:
            return any_of((_negate(leaf), *_missing(leaf)))


def may_be_empty(test: Test) -> bool:
    """Tell whether a test excludes a list that may be empty: NULL is not in an empty one, and unknown in any other."""
    match test:
        case Not(part=Compare(left=left, op="contains", right=right)):
            is_known = isinstance(right, Const) and right.value is not None
            return left.type.is_list and not is_known
        case Not(part=InList(choices=choices)):
            return not isinstance(choices, Const)
        case Not(part=AllOf() | AnyOf() | Not()):
            return may_be_empty(push_down_negations(test))
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return any(may_be_empty(part) for part in parts)
        case _:
            return False


def _missing(leaf: Condition) -> Iterator[IsNull]:
    for operand in list_operands(leaf):
        if not isinstance(operand, Const) or operand.value is None:
            yield IsNull(operand=operand, negated=False)


def list_operands(condition: Condition) -> Iterator[Operand]:
    """List the operands of a condition, in reading order."""
    match condition:
        case Compare(left=left, right=right):
            yield from (left, right)
        case IsNull(operand=operand):
            yield operand
        case InList(operand=operand, choices=choices):
            yield from (operand, choices)
        case TextMatch(field=field, query=query):
            yield from (field, query)
        case Not(part=part):
            yield from list_operands(part)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from list_operands(part)
        case _:
            assert_never(condition)


def is_fixed(operand: Operand) -> bool:
    """Tell whether an operand is a value that is the same for every row."""
    return isinstance(operand, Const | ParamRef | Now)
