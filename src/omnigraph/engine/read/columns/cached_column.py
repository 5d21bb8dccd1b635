"""Cached columns: read from the fragments of a version, and copied from the cached column of the version before."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from omnigraph.engine.read.columns.layout import Layout
from omnigraph.storage.values import FragmentInfo
from omnigraph.values import dataclass

Read = Callable[[Sequence[FragmentInfo]], pa.Array]


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
    known = previous.layout.starts if previous is not None else {}
    missing = [fragment for fragment in layout.fragments if fragment not in known]
    if previous is None or 2 * sum(one.rows for one in missing) > layout.rows:
        return CachedColumn(layout, read(layout.fragments))
    fresh = read(missing)
    parts = list(_parts(layout, previous, fresh))
    return CachedColumn(layout, parts[0] if len(parts) == 1 else pa.concat_arrays(parts or [fresh]))


def _parts(layout: Layout, previous: CachedColumn, fresh: pa.Array) -> Iterator[pa.Array]:
    """Slice the previous and the new values in the order of the layout; adjacent slices are joined."""
    known = previous.layout.starts
    used = 0
    run: tuple[pa.Array, int, int] | None = None
    for fragment in layout.fragments:
        start = known.get(fragment)
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
