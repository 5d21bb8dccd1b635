"""Rewrites of predicates: negations, keys, types, constants and alternatives."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from omnigraphdb.catalog.mixed import is_mixed
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.compile.checked import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Const,
    EntityRef,
    InList,
    IsNull,
    Not,
    Operand,
    PropertyRef,
)
from omnigraphdb.compile.coerce import ConstantTruth, Either, Exact, coerce, coerce_choices
from omnigraphdb.compile.plan.algebra import (
    FLIPPED,
    NEVER,
    Always,
    Test,
    all_of,
    any_of,
    is_present,
    may_be_empty,
    negate_test,
    push_down_negations,
)
from omnigraphdb.compile.plan.operators import Anti, Argument, Filter, Operator
from omnigraphdb.compile.plan.plan import Plan, Slot, add_filter, change_leaves, change_tests
from omnigraphdb.compile.plan.visit import Change, Reference, rewrite
from omnigraphdb.language.query.tree import Comparison
from omnigraphdb.values import replace

_COMPARE: dict[Comparison, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}

# ---- negations
# Move every `not` down to a single test, where an index or the opposite operator can answer it.


def push_negations(plan: Plan) -> Plan:
    """Apply de Morgan's laws, which hold for unknown too, until only single tests are negated."""
    return change_tests(plan, _push_test)


def _push_test(test: Test) -> Test:
    return test if isinstance(test, Always) else push_down_negations(test)


# ---- negated blocks
# Turn a negated block that only tests outer variables into a filter, which can go down to a scan.


def negations_to_filters(plan: Plan) -> Plan:
    """Replace `not { tests }` by the test that they are not all true: some are false or unknown."""
    return plan.with_root(lambda root: rewrite(root, _as_filter))


def _as_filter(operator: Operator) -> Operator:
    match operator:
        case Anti(input=below, inner=Filter(input=Argument(), conditions=tests)) if not any(
            may_be_empty(test) for test in tests
        ):
            return add_filter(below, (_refute(tests),))
        case _:
            return operator


def _refute(tests: tuple[Test, ...]) -> Test:
    test = all_of(tests)
    return Always(not test.value) if isinstance(test, Always) else negate_test(test)


# ---- keys
# Read the id of an entity as the entity itself, and so a single String key, which is equal to the id: the id always has
# an index.


def keys_to_ids(plan: Plan) -> Plan:
    """Replace every read of an id or of such a key, in tests, order and result alike."""
    slots = plan.by_name
    change = Change(
        reference=lambda leaf: _replace_key(leaf, slots),
        keeps=lambda test: _compares_texts(test, slots),
    )
    return change_leaves(plan, change)


def _compares_texts(test: Compare, slots: Mapping[str, Slot]) -> bool:
    """Whether two keys are compared as texts: two ids would be compared as entities, which only are equal or not."""
    left, right = (_find_entity(side, slots) for side in (test.left, test.right))
    if left is None or right is None:
        return False
    types = {
        (slot.kind, slot.type_name) for slot in (slots[side.variable] for side in (left, right))
    }
    return test.op not in ("=", "!=") or len(types) > 1


def _find_entity(side: Operand, slots: Mapping[str, Slot]) -> EntityRef | None:
    entity = _replace_key(side, slots) if isinstance(side, Reference) else None
    return entity if isinstance(entity, EntityRef) else None


def _replace_key(leaf: Reference, slots: Mapping[str, Slot]) -> Reference:
    match leaf:
        case PropertyRef(variable=variable, property=name) if _is_id(name, slots[variable]):
            return EntityRef(variable=variable, type=leaf.type)
        case _:
            return leaf


def _is_id(name: str, slot: Slot) -> bool:
    """Whether a column tells the entities of a variable apart; equal ids of two types do not."""
    return slot.key == name or (name == "id" and not is_mixed(slot.type_name))


# ---- types of literals
# Give every constant the exact type of the column it meets, so that an index stays usable.


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
        case InList(operand=(PropertyRef() | EntityRef()) as column, choices=Const() as constant):
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
        case ConstantTruth() as answer:
            return _keep_present(answer, column, negated=negated)


def _exact(leaf: Compare, column: Reference, exact: Exact) -> Compare:
    typed = Const(value=exact.value, type=_item(column.type))
    return replace(leaf, left=column, op=exact.op, right=typed)


