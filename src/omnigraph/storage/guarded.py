"""A swap guarded by one row: it is replaced, other rows are added, and rivals meet on that row alone."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from omnigraph.storage.fragments import fragment_of
from omnigraph.storage.staging import STORAGE_VERSION
from omnigraph.storage.table import ROW_ADDRESS

_OFFSET_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row is stored: its fragment, and its position in it."""

    fragment: int
    offset: int


def find_row(dataset: LanceDataset, key: str, value: str) -> RowPlace | None:
    """Look a row up by its key."""
    literal = value.replace("'", "''")
    found = dataset.to_table(columns=[], filter=f"{key} = '{literal}'", with_row_address=True)
    if found.num_rows != 1:
        return None
    address = int(found[ROW_ADDRESS][0].as_py())
    return RowPlace(address >> _OFFSET_BITS, address & ((1 << _OFFSET_BITS) - 1))


def replaces_only(rows: pa.Table, fresh: pa.Table, key: str, guard: str) -> bool:
    """Tell whether the guard is the one row that fresh rows replace."""
    replaced = rows[key].filter(pc.is_in(rows[key], value_set=fresh[key].combine_chunks()))
    return bool(replaced.to_pylist() == [guard])


def swap_guarded(dataset: LanceDataset, guard: RowPlace, rows: pa.Table) -> LanceDataset:
    """Remove the guard row and add rows in one commit; Lance refuses it when a rival touched the guard's fragment.

    No row is searched for and none is read, so that the cost is the same whatever the table holds.
    """
    added = write_fragments(rows, dataset, mode="append", data_storage_version=STORAGE_VERSION)
    fragment = fragment_of(dataset, guard.fragment)
    emptied = fragment.metadata.num_rows == 1
    rest = None if emptied else fragment.delete_rows([guard.offset])
    operation = LanceOperation.Update(
        removed_fragment_ids=[guard.fragment] if rest is None else [],
        updated_fragments=[] if rest is None else [rest],
        new_fragments=added,
    )
    return LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def place_in_newest(dataset: LanceDataset, rows: pa.Table, key: str, guard: str) -> RowPlace:
    """Say where the guard is after its swap: the rows of a swap are one fragment, in their order."""
    return RowPlace(max(dataset.fragment_ids()), pc.index(rows[key], guard).as_py())
