"""The manifest of one graph: its rows, cached branch states, and reads of a branch, now or in the past."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from enum import StrEnum
from functools import partial
from zlib import crc32

from omnigraphdb.errors import HistoryReclaimed, NotFound, NotFoundError
from omnigraphdb.ids import MAIN, BranchName, Version
from omnigraphdb.limits import (
    BRANCH_STATES_MAX,
    HEAD_READS_MAX,
    KNOWN_HEAD_SECONDS_MAX,
    PUBLISH_LOCK_SECONDS_MAX,
    PUBLISH_LOCKS,
)
from omnigraphdb.manifest.lineage import LegacyLineage, Lineage
from omnigraphdb.manifest.old_rows import split_old_rows
from omnigraphdb.manifest.records import graph_branch, lance_branch
from omnigraphdb.manifest.stamp import LINEAGE_IN_MANIFEST, stamp_of
from omnigraphdb.manifest.state import BranchState, decode
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.locks.table import Locks
from omnigraphdb.storage.rows import INCARNATION, Image, Rows, mark_of
from omnigraphdb.storage.values import MAIN_INCARNATION, Incarnation, Reclaimed, TableAt
from omnigraphdb.values import dataclass


def _ignore(_: BranchName) -> None:
    return None


class PublishLock(StrEnum):
    """The lock that a publisher of a branch holds."""

    BRANCH = "publish"
    """Publishers lock one another out."""
    SPARE = "publish_spare"
    """Another one may swap too, but no version of the manifest is removed."""
    NONE = ""

    def key(self, branch: BranchName) -> str:
        """Return the key of the lock of a branch."""
        return f"__{self}__@{branch}"


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A moment by both clocks: the one stands still while a machine sleeps, the other may be set."""

    monotonic: float
    wall_us: int

    @classmethod
    def now(cls, runtime: Runtime) -> "ClockReading":
        """Return the present moment."""
        return cls(runtime.monotonic(), runtime.now_us())

    def seconds_since(self, earlier: "ClockReading") -> float:
        """Return the seconds since an earlier moment, by the clock that shows more."""
        wall = (self.wall_us - earlier.wall_us) / 1_000_000
        return max(self.monotonic - earlier.monotonic, wall)


