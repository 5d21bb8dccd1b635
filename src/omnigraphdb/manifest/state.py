"""The state of one branch's manifest at one version: decoded once, and advanced by each publish of this process."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import InternalError
from omnigraphdb.ids import BranchName, CommitId, TableKey, Version
from omnigraphdb.manifest.lineage import (
    Lineage,
    commits_of,
    find_batch,
    find_commit,
    head_of,
    merged_of,
    newest_of,
)
from omnigraphdb.manifest.merged import NO_ROWS, ancestor_rows, commit_rows
from omnigraphdb.manifest.policies import policies_of
from omnigraphdb.manifest.records import (
    DIGESTS,
    KEY,
    MANIFEST_SCHEMA,
    GraphCommit,
    GraphHead,
    ObjectType,
    Operation,
    PolicyVersion,
    Record,
    Registration,
    TableVersion,
    Tag,
    Tombstone,
    encode,
    graph_branch,
    version_row,
)
from omnigraphdb.manifest.snapshot import Snapshot, snapshot_of
from omnigraphdb.manifest.stamp import LINEAGE_IN_MANIFEST, stamp_of
from omnigraphdb.manifest.table_history import (
    TableHistory,
    incarnations_of,
    read_table_history,
    rows_of,
)
from omnigraphdb.storage.rows import Image, swap_rows
from omnigraphdb.storage.values import Incarnation
from omnigraphdb.values import dataclass


@dataclass(frozen=True, kw_only=True, eq=False)
class BranchState:
    """An image of the manifest and its decoded rows; the lineage is decoded on first use."""

    image: Image
    stamp: int
    table_history: TableHistory
    fragments: int
    legacy: Callable[[], Lineage] | None = None
    """Reads the history of a branch whose stamp is older than lineage in the manifest."""
    expected: tuple[GraphCommit, ...] = ()
    """Commits that are about to be published on this state; their rows are not in the image yet."""
    is_amid_swap: bool = False
    """Whether later commits of its swap are left out: no version of the manifest shows exactly this state."""

    @property
    def branch(self) -> BranchName:
        """The graph branch."""
        return graph_branch(self.image.branch)

    @property
    def version(self) -> Version:
        """The manifest version."""
        return self.image.version

    @property
    def branch_incarnation(self) -> Incarnation:
        """The incarnation of the branch."""
        return self.image.incarnation

    @property
    def has_lineage(self) -> bool:
        """Whether the manifest of this branch carries its own history."""
        return self.stamp >= LINEAGE_IN_MANIFEST

    @cached_property
    def snapshot(self) -> Snapshot:
        """The visible tables."""
        return snapshot_of(self.table_history, self.branch, self.version, self.branch_incarnation)

    @cached_property
    def head(self) -> GraphCommit | None:
        """The newest commit; only its row is decoded."""
        return head_of(self.image.recent, self.branch) if self.has_lineage else self.lineage.head

    @cached_property
    def lineage(self) -> Lineage:
        """The whole history visible here."""
        if self.has_lineage:
            return Lineage((*commits_of(self.image.rows), *self.expected))
        return self.legacy() if self.legacy is not None else Lineage(())

    def newest(self, count: int) -> Lineage:
        """Return the newest commits, at least so many if there are; the others are not decoded."""
        if "lineage" in self.__dict__ or not self.has_lineage or self.expected:
            return self.lineage
        recent = newest_of(self.image.recent, count)
        return Lineage(recent if len(recent) >= count else newest_of(self.image.rows, count))

    @cached_property
    def merged(self) -> Lineage:
        """The commits of other branches that merges brought: ancestors of the head outside its own history."""
        return Lineage(merged_of(self.image.rows) if self.has_lineage else ())

    @cached_property
    def ancestors(self) -> pa.Table:
        """Every known ancestor of the head, as rows by commit id; nothing is decoded."""
        rows = self.image.rows
        return ancestor_rows(rows) if self.has_lineage else commit_rows(self.lineage.commits)

    @cached_property
    def policies(self) -> tuple[PolicyVersion, ...]:
        """Every version of the policy that the graph keeps, oldest first; only those of main count."""
        return policies_of(self.image.recent)

    def shows(self, commit: CommitId) -> GraphCommit | None:
        """Find one commit in the manifest rows without decoding the others; reads old ones only if it may be among them."""
        cached_commit = find_commit(self.image.cached, commit)
        if cached_commit is None and self.image.may_hide(commit):
            return find_commit(self.image.rows, commit)
        return cached_commit

    def load_replaced(self, records: Iterable[Record]) -> None:
        """Read the old rows if records may replace one of them: operations, and commits that are not newer than all old ones.

        The newest version of a table is recent, and so are rows that are neither versions nor history.
        """
        if any(self._may_replace_old(record) for record in records):
            self.image.load_history()

    def _may_replace_old(self, record: Record) -> bool:
        match record:
            case Operation():
                return True
            case GraphCommit():
                return self.image.may_hide(record.id)
            case Registration() | TableVersion() | Tombstone():
                return False
            case GraphHead() | Tag() | PolicyVersion():
                return False

    def find_batch(self, batch_id: str) -> GraphCommit | None:
        """Find the commit that holds a batch; a branch whose history is not in its manifest holds none."""
        return find_batch(self.image.rows, batch_id)

    def expect(self, records: Iterable[Record]) -> "BranchState":
        """Derive the state that these records will make; the next write of the same swap is prepared on it."""
        fresh = tuple(records)
        if not fresh:
            return self
        commits = tuple(record for record in fresh if isinstance(record, GraphCommit))
        state = replace(
            self,
            table_history=self.table_history.after(fresh),
            expected=(*self.expected, *commits),
        )
        state.__dict__["head"] = commits[-1] if commits else self.head
        return state

    def before_rest_of_group(self, commit: GraphCommit) -> "BranchState":
        """Derive the state that a commit left: without the changes of later commits of the same swap."""
        later = tuple(self._later_in_group(commit)) if commit.group is not None else ()
        if not later:
            return self
        removed = pa.array(
            [name for later_commit in later for name in self._list_rows(later_commit)]
        )
        rows = self.image.rows.filter(pc.invert(pc.is_in(self.image.rows[KEY], value_set=removed)))
        state = replace(
            self,
            image=replace(self.image, recent=rows, history=None),
            table_history=read_table_history(rows),
            is_amid_swap=True,
        )
        state.__dict__["head"] = commit
        return state

    def _later_in_group(self, commit: GraphCommit) -> Iterator[GraphCommit]:
        rows = self.image.rows
        swapped = rows.filter(pc.equal(rows["table_version"], commit.manifest_version))
        for other in commits_of(swapped):
            if other.group == commit.group and other.order > commit.order:
                yield other

    def _list_rows(self, commit: GraphCommit) -> Iterator[str]:
        """Name the rows that a commit of a group brought: itself and the versions that it left."""
        yield commit.id
        for table, version in commit.pins.items():
            latest = self.table_history.latest(table)
            yield version_row(table, version, 1 if latest is None else latest.incarnation)

    def after(
        self,
        records: Iterable[Record],
        version: Version,
        image: Image | None = None,
        merged_commits: pa.Table = NO_ROWS,
        fragments: int | None = None,
    ) -> "BranchState":
        """Derive the state after a swap of these records and brought commits, without reading it back.

        `image` is the image of that state, where it is cached, and `fragments` counts those of its rows.
        """
        fresh = tuple(records)
        commits = [record for record in fresh if isinstance(record, GraphCommit)]
        state = replace(
            self,
            image=image
            or swap_rows(
                self.image, pa.concat_tables([encode(fresh), merged_commits]), KEY, version
            ),
            table_history=self.table_history.after(fresh),
            fragments=self.fragments + 1 if fragments is None else fragments,
            expected=(),
        )
        # Values that were decoded before are not decoded again.
        state.__dict__["head"] = commits[-1] if commits else self.head
        if "lineage" in self.__dict__:
            state.__dict__["lineage"] = self.lineage.with_commits(commits)
        if "policies" in self.__dict__:
            policies = tuple(record for record in fresh if isinstance(record, PolicyVersion))
            state.__dict__["policies"] = (*self.policies, *policies)
        return state

    def moved_to(self, image: Image, fragments: int) -> "BranchState":
        """Derive the state of a version with the same rows; decoded values are not decoded again."""
        state = replace(self, image=image, fragments=fragments)
        for name in ("head", "lineage", "policies"):
            if name in self.__dict__:
                state.__dict__[name] = self.__dict__[name]
        return state


def decode(
    image: Image, fragments: int, legacy: Callable[[], Lineage] | None = None
) -> BranchState:
    """Decode an image; refuses a stamp that this release does not understand, for every reader."""
    stamp = stamp_of(image.metadata)
    missing = [name for name in MANIFEST_SCHEMA.names if name not in image.recent.column_names]
    if missing and stamp >= LINEAGE_IN_MANIFEST:
        raise InternalError(
            f"version {image.version} of the manifest has no column {', '.join(missing)}; the manifest is damaged and "
            "nothing was read from it"
        )
    return BranchState(
        image=image,
        stamp=stamp,
        table_history=read_table_history(image.recent),
        fragments=fragments,
        legacy=legacy,
    )


# ---- published versions of tables


_COLUMNS = (KEY, "table_key", "table_version", "table_branch", "row_count", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedVersion:
    """A version of a table that a commit of a branch shows, and the digests of its new files, by their keys."""

    table_key: TableKey
    path: str
    branch: str | None
    version: Version
    row_count: int | None
    digests: Mapping[str, str]


def published_versions(
    state: BranchState, *, with_digests: bool = False
) -> Iterator[PublishedVersion]:
    """Read the versions of tables that a manifest records, all or only versions that brought files with digests."""
    rows = rows_of(state.image.rows, ObjectType.TABLE_VERSION, _COLUMNS)
    if with_digests:
        rows = rows.filter(pc.match_substring(rows["metadata"], f'"{DIGESTS}"'))
    for row, incarnation in zip(rows.to_pylist(), incarnations_of(rows[KEY]), strict=True):
        key = TableKey(row["table_key"])
        owner = state.table_history.find(key, int(incarnation))
        if owner is not None:
            yield PublishedVersion(
                table_key=key,
                path=owner.path,
                branch=row["table_branch"],
                version=Version(row["table_version"]),
                row_count=row["row_count"],
                digests=json.loads(row["metadata"]).get(DIGESTS) or {},
            )


def table_digests(state: BranchState) -> Mapping[str, Mapping[str, str]]:
    """Read the recorded digests of a branch, by the path of the table and the key of the file."""
    digests: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for published in published_versions(state, with_digests=True):
        digests[published.path] |= published.digests
    return digests
