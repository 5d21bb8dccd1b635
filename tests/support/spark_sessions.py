"""One local Spark session for all tests of a process; starting one costs more than most tests."""

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with two cores and retries."""
    pytest.importorskip("pyspark", reason="needs the extra 'spark'")
    from omnigraph.spark import session

    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = session("local[2,4]", quick=True, memory="2g")
    yield running
    running.stop()
