"""What every test shares: Hypothesis profiles, and failpoints that never leak."""

import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from omnigraphdb import failpoints
from tests.support.parts import SOAK_PART, pick_part

pytest_plugins = (
    "tests.support.groups",
    "tests.support.leases",
    "tests.support.s3",
    "tests.support.s3_counting",
    "tests.support.settled_fixture",
    "tests.support.spark_sessions",
)

# What somebody set for their own graphs does not decide about these, and every server is on this machine.
for _name in [name for name in os.environ if name.startswith(("OMNIGRAPH_", "AWS_"))]:
    del os.environ[_name]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
# Hundreds of tests start processes of this package: without bytecode on the disk each of them compiles every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_CALM = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
# Every run sees the same examples: a change is judged by what it changed. `fresh` and `deep` look for new ones.
settings.register_profile("quick", deadline=None, suppress_health_check=_CALM, derandomize=True)
settings.register_profile("fresh", deadline=None, suppress_health_check=_CALM)
settings.register_profile("deep", settings.get_profile("fresh"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm_all()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse tests that cannot be handed out to several processes; keep one part of the long ones, if a part is named."""
    _require_fixed_names(items)
    if os.environ.get(SOAK_PART):
        _keep_part(config, items, os.environ[SOAK_PART])


def _keep_part(config: pytest.Config, items: list[pytest.Item], part: str) -> None:
    long = [item for item in items if item.get_closest_marker("soak")]
    try:
        left_out = set(long) - set(pick_part(long, part))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _require_fixed_names(items: list[pytest.Item]) -> None:
    """Refuse names that are another in every process."""
    moving = sorted(item.nodeid for item in items if " at 0x" in item.nodeid)
    if moving:
        raise pytest.UsageError(f"ids hold an address of this process; name them: {moving[:5]}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much of the conformance suite ran, and what the rest waits for."""
    reports = [
        report
        for outcome in ("passed", "failed", "skipped")
        for report in terminalreporter.stats.get(outcome, [])
        if "tests/conformance" in report.nodeid and (report.when == "call" or report.skipped)
    ]
    if not reports:
        return
    outcomes = Counter(report.outcome for report in reports)
    waits = Counter(report.longrepr[2] for report in reports if report.skipped)
    terminalreporter.write_line(
        "conformance: " + ", ".join(f"{n} {word}" for word, n in sorted(outcomes.items()))
    )
    for reason, n in waits.most_common():
        terminalreporter.write_line(f"  {n} wait: {reason}")
