"""Row ids: an entity is the stable row id of its row in Lance, and -1 stands for no entity."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraphdb.memory import counted_bytes

RowIds = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int64]
"""Integers that are not row ids: offsets, codes, counts, weights."""
Mask = npt.NDArray[np.bool_]

NarrowIntegers = npt.NDArray[Any]
"""Integers in four bytes if all fit, else in eight."""

ABSENT: Final = -1
_SMALL_MAX: Final = np.iinfo(np.int32).max
_DIGIT_BITS: Final = 16
_RUN_BYTES: Final = 32
"""The columns of an element while runs are laid out."""


def no_row_ids() -> RowIds:
    """Return an empty column of row ids."""
    return np.empty(0, dtype=np.int64)


def indices_of(offsets: Integers) -> pa.Array:
    """Convert offsets to take indices; NULL for -1."""
    absent = offsets < 0
    return pa.array(offsets, mask=absent) if absent.any() else whole_indices(offsets)


def whole_indices(offsets: Integers) -> pa.Array:
    """Convert offsets without -1 to take indices; nothing is copied or checked."""
    dense = np.ascontiguousarray(offsets, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(dense), [None, pa.py_buffer(dense)])


def count_up(n: int) -> Integers:
    """Return the integers from 0 to n - 1."""
    return np.arange(n, dtype=np.int64)


def lay_out_runs(starts: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Lay out runs one after the other: for every element its run, and its position `start + n` in that run."""
    ends = np.cumsum(counts)
    with counted_bytes(_RUN_BYTES * int(ends[-1]) if len(ends) else 0):
        rows = np.repeat(count_up(len(counts)), counts)
        return rows, count_up(len(rows)) + np.repeat(starts - (ends - counts), counts)


def narrow(numbers: npt.NDArray[Any]) -> NarrowIntegers:
    """Convert integers to four bytes if they fit."""
    fits = not len(numbers) or int(numbers.max()) <= _SMALL_MAX
    return numbers.astype(np.int32 if fits else np.int64)


def stable_order(keys: Integers, size: int) -> Integers:
    """Sort keys below `size` stably; NumPy sorts 16-bit integers by radix, far faster than longer ones."""
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, size.bit_length(), _DIGIT_BITS):
        digits = ((keys >> shift) & 0xFFFF)[order]
        short = digits.astype(np.uint8 if size >> shift < 256 else np.uint16)
        order = order[np.argsort(short, kind="stable")]
    return np.asarray(order, dtype=np.int64)
