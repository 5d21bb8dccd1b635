"""Checks of the history: the commits of a branch are a chain, and every recovery has one audit record."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.commit.sidecar import Sidecar
from omnigraphdb.engine.maintenance.issues import Issue
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.ids import RECOVERY_ACTOR, BranchName, CommitId
from omnigraphdb.manifest.lineage import decode_commits
from omnigraphdb.manifest.merged import COMMIT_COLUMNS
from omnigraphdb.manifest.records import KEY, GraphCommit, ObjectType
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.table_history import rows_of

_REPORT = "keep a copy of the graph and report it"


class HistoryCheck:
    """Checks the commits of one branch after the other; a commit that several branches have is decoded once."""

    def __init__(self) -> None:
        self._commits: dict[CommitId, GraphCommit] = {}

    def check_branch(self, state: BranchState) -> Iterator[Issue]:
        """Check the commits of a branch."""
        commits = self._read(state)
        yield from _check_chain(state.branch, commits)
        yield from _check_merges(state, commits)

    def check_audit(self, engine: Engine) -> Iterator[Issue]:
        """Check the audit records of recoveries against the commits of all branches."""
        yield from _check_audit(engine, self._commits)

    def _read(self, state: BranchState) -> list[GraphCommit]:
        if not state.has_lineage:
            self._commits |= state.lineage.by_id
            return [*state.lineage.commits]
        rows = rows_of(state.image.rows, ObjectType.GRAPH_COMMIT, COMMIT_COLUMNS)
        ids = rows[KEY].to_pylist()
        undecoded = rows.filter(
            pa.array([commit_id not in self._commits for commit_id in ids], pa.bool_())
        )
        self._commits |= {commit.id: commit for commit in decode_commits(undecoded)}
        return [self._commits[commit_id] for commit_id in ids]


def _check_chain(branch: BranchName, commits: Sequence[GraphCommit]) -> Iterator[Issue]:
    """Check that a branch has one first commit, that parents exist, and that no commit has two successors."""
    ids = {commit.id for commit in commits}
    own_commits = (commit for commit in commits if commit.branch == branch)
    roots = [commit.id for commit in commits if commit.parent is None]
    orphans = [c for c in commits if c.parent is not None and c.parent not in ids]
    forked = [
        parent for parent, count in Counter(c.parent for c in own_commits).items() if count > 1
    ]
    problems = (
        *([f"it has {len(roots)} first commits"] if len(roots) != 1 else ()),
        *(
            f"commit {commit.id} names the parent {commit.parent}, which does not exist"
            for commit in orphans
        ),
        *(f"commit {parent} has two successors" for parent in forked if parent is not None),
    )
    for problem in problems:
        yield Issue(check="history", message=problem, remedy=_REPORT, branch=branch)


def _check_merges(state: BranchState, commits: Sequence[GraphCommit]) -> Iterator[Issue]:
    """Check that a branch knows the merged parents of its merges; merges of earlier releases, without `agreed`, are left out."""
    merges = [commit for commit in commits if commit.agreed is not None]
    if not merges:
        return
    parents = pa.array([commit.merged_parent for commit in merges], pa.string())
    ancestor_flags = pc.is_in(parents, value_set=state.ancestors[KEY].combine_chunks())
    for commit, is_ancestor in zip(merges, ancestor_flags.to_pylist(), strict=True):
        if not is_ancestor:
            message = f"commit {commit.id} names the merged parent {commit.merged_parent}, which is unknown"
            yield Issue(check="merged parent", message=message, remedy=_REPORT, branch=state.branch)


def _check_audit(engine: Engine, commits: dict[CommitId, GraphCommit]) -> Iterator[Issue]:
    """Check that every recovery is recorded once, and that every operation that a recovery commit completed is recorded."""
    rows = engine.recovery.audit.rows()
    for operation, count in sorted(Counter(row.operation_id for row in rows).items()):
        if count > 1:
            message = f"the recovery of {operation} is recorded {count} times"
            yield Issue(check="audit", message=message, remedy=_REPORT)
    recorded = {row.operation_id for row in rows}
    # Recovery writes the record after its commit; until then the sidecar exists, and the record will follow.
    pending = {
        sidecar.operation_id
        for sidecar in engine.committer.sidecars.inventory()
        if isinstance(sidecar, Sidecar)
    }
    for commit in commits.values():
        recovered = commit.operation_id if commit.actor == RECOVERY_ACTOR else None
        if recovered is not None and recovered not in recorded | pending:
            message = f"commit {commit.id} recovered {recovered}, and no audit record says so"
            yield Issue(check="audit", message=message, remedy=_REPORT, branch=commit.branch)
