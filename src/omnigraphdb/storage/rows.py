"""The seam to keyed rows with a conditional merge: the manifest, and small tables like it; and images of their rows."""

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import InternalError
from omnigraphdb.ids import Version
from omnigraphdb.limits import IMAGE_CHUNKS_MAX, SLICED_ROWS_MAX
from omnigraphdb.storage.values import BranchRef, Incarnation, Reclaimed, VersionInfo
from omnigraphdb.values import dataclass

INCARNATION: Final = "omnigraph:branch_incarnation"
"""Schema metadata key of the incarnation that a version carries: every later version of the branch inherits it."""


class History:
    """The old rows of a table, which are stored apart and read on first use; images that follow one another share them.

    `last_key` bounds the keys that are in order of time: a greater one is not among these rows.
    """

    def __init__(self, read: Callable[[], pa.Table], *, last_key: str, fragments: int) -> None:
        self.last_key = last_key
        self.fragments = fragments
        self._read = read
        self._rows: pa.Table | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, rows: pa.Table, *, last_key: str, fragments: int) -> "History":
        """Make a history of rows that are in memory."""
        history = cls(lambda: rows, last_key=last_key, fragments=fragments)
        history._rows = rows
        return history

    @property
    def is_read(self) -> bool:
        """Whether the rows are in memory."""
        return self._rows is not None

    @property
    def rows(self) -> pa.Table:
        """The rows; the first call reads them."""
        with self._lock:
            if self._rows is None:
                self._rows = self._read()
            return self._rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Image:
    """The rows of one version on one branch; row order means nothing.

    `recent` rows are in memory, those of the `history` are read on first use. Images with equal `version` and
    `incarnation` are the same state.
    """

    branch: str | None
    version: Version
    incarnation: Incarnation
    recent: pa.Table
    metadata: Mapping[str, str]
    history: History | None = None

    @cached_property
    def rows(self) -> pa.Table:
        """All rows; reads the history."""
        if self.history is None:
            return self.recent
        return pa.concat_tables([self.history.rows, self.recent])

    @property
    def cached(self) -> pa.Table:
        """The rows that are in memory."""
        return self.rows if self.history is not None and self.history.is_read else self.recent

    @property
    def is_marked(self) -> bool:
        """Whether this version, and so every version made from it, carries the incarnation of its branch."""
        return self.metadata.get(INCARNATION) == mark_of(self.incarnation)

    def load_history(self) -> None:
        """Read the history, if it is not in memory yet."""
        if self.history is not None:
            _ = self.history.rows

    def may_hide(self, key: str) -> bool:
        """Whether a key in order of time may be that of a row that is not in memory."""
        history = self.history
        return history is not None and not history.is_read and key <= history.last_key


def mark_of(incarnation: Incarnation) -> str | None:
    """Return the text by which versions carry an incarnation; None for main, which has only one."""
    return incarnation[-1][1] if incarnation else None


def is_foreign(metadata: Mapping[str, str], incarnation: Incarnation) -> bool:
    """Whether a version of a branch descends from an earlier branch of the name.

    A branch that was never written shows the mark that its parent carries. Versions of earlier releases carry no mark.
    """
    stored_mark = metadata.get(INCARNATION)
    return stored_mark is not None and stored_mark not in {mark for _, mark in incarnation}


def swap_rows(image: Image, rows: pa.Table, key: str, version: Version) -> Image:
    """Derive the image after these rows replaced those of equal key; in a history that is not read they replace none."""
    keys = rows[key].combine_chunks()
    fresh = fit_rows(rows, image.recent.schema)
    recent = pa.concat_tables([_drop_keys(image.recent, key, keys), fresh])
    derived = _derive_image(image, version, _compact_chunks(recent))
    return replace(derived, history=_drop_old_keys(image.history, key, keys))


def replace_metadata(image: Image, key: str, value: str, version: Version) -> Image:
    """Derive the image with the same rows under changed metadata."""
    metadata = {**image.metadata, key: value}
    recent = image.recent.replace_schema_metadata(metadata)
    return _derive_image(image, version, recent, metadata)


def move_image(image: Image, version: Version) -> Image:
    """Derive the image with the same rows at another version."""
    return _derive_image(image, version, image.recent)


def fit_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring rows into the stored column order; refuse other names and types."""
    if set(rows.column_names) != set(schema.names):
        raise InternalError(f"rows have the columns {rows.column_names}, the table {schema.names}")
    ordered = rows.select(schema.names)
    if ordered.schema.types != schema.types:
        raise InternalError(f"rows have the types {ordered.schema.types}, the table {schema.types}")
    return pa.Table.from_arrays(ordered.columns, schema=schema)


def _derive_image(
    image: Image, version: Version, recent: pa.Table, metadata: Mapping[str, str] | None = None
) -> Image:
    return Image(
        branch=image.branch,
        version=version,
        incarnation=image.incarnation,
        recent=recent,
        metadata=image.metadata if metadata is None else metadata,
        history=image.history,
    )


def _drop_old_keys(history: History | None, key: str, keys: pa.Array) -> History | None:
    if history is None or not history.is_read:
        return history
    remaining = _drop_keys(history.rows, key, keys)
    if remaining.num_rows == history.rows.num_rows:
        return history
    return History.of(remaining, last_key=history.last_key, fragments=history.fragments)


def _drop_keys(rows: pa.Table, key: str, keys: pa.Array) -> pa.Table:
    replaced = pc.is_in(rows[key], value_set=keys)
    count = pc.sum(replaced).as_py() or 0
    if count > SLICED_ROWS_MAX:
        return rows.filter(pc.invert(replaced))
    return _cut_out(rows, pc.indices_nonzero(replaced).to_pylist()) if count else rows


def _cut_out(rows: pa.Table, offsets: Sequence[int]) -> pa.Table:
    """Leave a few rows out, by their offsets in ascending order; a filter would copy each chunk of each column."""
    starts = [0, *(offset + 1 for offset in offsets)]
    ends = [*offsets, rows.num_rows]
    return pa.concat_tables(
        rows.slice(start, end - start) for start, end in zip(starts, ends, strict=True)
    )


def _compact_chunks(rows: pa.Table) -> pa.Table:
    chunks = max((column.num_chunks for column in rows.columns), default=0)
    return rows.combine_chunks() if chunks > IMAGE_CHUNKS_MAX else rows


# ---- the seam


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRows:
    """Rows that stay recent, and old ones; `last_key` is the greatest of the old ones' keys that are in order of time."""

    recent: pa.Table
    old: pa.Table
    last_key: str


