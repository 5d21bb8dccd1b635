"""The state of one branch's manifest at one version: decoded once, advanced by own publishes."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from omnigraph.ids import BranchName, CommitId, Version
from omnigraph.manifest.lineage import Lineage, commits_of, find_commit, head_of, merged_of
from omnigraph.manifest.merged import NO_ROWS, ancestor_rows, commit_rows
from omnigraph.manifest.records import KEY, GraphCommit, Record, encode, graph_branch
from omnigraph.manifest.snapshot import Snapshot, snapshot_of
from omnigraph.manifest.stamp import LINEAGE_IN_MANIFEST, stamp_of
from omnigraph.manifest.table_history import TableHistory, read_table_history
from omnigraph.storage.rows import Image, swap_rows
from omnigraph.storage.values import Incarnation
from omnigraph.values import dataclass


@dataclass(frozen=True, kw_only=True, eq=False)
class BranchState:
    """An image of the manifest and what it says. Lineage is decoded when somebody asks for it."""

    image: Image
    stamp: int
    table_history: TableHistory
    fragments: int
    legacy: Callable[[], Lineage] | None = None
    """Where the history is while this branch's stamp is older than lineage in the manifest."""

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
        """Which life of the branch name this is."""
        return self.image.incarnation

    @property
    def has_lineage(self) -> bool:
        """Whether the manifest of this branch carries its own history."""
        return self.stamp >= LINEAGE_IN_MANIFEST

    @cached_property
    def snapshot(self) -> Snapshot:
        """What is visible."""
        return snapshot_of(self.table_history, self.branch, self.version, self.branch_incarnation)

    @cached_property
    def head(self) -> GraphCommit | None:
        """The newest commit; only its row is decoded."""
        return head_of(self.image.rows, self.branch) if self.has_lineage else self.lineage.head

    @cached_property
    def lineage(self) -> Lineage:
        """The whole history visible here."""
        if self.has_lineage:
            return Lineage(commits_of(self.image.rows))
        return self.legacy() if self.legacy is not None else Lineage(())

    @cached_property
    def merged(self) -> Lineage:
        """The commits of other branches that merges brought: ancestors of the head beside its own history."""
        return Lineage(merged_of(self.image.rows) if self.has_lineage else ())

    @cached_property
    def ancestors(self) -> pa.Table:
        """Every ancestor of the head that is known, as rows by commit id; nothing is decoded."""
        rows = self.image.rows
        return ancestor_rows(rows) if self.has_lineage else commit_rows(self.lineage.commits)

    def shows(self, commit: CommitId) -> GraphCommit | None:
        """Find one commit in the manifest rows without decoding the others."""
        return find_commit(self.image.rows, commit)

    def after(
        self,
        records: Iterable[Record],
        version: Version,
        image: Image | None = None,
        brought: pa.Table = NO_ROWS,
    ) -> "BranchState":
        """The state once these records and brought commits were swapped in, without reading it back.

        `image` is that state, where it is known.
        """
        fresh = tuple(records)
        commits = [record for record in fresh if isinstance(record, GraphCommit)]
        state = replace(
            self,
            image=image
            or swap_rows(self.image, pa.concat_tables([encode(fresh), brought]), KEY, version),
            table_history=self.table_history.after(fresh),
            fragments=self.fragments + 1,
        )
        # What is known already is not decoded again.
        state.__dict__["head"] = commits[-1] if commits else self.head
        if "lineage" in self.__dict__:
            state.__dict__["lineage"] = self.lineage.with_commits(commits)
        return state


def decode(
    image: Image, fragments: int, legacy: Callable[[], Lineage] | None = None
) -> BranchState:
    """Decode an image; a stamp this release does not understand is refused here, for every reader."""
    return BranchState(
        image=image,
        stamp=stamp_of(image.metadata),
        table_history=read_table_history(image.rows),
        fragments=fragments,
        legacy=legacy,
    )
