"""Layouts: the fragments, and so the rows, of a table version; versions with the same fragments share one layout."""

from functools import cached_property

from omnigraph.engine.cached.cache import ByteCache
from omnigraph.manifest.snapshot import Entry
from omnigraph.storage.tables import Tables
from omnigraph.storage.values import FragmentInfo
from omnigraph.values import dataclass

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
        found, start = {}, 0
        for fragment in self.fragments:
            found[fragment] = start
            start += fragment.rows
        return found


def layout_of(entry: Entry, tables: Tables, cache: ByteCache) -> Layout:
    """Find the layout of a table version; it is read once while it is cached."""

    def read() -> Layout:
        fragments = tables.open(entry.at).fragments()
        return cache.intern((entry.at.path, fragments), Layout(entry.at.path, fragments))

    def size(layout: Layout) -> int:
        return _FRAGMENT_BYTES * (1 + len(layout.fragments))

    return cache.get(("layout", entry.at, entry.branch_incarnation), read, size)