def _item(column: PropertyType) -> PropertyType:
    return PropertyType(scalar=column.scalar)


def _keep_present(answer: ConstantTruth, column: Reference, *, negated: bool) -> Test:
    """Keep every row with a value, or no row: without a value, the test is unknown."""
    passing = ConstantTruth.FALSE if negated else ConstantTruth.TRUE
    return is_present(column) if answer is passing else NEVER


def _coerce_choice(leaf: InList, column: Reference, constant: Const, *, negated: bool) -> Test:
    if not isinstance(constant.value, tuple):
        return NEVER
    if not constant.value:
        # Nothing is in an empty list, not even NULL.
        return Always(negated)
    choices = coerce_choices(constant.value, column.type)
    if negated and None in constant.value:
        return NEVER
    if not choices:
        return _keep_present(ConstantTruth.FALSE, column, negated=negated)
    typed = Const(value=choices, type=PropertyType(scalar=column.type.scalar, is_list=True))
    return _polar(replace(leaf, choices=typed), negated=negated)


# ---- constant tests
# Decide every test whose outcome is the same for all rows.


def fold_constants(plan: Plan) -> Plan:
    """Drop tests that always hold, and let one test that never holds decide its whole conjunction."""
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
            return _make_decided(test, _answer(part, slots), ConstantTruth.FALSE)
        case _:
            return _make_decided(test, _answer(test, slots), ConstantTruth.TRUE)


def _make_decided(test: Test, answer: ConstantTruth | None, passing: ConstantTruth) -> Test:
    if answer is None:
        return test
    return Always(True) if answer is passing else NEVER


def _answer(leaf: Condition, slots: Mapping[str, Slot]) -> ConstantTruth | None:
    match leaf:
        case Compare(left=Const(value=left), op=op, right=Const(value=right)) if op in _COMPARE:
            return _compare_constants(left, op, right)
        case InList(choices=Const(value=())):
            return ConstantTruth.FALSE
        case InList(operand=Const(value=value), choices=Const(value=choices)):
            return _answer_membership(value, choices)
        case IsNull(operand=Const(value=value), negated=negated):
            return _truth((value is None) != negated)
        case IsNull(operand=operand, negated=negated) if _is_never_null(operand, slots):
            return _truth(negated)
        case _:
            return None


def _truth(value: bool) -> ConstantTruth:
    return ConstantTruth.TRUE if value else ConstantTruth.FALSE


def _compare_constants(left: object, op: Comparison, right: object) -> ConstantTruth:
    if left is None or right is None:
        return ConstantTruth.UNKNOWN
    return _truth(_COMPARE[op](left, right))


def _answer_membership(value: object, choices: object) -> ConstantTruth:
    if value is None or not isinstance(choices, tuple):
        return ConstantTruth.UNKNOWN
    if value in choices:
        return ConstantTruth.TRUE
    return ConstantTruth.UNKNOWN if None in choices else ConstantTruth.FALSE


def _is_never_null(operand: Operand, slots: Mapping[str, Slot]) -> bool:
    match operand:
        case PropertyRef(variable=variable, type=kind) | EntityRef(variable=variable, type=kind):
            always = isinstance(operand, EntityRef) or not kind.nullable
            return always and not slots[variable].optional
        case _:
            return False


# ---- alternatives
# Join equalities of one column in an `or` into one `in`, which an index answers at once.


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
    tests: dict[Test | Reference, Test] = {}
    for part in parts:
        choice = _choice(part)
        if choice is None:
            tests[part] = part
            continue
        column, values = choice
        if column in choices:
            several.add(column)
        choices.setdefault(column, []).extend(values)
        tests.setdefault(column, part)
    for column in several:
        tests[column] = _make_membership(column, tuple(choices[column]))
    return tuple(tests.values())


def _choice(test: Test) -> tuple[Reference, tuple[object, ...]] | None:
    match test:
        case Compare(left=(PropertyRef() | EntityRef()) as column, op="=", right=Const(value=one)):
            return column, (one,)
        case InList(
            operand=(PropertyRef() | EntityRef()) as column, choices=Const(value=tuple() as values)
        ):
            return column, values
        case _:
            return None


def _make_membership(column: Reference, values: tuple[object, ...]) -> Condition:
    kind = PropertyType(scalar=column.type.scalar, is_list=True)
    return InList(
        operand=column, choices=Const(value=coerce_choices(values, column.type), type=kind)
    )
