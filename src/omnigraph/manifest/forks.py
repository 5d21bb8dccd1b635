"""Who owns a Lance branch of a table: the only check that may lead to its removal."""

from enum import StrEnum

from omnigraph.errors import OmniError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName
from omnigraph.manifest.manifest import Manifest


class ForkStatus(StrEnum):
    """What the manifest says of a fork."""

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
