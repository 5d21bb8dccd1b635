"""A swap guarded by one row: it is replaced, other rows are added, and rivals meet on that row alone."""

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
    """Where a row is stored: its fragment, and its position in it."""

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
    """Tell whether the guard is the one row that fresh rows replace."""
    replaced = rows[key].filter(pc.is_in(rows[key], value_set=fresh[key].combine_chunks()))
    return bool(replaced.to_pylist() == [guard])


def swap_guarded(
    dataset: LanceDataset, guard: RowAddress, rows: pa.Table, *, at_once: bool = False
) -> LanceDataset:
    """Remove the guard row and add rows in one commit; Lance refuses it when a rival touched the guard's fragment.

    No row is searched for and none is read, so that the cost is the same whatever the table holds. Its two files
    are written `at_once` where each of them is a request that takes its time.
    """
    if at_once:
        with ThreadPoolExecutor(1, "omnigraph-write") as pool:
            writing = pool.submit(_write_added, dataset, rows)
            rest = _rest(dataset, guard)
        added = writing.result()
    else:
        added, rest = _write_added(dataset, rows), _rest(dataset, guard)
    operation = LanceOperation.Update(
        removed_fragment_ids=[guard.fragment] if rest is None else [],
        updated_fragments=[] if rest is None else [rest],
        new_fragments=added,
    )
    return LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def _write_added(dataset: LanceDataset, rows: pa.Table) -> list[FragmentMetadata]:
    return write_fragments(rows, dataset, mode="append", data_storage_version=STORAGE_VERSION)


def _rest(dataset: LanceDataset, guard: RowAddress) -> FragmentMetadata | None:
    """The fragment of the guard without it; None when nothing is left."""
    fragment = fragment_of(dataset, guard.fragment)
    return None if fragment.metadata.num_rows == 1 else fragment.delete_rows([guard.offset])


def find_in_newest(dataset: LanceDataset, rows: pa.Table, key: str, guard: str) -> RowAddress:
    """Say where the guard is after its swap: the rows of a swap are one fragment, in their order."""
    return RowAddress(max(dataset.fragment_ids()), pc.index(rows[key], guard).as_py())
