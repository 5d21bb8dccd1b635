"""Maintenance tasks: index segments and compactions, cut so that workers can do them; nothing is committed."""

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final

from lance import LanceDataset
from lance.dataset import Index

from omnigraphdb.storage.lance.digests import Digests, digest_new_files
from omnigraphdb.storage.lance.faults import TableLocation
from omnigraphdb.storage.lance.new_files import data_files, index_files
from omnigraphdb.storage.lance.unofficial import btrees
from omnigraphdb.storage.tables import Workers
from omnigraphdb.storage.values import MaintenanceTask, TableAt
from omnigraphdb.values import dataclass

TEXT: Final = "INVERTED"
"""Lance's name for a text index."""

BTREE: Final = "BTREE"
"""Lance's name for a B-tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWork:
    """One index segment to build."""

    column: str
    type: str
    name: str
    replace: bool
    fragments: tuple[int, ...]
    settings: tuple[tuple[str, Any], ...]
    weight: int


@dataclass(frozen=True, slots=True)
class RewriteWork:
    """Fragments to rewrite as fewer, as Lance planned it."""

    task: Any
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a piece of work, and the digests of its files when a worker did it."""

    result: Any
    digests: Digests = field(default_factory=dict)


Work = SegmentWork | RewriteWork
Worker = Callable[[Sequence[Work]], list[Made]]
"""Does work on one table version and gives the results, in order."""


def do(dataset: LanceDataset, work: Work, *, unofficial: bool) -> Any:
    """Do one piece of work in this process."""
    match work:
        case SegmentWork():
            # A handle of its own: building borrows it mutably, and readers could not use a shared one.
            return _segment(copy.copy(dataset), work, unofficial=unofficial)
        case RewriteWork():
            return work.task.execute(dataset)


def _segment(dataset: LanceDataset, work: SegmentWork, *, unofficial: bool) -> Index:
    if work.type == TEXT:
        # Without this call a new text segment makes every text query on the column fail.
        return dataset.merge_existing_index_segments([_train_index(dataset, work, work.fragments)])
    segment = None
    if work.type == BTREE and unofficial:
        empty = partial(_train_index, dataset, work, ())
        segment = btrees.build_segment(dataset, work.column, work.fragments, empty)
    return segment or _train_index(dataset, work, work.fragments)


def _train_index(dataset: LanceDataset, work: SegmentWork, fragments: Sequence[int]) -> Index:
    return dataset.create_index_uncommitted(
        work.column,
        work.type,
        name=work.name,
        replace=work.replace,
        fragment_ids=list(fragments),
        **dict(work.settings),
    )


def run_here(dataset: LanceDataset, *, unofficial: bool) -> Worker:
    """Do all work in this process, one part after the other."""
    return lambda work: [Made(do(dataset, part, unofficial=unofficial)) for part in work]


def run_elsewhere(at: TableAt, workers: Workers) -> Worker:
    """Let workers do it: work is sent as tasks, and the results come back."""

    def worker(work: Sequence[Work]) -> list[Made]:
        receipts = workers.do(
            [MaintenanceTask(at, pickle.dumps(part), part.weight) for part in work]
        )
        return [pickle.loads(receipt) for receipt in receipts]

    return worker


def run_task(
    dataset: LanceDataset, task: MaintenanceTask, location: TableLocation, *, unofficial: bool
) -> bytes:
    """Do a task that another process cut, and encode its result."""
    result = do(dataset, pickle.loads(task.work), unofficial=unofficial)
    files = index_files([result]) if isinstance(result, Index) else data_files(result.new_fragments)
    names = (file.name for file in files)
    return pickle.dumps(Made(result, digest_new_files(location, names)))
