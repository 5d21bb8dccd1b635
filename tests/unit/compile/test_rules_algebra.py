"""Conditions keep their three-valued meaning when they are negated, combined, coerced and folded."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Const,
    InList,
    IsNull,
    Not,
    PropertyRef,
    TextMatch,
    VariableKind,
)
from omnigraphdb.compile.plan.algebra import (
    NEVER,
    Always,
    Test,
    all_of,
    any_of,
    negate_test,
    push_down_negations,
    split_conjunction,
)
from omnigraphdb.compile.plan.plan import Slot
from omnigraphdb.compile.plan.visit import variables_of
from omnigraphdb.compile.rules.predicates import coerce_test, fold_test
from omnigraphdb.language.query.tree import Comparison
from tests.support.query_model import Row, truth

INTEGER = PropertyType(scalar=Scalar.I32, nullable=True)
REQUIRED = PropertyType(scalar=Scalar.U32)
TEXT = PropertyType(scalar=Scalar.STRING, nullable=True)
NUMBERS = PropertyType(scalar=Scalar.F64, is_list=True, nullable=True)
ORDERED: tuple[Comparison, ...] = ("=", "!=", "<", "<=", ">", ">=")
SLOTS = {"v": Slot(name="v", kind=VariableKind.NODE, type_name="Vessel")}


def column(name: str, kind: PropertyType) -> PropertyRef:
    return PropertyRef(variable="v", property=name, type=kind)


def constant(value: object, kind: PropertyType = INTEGER) -> Const:
    return Const(value=value, type=kind)


numeric_columns = st.sampled_from([column("dwt", INTEGER), column("crew", REQUIRED)])
numbers = st.sampled_from([None, 0, 1, 2, 1.0, 1.5, -1, 2**40, -(2**40)]).map(constant)
either_number = st.one_of(numeric_columns, numbers)
texts = st.sampled_from([None, "", "a", "ab"]).map(lambda text: constant(text, TEXT))
name = column("name", TEXT)
marks = column("marks", NUMBERS)
choices = st.lists(st.sampled_from([None, 0, 1, 2.0, 2.5, 2**40]), max_size=3).map(
    lambda found: constant(tuple(found), PropertyType(scalar=Scalar.I64, is_list=True))
)

leaves: st.SearchStrategy[Condition] = st.one_of(
    st.builds(
        Compare,
        left=either_number,
        op=st.sampled_from(ORDERED),
        right=either_number,
    ),
    st.builds(
        Compare, left=st.just(name), op=st.sampled_from(["contains", "starts_with"]), right=texts
    ),
    st.builds(Compare, left=texts, op=st.just("contains"), right=st.just(name)),
    st.builds(Compare, left=st.just(marks), op=st.just("contains"), right=numbers),
    st.builds(InList, operand=either_number, choices=choices),
    st.builds(IsNull, operand=st.one_of(either_number, st.just(name)), negated=st.booleans()),
    st.builds(
        TextMatch,
        function=st.just("search"),
        field=st.just(name),
        query=st.just(constant("a", TEXT)),
    ),
)
conditions: st.SearchStrategy[Condition] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, part=inner),
        st.builds(AllOf, parts=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, parts=st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
rows: st.SearchStrategy[Row] = st.fixed_dictionaries(
    {
        "dwt": st.sampled_from([None, 0, 1, 2, -1]),
        "crew": st.sampled_from([0, 1, 2]),
        "name": st.sampled_from([None, "", "a", "abc"]),
        "marks": st.sampled_from([None, (), (0.0,), (-0.0, 1.0), (2.5,)]),
    }
).map(lambda entity: {"v": entity})


VALUES = (None, 0, 1, 2, 1.0, 1.5, -0.5, -1, 2**40, -(2**40))
STORED = (None, -1, 0, 1, 2, 5)


def kept(test: Test, row: Row) -> bool:
    return truth(test, row, {}) is True


@given(conditions, rows)
def test_moving_negations_down_changes_no_answer(condition: Condition, row: Row) -> None:
    assert truth(push_down_negations(condition), row, {}) is truth(condition, row, {})


@given(conditions)
def test_after_moving_down_only_single_tests_are_negated(condition: Condition) -> None:
    def negates_a_leaf(part: Any) -> bool:
        match part:
            case Not(part=inner):
                return isinstance(inner, Compare | InList | TextMatch)
            case AllOf(parts=parts) | AnyOf(parts=parts):
                return all(map(negates_a_leaf, parts))
            case _:
                return True

    assert negates_a_leaf(push_down_negations(condition))


@given(conditions, rows)
def test_unless_keeps_exactly_what_the_condition_does_not(condition: Condition, row: Row) -> None:
    assert kept(negate_test(condition), row) is not kept(condition, row)


@given(conditions, rows)
def test_coercing_and_folding_keep_the_same_rows(condition: Condition, row: Row) -> None:
    plain = push_down_negations(condition)
    assert kept(coerce_test(plain), row) is kept(condition, row)
    assert kept(fold_test(plain, SLOTS), row) is kept(condition, row)
    assert kept(fold_test(coerce_test(plain), SLOTS), row) is kept(condition, row)


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("op", ORDERED)
def test_a_comparison_may_be_written_either_way_round(op: Comparison, negated: bool) -> None:
    dwt = column("dwt", INTEGER)
    for value, stored in itertools.product(VALUES, STORED):
        row: Row = {"v": {"dwt": stored}}
        for left, right in ((dwt, constant(value)), (constant(value), dwt)):
            leaf = Compare(left=left, op=op, right=right)
            test = Not(part=leaf) if negated else leaf
            assert kept(coerce_test(test), row) is kept(test, row)


@pytest.mark.parametrize("negated", [False, True])
def test_an_in_list_keeps_its_meaning_whatever_it_holds(negated: bool) -> None:
    for stored, size in itertools.product(STORED, range(3)):
        for values in itertools.product((None, 0, 1, 2.0, 2.5, 2**40), repeat=size):
            leaf = InList(operand=column("dwt", INTEGER), choices=constant(values))
            test = Not(part=leaf) if negated else leaf
            row: Row = {"v": {"dwt": stored}}
            assert kept(coerce_test(test), row) is kept(test, row)


@given(conditions, rows)
def test_coercing_and_folding_twice_is_as_good_as_once(condition: Condition, row: Row) -> None:
    once = fold_test(coerce_test(push_down_negations(condition)), SLOTS)
    assert fold_test(coerce_test(once), SLOTS) == once


@given(st.lists(conditions, max_size=4), rows)
def test_combining_and_splitting_keep_the_same_rows(parts: list[Condition], row: Row) -> None:
    assert kept(all_of(parts), row) is all(kept(part, row) for part in parts)
    assert kept(any_of(parts), row) is any(kept(part, row) for part in parts)
    assert all(kept(part, row) for part in split_conjunction(all_of(parts))) is kept(
        all_of(parts), row
    )


def test_what_never_holds_decides_a_conjunction_and_what_always_does_vanishes() -> None:
    test = IsNull(operand=name, negated=False)
    assert all_of((test, NEVER)) == NEVER
    assert all_of((test, Always(True))) == test
    assert any_of((test, Always(True))) == Always(True)
    assert any_of((test, NEVER)) == test
    assert all_of(()) == Always(True)
    assert any_of(()) == NEVER


def test_a_missing_optional_entity_is_not_decided_away() -> None:
    optional = {"v": Slot(name="v", kind=VariableKind.NODE, type_name="Vessel", optional=True)}
    test = IsNull(operand=column("crew", REQUIRED), negated=False)
    assert fold_test(test, SLOTS) == NEVER
    assert fold_test(test, optional) == test


def test_a_test_names_the_variables_it_depends_on() -> None:
    other = PropertyRef(variable="w", property="crew", type=REQUIRED)
    assert variables_of(Compare(left=column("crew", REQUIRED), op="<", right=other)) == {"v", "w"}
    assert variables_of(NEVER) == frozenset()
