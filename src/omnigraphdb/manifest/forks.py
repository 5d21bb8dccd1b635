"""The ownership of a Lance branch of a table: the only check that may lead to the removal of such a branch."""

from enum import StrEnum

from omnigraphdb.errors import OmniError, TableNotFound
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import MAIN_INCARNATION, TableAt


class ForkStatus(StrEnum):
    """The status of a fork in the manifest."""

    LEGITIMATE = "legitimate"
    ORPHAN = "orphan"
    INDETERMINATE = "indeterminate"


def classify_fork(placed: bool | None, live: bool | None) -> ForkStatus:
    """Classify a fork: does the branch's manifest use it (`placed`), and does the branch exist (`live`)?

    None means that it could not be read. A fork is an orphan only when both are known.
    """
    if placed is not None:
        return ForkStatus.LEGITIMATE if placed else ForkStatus.ORPHAN
    return ForkStatus.ORPHAN if live is False else ForkStatus.INDETERMINATE


def fork_status(manifest: Manifest, path: str, branch: BranchName) -> ForkStatus:
    """Classify the fork of one table from a fresh read; the caller holds the lock of that table and branch."""
    placed = _is_placed(manifest, path, branch)
    return classify_fork(placed, _live(manifest, branch) if placed is None else None)


def is_at_fork_point(tables: Tables, base: TableAt, branch: str) -> bool:
    """Whether a fork was made from exactly this version, of this incarnation of its parent, and holds nothing more."""
    forks = tables.forks(base.path)
    fork, parent = forks.get(branch), None if base.branch is None else forks.get(base.branch)
    if fork is None or (base.branch is not None and parent is None):
        return False
    made_from = MAIN_INCARNATION if parent is None else parent.incarnation
    is_same = fork.incarnation[:-1] == made_from
    is_same &= (fork.parent, fork.parent_version) == (base.branch, base.version)
    try:
        return is_same and tables.head(base.path, branch) == base.version
    except TableNotFound:
        # A ref whose files were cleared before it arrived.
        return False


def _is_placed(manifest: Manifest, path: str, branch: BranchName) -> bool | None:
    try:
        fail(Failpoint.FORK_CLASSIFY_READ)
        snapshot = manifest.load(branch).snapshot
    except OmniError:
        return None
    return any(entry.at.path == path for entry in snapshot.owned())


def _live(manifest: Manifest, branch: BranchName) -> bool | None:
    try:
        return branch in manifest.rows.branches()
    except OmniError:
        return None
