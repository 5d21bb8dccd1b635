"""Cost counters: the requests of an operation to the store, per context. They are free when nobody counts."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from enum import StrEnum
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Cost(StrEnum):
    """The kinds of counted actions; each is counted after it succeeded."""

    TABLE_OPENS = "table_opens"
    TABLE_PROBES = "table_probes"
    TABLE_SCANS = "table_scans"
    TABLE_COMMITS = "table_commits"
    TABLE_RESTORES = "table_restores"
    MANIFEST_OPENS = "manifest_opens"
    MANIFEST_PROBES = "manifest_probes"
    MANIFEST_SCANS = "manifest_scans"
    MANIFEST_HISTORY_SCANS = "manifest_history_scans"
    """Readings of rows that an opening leaves."""
    MANIFEST_SWAPS = "manifest_swaps"
    MANIFEST_FOLDS = "manifest_folds"
    STAGE_APPEND = "stage_append"
    STAGE_APPEND_ROWS = "stage_append_rows"
    STAGE_MERGE = "stage_merge"
    STAGE_MERGE_ROWS = "stage_merge_rows"
    STAGE_OVERWRITE = "stage_overwrite"
    STAGE_DELETE = "stage_delete"
    STAGE_INDICES = "stage_indices"
    VECTOR_BUILDS = "vector_builds"
    STAGE_COMPACTION = "stage_compaction"
    STAGE_COLUMNS = "stage_columns"
    FORKS = "forks"
    OBJECT_READS = "object_reads"
    OBJECT_WRITES = "object_writes"
    OBJECT_LISTS = "object_lists"
    OBJECT_DELETES = "object_deletes"
    ADJACENCY_FILES_READ = "adjacency_files_read"
    ADJACENCY_FILES_REFUSED = "adjacency_files_refused"
    DELTA_MATERIALISATIONS = "delta_materialisations"


class Costs:
    """The counts of one context; safe to add to from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Cost] = Counter()

    def add(self, cost: Cost, amount: int) -> None:
        """Add to one count."""
        with self._lock:
            self._counts[cost] += amount

    def __getitem__(self, cost: Cost) -> int:
        return self._counts[cost]

    def as_dict(self) -> dict[str, int]:
        """Return all counts that are not zero, by name."""
        with self._lock:
            return {str(cost): count for cost, count in sorted(self._counts.items()) if count}


_current: ContextVar[Costs | None] = ContextVar("omnigraph_costs", default=None)


@contextmanager
def counting() -> Iterator[Costs]:
    """Count the costs inside the block; a block inside a block counts for itself only."""
    costs = Costs()
    token = _current.set(costs)
    try:
        yield costs
    finally:
        _current.reset(token)


def record(cost: Cost, amount: int = 1) -> None:
    """Add to the counts of this context, if anyone counts."""
    costs = _current.get()
    if costs is not None:
        costs.add(cost, amount)


def carry_context(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Bind a function to this context, so that a thread which runs it counts here."""
    context = copy_context()

    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        # A context can be entered by one thread at a time, so each call gets its own copy.
        return context.copy().run(function, *args, **kwargs)

    return run
