"""Is the record whole? History is one line per branch, and every recovery is told once."""

from collections import Counter
from collections.abc import Iterable, Iterator

from omnigraph.commit.sidecar import Sidecar
from omnigraph.engine.engine import Engine
from omnigraph.engine.upkeep.ailments import Ailment
from omnigraph.ids import RECOVERY_ACTOR, BranchName, CommitId
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.records import GraphCommit

_REPORT = "keep a copy of the graph and report it"


def chronicle(engine: Engine, branches: Iterable[BranchName]) -> Iterator[Ailment]:
    """Check the history of every branch, and the audit of recoveries against it."""
    known: dict[CommitId, GraphCommit] = {}
    for branch in branches:
        lineage = engine.manifest.current(branch).lineage
        known |= lineage.by_id
        yield from _history(branch, lineage)
    yield from _audit(engine, known)


def _history(branch: BranchName, lineage: Lineage) -> Iterator[Ailment]:
    """One beginning, parents that exist, and one commit after the other."""
    own = [commit for commit in lineage.commits if commit.branch == branch]
    begun = [commit.id for commit in lineage.commits if commit.parent is None]
    lost = [c for c in lineage.commits if c.parent is not None and c.parent not in lineage.by_id]
    twins = [one for one, count in Counter(c.parent for c in own).items() if count > 1]
    problems = (
        *([f"it has {len(begun)} beginnings"] if len(begun) != 1 else ()),
        *(
            f"commit {commit.id} names the parent {commit.parent}, which is not there"
            for commit in lost
        ),
        *(f"commit {one} has two followers" for one in twins if one is not None),
    )
    for problem in problems:
        yield Ailment(check="history", message=problem, remedy=_REPORT, branch=branch)


def _audit(engine: Engine, known: dict[CommitId, GraphCommit]) -> Iterator[Ailment]:
    """Every recovery is recorded once; an operation that a commit settled has its record."""
    rows = engine.recovery.audit.rows()
    for operation, count in sorted(Counter(row.operation_id for row in rows).items()):
        if count > 1:
            message = f"the recovery of {operation} is recorded {count} times"
            yield Ailment(check="audit", message=message, remedy=_REPORT)
    told = {row.operation_id for row in rows}
    # A record follows its commit: a sidecar that is still there brings it.
    awaited = {
        one.operation_id for one in engine.desk.sidecars.inventory() if isinstance(one, Sidecar)
    }
    for commit in known.values():
        settled = commit.operation_id if commit.actor == RECOVERY_ACTOR else None
        if settled is not None and settled not in told | awaited:
            message = f"commit {commit.id} settled {settled} and no record tells of it"
            yield Ailment(check="audit", message=message, remedy=_REPORT, branch=commit.branch)
