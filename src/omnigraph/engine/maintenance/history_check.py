"""Is the record whole? History is one line per branch, and every recovery is told once."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.sidecar import Sidecar
from omnigraph.engine.maintenance.issues import Issue
from omnigraph.engine.session.engine import Engine
from omnigraph.ids import RECOVERY_ACTOR, BranchName, CommitId
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.records import KEY, GraphCommit
from omnigraph.manifest.state import BranchState

_REPORT = "keep a copy of the graph and report it"


def chronicle(engine: Engine, branches: Iterable[BranchName]) -> Iterator[Issue]:
    """Check the history of every branch, and the audit of recoveries against it."""
    known: dict[CommitId, GraphCommit] = {}
    for branch in branches:
        state = engine.manifest.current(branch)
        lineage = state.lineage
        known |= lineage.by_id
        yield from _history(branch, lineage)
        yield from _merges(branch, state)
    yield from _audit(engine, known)


def _history(branch: BranchName, lineage: Lineage) -> Iterator[Issue]:
    """One beginning, parents that exist, and one commit after the other."""
    own = [commit for commit in lineage.commits if commit.branch == branch]
    begun = [commit.id for commit in lineage.commits if commit.parent is None]
    lost = [c for c in lineage.commits if c.parent is not None and c.parent not in lineage.by_id]
    duplicates = [one for one, count in Counter(c.parent for c in own).items() if count > 1]
    problems = (
        *([f"it has {len(begun)} beginnings"] if len(begun) != 1 else ()),
        *(
            f"commit {commit.id} names the parent {commit.parent}, which is not there"
            for commit in lost
        ),
        *(f"commit {one} has two followers" for one in duplicates if one is not None),
    )
    for problem in problems:
        yield Issue(check="history", message=problem, remedy=_REPORT, branch=branch)


def _merges(branch: BranchName, state: BranchState) -> Iterator[Issue]:
    """What a merge brought is known to its branch; earlier releases, which note no agreement, brought nothing."""
    merges = [commit for commit in state.lineage.commits if commit.agreed is not None]
    parents = pa.array([commit.merged_parent for commit in merges], pa.string())
    known = pc.is_in(parents, value_set=state.ancestors[KEY].combine_chunks())
    for commit, is_known in zip(merges, known.to_pylist(), strict=True):
        if not is_known:
            message = f"commit {commit.id} names the merged parent {commit.merged_parent}, which is unknown"
            yield Issue(check="merged parent", message=message, remedy=_REPORT, branch=branch)


def _audit(engine: Engine, known: dict[CommitId, GraphCommit]) -> Iterator[Issue]:
    """Every recovery is recorded once; an operation that a commit settled has its record."""
    rows = engine.recovery.audit.rows()
    for operation, count in sorted(Counter(row.operation_id for row in rows).items()):
        if count > 1:
            message = f"the recovery of {operation} is recorded {count} times"
            yield Issue(check="audit", message=message, remedy=_REPORT)
    told = {row.operation_id for row in rows}
    # A record follows its commit: a sidecar that is still there brings it.
    awaited = {
        one.operation_id
        for one in engine.committer.sidecars.inventory()
        if isinstance(one, Sidecar)
    }
    for commit in known.values():
        settled = commit.operation_id if commit.actor == RECOVERY_ACTOR else None
        if settled is not None and settled not in told | awaited:
            message = f"commit {commit.id} settled {settled} and no record tells of it"
            yield Issue(check="audit", message=message, remedy=_REPORT, branch=commit.branch)
