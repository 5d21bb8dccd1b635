"""The two commits that swap keyed rows: a guarded one, and one that Lance merges by key.

A guarded swap replaces one row, the guard, and adds others; rivals contend on the guard alone.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from omnigraph.storage.lance.fragments import fragment_of
from omnigraph.storage.lance.stage import STORAGE_VERSION
from omnigraph.storage.lance.table import ROW_ADDRESS
from omnigraph.values import dataclass

_OFFSET_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class RowAddress:
    """Where a row is stored: its fragment, and its row offset there."""

    fragment: int
    offset: int


def find_row(dataset: LanceDataset, key: str, value: str) -> RowAddress | None:
    """Look a row up by its key."""
    literal = value.replace("'", "''")
    found = dataset.to_table(columns=[], filter=f"{key} = '{literal}'", with_row_address=True)
    if found.num_rows != 1:
        return None
    address = int(found[ROW_ADDRESS][0].as_py())
    return RowAddress(address >> _OFFSET_BITS, address & ((1 << _OFFSET_BITS) - 1))


def replaces_only(rows: pa.Table, fresh: pa.Table, key: str, guard: str) -> bool:
    """Tell whether the guard is the only row that fresh rows replace."""
    replaced = rows[key].filter(pc.is_in(rows[key], value_set=fresh[key].combine_chunks()))
    return bool(replaced.to_pylist() == [guard])


def swap_guarded(
    dataset: LanceDataset, guard: RowAddress, rows: pa.Table, *, at_once: bool = False
) -> LanceDataset:
    """Remove the guard row and add rows in one commit; Lance refuses it when a rival changed the guard's fragment.

    It searches and reads no row, so that its cost does not depend on the size of the table. `at_once` writes its two
    files at the same time, where each is a request over a network.
    """
    if at_once:
        with ThreadPoolExecutor(1, "omnigraph-write") as pool:
            writing = pool.submit(_write_added, dataset, rows)
            rest = _delete_guard(dataset, guard)
        added = writing.result()
    else:
        added, rest = _write_added(dataset, rows), _delete_guard(dataset, guard)
    operation = LanceOperation.Update(
        removed_fragment_ids=[guard.fragment] if rest is None else [],
        updated_fragments=[] if rest is None else [rest],
        new_fragments=added,
    )
    return LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def _write_added(dataset: LanceDataset, rows: pa.Table) -> list[FragmentMetadata]:
    return write_fragments(rows, dataset, mode="append", data_storage_version=STORAGE_VERSION)


def _delete_guard(dataset: LanceDataset, guard: RowAddress) -> FragmentMetadata | None:
    """Delete the guard from its fragment; None when no row is left."""
    fragment = fragment_of(dataset, guard.fragment)
    return None if fragment.metadata.num_rows == 1 else fragment.delete_rows([guard.offset])


def find_in_newest(dataset: LanceDataset, rows: pa.Table, key: str, guard: str) -> RowAddress:
    """Give the address of the guard after its swap: the rows of a swap are one fragment, in their order."""
    return RowAddress(max(dataset.fragment_ids()), pc.index(rows[key], guard).as_py())


def merge_rows(dataset: LanceDataset, key: str, rows: pa.Table) -> None:
    """Insert or replace rows by key and commit, moving the handle to the new version.

    This is the only change that Lance cannot stage: a staged merge does not record the keys it inserted, so two of
    them could insert one key twice. Only the inline form carries the keys into the conflict check.
    """
    (
        dataset.merge_insert(key)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .conflict_retries(0)
        .use_index(False)
        .execute(rows)
    )
