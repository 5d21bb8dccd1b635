"""Folds of a keyed table: its recent rows become one fragment, and old ones join its history, in files of their own.

A history file says so by its name, so that an opening knows from the table's manifest which fragments it may leave. Any
other reader of the table reads all of them.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.file import LanceFileWriter
from lance.fragment import LanceFragment, write_fragments

from omnigraphdb.limits import FOLD_RATIO_MAX, HISTORY_FILE_ROWS_MAX, HISTORY_ROWS_MIN
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.stage import STORAGE_VERSION
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.rows import Split, SplitRows
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

_HISTORY: Final = "history-"


# ---- which fragments are history


@dataclass(frozen=True, slots=True)
class FragmentGroups:
    """The fragments of one version, oldest first: those of recent rows and those of the history."""

    recent: tuple[LanceFragment, ...]
    history: tuple[LanceFragment, ...]

    @property
    def last_key(self) -> str:
        """The greatest of the history's keys that are in order of time."""
        return max(map(_read_last_key, self.history), default="")


def split_fragments(dataset: LanceDataset) -> FragmentGroups:
    """Split the fragments of a version into recent fragments and fragments of the history."""
    ordered = sorted(dataset.get_fragments(), key=lambda fragment: fragment.fragment_id)
    history = tuple(fragment for fragment in ordered if _name(fragment).startswith(_HISTORY))
    return FragmentGroups(
        tuple(fragment for fragment in ordered if fragment not in history), history
    )


def _name(fragment: LanceFragment) -> str:
    # The public property defines a class on every call.
    return str(fragment.metadata.files[0]._path)


def _read_last_key(fragment: LanceFragment) -> str:
    return bytes.fromhex(_name(fragment).split("-")[1]).decode()


def _make_name(last_key: str, id_: str) -> str:
    return f"{_HISTORY}{last_key.encode().hex()}-{id_.lower()}.lance"


# ---- the plan of a fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A fold that is decided: rows to write, fragments that go, and history of which the rows are still to be read."""

    rows: SplitRows
    merged: tuple[LanceFragment, ...]
    removed: tuple[int, ...]


def plan_fold(
    parts: FragmentGroups, recent: pa.Table, split: Split | None, *, whole: bool
) -> Fold | None:
    """Plan a fold; None when there is nothing to fold."""
    rows = SplitRows(recent=recent, old=recent.slice(0, 0), last_key="")
    if split is not None:
        split_rows = split(recent)
        rows = split_rows if split_rows.old.num_rows >= HISTORY_ROWS_MIN else rows
    merged = choose_history(parts.history, rows.old.num_rows, whole=whole)
    if len(parts.recent) < 2 and len(merged) < 2 and not rows.old.num_rows:
        return None
    removed = tuple(fragment.fragment_id for fragment in (*parts.recent, *merged))
    return Fold(rows=rows, merged=merged, removed=removed)


def choose_history(
    history: Sequence[LanceFragment], added: int, *, whole: bool
) -> tuple[LanceFragment, ...]:
    """Choose the fragments of the history that are rewritten with added rows: the newest, up to a much larger one.

    So each row is rewritten a few times in a long history, and a fold rewrites no more than a file may hold. `whole`
    chooses all of them.
    """
    if whole:
        return tuple(history)
    selected: list[LanceFragment] = []
    row_count = added
    for fragment in reversed(history):
        rows = fragment.metadata.num_rows
        if rows > FOLD_RATIO_MAX * row_count or rows + row_count > HISTORY_FILE_ROWS_MAX:
            break
        selected.append(fragment)
        row_count += rows
    return tuple(selected)


def write_fold(
    datasets: Datasets, at: TableAt, dataset: LanceDataset, fold: Fold, old: pa.Table
) -> LanceOperation.Update:
    """Write the rows of a fold and describe its commit; a rival that changed one of its fragments makes that fail.

    A compaction would keep the version at which each row was created and updated, and every later version file would
    repeat these versions. Nobody asks a keyed table for them, so the fold begins them anew.
    """
    last_key = max([fold.rows.last_key, *map(_read_last_key, fold.merged)])
    with ThreadPoolExecutor(1, "omnigraph-fold") as pool:
        name = _make_name(last_key, datasets.runtime.new_id())
        writing = pool.submit(carry_context(_write_file), datasets, at, name, old)
        recent = write_fragments(
            fold.rows.recent, dataset, mode="append", data_storage_version=STORAGE_VERSION
        )
        writing.result()
    # The history comes first: the newest fragment is that of the recent rows.
    history = [_describe(recent[0], name, old.num_rows)] if old.num_rows else []
    return LanceOperation.Update(
        removed_fragment_ids=list(fold.removed),
        updated_fragments=[],
        new_fragments=[*history, *recent],
    )


def _write_file(datasets: Datasets, at: TableAt, name: str, rows: pa.Table) -> None:
    if not rows.num_rows:
        return
    uri = datasets.uri(f"{branch_path(at.path, at.branch)}/data/{name}")
    with LanceFileWriter(
        uri, rows.schema, version=STORAGE_VERSION, storage_options=datasets.options
    ) as file:
        for batch in rows.to_batches():
            file.write_batch(batch)


def _describe(neighbour: FragmentMetadata, name: str, rows: int) -> FragmentMetadata:
    """Describe a file of the same columns as those of another new fragment."""
    facts: dict[str, Any] = neighbour.to_json()
    file = {**facts["files"][0], "path": name, "file_size_bytes": None}
    return FragmentMetadata.from_json(json.dumps({**facts, "files": [file], "physical_rows": rows}))
