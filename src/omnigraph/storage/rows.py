"""The seam to keyed rows with a conditional merge: the manifest, and small tables like it."""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from omnigraph.ids import Version
from omnigraph.storage.values import BranchRef, Incarnation
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Image:
    """All rows of one version on one branch, as they were; row order means nothing.

    Two images are the same state when `version` and `incarnation` are equal.
    """

    branch: str | None
    version: Version
    incarnation: Incarnation
    rows: pa.Table
    metadata: Mapping[str, str]


class Rows(Protocol):
    """One table of rows that is changed by compare-and-swap on its key column."""

    def create(
        self, rows: pa.Table, *, metadata: Mapping[str, str], config: Mapping[str, str]
    ) -> Image:
        """Create the table at version 1 with these rows; `TableExists` when there is one."""
        ...

    def exists(self) -> bool:
        """Tell whether the table is there; a failure to look is an error, not a no."""
        ...

    def head(self, branch: str | None) -> Version:
        """Read the newest version; one cheap probe."""
        ...

    def incarnation(self, branch: str | None) -> Incarnation:
        """Read which life of the branch name this is; one small read, none for main."""
        ...

    def load(self, branch: str | None, version: Version | None = None) -> Image:
        """Load all rows, at HEAD unless a version is named; a version held already is not read again."""
        ...

    def held(self, branch: str | None, version: Version, incarnation: Incarnation) -> Image | None:
        """Give the image of a version if it is in memory, as after a swap; nobody is asked."""
        ...

    def swap(self, image: Image, rows: pa.Table, guard: str | None = None) -> Version:
        """Insert or replace rows by key from the state of `image`; returns the version that shows them.

        `RowContention` when another writer changed one of these rows since; nothing was written then.
        The version is `image.version + 1` unless a writer of other rows came between.
        A `guard` is the key of a row among these that every rival replaces too: then it is enough to contend on
        that row, and no other one is searched for.
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
        """How many fragments hold the rows: swap cost follows it."""
        ...

    def fold(self, branch: str | None) -> bool:
        """Rewrite all fragments into one; False when there was nothing to fold or a swap came first."""
        ...

    def branches(self) -> Mapping[str, BranchRef]:
        """The branches, by name, without main."""
        ...

    def branch_names(self) -> frozenset[str]:
        """The names of the branches, without main; one listing, however many there are."""
        ...

    def address_outside(self, branch: str | None) -> str | None:
        """The root in which a branch looks for its files when that is not this one; None when all is here."""
        ...

    def branches_outside(self, limit: int | None = None) -> Mapping[str, str]:
        """Branches that look for their files outside the root, with where that is: the root was moved or copied.

        A limit is for those who open a graph: so many branches are looked at.
        """
        ...

    def create_branch(self, name: str, source: str | None, version: Version) -> BranchRef:
        """Create a branch at a version of another; `ForkExists` when the name is taken."""
        ...

    def delete_branch(self, name: str) -> None:
        """Remove a branch; nothing to do when it is gone, `BranchInUse` when others fork from it."""
        ...
