"""Every failpoint is one at which some test kills a process, or has a reason why none does."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from omnigraphdb.failpoints import Failpoint
from tests.simulation.failpoints_without_kill import WITHOUT_KILL
from tests.support.child import KILL_LOG

ROOT: Final = Path(__file__).parents[2]
GROUP_KILLS: Final = "tests/faults/test_groups.py::test_a_group_that_is_killed_is_whole_or_absent"
RUNS: Final = (
    ("pytest", "tests/faults", "-m", "not soak", "-n", "2", "--dist", "loadgroup", "-q"),
    ("pytest", GROUP_KILLS, "-n", "2", "-q"),
    (
        "tests.simulation.disk_schedules",
        "--seed=200000",
        "--schedules=30",
        "--steps=8",
        "--kills=1",
    ),
)
"""The fault matrix, groups of eight members, and the schedules of a local disk with nothing but kills."""


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_every_failpoint_is_one_of_a_kill_or_has_a_reason(tmp_path: Path) -> None:
    log = tmp_path / "kills"
    for module, *arguments in RUNS:
        run_with_log(log, module, arguments)
    killed = {Failpoint(name) for name in log.read_text().split()}
    assert set(Failpoint) - killed - WITHOUT_KILL.keys() == set(), "no test kills here: say why"
    assert killed & WITHOUT_KILL.keys() == set(), (
        "tests kill here by now: the reason is out of date"
    )


def run_with_log(log: Path, module: str, arguments: Sequence[str]) -> None:
    """Run a module that notes where children were killed."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {KILL_LOG: str(log)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
