"""The failpoint facility, and that every name in its catalogue is hit and tested."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from omnigraphdb.errors import InternalError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, Injected, armed, fail, parked

ROOT = Path(__file__).parents[2]
SITE = Failpoint.INIT_SCHEMA_WRITTEN


def uses(folder: str) -> set[str]:
    """Names of failpoints that the sources below a folder mention."""
    this = {Path(__file__), ROOT / "src/omnigraphdb/failpoints.py"}
    texts = [p.read_text() for p in (ROOT / folder).rglob("*.py") if p not in this]
    return {name for text in texts for name in re.findall(r"Failpoint\.([A-Z0-9_]+)", text)}


def test_every_failpoint_has_a_call_site() -> None:
    assert {point.name for point in Failpoint} - uses("src") == set()


def test_every_failpoint_has_a_test() -> None:
    assert {point.name for point in Failpoint} - uses("tests") == set()


def outcomes(arrivals: int) -> list[bool]:
    """Whether each arrival failed."""
    found = []
    for _ in range(arrivals):
        try:
            fail(SITE)
            found.append(False)
        except Injected:
            found.append(True)
    return found


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("error", [True, True, True, True]),
        ("2*error", [True, True, False, False]),
        ("skip(2)+error", [False, False, True, True]),
        ("skip(1)+1*error", [False, True, False, False]),
    ],
)
def test_an_action_fails_when_it_says(action: str, expected: list[bool]) -> None:
    with armed(SITE, action):
        assert outcomes(4) == expected
    assert outcomes(1) == [False]


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(InternalError, match="explode"), armed(SITE, "explode"):
        pass


def test_a_callback_runs_in_place() -> None:
    seen: list[int] = []
    with armed(SITE, lambda: seen.append(1)):
        fail(SITE)
    assert seen == [1]


def test_a_parked_thread_waits_until_it_is_released() -> None:
    done = threading.Event()

    def work() -> None:
        fail(SITE)
        done.set()

    with parked(SITE) as park:
        thread = threading.Thread(target=work)
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        assert not done.is_set()
        fail(SITE)  # only the first arrival waits
        park.release()
        thread.join(PARK_SECONDS_MAX)
    assert done.is_set()


def test_a_child_process_dies_where_it_is_told_to() -> None:
    program = (
        "from omnigraphdb.failpoints import Failpoint, fail\n"
        f"fail(Failpoint.{SITE.name})\nprint('once', flush=True)\nfail(Failpoint.{SITE.name})\nprint('twice')"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        env={"OMNIGRAPH_FAILPOINTS": f"{SITE.value}=skip(1)+exit"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, child.stdout) == (-9, "once\n")
