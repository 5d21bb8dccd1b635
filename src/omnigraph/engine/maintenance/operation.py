"""Maintenance as an operation: commits that change no row, one sidecar, one publish, no graph commit."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from omnigraph.commit.locks import HeldLocks
from omnigraph.commit.plan import TableWrite, WritePlan
from omnigraph.commit.sidecar import WriterKind
from omnigraph.engine.attempt import attempt, commit_held
from omnigraph.engine.session.engine import Engine
from omnigraph.ids import BranchName, CommitId, OperationId
from omnigraph.manifest.publish import Published
from omnigraph.manifest.records import CommitKind
from omnigraph.manifest.view import View
from omnigraph.storage.counters import carry_context
from omnigraph.values import dataclass

A = TypeVar("A")
B = TypeVar("B")

Writes = tuple[TableWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """One maintenance operation over all its attempts."""

    engine: Engine
    kind: WriterKind
    commit_kind: CommitKind
    branch: BranchName
    actor: str | None
    operation_id: OperationId
    commit_id: CommitId

    def run(self, prepare: Callable[[View], Writes], operation: str) -> Published | None:
        """Prepare and commit; None when there was nothing to do."""
        before: View | None = None

        def prepared(view: View) -> WritePlan | None:
            nonlocal before
            before = view
            writes = prepare(view)
            return self._plan(writes) if writes else None

        published = attempt(self.engine, self.branch, prepared, operation)
        if published is not None and before is not None:
            _carry(self.engine, before, published)
        return published

    def run_held(self, view: View, writes: Writes, held_locks: HeldLocks) -> Published:
        """Commit what was prepared under turns that are held already."""
        published = commit_held(self.engine, self._plan(writes), held_locks)
        _carry(self.engine, view, published)
        return published

    def _plan(self, writes: Writes) -> WritePlan:
        return WritePlan(
            kind=self.kind,
            commit_kind=self.commit_kind,
            branch=self.branch,
            actor=self.actor,
            operation_id=self.operation_id,
            commit_id=self.commit_id,
            tables=writes,
            maintenance=True,
        )


def maintenance(
    engine: Engine,
    kind: WriterKind,
    commit_kind: CommitKind,
    branch: BranchName,
    actor: str | None,
) -> Maintenance:
    """Name one operation: its ids are minted once and survive every retry."""
    return Maintenance(
        engine=engine,
        kind=kind,
        commit_kind=commit_kind,
        branch=branch,
        actor=actor,
        operation_id=OperationId(engine.runtime.new_id()),
        commit_id=CommitId(engine.runtime.new_id()),
    )


def each(
    engine: Engine,
    work: Callable[[A], B],
    items: Iterable[A],
    weigh: Callable[[A], int] | None = None,
) -> list[B]:
    """Do something for several tables at once, within the bound, the heaviest first; results come in order."""
    found = list(items)
    if len(found) < 2:
        return [work(item) for item in found]
    order = range(len(found))
    schedule = (
        order if weigh is None else sorted(order, key=lambda n: weigh(found[n]), reverse=True)
    )
    workers = min(engine.settings.maintenance_concurrency, len(found))
    with ThreadPoolExecutor(workers, "omnigraph-maintenance") as pool:
        running = {number: pool.submit(carry_context(work), found[number]) for number in schedule}
        return [running[number].result() for number in order]


def _carry(engine: Engine, before: View, published: Published) -> None:
    """No row changed, so that what is known of the ids holds for the new versions too."""
    for table, after in published.state.snapshot.entries.items():
        entry = before.snapshot.entries.get(table)
        if entry is not None and entry.at != after.at:
            engine.known.carry(entry, after)
