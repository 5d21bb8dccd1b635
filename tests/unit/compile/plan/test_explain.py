"""The text of a plan: complete, stable, and short where values are long."""

import pytest

from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.plan.explain import explain
from omnigraphdb.compile.rules import optimize
from tests.support.plan_fixtures import checked_read, harbour

NESTED = """
query busy($since: DateTime, $q: String?) {
  match {
    $p: Port { code: "NLRTM" }
    $n: Note
    $v $c:callsAt $p
    $c.eta >= $since
    not { $v ownedBy $_ }
    not { $v callsAt $o  $o.name = $q }
  }
  return { $v.imo as id, $n, $c.berth }
  order { $c.eta desc, $v.name }
  limit 5
}
"""


def test_a_plan_reads_from_its_result_down_to_its_scans() -> None:
    plan = optimize(lower(checked_read(NESTED), harbour()))
    assert (
        plan.text
        == """\
query busy($since: DateTime, $q: String?)
Project id = $v.id, n = $n.id, c.berth
└─ Slice limit 5
   └─ Sort by $c.eta desc, $v.name, $c, $n, $p, $v (first limit 5)
      └─ Anti on $v
         ├─ Anti on $v
         │  ├─ Product
         │  │  ├─ Filter $c.eta >= $since
         │  │  │  └─ Expand $p <-[$c: CallsAt]- $v: Vessel
         │  │  │     └─ Scan $p: Port where $p.id = "NLRTM"
         │  │  └─ Scan $n: Note
         │  └─ Expand $v -[OwnedBy]-> $_1: Company (keeps $v; any)
         │     └─ Argument $v
         └─ Filter $o.name = $q
            └─ Expand $v -[CallsAt]-> $o: Port
               └─ Argument $v"""
    )


def test_a_plan_prints_as_its_text_and_lists_its_operators_inputs_first() -> None:
    plan = optimize(lower(checked_read(NESTED), harbour()))
    assert str(plan) == plan.text == explain(plan.name, plan.params, plan.root)
    assert [type(one).__name__ for one in plan.operators] == [
        "Scan", "Expand", "Filter", "Scan", "Product", "Argument", "Expand", "Anti",
        "Argument", "Expand", "Filter", "Anti", "Sort", "Slice", "Project",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('$v.name = "a\\"b"', '$v.name = "a\\"b"'),
        ('$v.built = date("2026-02-14")', '$v.built = date("2026-02-14")'),
        (
            '$v.seen > datetime("2026-02-14T01:00:00+01:00")',
            '$v.seen > datetime("2026-02-14T00:00:00Z")',
        ),
        ("$v.draft < 0.5", "$v.draft < 0.5"),
        (
            "($v.dwt < 1 or ($v.dwt > 2 and $v.crew = 3))",
            "($v.dwt < 1 or ($v.dwt > 2 and $v.crew = 3))",
        ),
        ('not $v.name contains "x"', 'not $v.name contains "x"'),
        ('search($v.name, "x y")', 'search($v.name, "x y")'),
        ('fuzzy($v.name, "x", 1)', 'fuzzy($v.name, "x", 1)'),
    ],
)
def test_a_condition_reads_as_it_could_be_written(written: str, shown: str) -> None:
    text = f"use extensions\nquery q() {{ match {{ $v: Vessel  {written} }} return {{ $v }} }}"
    assert f"where {shown}" in optimize(lower(checked_read(text), harbour())).text


def test_a_long_value_is_cut() -> None:
    many = ", ".join(f'"imo{number}"' for number in range(500))
    text = f"use extensions\nquery q() {{ match {{ $v: Vessel  $v.imo in [{many}] }} return {{ $v }} }}"
    shown = lower(checked_read(text), harbour()).text
    assert '$v.imo in ["imo0", "imo1"' in shown
    assert "imo499" not in shown
    assert max(map(len, shown.splitlines())) < 120
