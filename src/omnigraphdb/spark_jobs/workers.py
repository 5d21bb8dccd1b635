"""Python workers of Spark: processes that run one task after another."""

import gc
import sys
from functools import cache


def freeze_loaded_objects() -> None:
    """Exclude the objects of loaded modules from garbage collection; call it at the end of every task.

    A Spark worker runs a full collection after every task, and visiting the objects of loaded modules takes longer
    than many tasks do.
    """
    _freeze_once(len(sys.modules))


@cache
def _freeze_once(modules: int) -> None:
    # Frozen objects are never collected, so a worker freezes once for each set of loaded modules, not once a task.
    gc.collect()
    gc.freeze()
