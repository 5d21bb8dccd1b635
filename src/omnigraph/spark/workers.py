"""Python workers of Spark: processes that do one task after the other."""

import gc
import sys
from functools import cache


def settle() -> None:
    """Let the collector overlook what this process has loaded; for the end of whatever runs in a worker.

    A worker looks through all its objects after every task, which takes longer than many a task: what modules hold
    is there for good.
    """
    _freeze_modules(len(sys.modules))


@cache
def _freeze_modules(modules: int) -> None:
    # Once for every set of modules: what is frozen is never looked at again, so that it must not happen task by task.
    gc.collect()
    gc.freeze()