class Heads:
    """The newest cached state per branch and a few past ones; safe to share between threads, bounded.

    `new_incarnation` is called when a branch has another incarnation than before, or when its state leaves the
    cache: caches by name and version must then drop their entries of it.
    """

    def __init__(self, new_incarnation: Callable[[BranchName], None] = _ignore) -> None:
        self._new_incarnation = new_incarnation
        self._lock = threading.Lock()
        self._newest: OrderedDict[BranchName, BranchState] = OrderedDict()
        self._past: OrderedDict[Hashable, BranchState] = OrderedDict()
        self._seen: dict[BranchName, ClockReading] = {}
        # A fixed set of locks: two branches may share one, and none is ever left over.
        self._locks = tuple(threading.Lock() for _ in range(PUBLISH_LOCKS))

    def lock_branch(self, branch: BranchName) -> threading.Lock:
        """Give the lock of the publishers of one branch in this process: the same one in every process."""
        return self._locks[crc32(branch.encode()) % PUBLISH_LOCKS]

    def get(self, branch: BranchName) -> BranchState | None:
        """Return the newest cached state; it may be stale."""
        with self._lock:
            state = self._newest.get(branch)
            if state is not None:
                self._newest.move_to_end(branch)
            return state

    def keep(self, state: BranchState) -> BranchState:
        """Cache a state unless a newer one of the same incarnation is cached."""
        lost: list[BranchName] = []
        with self._lock:
            cached = self._newest.get(state.branch)
            if cached is not None and cached.branch_incarnation != state.branch_incarnation:
                lost.append(state.branch)
            if (
                cached is None
                or cached.branch_incarnation != state.branch_incarnation
                or cached.version <= state.version
            ):
                self._newest[state.branch] = state
            self._newest.move_to_end(state.branch)
            while len(self._newest) > BRANCH_STATES_MAX:
                lost.append(self._newest.popitem(last=False)[0])
                self._seen.pop(lost[-1], None)
        self._report(lost)
        return state

    def drop(self, branch: BranchName) -> None:
        """Drop the cached state: the next read loads it again."""
        with self._lock:
            self._newest.pop(branch, None)
            self._seen.pop(branch, None)

    def end(self, branch: BranchName) -> None:
        """Drop a deleted branch here and in every cache."""
        self.drop(branch)
        self._report([branch])

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._newest.clear()
            self._past.clear()
            self._seen.clear()

    def past(self, name: Hashable, load: Callable[[], BranchState]) -> BranchState:
        """Return a past state; it never changes, so it is loaded once while it is cached."""
        with self._lock:
            state = self._past.get(name)
        if state is None:
            state = load()
        with self._lock:
            self._past[name] = state
            self._past.move_to_end(name)
            while len(self._past) > BRANCH_STATES_MAX:
                self._past.popitem(last=False)
        return state

    def note_seen(self, branch: BranchName, moment: "ClockReading") -> None:
        """Note the moment at which the cached state was the newest."""
        with self._lock:
            if branch in self._newest:
                self._seen[branch] = moment

    def seen(self, branch: BranchName) -> "ClockReading | None":
        """Give the last moment at which the cached state was known to be the newest."""
        with self._lock:
            return self._seen.get(branch)

    def drop_past(self) -> None:
        """Drop the past states: cleanup may have removed some of them."""
        with self._lock:
            self._past.clear()

    def _report(self, lost: list[BranchName]) -> None:
        # Outside the lock: a listener may call this object.
        for branch in lost:
            self._new_incarnation(branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of one graph.

    `publish_locks` are locks between processes, for stores where a lock costs no request: a swap is safe without
    them, but a process that always has the newest state could win every round. `has_table` tells whether cleanup
    left a version of a table.
    """

    rows: Rows
    runtime: Runtime
    legacy: LegacyLineage | None = None
    heads: Heads = field(default_factory=Heads)
    publish_locks: Locks | None = None
    has_table: Callable[[TableAt], bool] = lambda _at: True

    @contextmanager
    def lock_branch(self, branch: BranchName) -> Iterator[PublishLock]:
        """Hold the publish lock of a branch, or the spare one when the wait for it timed out, or none.

        A process that is stopped may hold the first one for long. Without it a swap may start from a state that
        somebody replaces meanwhile; Lance then tells by the versions in between, and while the spare lock is held
        nobody removes versions. A publisher that holds neither must not swap.
        """
        with self.heads.lock_branch(branch), ExitStack() as stack:
            if self.publish_locks is None:
                yield PublishLock.BRANCH
                return
            for kind in (PublishLock.BRANCH, PublishLock.SPARE):
                lock = self.publish_locks.acquire(kind.key(branch), wait=PUBLISH_LOCK_SECONDS_MAX)
                if lock is not None:
                    stack.callback(self.publish_locks.release, lock)
                    yield kind
                    return
            yield PublishLock.NONE

    @contextmanager
    def lock_versions(self, branch: BranchName) -> Iterator[bool]:
        """Wait until no swap needs old versions, and keep it so for the block; False when the wait timed out.

        The remover of versions holds the spare lock, so that every publisher has the first lock. The remover also had the
        first lock for a moment: a publisher that gets it later looks for the newest version first.
        """
        if self.publish_locks is None:
            yield True
            return
        with ExitStack() as stack:
            for kind in (PublishLock.SPARE, PublishLock.BRANCH):
                lock = self.publish_locks.acquire(kind.key(branch), wait=PUBLISH_LOCK_SECONDS_MAX)
                if lock is None:
                    yield False
                    return
                if kind is PublishLock.BRANCH:
                    self.publish_locks.release(lock)
                else:
                    stack.callback(self.publish_locks.release, lock)
            yield True

    def current(
        self,
        branch: BranchName,
        branch_incarnation: Incarnation | None = None,
        *,
        remember: bool = True,
    ) -> BranchState:
        """Read a branch as it is now: one probe, and a load only when another process moved it.

        A caller that has just listed the branches gives the `branch_incarnation` and spares its read. A caller that
        reads all branches does not `remember` them, so that those in use stay cached.
        """
        for _ in range(HEAD_READS_MAX - 1):
            # Every read comes here, and `suppress` would take longer than the search itself.
            try:
                return self._current(branch, branch_incarnation, remember=remember)
            except HistoryReclaimed:
                # Others replaced the newest version, and cleanup removed it, before it was read.
                continue
        return self._current(branch, branch_incarnation, remember=remember)

    def _current(
        self, branch: BranchName, branch_incarnation: Incarnation | None, *, remember: bool
    ) -> BranchState:
        cached = self.heads.get(branch)
        incarnation = (
            self.branch_incarnation(branch) if branch_incarnation is None else branch_incarnation
        )
        version = self.rows.head(lance_branch(branch))
        if (
            cached is not None
            and cached.version == version
            and cached.branch_incarnation == incarnation
        ):
            self.note_head(branch)
            return cached
        state = self.load(branch, version)
        if remember:
            self.heads.keep(state)
            self.note_head(branch)
        return state

    def note_head(self, branch: BranchName) -> None:
        """Note that the cached state of a branch is its newest at this moment, where its age is ever asked for."""
        if self.publish_locks is None:
            self.heads.note_seen(branch, ClockReading.now(self.runtime))

    def head_age(self, branch: BranchName) -> float:
        """Return the seconds since the cached state of a branch was its newest for sure."""
        seen = self.heads.seen(branch)
        return math.inf if seen is None else ClockReading.now(self.runtime).seconds_since(seen)

    def find_cached_head(self, branch: BranchName) -> BranchState | None:
        """Give the cached state of main or of a branch, if a swap may start from it without a look at the store.

        A swap notices changes since its state by the versions in between, and cleanup removes versions. Where
        publishers lock one another out, the newest version is found here, by a few system calls, and nobody moves
        it before the swap. Elsewhere cleanup keeps versions for much longer than a state is used without a look.
        """
        state = self.heads.get(branch)
        if state is None:
            return None
        if self.publish_locks is not None:
            return state if self.rows.head(lance_branch(branch)) == state.version else None
        return state if self.head_age(branch) <= KNOWN_HEAD_SECONDS_MAX else None

    def find_unmoved(self) -> BranchState | None:
        """Give the cached state of main, if names of files show that it is the newest; nothing is read."""
        state = self.heads.get(MAIN)
        if state is None or self.rows.find_head(None) != state.version:
            return None
        return state

    def load(self, branch: BranchName, version: Version | None = None) -> BranchState:
        """Read a state from the rows without the cache of states."""
        image = self.rows.load(lance_branch(branch), version)
        return decode(image, self.rows.fragment_count(image), self._history(image))

    def mark(self, state: BranchState) -> BranchState:
        """Let the versions of a branch from here on carry its incarnation; `RowContention` when others moved it.

        A late request of an earlier branch of the name is recognised by it. Main is never made again.
        """
        carried = mark_of(state.branch_incarnation)
        if carried is None or state.image.is_marked:
            return state
        image = self.rows.set_metadata(state.image, INCARNATION, carried)
        if image.version != state.version + 1:
            self.heads.drop(state.branch)
            return self.current(state.branch, state.branch_incarnation)
        marked = self.heads.keep(state.moved_to(image, state.fragments))
        self.note_head(state.branch)
        return marked

    def fold(self, branch: BranchName, *, whole: bool = False) -> bool:
        """Store the recent rows of a branch as one fragment and old ones apart; False when a swap came first."""
        split = partial(split_old_rows, branch=branch)
        return self.rows.fold(lance_branch(branch), whole=whole, split=split)

    def branch_incarnation(self, branch: BranchName) -> Incarnation:
        """Read the incarnation of a branch; a branch that does not exist is NotFound."""
        if branch == MAIN:
            return MAIN_INCARNATION
        try:
            return self.rows.incarnation(branch)
        except NotFoundError as error:
            raise self.no_branch(branch) from error

    def is_gone(self, branch: BranchName, branch_incarnation: Incarnation) -> bool:
        """Whether a listed branch was deleted since, or deleted and created again."""
        try:
            return self.branch_incarnation(branch) != branch_incarnation
        except NotFoundError:
            return True

    def no_branch(self, branch: str) -> NotFound:
        """Make the error for a branch that does not exist."""
        return NotFound("branch", branch, known=[MAIN, *self.rows.branches()])

    def past(self, branch: BranchName, version: Version) -> BranchState:
        """Read the branch at one version of its history, inherited versions included."""
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

    def require_version(self, state: BranchState) -> None:
        """Raise `HistoryReclaimed` unless the version of a state can still be read; cached states do not count."""
        if not self.rows.has_version(state.image.branch, state.version):
            raise HistoryReclaimed(MANIFEST, state.version)

    def reclaim(
        self, branch: BranchName, versions: Sequence[Version], *, dry_run: bool
    ) -> Reclaimed:
        """Remove versions of a branch, or only count them in a dry run; the caller knows that nobody needs them."""
        try:
            return self.rows.reclaim(lance_branch(branch), versions, dry_run=dry_run)
        finally:
            self.heads.drop_past()

    def _holder(self, branch: BranchName, version: Version) -> BranchName:
        """Find the branch that stores a version: versions before the fork are the parent's."""
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
        return lambda: _read_legacy_until(legacy, branch, version)


def _read_legacy_until(legacy: LegacyLineage, branch: BranchName, version: Version) -> Lineage:
    """Read the legacy history up to a manifest version: the legacy tables hold the whole of it."""
    commits = (c for c in legacy.read(branch) if c.manifest_version <= version)
    return Lineage(tuple(sorted(commits, key=lambda commit: commit.order)))
