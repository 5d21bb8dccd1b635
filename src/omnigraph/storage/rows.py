"""The seam to keyed rows with a conditional merge: the manifest, and small tables like it; and images of their rows."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.ids import Version
from omnigraph.limits import IMAGE_CHUNKS_MAX
from omnigraph.storage.values import BranchRef, Incarnation, Reclaimed, VersionInfo
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Image:
    """All rows of one version on one branch; row order means nothing.

    Images with equal `version` and `incarnation` are the same state.
    """

    branch: str | None
    version: Version
    incarnation: Incarnation
    rows: pa.Table
    metadata: Mapping[str, str]


def swap_rows(image: Image, rows: pa.Table, key: str, version: Version) -> Image:
    """Derive the image after these rows replaced those of equal key."""
    keys = rows[key].combine_chunks()
    kept = [_drop_keys(batch, key, keys) for batch in image.rows.to_batches()]
    fresh = fit_rows(rows, image.rows.schema)
    joined = pa.concat_tables([pa.Table.from_batches(kept, image.rows.schema), fresh])
    return _derive_image(image, version, _compact_chunks(joined))


def replace_metadata(image: Image, key: str, value: str, version: Version) -> Image:
    """Derive the image with the same rows under changed metadata."""
    metadata = {**image.metadata, key: value}
    return _derive_image(image, version, image.rows.replace_schema_metadata(metadata), metadata)


def move_image(image: Image, version: Version) -> Image:
    """Derive the image with the same rows at another version."""
    return _derive_image(image, version, image.rows)


def fit_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring rows into the stored column order; refuses other names and types."""
    if set(rows.column_names) != set(schema.names):
        raise InternalError(f"rows have the columns {rows.column_names}, the table {schema.names}")
    chosen = rows.select(schema.names)
    if chosen.schema.types != schema.types:
        raise InternalError(f"rows have the types {chosen.schema.types}, the table {schema.types}")
    return pa.Table.from_arrays(chosen.columns, schema=schema)


def _derive_image(
    image: Image, version: Version, rows: pa.Table, metadata: Mapping[str, str] | None = None
) -> Image:
    return Image(
        branch=image.branch,
        version=version,
        incarnation=image.incarnation,
        rows=rows,
        metadata=image.metadata if metadata is None else metadata,
    )


def _drop_keys(batch: pa.RecordBatch, key: str, keys: pa.Array) -> pa.RecordBatch:
    replaced = pc.is_in(batch.column(key), value_set=keys)
    return batch.filter(pc.invert(replaced)) if pc.any(replaced).as_py() else batch


def _compact_chunks(rows: pa.Table) -> pa.Table:
    chunks = max((column.num_chunks for column in rows.columns), default=0)
    return rows.combine_chunks() if chunks > IMAGE_CHUNKS_MAX else rows


# ---- the seam


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

    def incarnation(self, branch: str | None) -> Incarnation:
        """Read the incarnation of a branch; one small read, none for main."""
        ...

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        """Load all rows, at HEAD unless a version is named; a cached version is not read again."""
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
        """Insert or replace rows by key from the state of `image`; returns the version that shows them.

        `RowContention` when another writer changed one of these rows since; nothing was written then.
        The version is `image.version + 1` unless a writer of other rows landed in between.
        A `guard` is the key of a row among these that every rival replaces too: contention on that row is enough, and
        no other row is searched for.
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
        """Count the fragments of the rows, on which the cost of a swap depends."""
        ...

    def fold(self, branch: str | None, *, whole: bool = False) -> bool:
        """Rewrite the newest fragments into one, `whole`: all of them; False when there was nothing to fold or a swap came first."""
        ...

    def versions(self, branch: str | None) -> tuple[VersionInfo, ...]:
        """List the versions of a branch that can still be read, oldest first; reads none of them where it can."""
        ...

    def has_version(self, branch: str | None, version: Version) -> bool:
        """Tell whether a version can still be read, whatever is cached."""
        ...

    def reclaim(
        self, branch: str | None, versions: Sequence[Version], *, dry_run: bool
    ) -> Reclaimed:
        """Remove versions of a branch and the files only they use; with `dry_run`, count what would go."""
        ...

    def branches(self) -> Mapping[str, BranchRef]:
        """The branches, by name, without main."""
        ...

    def branch_names(self) -> frozenset[str]:
        """The names of the branches, without main; one listing, however many there are."""
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
