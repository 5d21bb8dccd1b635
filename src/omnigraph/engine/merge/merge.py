"""The merging verb: bring what one branch did into another, in one commit, or say why not."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from omnigraph.commit.plan import mint_header
from omnigraph.commit.sidecar import WriterKind
from omnigraph.display import Grid, Sheet, Shown, tabulate
from omnigraph.engine.after_commit import after_commit
from omnigraph.engine.diff.spread import Spread
from omnigraph.engine.keyed import Receipt, Replay, Verb, attempt_once, find_replay, make_request
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.prepare import ResolvedMerge, plan_merge, resolve_merge
from omnigraph.engine.merge.relate import Outcome, Relation, relate
from omnigraph.engine.results import Commit, show_replayed, view_commit
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.writer import Prepared
from omnigraph.errors import UserInputError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName, Granularity, TableKey
from omnigraph.manifest.names import branch_name
from omnigraph.manifest.records import CommitKind
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.view import View
from omnigraph.pipeline.progress import Progress, Tell, Unit, tell_nobody
from omnigraph.values import dataclass

Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(Shown):
    """What a merge did, or with `dry_run` would do; `tables` counts inserts, updates and deletes."""

    source: str
    target: str
    outcome: Outcome
    tables: Mapping[str, Counts]
    commit: Commit | None
    conflicts: tuple[Conflict, ...] = ()
    actor: str | None = None
    dry_run: bool = False
    replayed: bool = False
    """Whether this is the result of an earlier call with the same idempotency key; nothing was written."""

    def _sheet(self) -> Sheet:
        """What came to each table, and the conflicts of a merge that was only tried."""
        counts = [[key, *changed] for key, changed in self.tables.items()]
        grids = [Grid(columns=("table", "inserts", "updates", "deletes"), rows=counts)]
        if self.conflicts:
            names = ("table_key", "row_id", "kind", "message")
            grids.append(tabulate(self.conflicts, *names, caption="conflicts"))
        tried = " (dry run, nothing was written)" if self.dry_run else ""
        return Sheet(
            title=f"merge of {self.source} into {self.target}: {self.outcome}{tried}",
            facts={} if self.commit is None else {"commit": self.commit.id},
            grids=tuple(grid for grid in grids if grid.rows),
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        shown: dict[str, Any] = {
            "source": self.source,
            "target": self.target,
            "outcome": str(self.outcome),
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "changes_by_table": [
                {"table_key": key, "inserts": n, "updates": u, "deletes": d}
                for key, (n, u, d) in self.tables.items()
            ],
        }
        shown |= show_replayed(self.replayed)
        if self.dry_run:
            shown |= {"dry_run": True, "conflicts": [one.to_dict() for one in self.conflicts]}
        return shown


def merge(
    engine: Engine,
    source: str,
    target: str,
    *,
    granularity: str = Granularity.ROW,
    actor: str | None = None,
    dry_run: bool = False,
    allow_older_base: bool = False,
    spread: Spread | None = None,
    tell: Tell = tell_nobody,
    message: str | None = None,
    key: str | None = None,
) -> MergeResult:
    """Merge one branch into another; conflicts are collected completely before anything is written."""
    ours, theirs = _check_names(source, target)
    chosen = _parse_granularity(granularity)
    if dry_run:
        found = _preview(engine, ours, theirs, chosen, spread, tell, older=allow_older_base)
        return replace(found, actor=actor)
    engine.require_writable("merge")
    asked = {"source": ours, "granularity": chosen, "allow_older_base": allow_older_base}
    request = None if key is None else make_request(Verb.MERGE, theirs, actor, key, **asked)
    known = find_replay(engine, request)
    if known is not None:
        return _replay(known, ours, theirs, actor)
    engine.require_here(ours, "merge")
    header = mint_header(
        engine.runtime,
        WriterKind.BRANCH_MERGE,
        CommitKind.BRANCH_MERGE,
        actor,
        message=message,
    )

    @cache
    def capture_source() -> BranchState:
        """Capture once, whatever happens to the target: later commits of the source are not part of this merge."""
        return engine.manifest.current(ours)

    def prepare(view: View) -> Prepared[ResolvedMerge]:
        relation = _relate(engine, capture_source(), view.state, older=allow_older_base)
        resolved = _resolve(engine, relation, view, chosen, spread, tell)
        if resolved.relation.base is None:
            return Prepared(None, resolved)
        plan = plan_merge(resolved, engine.store.tables, header, tell)
        fail(Failpoint.MERGE_PLANNED)
        tell(Progress("commit", 0, resolved.total_rows, Unit.ROWS))
        return Prepared(plan, resolved)

    done = attempt_once(engine, theirs, request, header, prepare, _make_receipt, "merge")
    if isinstance(done, Replay):
        return _replay(done, ours, theirs, actor)
    if done.commit is not None:
        rows = done.outcome.total_rows
        tell(Progress("commit", rows, rows, Unit.ROWS, rows))
    after_commit(engine, done)
    return MergeResult(
        source=ours,
        target=theirs,
        outcome=done.outcome.relation.outcome,
        tables=_by_name(done.outcome.counts),
        commit=view_commit(done.commit),
        actor=actor,
    )


def _make_receipt(resolved: ResolvedMerge) -> Receipt:
    return {"outcome": str(resolved.relation.outcome), "tables": _by_name(resolved.counts)}


def _replay(known: Replay, source: str, target: str, actor: str | None) -> MergeResult:
    return MergeResult(
        source=source,
        target=target,
        outcome=Outcome(known.receipt["outcome"]),
        tables={key: (n, u, d) for key, (n, u, d) in known.receipt["tables"].items()},
        commit=view_commit(known.commit),
        actor=actor,
        replayed=True,
    )


def _preview(
    engine: Engine,
    source: BranchName,
    target: BranchName,
    granularity: Granularity,
    spread: Spread | None,
    tell: Tell,
    *,
    older: bool,
) -> MergeResult:
    view = engine.view(target)
    relation = _relate(engine, engine.manifest.current(source), view.state, older=older)
    resolved = _resolve(engine, relation, view, granularity, spread, tell)
    return MergeResult(
        source=source,
        target=target,
        outcome=relation.outcome,
        tables=_by_name(resolved.counts),
        commit=None,
        conflicts=resolved.conflicts,
        dry_run=True,
    )


def _by_name(counts: Mapping[TableKey, Counts]) -> Mapping[str, Counts]:
    return {str(key): numbers for key, numbers in counts.items()}


def _relate(engine: Engine, source: BranchState, target: BranchState, *, older: bool) -> Relation:
    tables = engine.store.tables
    return relate(engine.manifest, tables, source, target, allow_older_base=older)


def _resolve(
    engine: Engine,
    relation: Relation,
    view: View,
    granularity: Granularity,
    spread: Spread | None,
    tell: Tell,
) -> ResolvedMerge:
    return resolve_merge(relation, view.catalog, engine.store.tables, granularity, spread, tell)


def _check_names(source: str, target: str) -> tuple[BranchName, BranchName]:
    ours, theirs = branch_name(source, "merge"), branch_name(target, "merge")
    if ours == theirs:
        raise UserInputError(
            f"merge: source and target are the same branch '{ours}'; nothing was written",
            hint="name the branch to merge from, and with `into` the one to merge into",
        )
    return ours, theirs


def _parse_granularity(text: str) -> Granularity:
    try:
        return Granularity(text)
    except ValueError as error:
        allowed = ", ".join(Granularity)
        raise UserInputError(
            f"merge: granularity '{text}' is unknown, it is one of {allowed}; nothing was written"
        ) from error
