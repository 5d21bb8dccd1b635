"""Steps that bring a manifest from an older internal shape to the current one, branch by branch."""

from collections.abc import Callable, Mapping
from typing import Final

from omnigraphdb.errors import InternalError, OmniError, RowContention
from omnigraphdb.failpoints import Failpoint, Injected, fail
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.limits import MIGRATION_ROUNDS_MAX
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.lineage import has_commits
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import (
    KEY,
    PRIMARY_KEY,
    GraphCommit,
    GraphHead,
    Record,
    encode,
    lance_branch,
)
from omnigraphdb.manifest.stamp import CURRENT, MIN_SUPPORTED, STAMP, stamp_of
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.rows import Image
from omnigraphdb.storage.values import BranchRef

_log = get_logger(__name__)

RUN_PREFIX: Final = "__run__"
"""Branches of this prefix were scratch space before stamp 3; since then it is an ordinary name."""

History = Callable[[], tuple[GraphCommit, ...]]
"""The source of the commits of a branch whose manifest has none."""


Step = Callable[[Manifest, BranchName, History], None]
"""The work of one step on one branch; doing it twice is harmless. The stamp follows."""


def load_migrated(manifest: Manifest, branch: BranchName) -> BranchState:
    """Read a branch as it is now, migrated to the current shape, for a writer."""
    state = manifest.current(branch)
    if state.stamp == CURRENT:
        return state
    migrate(manifest, branch)
    return manifest.current(branch)


def migrate(manifest: Manifest, branch: BranchName, history: History | None = None) -> None:
    """Run every step this branch still needs; two runners at once converge.

    `RowContention` when others kept winning: nothing is half done, and the next try goes on from there.
    """
    read = history or _legacy_history(manifest, branch)
    for stamp in range(MIN_SUPPORTED, CURRENT):
        # Read before every step: a rival may have done it, and its work must not be repeated.
        if stamp_of(manifest.rows.load(lance_branch(branch)).metadata) == stamp:
            STEPS[stamp](manifest, branch, read)
            _set_stamp(manifest, branch, stamp + 1)


def _legacy_history(manifest: Manifest, branch: BranchName) -> History:
    legacy = manifest.legacy
    return (lambda: legacy.read(branch)) if legacy is not None else tuple


def _set_stamp(manifest: Manifest, branch: BranchName, target: int) -> None:
    """Set the stamp; a rival that set it as well has done our work."""

    def work(image: Image) -> None:
        if stamp_of(image.metadata) < target:
            contend(Failpoint.MIGRATE_STAMP, lance_branch(branch))
            manifest.rows.set_metadata(image, STAMP, str(target))

    _retry_contended(manifest, branch, work)


def _retry_contended(manifest: Manifest, branch: BranchName, work: Callable[[Image], None]) -> None:
    """Do work on a fresh image until no rival comes between; the last lost round is the caller's to retry."""
    lost: RowContention | None = None
    for _ in range(MIGRATION_ROUNDS_MAX):
        try:
            return work(manifest.rows.load(lance_branch(branch)))
        except RowContention as error:
            lost = error
    raise lost or InternalError("a migration step was given no round at all")


def contend(name: Failpoint, branch: str | None) -> None:
    """Raise an injected failure as a lost race."""
    try:
        fail(name)
    except Injected as error:
        raise RowContention(MANIFEST, branch, 0) from error


# ---- 1 → 2: swaps contend on the row key


def annotate_key(manifest: Manifest, branch: BranchName, _history: History) -> None:
    """Mark `object_id` as the primary key, once and for good."""

    def work(image: Image) -> None:
        marked = [
            field.name for field in image.rows.schema if PRIMARY_KEY in (field.metadata or {})
        ]
        if not marked:
            manifest.rows.annotate_key(image)
        elif marked != [KEY]:
            raise InternalError(
                f"the manifest has the primary key {', '.join(marked)} on branch '{branch}', not {KEY}; "
                "it cannot be changed, nothing was written"
            )

    _retry_contended(manifest, branch, work)


# ---- 2 → 3: no scratch branches


def drop_runs(manifest: Manifest, branch: BranchName, _history: History) -> None:
    """Delete the scratch branches of former runs, children first.

    Only the migration of main does it: later a branch of such a name is an ordinary one.
    """
    if branch != MAIN:
        return
    refs = {name: r for name, r in manifest.rows.branches().items() if name.startswith(RUN_PREFIX)}
    for name in sorted(refs, key=lambda name: _depth(name, refs), reverse=True):
        manifest.rows.delete_branch(name)


def _depth(name: str, refs: Mapping[str, BranchRef]) -> int:
    parent = refs[name].parent
    return 1 + _depth(parent, refs) if parent in refs and parent is not None else 0


# ---- 3 → 4: lineage in the manifest


def fold_lineage(manifest: Manifest, branch: BranchName, history: History) -> None:
    """Copy the history of this branch into its manifest, with its head."""

    def work(image: Image) -> None:
        commits = () if has_commits(image.rows) else history()
        if commits:
            manifest.rows.swap(image, encode(_lineage(branch, commits)))

    _retry_contended(manifest, branch, work)
    fail(Failpoint.MIGRATE_MERGED)


def _lineage(branch: BranchName, commits: tuple[GraphCommit, ...]) -> list[Record]:
    head = max(commits, key=lambda commit: commit.order)
    return [
        *sorted(commits, key=lambda commit: commit.id),
        GraphHead(branch=branch, commit=head.id, parent=head.parent),
    ]


# ---- 4 → 5: operations, tags, and the pins of commits


def admit_operations(manifest: Manifest, branch: BranchName, _history: History) -> None:
    """Change no row: earlier releases would lose operations and tags, so the stamp alone shuts them out.

    Their folds kept the version of every row, which every version file repeats; one fold of everything ends that.
    """
    fail(Failpoint.MIGRATE_FOLD)
    try:
        manifest.fold(branch, whole=True)
    except OmniError as error:
        # The manifest stays long, and optimize folds it.
        _log.warning("manifest.fold_failed", branch=branch, reason=str(error))


# ---- 5 → 6: the policy of the graph


def admit_policies(_manifest: Manifest, _branch: BranchName, _history: History) -> None:
    """Change no row: earlier releases would skip the policy and write unguarded, so the stamp alone shuts them out."""


STEPS: Final[Mapping[int, Step]] = {
    1: annotate_key,
    2: drop_runs,
    3: fold_lineage,
    4: admit_operations,
    5: admit_policies,
}
"""The step that leaves each stamp behind."""


def covers(steps: Mapping[int, Step], floor: int, current: int) -> bool:
    """Whether there is exactly one step for every stamp from the floor up to the current one."""
    return sorted(steps) == list(range(floor, current))
