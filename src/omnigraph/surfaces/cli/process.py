"""A process that is one command, and ends with it: what it loads, and what it leaves out."""

import gc
import sys
from collections.abc import Sequence
from types import ModuleType

COLLECT_AFTER = 100_000
"""New objects between two looks for garbage; what a command loads is not garbage, and much is loaded."""


def begin() -> None:
    """Make this process start fast; only for one that nothing but the command runs in."""
    gc.set_threshold(COLLECT_AFTER)
    sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:
    """Hides pandas from pyarrow, which loads it before the first array is made; steps aside where Spark is loaded.

    A command has no pandas objects to tell from others, and loading pandas takes longer than asking a graph.
    """

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> None:
        """Refuse pandas; everything else is found by those who come after."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not loaded by commands", name=name)
        if name == "pyspark":
            sys.meta_path.remove(self)
