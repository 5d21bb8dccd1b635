"""B-trees of text columns, sorted here: Lance creates an empty segment, and this module fills it in the same form.

Lance compares all texts of a column. Endpoints of edges are few texts that occur many times: here each is sorted once.
Ids of a load mostly ascend already.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset
from lance.bitmap import Bitmap
from lance.dataset import Index, IndexFile
from lance.file import LanceFileSession

from omnigraphdb.catalog.names import ROW_ADDRESS
from omnigraphdb.limits import BTREE_BYTES_MAX, BTREE_ROWS_MAX, BTREE_ROWS_MIN, BTREE_SAMPLE_ROWS
from omnigraphdb.storage.lance.fragments import fragment_of, rows_of
from omnigraphdb.values import dataclass

PAGES: Final = "page_data.lance"
LOOKUP: Final = "page_lookup.lance"
_PAGE_SIZE: Final = b"batch_size"
_RANGES: Final = b"range_partitioned"
_WRITE_ROWS: Final = 262_144

_PAGE_COLUMNS: Final = pa.schema(
    [pa.field("values", pa.string()), pa.field("ids", pa.uint64(), nullable=False)]
)
_LOOKUP_COLUMNS: Final = pa.schema(
    [
        pa.field("min", pa.string()),
        pa.field("max", pa.string()),
        pa.field("null_count", pa.uint32(), nullable=False),
        pa.field("page_idx", pa.uint32(), nullable=False),
    ]
)

Integers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Sorted:
    """The texts of a column in their order, and the addresses of their rows."""

    texts: pa.Array
    addresses: Integers


def build_segment(
    dataset: LanceDataset, column: str, fragments: Sequence[int], empty: Callable[[], Index]
) -> Index | None:
    """Sort the rows of some fragments and fill an empty segment with them; None when Lance should build it."""
    if not _is_fit(dataset, column, fragments):
        return None
    sorted_column = _sort_column(dataset, column, fragments)
    if sorted_column is None:
        return None
    form = _Form.of(dataset, empty())
    return None if form is None else form.fill(sorted_column, fragments)


def _is_fit(dataset: LanceDataset, column: str, fragments: Sequence[int]) -> bool:
    """Whether a column is text, with enough rows to gain from it and few enough for the memory."""
    rows = rows_of(dataset, fragments)
    is_text = pa.types.is_string(dataset.schema.field(column).type)
    return bool(is_text and BTREE_ROWS_MIN <= rows <= BTREE_ROWS_MAX)


# ---- sorting


def _sort_column(dataset: LanceDataset, column: str, fragments: Sequence[int]) -> Sorted | None:
    rows = dataset.scanner(
        columns=[column],
        with_row_address=True,
        fragments=[fragment_of(dataset, number) for number in fragments],
    ).to_table()
    if rows[column].null_count or rows.nbytes > BTREE_BYTES_MAX:
        return None
    return sort_texts(rows[column].combine_chunks(), rows[ROW_ADDRESS].to_numpy())


def sort_texts(texts: pa.Array, addresses: Integers) -> Sorted | None:
    """Sort texts that ascend already, or that occur many times; None when there is nothing to gain."""
    if pc.all(pc.less_equal(texts.slice(0, len(texts) - 1), texts.slice(1)), min_count=0).as_py():
        return Sorted(texts, addresses)
    sample = texts.slice(0, BTREE_SAMPLE_ROWS)
    if pc.count_distinct(sample).as_py() == len(sample):
        return None
    encoded = texts.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), np.uint32)
    ranks[order.to_numpy()] = np.arange(len(order), dtype=np.uint32)
    of_rows = ranks[encoded.indices.to_numpy()]
    positions = _sort_ranks(of_rows)
    return Sorted(
        encoded.dictionary.take(order).take(pa.array(of_rows[positions])), addresses[positions]
    )


def _sort_ranks(ranks: Integers) -> Integers:
    """Give the positions of ranks in order: by lower half, then by upper half, which numpy sorts by counting."""
    positions = np.argsort(ranks.astype(np.uint16), kind="stable")
    upper_halves = (ranks >> np.uint32(16)).astype(np.uint16)
    if not upper_halves.any():
        return positions
    return positions[np.argsort(upper_halves[positions], kind="stable")]


# ---- writing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """The form of the files of an empty segment that Lance wrote."""

    session: LanceFileSession
    segment: Index
    version: str
    page_rows: int
    notes: dict[bytes, bytes]

    @classmethod
    def of(cls, dataset: LanceDataset, segment: Index) -> "_Form | None":
        """Read the form of a segment; None when this module does not write that form."""
        session = dataset.new_file_session()
        names = sorted(file.path for file in segment.files or ())
        if names != [PAGES, LOOKUP]:
            return None
        pages, lookup = (
            session.open_reader(_path(segment, name)).metadata() for name in (PAGES, LOOKUP)
        )
        notes = lookup.schema.metadata or {}
        if (
            not pages.schema.equals(_PAGE_COLUMNS)
            or not lookup.schema.equals(_LOOKUP_COLUMNS)
            or set(notes) != {_PAGE_SIZE, _RANGES}
        ):
            return None
        return cls(
            session=session,
            segment=segment,
            version=f"{pages.major_version}.{pages.minor_version}",
            page_rows=int(notes[_PAGE_SIZE]),
            notes=notes,
        )

    def fill(self, sorted_column: Sorted, fragments: Sequence[int]) -> Index:
        pages = self._write(PAGES, _PAGE_COLUMNS, _batches(sorted_column))
        lookup = self._write(
            LOOKUP, _LOOKUP_COLUMNS.with_metadata(self.notes), [self._lookup(sorted_column.texts)]
        )
        return replace(self.segment, fragment_ids=Bitmap(fragments), files=[pages, lookup])

    def _lookup(self, texts: pa.Array) -> pa.RecordBatch:
        starts = np.arange(0, len(texts), self.page_rows)
        ends = np.minimum(starts + self.page_rows, len(texts)) - 1
        numbers = np.arange(len(starts), dtype=np.uint32)
        return pa.RecordBatch.from_arrays(
            [
                texts.take(pa.array(starts)),
                texts.take(pa.array(ends)),
                pa.array(np.zeros_like(numbers)),
                pa.array(numbers),
            ],
            schema=_LOOKUP_COLUMNS,
        )

    def _write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> IndexFile:
        file = self.session.open_writer(
            _path(self.segment, name), schema=schema, version=self.version
        )
        with file:
            for batch in batches:
                file.write_batch(batch)
        assert file.size_bytes is not None, "a file that is closed has a size"
        return IndexFile(name, file.size_bytes)


def _batches(sorted_column: Sorted) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(sorted_column.texts), _WRITE_ROWS):
        yield pa.RecordBatch.from_arrays(
            [
                sorted_column.texts.slice(start, _WRITE_ROWS),
                pa.array(sorted_column.addresses[start : start + _WRITE_ROWS]),
            ],
            schema=_PAGE_COLUMNS,
        )


def _path(segment: Index, name: str) -> str:
    return f"_indices/{segment.uuid}/{name}"
