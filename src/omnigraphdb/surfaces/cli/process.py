"""Settings of a process that runs one command: they make it start faster."""

import gc
import sys
from collections.abc import Sequence
from types import ModuleType

COLLECT_AFTER = 500_000
"""New objects between two garbage collections: a command loads many objects, and none of them is garbage."""


def begin() -> None:
    """Make this process start fast; only for a process that runs nothing but the command."""
    gc.set_threshold(COLLECT_AFTER)
    sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:
    """Hides pandas from pyarrow, which loads it before it makes the first array; removes itself when Spark is loaded.

    A command has no pandas objects, and loading pandas takes longer than a query.
    """

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> None:
        """Refuse pandas; later finders find every other module."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not loaded by commands", name=name)
        if name == "pyspark":
            sys.meta_path.remove(self)
