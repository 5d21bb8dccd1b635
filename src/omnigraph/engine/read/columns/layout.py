"""Layouts: which rows a table version holds, told by its fragments; versions that hold the same share one."""

from functools import cached_property

from omnigraph.engine.cached.cache import ByteCache
from omnigraph.manifest.snapshot import Entry
from omnigraph.storage.tables import Tables
from omnigraph.storage.values import FragmentInfo
from omnigraph.values import dataclass

_FRAGMENT_BYTES = 400
"""About what a description of a fragment takes."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The fragments of a table version. Equal layouts are one object, so that it serves as a key.

    A commit that only builds an index, a branch that changed nothing, a version read again later: all
    have the layout they had, and with it everything that is held in memory.
    """

    path: str
    fragments: tuple[FragmentInfo, ...]

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(fragment.rows for fragment in self.fragments)

    @cached_property
    def starts(self) -> dict[FragmentInfo, int]:
        """Where the rows of each fragment begin."""
        found, start = {}, 0
        for fragment in self.fragments:
            found[fragment] = start
            start += fragment.rows
        return found


def layout_of(entry: Entry, tables: Tables, cache: ByteCache) -> Layout:
    """The layout of a table version, read once while it is held."""

    def read() -> Layout:
        fragments = tables.open(entry.at).fragments()
        return cache.intern((entry.at.path, fragments), Layout(entry.at.path, fragments))

    def size(layout: Layout) -> int:
        return _FRAGMENT_BYTES * (1 + len(layout.fragments))

    return cache.get(("layout", entry.at, entry.branch_incarnation), read, size)
