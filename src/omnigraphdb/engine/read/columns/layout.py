"""Layouts: the fragments, and so the rows, of a table version, and the columns cached by them.

Versions with the same fragments share one layout.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import FragmentInfo
from omnigraphdb.values import dataclass

Read = Callable[[Sequence[FragmentInfo]], pa.Array]

_FRAGMENT_BYTES = 400
"""The approximate size of a fragment description."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The fragments of a table version. Equal layouts are one object, which is a cache key.

    A commit that only builds an index, a branch without changes and a version that is read again keep their layout,
    and with it everything that is cached.
    """

    path: str
    fragments: tuple[FragmentInfo, ...]

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return sum(fragment.rows for fragment in self.fragments)

    @cached_property
    def starts(self) -> dict[FragmentInfo, int]:
        """The offset of the first row of each fragment."""
        starts, start = {}, 0
        for fragment in self.fragments:
            starts[fragment] = start
            start += fragment.rows
        return starts


def layout_of(entry: Entry, tables: Tables, cache: ByteCache) -> Layout:
    """Find the layout of a table version; it is read once while it is cached."""

    def read() -> Layout:
        fragments = tables.open(entry.at).fragments()
        return cache.intern((entry.at.path, fragments), Layout(entry.at.path, fragments))

    def size(layout: Layout) -> int:
        return _FRAGMENT_BYTES * (1 + len(layout.fragments))

    return cache.get(("layout", entry.at, entry.branch_incarnation), read, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """Fragments that were removed, that were added, and that only lost rows (before and after)."""

    lost: tuple[FragmentInfo, ...]
    fresh: tuple[FragmentInfo, ...]
    thinned: tuple[tuple[FragmentInfo, FragmentInfo], ...]

    @property
    def gone(self) -> int:
        """The number of rows that were deleted in place."""
        return sum(new.deleted_rows - old.deleted_rows for old, new in self.thinned)


def compare_layouts(before: Layout, now: Layout) -> LayoutChange:
    """Compare the fragments of two layouts."""
    lost = [fragment for fragment in before.fragments if fragment not in now.starts]
    fresh = {
        (fragment.id, fragment.files): fragment
        for fragment in now.fragments
        if fragment not in before.starts
    }
    pairs = [(fragment, fresh.get((fragment.id, fragment.files))) for fragment in lost]
    thinned = tuple(
        (old, new) for old, new in pairs if new is not None and new.deleted_rows > old.deleted_rows
    )
    remaining = {new for _, new in thinned}
    return LayoutChange(
        lost=tuple(old for old, new in pairs if new not in remaining or new is None),
        fresh=tuple(fragment for fragment in fresh.values() if fragment not in remaining),
        thinned=thinned,
    )


# ---- cached columns
# They are read from the fragments of a version, and copied from the cached column of the version before.


@dataclass(frozen=True, slots=True)
class CachedColumn:
    """One column of all rows of a layout, in the order of the layout."""

    layout: Layout
    values: pa.Array

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return int(self.values.nbytes)


def read_column(layout: Layout, previous: CachedColumn | None, read: Read) -> CachedColumn:
    """Read a column; fragments that the previous column has are copied from there."""
    cached_starts = previous.layout.starts if previous is not None else {}
    missing = [fragment for fragment in layout.fragments if fragment not in cached_starts]
    if previous is None or 2 * sum(fragment.rows for fragment in missing) > layout.rows:
        return CachedColumn(layout, read(layout.fragments))
    fresh = read(missing)
    parts = list(_parts(layout, previous, fresh))
    return CachedColumn(layout, parts[0] if len(parts) == 1 else pa.concat_arrays(parts or [fresh]))


def _parts(layout: Layout, previous: CachedColumn, fresh: pa.Array) -> Iterator[pa.Array]:
    """Slice the previous and the new values in the order of the layout; adjacent slices are joined."""
    cached_starts = previous.layout.starts
    used = 0
    run: tuple[pa.Array, int, int] | None = None
    for fragment in layout.fragments:
        start = cached_starts.get(fragment)
        source, begin = (fresh, used) if start is None else (previous.values, start)
        used += fragment.rows if start is None else 0
        if run is not None and run[0] is source and run[2] == begin:
            run = source, run[1], begin + fragment.rows
            continue
        if run is not None:
            yield run[0].slice(run[1], run[2] - run[1])
        run = source, begin, begin + fragment.rows
    if run is not None:
        yield run[0].slice(run[1], run[2] - run[1])
