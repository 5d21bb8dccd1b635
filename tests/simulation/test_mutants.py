"""Every guard that is taken away is missed by somebody."""

import ast
from pathlib import Path

import pytest

from tests.simulation.children import simulate


def list_mutants() -> list[tuple[str, str]]:
    """Read the names of all mutants and their checkers; importing them would import the engine with real locks."""
    tree = ast.parse((Path(__file__).parent / "mutants.py").read_text())
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Mutant"]
    return [(ast.literal_eval(call.args[0]), ast.literal_eval(call.args[2])) for call in made]


QUICK = {
    "no_sidecar",
    "locks_never_looked_at",
    "lease_ignored",
    "draft_believed",
    "publish_expects_nothing",
    "restore_over_anything",
    "decision_not_recorded",
    "rivals_of_pointers_unseen",
    "key_before_refusal",
    "dated_before_parent",
    "cleanup_asks_no_branch",
    "conditions_ignored",
    "listings_late",
}


@pytest.mark.parametrize(
    ("name", "checker"),
    [
        pytest.param(name, checker, marks=[] if name in QUICK else pytest.mark.soak, id=name)
        for name, checker in list_mutants()
        if checker
    ],
)
def test_a_guard_that_goes_is_missed(name: str, checker: str) -> None:
    verdict = simulate(f"{checker} --stop --mutant {name}")
    assert not verdict.is_silent, verdict.printed
