"""What must hold of a graph when nothing is being written; ends every engine, fault and property test."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit, RecoveryAudit
from omnigraphdb.ids import RECOVERY_ACTOR
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.layout import LOCKS


def assert_settled(graph: Graph) -> None:
    """Pins equal HEADs, ids are unique, endpoints exist, history is one line, nothing is left behind."""
    assert [str(found) for found in graph.doctor()] == []
    assert graph.pending_recoveries() == []
    assert_audited(graph)


def assert_audited(graph: Graph) -> None:
    """Every recovery is recorded once, with its outcome, and refers to a commit that says the same."""
    rows = graph.recoveries()
    assert len({row.operation_id for row in rows}) == len(rows)
    known = {commit.id: commit for b in graph.branches() for commit in graph.commits(branch=b.name)}
    recoveries = [commit for commit in known.values() if commit.actor == RECOVERY_ACTOR]
    assert {commit.id for commit in recoveries} <= {row.commit for row in rows}
    for row in rows:
        _assert_told(row, known.get(row.commit))


def _assert_told(row: RecoveryAudit, commit: Commit | None) -> None:
    match row.recovery_kind:
        case RecoveryKind.ROLLED_FORWARD:
            assert all(o.to_version > o.from_version for o in row.tables)
        case RecoveryKind.ROLLED_BACK:
            assert all(o.from_version > o.to_version for o in row.tables)
        case RecoveryKind.ORPHANED_BRANCH_DISCARDED | RecoveryKind.DISCARDED:
            assert row.tables == ()
    # The commit of a branch that was deleted since is gone with it.
    if commit is not None and row.recovery_kind is not RecoveryKind.ROLLED_FORWARD:
        assert commit.actor == RECOVERY_ACTOR


def fingerprint(graph: Graph) -> Mapping[str, Any]:
    """What a reopen of a settled graph must not change: history, pins, HEADs, audit."""
    engine = graph._engine
    found: dict[str, Any] = {"recoveries": graph.recoveries()}
    for branch in graph.branches():
        state = engine.manifest.load(engine.manifest.current(branch.name).branch)  # type: ignore[arg-type]
        found[branch.name] = (
            state.version,
            [commit.id for commit in state.lineage.commits],
            dict(state.snapshot.pins),
            {
                key: engine.store.tables.head(entry.at.path, entry.at.branch)
                for key, entry in state.snapshot.entries.items()
            },
        )
    return found


def digest(root: Path) -> dict[str, str]:
    """Every file below a directory with what it holds; locks hold nothing."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and LOCKS not in path.relative_to(root).parts
    }
