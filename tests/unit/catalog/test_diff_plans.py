"""Every kind of schema change as a pair of texts and the plan between them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from omnigraphdb.catalog.diff.steps import SchemaPlan, render
from omnigraphdb.catalog.diff.types import plan
from omnigraphdb.catalog.ir.contract import advance, create_contract
from omnigraphdb.catalog.resolve.schema import compile_schema

TESTS = Path(__file__).parents[2]
DOMAIN = "01J8ZQ4W6V7S5T3R2P1N0M9K8H"
PAIRS = sorted(path.parent for path in (TESTS / "fixtures" / "schema_plans").glob("*/plan.json"))


def planned(old: str, new: str, *, allow_data_loss: bool = False) -> SchemaPlan:
    return plan(compile_schema(old), compile_schema(new), allow_data_loss=allow_data_loss)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_of_schemas_has_exactly_the_plan_written_beside_it(pair: Path) -> None:
    expected = json.loads((pair / "plan.json").read_text())
    found = planned(
        (pair / "old.pg").read_text(),
        (pair / "new.pg").read_text(),
        allow_data_loss=expected.get("allow_data_loss", False),
    )
    steps = [step.to_dict() for step in found.steps]
    reasons = "\n".join(step.pop("reason", "") for step in steps)
    assert steps == expected["steps"]
    assert found.supported is expected["supported"]
    assert [text for text in expected.get("mentions", []) if text not in reasons] == []
    named = expected.get("warnings", [])
    assert len(found.warnings) == len(named)
    assert all(name in text for name, text in zip(named, found.warnings, strict=True))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_both_sides_of_every_pair_are_at_rest(pair: Path) -> None:
    for side in ("old.pg", "new.pg"):
        text = (pair / side).read_text()
        assert planned(text, text).steps == ()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_rendered_plan_has_one_line_per_step_and_every_refusal_its_code(pair: Path) -> None:
    found = planned((pair / "old.pg").read_text(), (pair / "new.pg").read_text())
    verdict, *lines = render(found).splitlines()
    assert verdict == ("supported: yes" if found.supported else "supported: no")
    lines = [line for line in lines if not line.startswith("warning: ")]
    if not found.steps:
        assert lines == ["  no changes"]
        return
    for line, step in zip(lines, found.steps, strict=True):
        assert line.startswith(f"  {step.kind} ")
        if step in found.refusals:
            assert f"[{step.code}, {step.tier}] {step.reason}" in line


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_a_supported_plan_leads_to_needs_no_plan(pair: Path) -> None:
    accepted = create_contract(compile_schema((pair / "old.pg").read_text()), DOMAIN)
    desired = compile_schema((pair / "new.pg").read_text())
    found = plan(accepted.catalog, desired)
    if found.supported:
        assert plan(advance(accepted, desired).catalog, desired).steps == ()


def test_renames_that_swap_the_order_of_key_members_keep_the_order_of_the_id() -> None:
    pair = TESTS / "fixtures" / "schema_plans" / "renames_swap_key_order"
    accepted = create_contract(compile_schema((pair / "old.pg").read_text()), DOMAIN)
    desired = compile_schema((pair / "new.pg").read_text())
    assert accepted.catalog.nodes["Visit"].key_columns == ("code", "year")
    renamed = advance(accepted, desired).catalog.nodes["Visit"]
    assert renamed.key_columns == ("which", "when")
    assert plan(accepted.catalog, desired).supported


def test_dropping_a_type_and_adding_it_again_is_a_drop_and_an_addition() -> None:
    both = "node Port { code: String @key }\nnode Quay { n: I32 @key }\nedge At: Quay -> Port\n"
    one = "node Port { code: String @key }\n"
    assert [(s.kind, s.type_name) for s in planned(both, one).steps] == [
        ("drop_type", "Quay"),
        ("drop_type", "At"),
    ]
    assert [(s.kind, s.type_name) for s in planned(one, both).steps] == [
        ("add_type", "Quay"),
        ("add_type", "At"),
    ]


def test_hints_spent_by_a_change_are_no_further_change() -> None:
    before = "node Port { name: String @index  kind: enum(a)  @unique(name, kind) }"
    hinted = (
        'node Quay @rename_from("Port") '
        '{ label: String @index @rename_from("name")  kind: enum(a, b)  @unique(label, kind) }'
    )
    assert len(planned(before, hinted).steps) == 3
    again = planned(hinted, hinted)
    assert again.steps == ()
    assert len(again.warnings) == 2


def schema_steps() -> list[Any]:
    suite = yaml.safe_load((TESTS / "conformance" / "schema_change.yaml").read_text())
    return [pytest.param(suite, case, id=case["name"]) for case in suite["cases"]]


@pytest.mark.parametrize(("suite", "case"), schema_steps())
def test_the_plans_of_the_conformance_suite(suite: dict[str, Any], case: dict[str, Any]) -> None:
    accepted = compile_schema(suite["fixtures"][case["fixture"]]["schema"])
    for step in case["steps"]:
        text = step.get("schema_plan") or step.get("schema_apply")
        if text is None or "S022" in str(step.get("error")):
            continue
        desired = compile_schema(text)
        found = plan(accepted, desired, allow_data_loss=step.get("allow_data_loss", False))
        assert found.supported is step.get("supported", "OG-" not in str(step.get("error")))
        wire = [one.to_dict() for one in found.steps]
        assert_matches(step, wire)
        if step.get("applied") is not None:
            assert step["applied"] is bool(wire)
            accepted = desired


def assert_matches(step: dict[str, Any], wire: list[dict[str, Any]]) -> None:
    spelled = {"type": "type_name", "property": "property_name"}

    def matches(want: dict[str, Any], have: dict[str, Any]) -> bool:
        return all(have.get(spelled.get(name, name)) == value for name, value in want.items())

    if "plan" in step:
        assert len(wire) == len(step["plan"])
        assert all(map(matches, step["plan"], wire))
    for want in step.get("plan_includes", []):
        assert any(matches(want, have) for have in wire)
