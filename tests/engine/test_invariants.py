"""Every invariant of storage, write path, branches and history has a test that observes it."""

import ast
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.engine.invariants import COUNTS, OBSERVED, WAITING

ROOT = Path(__file__).parents[2]
ALL = [f"{name}-{n}" for name, count in COUNTS.items() for n in range(1, count + 1)]


@cache
def names_in(file: str) -> frozenset[str]:
    text = (ROOT / file).read_text()
    if file.endswith(".yaml"):
        return frozenset(case["name"] for case in yaml.safe_load(text)["cases"])
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return frozenset(node.name for node in functions)


@pytest.mark.parametrize("invariant", ALL)
def test_an_invariant_is_observed_or_waits_for_its_operation(invariant: str) -> None:
    assert (invariant in OBSERVED) != (invariant in WAITING)
    for test in OBSERVED.get(invariant, ()):
        file, _, name = test.partition("::")
        assert name in names_in(file), f"{invariant} names {test}, which is not there"


def test_only_known_invariants_are_named() -> None:
    assert sorted(set(OBSERVED) | set(WAITING)) == sorted(ALL)
