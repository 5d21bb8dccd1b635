"""One graph's manifest: its rows, what is known of them, and fresh reads of a branch, now or in the past."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field

from omnigraph.errors import HistoryReclaimed, NotFound, NotFoundError
from omnigraph.ids import MAIN, BranchName, Version
from omnigraph.limits import PUBLISH_LOCK_SECONDS_MAX
from omnigraph.manifest.heads import Heads
from omnigraph.manifest.legacy import LegacyLineage
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.records import graph_branch, lance_branch
from omnigraph.manifest.stamp import LINEAGE_IN_MANIFEST, stamp_of
from omnigraph.manifest.state import BranchState, decode
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.locks.table import Locks
from omnigraph.storage.rows import Image, Rows
from omnigraph.storage.values import MAIN_INCARNATION, Incarnation
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of one graph. All handles of a process on one root share one, so that they take turns.

    `turns` are turns between processes, for stores that give them at no cost: a swap is safe without them, but a
    process that always knows the newest state could win every round.
    """

    rows: Rows
    runtime: Runtime
    legacy: LegacyLineage | None = None
    heads: Heads = field(default_factory=Heads)
    publish_locks: Locks | None = None

    @contextmanager
    def lock_branch(self, branch: BranchName) -> Iterator[bool]:
        """Publish in turn with the other publishers of a branch; False when the turn was waited for in vain."""
        with self.heads.lock_branch(branch), ExitStack() as held:
            if self.publish_locks is None:
                yield True
                return
            lock = self.publish_locks.acquire(
                f"__publish__@{branch}", wait=PUBLISH_LOCK_SECONDS_MAX
            )
            if lock is not None:
                held.callback(self.publish_locks.release, lock)
            yield lock is not None

    def current(
        self,
        branch: BranchName,
        branch_incarnation: Incarnation | None = None,
        *,
        remember: bool = True,
    ) -> BranchState:
        """The branch as it is now: one probe, and a load only when somebody else moved it.

        `line` spares the look at which life of the name this is, for a caller who just listed the branches; one
        who looks at all of them does not `remember`, so that those in use stay known.
        """
        known = self.heads.get(branch)
        alive = (
            self.branch_incarnation(branch) if branch_incarnation is None else branch_incarnation
        )
        version = self.rows.head(lance_branch(branch))
        if known is not None and known.version == version and known.branch_incarnation == alive:
            return known
        state = self.load(branch, version)
        return self.heads.keep(state) if remember else state

    def load(self, branch: BranchName, version: Version | None = None) -> BranchState:
        """Read a state from the rows, whatever is known; it is not remembered."""
        image = self.rows.load(lance_branch(branch), version)
        return decode(image, self.rows.fragment_count(image), self._history(image))

    def branch_incarnation(self, branch: BranchName) -> Incarnation:
        """Which life of a branch name is alive; a branch that is not there is NotFound."""
        if branch == MAIN:
            return MAIN_INCARNATION
        try:
            return self.rows.incarnation(branch)
        except NotFoundError as error:
            raise self.no_branch(branch) from error

    def is_gone(self, branch: BranchName, branch_incarnation: Incarnation) -> bool:
        """Whether a branch that was listed has been deleted since, or made again under its name."""
        try:
            return self.branch_incarnation(branch) != branch_incarnation
        except NotFoundError:
            return True

    def no_branch(self, branch: str) -> NotFound:
        """The error for a branch that is not there."""
        return NotFound("branch", branch, known=[MAIN, *self.rows.branches()])

    def past(self, branch: BranchName, version: Version) -> BranchState:
        """The branch at one version of its history, inherited versions included."""
        head = self.current(branch)
        if version == head.version:
            return head
        if not 1 <= version < head.version:
            raise NotFound(
                "manifest version",
                str(version),
                hint=f"branch '{branch}' has the versions 1 to {head.version}",
            )
        holder = self._holder(branch, version)
        branch_incarnation = (
            head.branch_incarnation if holder == branch else self.branch_incarnation(holder)
        )
        return self.heads.past(
            (holder, branch_incarnation, version), lambda: self._reclaimable(holder, version)
        )

    def _reclaimable(self, branch: BranchName, version: Version) -> BranchState:
        try:
            return self.load(branch, version)
        except NotFoundError as error:
            raise HistoryReclaimed(MANIFEST, version) from error

    def _holder(self, branch: BranchName, version: Version) -> BranchName:
        """The branch that holds a version: versions before the fork are the parent's."""
        if branch == MAIN:
            return MAIN
        refs = self.rows.branches()
        holder: str | None = branch
        while holder is not None and holder in refs and version < refs[holder].parent_version:
            holder = refs[holder].parent
        return graph_branch(holder)

    def _history(self, image: Image) -> Callable[[], Lineage] | None:
        legacy = self.legacy
        if legacy is None or stamp_of(image.metadata) >= LINEAGE_IN_MANIFEST:
            return None
        branch, version = graph_branch(image.branch), image.version
        return lambda: _upto(legacy, branch, version)


def _upto(legacy: LegacyLineage, branch: BranchName, version: Version) -> Lineage:
    """The legacy history a manifest version shows: the tables hold the whole of it."""
    commits = (c for c in legacy.read(branch) if c.manifest_version <= version)
    return Lineage(tuple(sorted(commits, key=lambda commit: commit.order)))
