"""A worker that did a task is settled: what modules hold is overlooked by the collector, once for all that is loaded."""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from omnigraphdb.spark_jobs.workers import freeze_loaded_objects

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()
    sys.modules.pop("loaded later", None)


def test_what_is_loaded_is_frozen_once_and_again_when_more_is_loaded() -> None:
    freeze_loaded_objects()
    before = gc.get_freeze_count()
    assert before
    later = [[number] for number in range(1_000)]
    freeze_loaded_objects()
    assert gc.get_freeze_count() <= before
    sys.modules["loaded later"] = ModuleType("loaded later")
    freeze_loaded_objects()
    assert gc.get_freeze_count() >= before + len(later)
