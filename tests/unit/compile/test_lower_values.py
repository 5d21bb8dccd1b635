"""Plans are values: equal for equal queries, hashable, picklable, and filled without being changed."""

import pickle
from datetime import UTC, datetime

import pytest

from omnigraphdb.compile.checked import Const, Now, ParamRef
from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.plan.operators import Expand, Rank, Scan, Slice
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.compile.rules import RULES, fill, optimize
from tests.support.plan_fixtures import PlanCase, cases, checked_read, harbour

INSTANT = datetime(2026, 2, 1, tzinfo=UTC)


def plan_of(text: str) -> Plan:
    return optimize(lower(checked_read(text), harbour()))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_plan_is_hashable_survives_the_trip_to_a_worker_and_stays_as_it_is(
    case: PlanCase,
) -> None:
    plan = optimize(lower(case.read, harbour()))
    again = optimize(lower(case.read, harbour()))
    assert plan == again
    assert hash(plan) == hash(again)
    assert pickle.loads(pickle.dumps(plan)) == plan
    for rule in RULES:
        assert rule(plan) == plan, f"{rule.__name__} is not finished with its own result"


def test_the_layout_of_the_text_is_not_part_of_the_plan() -> None:
    tight = 'query q() { match { $v: Vessel { kind: "bulk" } $v callsAt $p } return { $p.name } order { $p.name } }'
    loose = tight.replace(" ", "\n   ").replace("match", "// a comment\n match")
    assert plan_of(tight) == plan_of(loose)


def test_clause_order_only_moves_what_is_equally_good() -> None:
    one = plan_of(
        'query q() { match { $v: Vessel  $v callsAt $p  $p: Port { code: "A" } } return { $v } }'
    )
    two = plan_of(
        'query q() { match { $p: Port { code: "A" }  $v: Vessel  $v callsAt $p } return { $v } }'
    )
    assert one.root == two.root


def test_filling_gives_a_plan_without_parameters_and_leaves_the_old_one_alone() -> None:
    text = """use extensions
    query q($code: String, $d: F64, $n: I64, $v: Vector(2)) {
      match { $v1: Vessel  $v1 callsAt $p  $p: Port { code: $code }  $v1.dwt < $d  $v1.seen < now() }
      return { $v1, $code, now() as at }
      order { nearest($v1.sig, $v) }
      limit $n
    }"""
    plan = plan_of(text)
    before = plan.text
    filled = fill(plan, {"code": "NLRTM", "d": 2.7, "n": 3, "v": (1.0, 0.5)}, INSTANT)
    assert plan.text == before
    assert not [leaf for leaf in _leaves(filled) if isinstance(leaf, ParamRef | Now)]
    assert 'Scan $p: Port where $p.id = "NLRTM"' in filled.text
    assert "$v1.dwt <= 2 and" in filled.text
    assert 'datetime("2026-02-01T00:00:00Z")' in filled.text
    rank = next(one for one in filled.operators if isinstance(one, Rank))
    cut = next(one for one in filled.operators if isinstance(one, Slice))
    assert rank.window == cut.window
    assert isinstance(cut.window.limit, Const)
    assert cut.window.limit.value == 3


def _leaves(value: object) -> list[object]:
    if hasattr(value, "__dataclass_fields__"):
        return [
            value,
            *(
                leaf
                for name in value.__dataclass_fields__
                if name != "params"
                for leaf in _leaves(getattr(value, name))
            ),
        ]
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, tuple) else []


def test_a_null_parameter_matches_nothing() -> None:
    plan = plan_of(
        "query q($n: I32?) { match { $v: Vessel { dwt: $n } } return { count($v) as n } }"
    )
    assert "where never" in fill(plan, {"n": None}, INSTANT).text


def test_a_plan_without_parameters_needs_no_filling() -> None:
    plan = plan_of("query q() { match { $v: Vessel  $v.dwt > 3 } return { $v } }")
    assert fill(plan, {}, INSTANT) is plan


def test_a_plan_knows_its_columns_and_variables() -> None:
    plan = plan_of(
        "query q() { match { $v: Vessel  $v $c:callsAt $_ } return { $v.name as n, $c.eta } }"
    )
    assert [(one.name, str(one.type)) for one in plan.columns] == [
        ("n", "String"),
        ("c.eta", "DateTime?"),
    ]
    assert {one.name: (one.kind, one.type_name, one.key) for one in plan.slots} == {
        "_1": ("node", "Port", "code"),
        "c": ("edge", "CallsAt", None),
        "v": ("node", "Vessel", "imo"),
    }


def test_a_scan_filter_mentions_its_own_variable_only() -> None:
    for case in cases():
        for one in optimize(lower(case.read, harbour())).operators:
            if isinstance(one, Scan):
                assert {name for test in one.filter for name in _variables(test)} <= {one.variable}
            if isinstance(one, Expand) and one.keep is not None:
                assert list(one.keep) == sorted(one.keep)


def _variables(value: object) -> set[str]:
    return {leaf.variable for leaf in _leaves(value) if hasattr(leaf, "variable")}
