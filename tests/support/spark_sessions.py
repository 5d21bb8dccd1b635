"""One local Spark session for all tests of a process; starting one costs more than most tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with two cores and retries."""
    pytest.importorskip("pyspark", reason="needs the extra 'spark'")
    from omnigraphdb.spark import session

    with pytest.MonkeyPatch.context() as patch:
        # Workers load functions of the tests by name, wherever the run was started.
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        running = session("local[2,4]", quick=True, memory="2g")
        yield running
        running.stop()
