"""Every conformance case is a test; a case that needs what is not built yet is skipped by feature."""

from pathlib import Path
from typing import Any

import pytest
from tests.conformance import run

FEATURE_OF_STEP = {
    "merge": "branch merge",
    "diff": "diff",
    "schema_plan": "schema apply",
    "schema_apply": "schema apply",
    "crash_writer": "recovery",
    "recoveries": "recovery",
    "maintain": "maintenance",
}
FEATURE_OF_FILE = {"search": "search"}
BUILT: frozenset[str] = frozenset(
    {"maintenance", "branch merge", "diff", "recovery", "schema apply", "search"}
)


def features(case: run.Case) -> set[str]:
    """What a case needs beyond opening, reading and writing one graph."""
    needed = {FEATURE_OF_FILE[stem] for stem in [Path(case.file).stem] if stem in FEATURE_OF_FILE}
    return needed | {FEATURE_OF_STEP[op] for op in _operations(case.steps) if op in FEATURE_OF_STEP}


def _operations(steps: list[dict[str, Any]]) -> list[str]:
    inner = [sub for step in steps for sub in step.get("concurrent", ())]
    return [run._op(step) for step in [*steps, *inner]]


def test_the_case_files_are_well_formed() -> None:
    assert run.check(Path(run.__file__).parent) == []


@pytest.mark.parametrize("case", list(run.cases()), ids=lambda case: case.id)
def test_conformance(case: run.Case, tmp_path: Path) -> None:
    missing = sorted(features(case) - BUILT)
    if missing:
        pytest.skip(", ".join(missing))
    run.run_case(case, tmp_path, durable=True)
