"""The extended dialect: more conditions, optional blocks, parameters as bounds."""

import pytest

from omnigraphdb.compile.checked import (
    Aggregate,
    AllOf,
    AnyOf,
    Const,
    EntityRef,
    InList,
    IsNull,
    Not,
    ParamRef,
    SortKey,
    TextMatch,
)
from tests.support.compiling import EXTENDED, diagnostics, mutation, read


def test_conditions_combine() -> None:
    found = read(
        'match { $v: Vessel  $v.dwt is null or ($v.dwt > 5 and not $v.kind in ["bulk", "roro"]) }'
        " return { $v }",
        extended=True,
    )
    (condition,) = found.pattern.conditions
    assert isinstance(condition, AnyOf)
    null, both = condition.parts
    assert isinstance(null, IsNull)
    assert isinstance(both, AllOf)
    negated = both.parts[1]
    assert isinstance(negated, Not)
    assert isinstance(negated.part, InList)
    assert isinstance(negated.part.choices, Const)
    assert negated.part.choices.value == ("bulk", "roro")


def test_a_list_parameter_gives_choices() -> None:
    found = read("match { $v: Vessel  $v.dwt in $l } return { $v }", "$l: [I32]")
    (condition,) = found.pattern.conditions
    assert isinstance(condition, InList)
    assert isinstance(condition.choices, ParamRef)


def test_a_text_clause_may_stand_inside_a_condition() -> None:
    found = read(
        'match { $v: Vessel  search($v.name, "x") or $v.dwt is not null } return { $v }',
        extended=True,
    )
    (condition,) = found.pattern.conditions
    assert isinstance(condition, AnyOf)
    assert isinstance(condition.parts[0], TextMatch)


def test_variables_of_an_optional_block_may_be_null_outside() -> None:
    found = read(
        "match { $v: Vessel  optional { $v $c:callsAt $p  $p.lat > 5 }  $p.name is null }"
        " return { $v, $p, $p.name, $c.berth } order { $p.name }",
        extended=True,
    )
    types = {c.name: str(c.type) for c in found.columns}
    assert types == {"v": "String", "p": "String?", "p.name": "String?", "c.berth": "String?"}
    (block,) = found.pattern.optionals
    assert block.outer == {"v"}
    assert {v.name for v in block.variables} == {"p", "c"}
    assert found.variables["p"].nullable
    assert not found.variables["v"].nullable
    assert [v.name for v in found.pattern.row_variables] == ["v", "p", "c"]


def test_a_missing_entity_can_be_asked_for() -> None:
    found = read(
        "match { $v: Vessel  optional { $v callsAt $p }  $p is null } return { $v }", extended=True
    )
    (condition,) = found.pattern.conditions
    assert isinstance(condition, IsNull)
    assert isinstance(condition.operand, EntityRef)


def test_optional_blocks_chain() -> None:
    found = read(
        "match { $v: Vessel  optional { $v callsAt $p }  optional { $p feeds $q } } return { $q }",
        extended=True,
    )
    assert found.pattern.optionals[1].outer == {"p"}


def test_an_optional_block_inside_a_negation_stays_local() -> None:
    found = read(
        "match { $v: Vessel  not { $v callsAt $p  optional { $p feeds $q }  $q is null } } return { $v }",
        extended=True,
    )
    (block,) = found.pattern.negations
    assert [v.name for v in block.row_variables] == ["p", "q"]


def test_bounds_may_be_integer_parameters() -> None:
    found = read(
        "match { $v: Vessel } return { $v } order { $v.name } offset $from limit $n",
        "$from: I32, $n: I64",
        extended=True,
    )
    assert isinstance(found.limit, ParamRef)
    assert isinstance(found.offset, ParamRef)


def test_groups_may_be_ordered_by_an_aggregate() -> None:
    found = read(
        "match { $v: Vessel } return { $v.kind, count($v) as n }"
        " order { count($v) desc, max($v.dwt) }",
        extended=True,
    )
    first, second = found.order
    assert first == SortKey(key="n", descending=True)
    assert isinstance(second.key, Aggregate)


def test_null_may_be_assigned_to_what_is_nullable() -> None:
    found = mutation('update Vessel set { dwt: null } where imo = "1"')
    (statement,) = found.statements
    assert statement.assignments[0].value == Const(  # type: ignore[union-attr]
        value=None,
        type=statement.assignments[0].type,  # type: ignore[union-attr]
        span=statement.assignments[0].value.span,  # type: ignore[union-attr]
    )


@pytest.mark.parametrize(
    ("code", "params", "body"),
    [
        ("T7", "", "match { $v: Vessel  $v.dwt = null } return { $v }"),
        ("T3", "", "match { $v: Vessel { dwt: null } } return { $v }"),
        ("T3", "", "delete Vessel where dwt = null"),
        ("T36", "", "match { $v: Vessel } return { null as x }"),
        ("T27", "", "match { $v: Vessel  $v.dwt in [1, null] } return { $v }"),
        ("T7", "", 'match { $v: Vessel  $v.dwt in ["a"] } return { $v }'),
        ("T7", "", "match { $v: Vessel  $v in [1] } return { $v }"),
        ("T7", "$n: I32", "match { $v: Vessel  $v.dwt in $n } return { $v }"),
        ("T24", "", "match { $v: Vessel  $v.scan is null } return { $v }"),
        ("T6", "", "match { $v: Vessel  $v.dwt > 1 or $v.x is null } return { $v }"),
        ("T9", "", "match { $v: Vessel  optional { $p: Port } } return { $v }"),
        ("T26", "", "match { $v: Vessel  optional { $v callsAt $p }  $p feeds $q } return { $v }"),
        ("T26", "", "match { $v: Vessel  optional { $v callsAt $p }  $p: Port } return { $v }"),
        ("T25", "", "match { $v: Vessel } return { $v } limit $n"),
        ("T7", "$n: F64", "match { $v: Vessel } return { $v } limit $n"),
        ("T36", "", "match { $v: Vessel } return { $v } order { count($v) }"),
        (
            "T62",
            "",
            "match { $v: Vessel } return { $v.name as n } limit 1 union match { $p: Port } return { $p.name as n }",
        ),
        ("W01", "", "insert Company { name: null }"),
        ("W01", "", 'update Port set { name: null } where code = "nowhere"'),
    ],
)
def test_the_extended_dialect_has_its_own_mistakes(code: str, params: str, body: str) -> None:
    found = diagnostics(f"{EXTENDED}query q({params}) {{ {body} }}")
    assert [d.code for d in found] == [code]


def test_comparing_with_null_offers_the_right_test() -> None:
    found = diagnostics(
        EXTENDED + "query q() { match { $v: Vessel  $v.dwt != null } return { $v } }"
    )
    assert found[0].fix == "$v.dwt is not null"