Split = Callable[[pa.Table], SplitRows]


class Rows(Protocol):
    """One table of rows that is changed by compare-and-swap on its key column."""

    def create(
        self, rows: pa.Table, *, metadata: Mapping[str, str], config: Mapping[str, str]
    ) -> Image:
        """Create the table at version 1 with these rows; `TableExists` when there is one."""
        ...

    def exists(self) -> bool:
        """Tell whether the table exists; a failed look-up is an error, not a no."""
        ...

    def head(self, branch: str | None) -> Version:
        """Read the newest version; one cheap probe."""
        ...

    def find_head(self, branch: str | None) -> Version | None:
        """Find the newest version by names of files on this machine alone; None when the store must be asked."""
        ...

    def incarnation(self, branch: str | None) -> Incarnation:
        """Read the incarnation of a branch; one small read, none for main."""
        ...

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        """Load the rows, at HEAD unless a version is named, those of the history on use; a cached version is not read again."""
        ...

    def find_newest(self, branch: str | None, keys: Sequence[str]) -> pa.Table:
        """Give the rows at HEAD that are stored together with the newest of these keys; none when no row has one."""
        ...

    def count_where(self, branch: str | None, column: str, value: str) -> int:
        """Count the rows at HEAD with a value in a column; reads no other column."""
        ...

    def cached(
        self, branch: str | None, version: Version, incarnation: Incarnation
    ) -> Image | None:
        """Give the image of a version if it is cached, as after a swap; sends no request."""
        ...

    def swap(self, image: Image, rows: pa.Table, guard: str | None = None) -> Version:
        """Insert or replace rows by key from the state of `image`; return the version that shows them.

        `RowContention` when another writer changed one of these rows since; nothing was written then.
        The version is `image.version + 1` unless a writer of other rows landed in between.
        A `guard` is the key of a row among these that every rival replaces too: contention on that row is enough, and
        no other row is searched for. Where a history is not read, the caller knows that its rows are not replaced.
        """
        ...

    def set_metadata(self, image: Image, key: str, value: str) -> Image:
        """Set one entry of the schema metadata; `RowContention` when another writer changed any since."""
        ...

    def annotate_key(self, image: Image) -> Image:
        """Mark the key column as primary key: without the mark swaps never contend. Graphs older than stamp 2.

        `RowContention` when another writer marked it since.
        """
        ...

    def fragment_count(self, image: Image) -> int:
        """Count the fragments of the recent rows, on which the cost of an opening and of a swap depends."""
        ...

    def fold(self, branch: str | None, *, whole: bool = False, split: Split | None = None) -> bool:
        """Rewrite the recent rows into one fragment; False when there was nothing to fold or a swap came first.

        `split` tells which of them are old: they join the history, of which small newest parts are rewritten, `whole`: all
        of it.
        """
        ...

    def versions(self, branch: str | None) -> tuple[VersionInfo, ...]:
        """List the readable versions of a branch, oldest first, without opening them where that is possible."""
        ...

    def foreign(self, branch: str | None) -> frozenset[Version]:
        """List the versions met so far that a late request of an earlier branch of the name created; they are not read.

        A load looks at the newest version, and at earlier versions while they are foreign.
        """
        ...

    def supersede(self, branch: str | None) -> None:
        """Put a copy of the shown version past a foreign newest one; `RowContention` when others moved the branch."""
        ...

    def has_version(self, branch: str | None, version: Version) -> bool:
        """Check whether a version can still be read, without a cache."""
        ...

    def reclaim(
        self, branch: str | None, versions: Sequence[Version], *, dry_run: bool
    ) -> Reclaimed:
        """Remove versions of a branch and the files that only they use; with `dry_run`, only count both."""
        ...

    def branches(self) -> Mapping[str, BranchRef]:
        """List the branches, by name, without main."""
        ...

    def branch_names(self) -> frozenset[str]:
        """List the names of the branches, without main, by one listing."""
        ...

    def branch_marks(self) -> Mapping[str, Hashable]:
        """Give each branch a mark that another branch of the same name does not have; one listing where it can."""
        ...

    def address_outside(self, branch: str | None) -> str | None:
        """Find the root in which a branch looks for its files, when it is another root."""
        ...

    def branches_outside(self, limit: int | None = None) -> Mapping[str, str]:
        """List the branches that look for their files outside the root, with that address: the root was moved or copied.

        An open checks at most `limit` branches.
        """
        ...

    def create_branch(self, name: str, source: str | None, version: Version) -> BranchRef:
        """Create a branch at a version of another; `ForkExists` when the name is taken."""
        ...

    def delete_branch(self, name: str) -> None:
        """Remove a branch; nothing to do when it is gone, `BranchInUse` when others fork from it."""
        ...
