"""Is the graph settled? Every invariant that must hold between writes, checked by looking."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.commit.guard import find_covering_sidecar
from omnigraph.commit.liveness import find_drift
from omnigraph.commit.locks import SCHEMA_APPLY, LockKey, lock_key
from omnigraph.engine.maintenance.files import check_files, table_digests
from omnigraph.engine.maintenance.history_check import chronicle
from omnigraph.engine.maintenance.issues import Examination, Issue
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import (
    LockTimeout,
    NotFoundError,
    OmniError,
    SidecarUnreadable,
    StorageError,
)
from omnigraph.ids import MAIN, BranchName, TableKey, node_key
from omnigraph.limits import EXAMINATIONS_MAX
from omnigraph.manifest.forks import ForkStatus, fork_status
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.manifest.records import graph_branch, lance_branch
from omnigraph.manifest.snapshot import Entry, Snapshot
from omnigraph.storage.arrow import column
from omnigraph.storage.layout import SCHEMA_FILES, staging_path


def examine(engine: Engine, *, deep: bool = False) -> Examination:
    """Check everything; an empty list is a settled graph. With `deep` every file is read and compared."""
    for _ in range(EXAMINATIONS_MAX):
        before = _marks(engine)
        try:
            return _find_issues(engine, deep)
        except NotFoundError:
            if _marks(engine) == before:
                raise
            # A branch went, or a type got another name, while it was looked at.
    return _find_issues(engine, deep)


def _marks(engine: Engine) -> object:
    """What changes whenever a branch comes or goes, or the types change."""
    return engine.manifest.rows.branch_names(), engine.manifest.rows.head(None)


def _find_issues(engine: Engine, deep: bool) -> Examination:
    found = [*_pending(engine), *_schema_change(engine), *_find_moved_branches(engine)]
    # Nothing that a branch of a moved graph says can be relied on.
    is_moved = any(one.check == "moved graph" for one in found)
    branches = [MAIN] if is_moved else _branches(engine)
    files = check_files(engine, branches) if deep else None
    if not is_moved:
        spoilt = frozenset[TableKey]() if files is None else files.spoilt
        for name in branches:
            found += _branch(engine, name, spoilt)
        found += (*chronicle(engine, branches), *_orphan_forks(engine))
    if files is None:
        return Examination(found)
    return Examination(
        [*files.issues, *found],
        files_compared=files.compared,
        files_without_digest=files.without_digest,
    )


def _find_moved_branches(engine: Engine) -> Iterator[Issue]:
    """Branches of a graph whose directory was moved or copied."""
    for branch, elsewhere in engine.manifest.rows.branches_outside().items():
        yield Issue(
            check="moved graph",
            message=f"its files are looked for in '{elsewhere}', the graph lies in '{engine.store.root}'",
            remedy=f"run `omnigraph relocate {engine.store.root}`",
            branch=branch,
        )


def _branches(engine: Engine) -> list[BranchName]:
    others = (BranchName(name) for name in sorted(engine.manifest.rows.branches()))
    return [MAIN, *(name for name in others if name != SCHEMA_APPLY_LOCK)]


# ---- what a writer may have left


Look = Callable[[], Iterable[Issue]]


def _confirm(engine: Engine, keys: Collection[LockKey], look: Look) -> list[Issue]:
    """What a look shows and a second one still shows, when whoever held these locks meanwhile is done.

    A live writer leaves everything in order before it gives its locks back; one that does not end is live.
    """
    found = [*look()]
    for _ in range(EXAMINATIONS_MAX):
        if not found:
            return []
        try:
            engine.committer.locks.wait_out(keys)
        except LockTimeout:
            return []
        again = [*look()]
        stayed = [one for one in again if one in found]
        if stayed:
            return stayed
        found = again
    return []


def _pending(engine: Engine) -> Iterator[Issue]:
    """The sidecars whose writer is gone: a live one holds its locks, and removes its sidecar before it ends."""
    committer = engine.committer
    for one in committer.sidecars.inventory():
        if isinstance(one, SidecarUnreadable):
            yield _interrupted(one.path, f"a write that cannot be read ({one.reason})")
        elif committer.locks.holder(one.lock_keys) is None and committer.sidecars.find(
            one.operation_id
        ):
            yield _interrupted(one.path, f"the {one.writer_kind} {one.operation_id}")


def _interrupted(path: str, what: str) -> Issue:
    return Issue(
        check="pending recovery",
        message=f"'{path}' is the intent of {what}",
        remedy="run `omnigraph recovery run`",
    )


def _schema_change(engine: Engine) -> list[Issue]:
    """What a schema change left, and what its files say; one that runs is waited for."""
    return _confirm(
        engine, [SCHEMA_APPLY], lambda: (*_schema_leftovers(engine), *_contract(engine))
    )


def _schema_leftovers(engine: Engine) -> Iterator[Issue]:
    for name in SCHEMA_FILES:
        if engine.store.objects.exists(staging_path(name)):
            yield Issue(
                check="staging file",
                message=f"'{staging_path(name)}' is left of a schema change",
                remedy="reopen the graph read-write",
            )
    if SCHEMA_APPLY_LOCK in engine.manifest.rows.branches():
        yield Issue(
            check="schema lock",
            message="a schema change holds the graph",
            remedy="reopen the graph read-write if it was killed",
        )


def _contract(engine: Engine) -> Iterator[Issue]:
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


def _branch(engine: Engine, branch: BranchName, spoilt: frozenset[TableKey]) -> list[Issue]:
    """Check the tables of a branch; rows of those that are spoilt are not read."""
    state = engine.manifest.load(branch)
    snapshot = state.snapshot
    owned = [one for one in snapshot.entries.values() if one.at.branch == lance_branch(branch)]
    noted = table_digests(state) if owned else {}
    found: list[Issue] = []
    for entry in snapshot.entries.values():
        if entry in owned:
            found += _checked(branch, entry, lambda one: _drift(engine, branch, one))
            found += _checked(
                branch, entry, lambda one: _damaged_indices(engine, branch, one, noted)
            )
        if not spoilt.isdisjoint(_read_for(engine, entry.table_key)):
            continue
        found += _checked(branch, entry, lambda one: _duplicates(engine, branch, one))
        found += _checked(branch, entry, lambda one: _dangling(engine, branch, one, snapshot))
    return list(dict.fromkeys(found))


def _read_for(engine: Engine, table: TableKey) -> set[TableKey]:
    """The tables whose rows the checks of a table read."""
    edge = engine.contracts.current().catalog.tables.get(table)
    ends = (edge.source, edge.target) if isinstance(edge, EdgeType) else ()
    return {table, *map(node_key, ends)}


def _checked(
    branch: BranchName, entry: Entry, check: Callable[[Entry], Iterable[Issue]]
) -> list[Issue]:
    """Make one check of a table; a table that cannot be read is a finding, not the end of the examination."""
    try:
        return list(check(entry))
    except StorageError as error:
        return [
            Issue(
                check="unreadable table",
                message=str(error),
                remedy=error.hint or "put its files back from a copy of the graph",
                branch=branch,
                table_key=entry.table_key,
            )
        ]


def _damaged_indices(
    engine: Engine, branch: BranchName, entry: Entry, noted: Mapping[str, Mapping[str, str]]
) -> Iterator[Issue]:
    for info in engine.store.tables.check_indices(entry.at, noted.get(entry.at.path, {})):
        if info.damage is not None:
            yield Issue(
                check="damaged index",
                message=f"no read can use the index on '{info.column}': {info.damage}",
                remedy="reads scan the table; build it anew with `omnigraph index build`",
                branch=branch,
                table_key=entry.table_key,
            )


def _drift(engine: Engine, branch: BranchName, entry: Entry) -> Iterator[Issue]:
    try:
        found = find_drift(engine.committer, branch, entry)
    except LockTimeout:
        # A writer that lives has not left anything.
        return
    if found is not None:
        yield Issue(
            check="drift",
            message=f"HEAD is {found.head}, the pin is {found.pin}",
            remedy=_remedy(engine, entry),
            branch=branch,
            table_key=entry.table_key,
        )


def _remedy(engine: Engine, entry: Entry) -> str:
    """What helps a HEAD past its pin: recovery, if an interrupted write explains it, else repair."""
    try:
        covering = find_covering_sidecar(
            engine.committer.sidecars, entry.table_key, entry.at.branch
        )
    except OmniError as error:
        return f"look again when pending writes can be read ({error})"
    if covering is None:
        return "no interrupted write explains it: look at it with `omnigraph repair`"
    return (
        f"the interrupted {covering.writer_kind} {covering.operation_id} explains it: "
        "run `omnigraph recovery run` or reopen the graph read-write"
    )


def _ids(engine: Engine, entry: Entry) -> pa.Array:
    return column(engine.store.tables.open(entry.at).read(["id"]), "id")


def _duplicates(engine: Engine, branch: BranchName, entry: Entry) -> Iterator[Issue]:
    ids = _ids(engine, entry)
    distinct = len(pc.unique(ids))
    if distinct != len(ids) or len(ids) != entry.row_count:
        yield Issue(
            check="identity",
            message=f"{len(ids)} rows, {distinct} ids, {entry.row_count} in the manifest",
            remedy="restore the table from an earlier commit",
            branch=branch,
            table_key=entry.table_key,
        )


def _dangling(
    engine: Engine, branch: BranchName, entry: Entry, snapshot: Snapshot
) -> Iterator[Issue]:
    edge = engine.contracts.current().catalog.tables.get(entry.table_key)
    if not isinstance(edge, EdgeType):
        return
    rows = engine.store.tables.open(entry.at).read(["src", "dst"])
    for side, node in (("src", edge.source), ("dst", edge.target)):
        known = _ids(engine, snapshot.entry(node_key(node)))
        lost = pc.sum(pc.invert(pc.is_in(rows[side], value_set=known))).as_py() or 0
        if lost:
            yield Issue(
                check="endpoints",
                message=f"{lost} edges have a {side} that is no {node}",
                remedy="delete those edges",
                branch=branch,
                table_key=entry.table_key,
            )


# ---- forks nobody owns


def _orphan_forks(engine: Engine) -> Iterator[Issue]:
    live = _branches(engine)
    owned = {
        (entry.at.path, entry.at.branch)
        for branch in live
        for entry in engine.manifest.load(branch).snapshot.entries.values()
    }
    for entry in engine.manifest.load(MAIN).snapshot.entries.values():
        yield from _checked(MAIN, entry, lambda one: _unowned_forks(engine, one, owned))


def _unowned_forks(
    engine: Engine, entry: Entry, owned: Collection[tuple[str, str | None]]
) -> Iterator[Issue]:
    for fork in engine.store.tables.forks(entry.at.path):
        if (entry.at.path, fork) not in owned:
            key = lock_key(entry.table_key, fork)
            yield from _confirm(engine, [key], partial(_orphan_fork, engine, entry, fork))


def _orphan_fork(engine: Engine, entry: Entry, fork: str) -> Iterator[Issue]:
    """Judge one fork from a fresh read: a first write on a branch makes its fork before it is visible."""
    status = fork_status(engine.manifest, entry.at.path, graph_branch(fork))
    if status is ForkStatus.ORPHAN and fork in engine.store.tables.forks(entry.at.path):
        yield Issue(
            check="orphan fork",
            message=f"no branch uses the fork '{fork}'",
            remedy="the next write there or `omnigraph cleanup` removes it",
            table_key=entry.table_key,
        )
