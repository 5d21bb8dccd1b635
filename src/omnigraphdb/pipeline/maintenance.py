"""Maintenance tasks as a step: a runner builds index segments and rewrites fragments."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.runner import Each, Runner
from omnigraphdb.storage.values import MaintenanceTask
from omnigraphdb.values import dataclass

_RECEIPTS: Final = pa.schema([("number", pa.int64()), ("receipt", pa.binary())])


@dataclass(frozen=True, slots=True)
class MaintenanceSplit:
    """One maintenance task and the location of its graph."""

    number: int
    location: StoreLocation
    task: MaintenanceTask


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerWorkers:
    """The workers of a runner, as storage uses them."""

    runner: Runner
    location: StoreLocation
    count: int

    def do(self, tasks: Sequence[MaintenanceTask]) -> list[bytes]:
        """Run maintenance tasks, the heaviest first; receipts come in the order of the tasks."""
        splits = [
            MaintenanceSplit(number, self.location, task) for number, task in enumerate(tasks)
        ]
        splits.sort(key=lambda split: split.task.weight, reverse=True)
        step = Each(name="maintenance", splits=splits, run=_run_maintenance, out=_RECEIPTS)
        receipts: list[bytes] = self.runner.run(step).sort_by("number")["receipt"].to_pylist()
        return receipts


def _run_maintenance(split: MaintenanceSplit) -> Iterator[pa.Table]:
    receipt = split.location.store().tables.do(split.task)
    yield pa.table([[split.number], [receipt]], schema=_RECEIPTS)
