"""Examination of a graph: checks every invariant that must hold between writes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import EdgeType
from omnigraphdb.commit.guard import find_covering_sidecar
from omnigraphdb.commit.liveness import find_drift
from omnigraphdb.commit.locks import SCHEMA_APPLY, LockKey, lock_key
from omnigraphdb.engine.maintenance.files import check_files
from omnigraphdb.engine.maintenance.history_check import HistoryCheck
from omnigraphdb.engine.maintenance.issues import (
    RESTORE,
    Examination,
    Issue,
    report_unreadable_branch,
)
from omnigraphdb.engine.maintenance.readable import remedy_of_damage
from omnigraphdb.engine.maintenance.restores_check import check_restores
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import (
    InternalError,
    LockTimeout,
    NotFoundError,
    OmniError,
    SchemaContractError,
    SidecarUnreadable,
    StorageError,
    TableNotFound,
)
from omnigraphdb.ids import MAIN, BranchName, TableKey, node_key
from omnigraphdb.limits import EXAMINATIONS_MAX
from omnigraphdb.manifest.forks import ForkStatus, fork_status
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
from omnigraphdb.manifest.records import graph_branch, lance_branch
from omnigraphdb.manifest.snapshot import Entry, Snapshot
from omnigraphdb.manifest.state import BranchState, table_digests
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.layout import SCHEMA_FILES, staging_path

_Unreadable = tuple[type[OmniError], ...]
"""The errors that a check takes for damage."""

_DAMAGE: _Unreadable = (StorageError, InternalError, SchemaContractError)


def examine(engine: Engine, *, deep: bool = False) -> Examination:
    """Check every invariant; a healthy graph has no issue. With `deep` every file is read and compared."""
    for _ in range(EXAMINATIONS_MAX):
        before = _read_marks(engine)
        try:
            return _find_issues(engine, deep, _DAMAGE)
        except NotFoundError:
            if _read_marks(engine) == before:
                break
            # Another process deleted a branch or renamed a type during the examination.
    return _find_issues(engine, deep, (*_DAMAGE, NotFoundError))


def _read_marks(engine: Engine) -> object:
    """Read marks that change whenever a branch is created or deleted, or the types change."""
    return engine.manifest.rows.branch_names(), engine.manifest.rows.head(None)


def _find_issues(engine: Engine, deep: bool, unreadable: _Unreadable) -> Examination:
    issues: list[Issue] = []
    for check in (_check_sidecars, _check_schema_change, _find_moved_branches):
        try:
            issues += check(engine)
        except unreadable as error:
            issues.append(Issue(check="unreadable graph", message=str(error), remedy=RESTORE))
    # The branches of a moved graph point to files elsewhere: their tables are not checked.
    is_moved = any(issue.check == "moved graph" for issue in issues)
    branches = [MAIN] if is_moved else _branches(engine)
    files = check_files(engine, branches) if deep else None
    if not is_moved:
        skipped = frozenset[TableKey]() if files is None else files.unreadable
        issues += _check_branches(engine, branches, skipped, unreadable)
    if files is None:
        return Examination(issues)
    return Examination(
        dict.fromkeys([*files.issues, *issues]),
        files_compared=files.compared,
        files_without_digest=files.without_digest,
    )


def _find_moved_branches(engine: Engine) -> Iterator[Issue]:
    """Find the branches that name another directory: the graph was moved or copied."""
    for branch, other_root in engine.manifest.rows.branches_outside().items():
        yield Issue(
            check="moved graph",
            message=f"it names files in '{other_root}', the graph is in '{engine.store.root}'",
            remedy=f"run `omnigraphdb relocate {engine.store.root}`",
            branch=branch,
        )


def _branches(engine: Engine) -> list[BranchName]:
    others = (BranchName(name) for name in sorted(engine.manifest.rows.branch_names()))
    return [MAIN, *(name for name in others if name != SCHEMA_APPLY_LOCK)]


# ---- leftovers of writers


Check = Callable[[], Iterable[Issue]]


def _confirm(engine: Engine, keys: Collection[LockKey], check: Check) -> list[Issue]:
    """Report the issues that remain after the present holders of these locks are done.

    A live writer leaves no issue when it releases its locks; a writer that holds them past the wait is live.
    """
    issues = [*check()]
    for _ in range(EXAMINATIONS_MAX):
        if not issues:
            return []
        try:
            engine.committer.locks.wait_out(keys)
        except LockTimeout:
            return []
        current_issues = [*check()]
        confirmed = [issue for issue in current_issues if issue in issues]
        if confirmed:
            return confirmed
        issues = current_issues
    return []


def _check_sidecars(engine: Engine) -> Iterator[Issue]:
    """Find the sidecars of dead writers: a live writer holds its locks until it has removed its sidecar."""
    committer = engine.committer
    for sidecar in committer.sidecars.inventory():
        if isinstance(sidecar, SidecarUnreadable):
            yield _interrupted(sidecar.path, f"a write that cannot be read ({sidecar.reason})")
        elif committer.locks.holder(sidecar.lock_keys) is None and committer.sidecars.find(
            sidecar.operation_id
        ):
            operation = f"the {sidecar.writer_kind} {sidecar.operation_id}"
            yield _interrupted(sidecar.path, operation, graph_branch(sidecar.branch))


def _interrupted(path: str, operation: str, branch: BranchName | None = None) -> Issue:
    return Issue(
        check="pending recovery",
        message=f"'{path}' is the intent of {operation}",
        remedy="run `omnigraphdb recovery run`",
        branch=branch,
    )


def _check_schema_change(engine: Engine) -> list[Issue]:
    """Check the leftovers of schema changes and the schema files; wait for a running schema change."""
    return _confirm(
        engine,
        [SCHEMA_APPLY],
        lambda: (*_find_schema_leftovers(engine), *_check_accepted_schema(engine)),
    )


def _find_schema_leftovers(engine: Engine) -> Iterator[Issue]:
    for name in SCHEMA_FILES:
        if engine.store.objects.exists(staging_path(name)):
            yield Issue(
                check="staging file",
                message=f"'{staging_path(name)}' is a leftover of a schema change",
                remedy="reopen the graph read-write",
            )
    if SCHEMA_APPLY_LOCK in engine.manifest.rows.branch_names():
        yield Issue(
            check="schema lock",
            message="a schema change holds the graph",
            remedy="reopen the graph read-write if it was killed",
        )


def _check_accepted_schema(engine: Engine) -> Iterator[Issue]:
    try:
        accepted = engine.contracts.current()
    except OmniError as error:
        yield Issue(check="schema contract", message=str(error), remedy=error.hint or "see above")
        return
    declared, visible = (
        set(accepted.catalog.tables),
        set(engine.manifest.current(MAIN).snapshot.entries),
    )
    for table in sorted(declared ^ visible):
        yield Issue(
            check="schema contract",
            message="it is declared or visible, but not both",
            remedy="reopen the graph read-write",
            table_key=table,
        )


# ---- one branch


def _check_branches(
    engine: Engine,
    branches: Iterable[BranchName],
    skipped: frozenset[TableKey],
    unreadable: _Unreadable,
) -> Iterator[Issue]:
    """Check tables and history of every branch; read the manifest of each branch once."""
    history = HistoryCheck()
    visible_forks: set[tuple[str, str | None]] = set()
    later_issues: list[Issue] = []
    is_complete = True
    for branch in branches:
        try:
            state = engine.manifest.current(branch, remember=branch == MAIN)
            visible_forks |= {
                (entry.at.path, entry.at.branch) for entry in state.snapshot.entries.values()
            }
            yield from _check_branch(engine, state, skipped, unreadable)
            yield from _find_foreign(engine, state)
            later_issues += (*history.check_branch(state), *check_restores(engine, state))
        except unreadable as error:
            is_complete = False
            yield report_unreadable_branch(branch, error)
    yield from later_issues
    try:
        yield from history.check_audit(engine)
    except unreadable as error:
        yield Issue(check="audit", message=str(error), remedy=RESTORE)
    if not is_complete:
        # A branch that cannot be read may own any fork.
        return
    for entry in engine.manifest.current(MAIN).snapshot.entries.values():
        yield from _check_table(
            MAIN,
            entry,
            unreadable,
            lambda table_entry: _check_forks(engine, table_entry, visible_forks),
        )


def _find_foreign(engine: Engine, state: BranchState) -> Iterator[Issue]:
    """Find a newest version of the manifest that a late request of an earlier branch of the name created."""
    newest = max(engine.manifest.rows.foreign(lance_branch(state.branch)), default=0)
    if newest > state.version:
        yield Issue(
            check="foreign version",
            message=f"version {newest} of the manifest was written on an earlier branch of this name, and arrived after that "
            f"was deleted; it is not read, the branch shows version {state.version}",
            remedy="the next write there or `omnigraphdb cleanup` creates a version past it",
            branch=state.branch,
        )


def _check_branch(
    engine: Engine, state: BranchState, skipped: frozenset[TableKey], unreadable: _Unreadable
) -> list[Issue]:
    """Check the tables of a branch, without reading rows of the skipped tables."""
    branch, snapshot = state.branch, state.snapshot
    owned = [
        entry for entry in snapshot.entries.values() if entry.at.branch == lance_branch(branch)
    ]
    digests = table_digests(state) if owned else {}
    issues = [*_find_missing(engine, state)]
    missing = frozenset(issue.table_key for issue in issues if issue.table_key is not None)
    skipped |= missing
    for entry in snapshot.entries.values():
        checks: list[Callable[[Entry], Iterable[Issue]]] = []
        if entry in owned and entry.table_key not in missing:
            checks += (
                partial(_check_drift, engine, branch),
                partial(_check_whole, engine, branch),
                lambda table_entry: _find_damaged_indexes(engine, branch, table_entry, digests),
            )
        if skipped.isdisjoint(_tables_read_for(engine, entry.table_key)):
            checks += (
                partial(_check_ids, engine, branch),
                lambda table_entry: _check_endpoints(engine, branch, table_entry, snapshot),
            )
        for check in checks:
            issues += _check_table(branch, entry, unreadable, check)
    return list(dict.fromkeys(issues))


def _find_missing(engine: Engine, state: BranchState) -> Iterator[Issue]:
    """Find the forks that a branch shows and that do not exist."""
    for entry in state.snapshot.entries.values():
        if entry.at.branch is None:
            continue
        try:
            engine.store.tables.head(entry.at.path, entry.at.branch)
        except TableNotFound:
            # A deletion removes the branch before its forks; then this read raises, and the examination begins again.
            current = engine.manifest.current(state.branch, remember=state.branch == MAIN).snapshot
            if current.entries.get(entry.table_key) != entry:
                raise
            yield Issue(
                check="missing fork",
                message=f"the branch shows version {entry.version} of the fork '{entry.at.branch}' in '{entry.at.path}', which "
                "does not exist: reads of the table there fail",
                remedy="put its files back from a copy of the graph; without a copy read an earlier commit (`at=`), or "
                "delete the branch",
                branch=state.branch,
                table_key=entry.table_key,
            )


def _tables_read_for(engine: Engine, table: TableKey) -> set[TableKey]:
    """List the tables whose rows the checks of a table read."""
    edge = engine.contracts.current().catalog.tables.get(table)
    ends = (edge.source, edge.target) if isinstance(edge, EdgeType) else ()
    return {table, *map(node_key, ends)}


def _check_table(
    branch: BranchName,
    entry: Entry,
    unreadable: _Unreadable,
    check: Callable[[Entry], Iterable[Issue]],
) -> list[Issue]:
    """Run one check of a table; a table that cannot be read is an issue, and the examination goes on."""
    try:
        return list(check(entry))
    except unreadable as error:
        return [
            Issue(
                check="unreadable table",
                message=str(error),
                remedy=remedy_of_damage(branch),
                branch=branch,
                table_key=entry.table_key,
            )
        ]


def _find_damaged_indexes(
    engine: Engine, branch: BranchName, entry: Entry, digests: Mapping[str, Mapping[str, str]]
) -> Iterator[Issue]:
    for info in engine.store.tables.check_indices(entry.at, digests.get(entry.at.path, {})):
        if info.damage is not None:
            yield Issue(
                check="damaged index",
                message=f"no read can use the index on '{info.column}': {info.damage}",
                remedy="reads scan the table; build the index again with `omnigraphdb index build`",
                branch=branch,
                table_key=entry.table_key,
            )


def _check_whole(engine: Engine, branch: BranchName, entry: Entry) -> Iterator[Issue]:
    """Find a file that a full disk cut; this takes one look at each file of a local disk."""
    damage = engine.store.tables.find_cut(entry.at)
    if damage is not None:
        yield Issue(
            check="cut file",
            message=f"the newest version cannot be read: {damage}",
            remedy=remedy_of_damage(branch),
            branch=branch,
            table_key=entry.table_key,
        )


def _check_drift(engine: Engine, branch: BranchName, entry: Entry) -> Iterator[Issue]:
    try:
        drift = find_drift(engine.committer, branch, entry)
    except LockTimeout:
        # A live writer holds the lock: its HEAD may be past the pin.
        return
    if drift is not None:
        yield Issue(
            check="drift",
            message=f"HEAD is {drift.head}, the pin is {drift.pin}",
            remedy=_find_remedy(engine, branch, entry),
            branch=branch,
            table_key=entry.table_key,
        )


def _find_remedy(engine: Engine, branch: BranchName, entry: Entry) -> str:
    """Find the remedy for a HEAD past its pin: recovery, if an interrupted write explains it, else repair."""
    try:
        covering = find_covering_sidecar(
            engine.committer.sidecars, entry.table_key, entry.at.branch
        )
    except OmniError as error:
        return f"run the doctor again when pending writes can be read ({error})"
    if covering is None and branch != MAIN:
        return (
            "no interrupted write explains it: the next write to the table there or `omnigraphdb cleanup` undoes commits "
            "that arrived late; if they refuse, delete the branch"
        )
    if covering is None:
        return "no interrupted write explains it: run `omnigraphdb repair`"
    return (
        f"the interrupted {covering.writer_kind} {covering.operation_id} explains it: "
        "run `omnigraphdb recovery run` or reopen the graph read-write"
    )


def _read_ids(engine: Engine, entry: Entry) -> pa.Array:
    return column(engine.store.tables.open(entry.at).read(["id"]), "id")


def _check_ids(engine: Engine, branch: BranchName, entry: Entry) -> Iterator[Issue]:
    ids = _read_ids(engine, entry)
    distinct = len(pc.unique(ids))
    if distinct != len(ids) or len(ids) != entry.row_count:
        yield Issue(
            check="identity",
            message=f"{len(ids)} rows, {distinct} ids, {entry.row_count} in the manifest",
            remedy="restore the table from an earlier commit",
            branch=branch,
            table_key=entry.table_key,
        )


def _check_endpoints(
    engine: Engine, branch: BranchName, entry: Entry, snapshot: Snapshot
) -> Iterator[Issue]:
    edge = engine.contracts.current().catalog.tables.get(entry.table_key)
    if not isinstance(edge, EdgeType):
        return
    rows = engine.store.tables.open(entry.at).read(["src", "dst"])
    for side, node in (("src", edge.source), ("dst", edge.target)):
        ids = _read_ids(engine, snapshot.entry(node_key(node)))
        dangling = pc.sum(pc.invert(pc.is_in(rows[side], value_set=ids))).as_py() or 0
        if dangling:
            yield Issue(
                check="endpoints",
                message=f"{dangling} edges have a {side} that names no {node}",
                remedy="delete those edges",
                branch=branch,
                table_key=entry.table_key,
            )


# ---- orphan forks


def _check_forks(
    engine: Engine, entry: Entry, owned: Collection[tuple[str, str | None]]
) -> Iterator[Issue]:
    for fork in engine.store.tables.forks(entry.at.path):
        if (entry.at.path, fork) not in owned:
            key = lock_key(entry.table_key, fork)
            yield from _confirm(engine, [key], partial(_check_fork, engine, entry, fork))


def _check_fork(engine: Engine, entry: Entry, fork: str) -> Iterator[Issue]:
    """Check one fork from a fresh read: the first write on a branch creates the fork before the write is visible."""
    status = fork_status(engine.manifest, entry.at.path, graph_branch(fork))
    if status is ForkStatus.ORPHAN and fork in engine.store.tables.forks(entry.at.path):
        yield Issue(
            check="orphan fork",
            message=f"no branch uses the fork '{fork}'",
            remedy="the next write there or `omnigraphdb cleanup` removes it",
            branch=graph_branch(fork),
            table_key=entry.table_key,
        )
