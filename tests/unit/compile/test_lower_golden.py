"""Plans as text: what a query is lowered to, and what each rule makes of it."""

import pytest

from omnigraphdb.compile.rules import RULES
from tests.support.plan_fixtures import PlanCase, cases

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_query_comes_to_its_golden_plan(case: PlanCase) -> None:
    assert case.rendered == case.golden, "to accept: python -m tests.support.plan_fixtures"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_is_seen_at_work_in_a_fixture(rule: object) -> None:
    heading = f"== {rule.__name__}\n"  # type: ignore[attr-defined]
    assert any(heading in case.golden for case in CASES)


@pytest.mark.parametrize(
    "operator",
    ["Scan", "Argument", "Expand", "Expand into", "Filter", "Product", "Anti", "Optional", "Rank",
     "Group", "Sort", "Slice", "Project"],
)  # fmt: skip
def test_every_operator_is_seen_in_a_fixture(operator: str) -> None:
    assert any(f"{operator} " in case.golden for case in CASES)
