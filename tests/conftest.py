"""What every test shares: Hypothesis profiles, and failpoints that never leak."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from omnigraph import failpoints

pytest_plugins = (
    "tests.support.s3",
    "tests.support.s3_counting",
    "tests.support.settling",
    "tests.support.spark_sessions",
)

_CALM = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
settings.register_profile("quick", deadline=None, suppress_health_check=_CALM)
# Every run of the build sees the same examples: a change is judged by what it changed. Others see new ones each time.
settings.register_profile("build", settings.get_profile("quick"), derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=20_000, suppress_health_check=_CALM)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "build" if os.environ.get("CI") else "quick")
)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm_all()


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
