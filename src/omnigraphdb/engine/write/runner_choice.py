"""The choice of a runner for a load: this process in memory, this process in steps, or Spark."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.limits import CACHED_IDS_ROWS
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.pipeline.input.splits import SplitDraft
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.runner import Runner
from omnigraphdb.storage.tables import Workers
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """The runner of a load, and the reason; None stands for a load in memory. `spread` cuts frames that are elsewhere."""

    runner: Runner | None
    reason: str
    spread: "Callable[[Any, StoreLocation, str], Sequence[SplitDraft]] | None" = None
    index_workers: Workers | None = None
    """The workers that build indexes after the load; None stands for this process."""
    held_ids_max: int = CACHED_IDS_ROWS
    """The number of ids that one task holds in memory."""
    one_task_ids_max: int = CACHED_IDS_ROWS
    """The number of unordered incoming ids that one task resolves alone."""
    indexed_rows_max: int | None = None
    """Rows of a table whose indexes are built after the load; those of larger tables are left pending."""
    adjacency_bytes_max: int | None = None
    """Memory in which the adjacencies of written edge tables are built after the load; larger adjacencies are not built."""

    @property
    def engine(self) -> str:
        """The engine that the report names."""
        return "local" if self.runner is None else self.runner.engine


ChooseRunner = Callable[[Size], RunnerChoice]
"""Chooses by size; the size of a stream is the size of its part that was read ahead."""


def choose_by_size(engine: Engine, size: Size) -> RunnerChoice:
    """Choose without leaving this process: in memory when the input is small, else by threads in steps."""
    if not is_large(engine, size):
        return RunnerChoice(None, f"{format_size(size)} are little enough for memory")
    # More workers than cores would only keep more rows in memory.
    workers = min(engine.settings.load_concurrency, os.cpu_count() or 1)
    return RunnerChoice(LocalRunner(workers), f"{format_size(size)}, in steps")


def is_large(engine: Engine, size: Size) -> bool:
    """Whether an input is past the small-work bound."""
    settings = engine.settings
    return size.bytes > settings.small_work_bytes or size.rows > settings.small_work_rows


def format_size(size: Size) -> str:
    """Render a size in words."""
    rows = f" and {size.rows} rows" if size.rows else ""
    return f"{size.bytes} bytes{rows} of input"
