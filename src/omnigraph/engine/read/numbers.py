"""Entities as numbers: an entity is the stable row id of its row, and -1 is no entity."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ABSENT: Final = -1


def no_numbers() -> Numbers:
    """An empty column of numbers."""
    return np.empty(0, dtype=np.int64)


def indices_of(places: Numbers) -> pa.Array:
    """Places as take indices; NULL for no place."""
    absent = places < 0
    return pa.array(places, mask=absent) if absent.any() else whole_indices(places)


def whole_indices(places: Numbers) -> pa.Array:
    """Places as take indices, none of them absent; nothing is copied or looked at."""
    dense = np.ascontiguousarray(places, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(dense), [None, pa.py_buffer(dense)])


def count_up(n: int) -> Numbers:
    """The numbers from 0 to n - 1."""
    return np.arange(n, dtype=np.int64)


def spread(starts: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Lay out runs after one another: for every element its run, and its place `start + offset`."""
    rows = np.repeat(count_up(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return rows, count_up(len(rows)) + np.repeat(starts - before, counts)
