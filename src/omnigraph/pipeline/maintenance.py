"""Chores of maintenance as a step: index segments and rewrites, done wherever a runner has hands."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.pipeline.location import StoreLocation
from omnigraph.pipeline.runner import Each, Runner
from omnigraph.storage.tables import MaintenanceTask
from omnigraph.values import dataclass

_RECEIPTS: Final = pa.schema([("number", pa.int64()), ("receipt", pa.binary())])


@dataclass(frozen=True, slots=True)
class MaintenanceSplit:
    """One chore and where the graph is that it belongs to."""

    number: int
    home: StoreLocation
    task: MaintenanceTask


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerWorkers:
    """The hands of a runner, lent to storage."""

    runner: Runner
    home: StoreLocation
    count: int

    def do(self, tasks: Sequence[MaintenanceTask]) -> list[bytes]:
        """Run one task per chore, the heaviest first; answers come in the order of the chores."""
        splits = [MaintenanceSplit(number, self.home, task) for number, task in enumerate(tasks)]
        splits.sort(key=lambda split: split.task.weight, reverse=True)
        step = Each(name="maintenance", splits=splits, run=_run_maintenance, out=_RECEIPTS)
        found: list[bytes] = self.runner.run(step).sort_by("number")["receipt"].to_pylist()
        return found


def _run_maintenance(split: MaintenanceSplit) -> Iterator[pa.Table]:
    receipt = split.home.store().tables.do(split.task)
    yield pa.table([[split.number], [receipt]], schema=_RECEIPTS)
