"""Creation and deletion of branches: cleanup spares a branch made from history, and a request with a key acts once."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from omnigraphdb.commit.locks import HeldLocks, branch_key, lock_key, manifest_key, merge_key
from omnigraphdb.engine.keyed import (
    BranchOperationResult,
    Receipt,
    RequestKind,
    make_request,
    run_branch_operation_once,
)
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import (
    BranchInUse,
    HistoryReclaimed,
    NotFound,
    OmniError,
    ReadSetConflict,
    TableNotFound,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.limits import BRANCH_CAPTURES_MAX
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.ancestry import find_shared
from omnigraphdb.manifest.branches import (
    Branch,
    create_branch,
    delete_branch,
    find_schema_change,
    refuse_amid_swap,
    refuse_older_schema,
    require_deletable,
    require_free_name,
)
from omnigraphdb.manifest.names import branch_name, new_branch_name
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import At
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.values import Incarnation, incarnation_of

OPERATION = "branch create"
DELETE = "branch delete"

_log = get_logger(__name__)


def create(
    engine: Engine,
    name: str,
    source: str = MAIN,
    at: At | None = None,
    *,
    actor: str | None = None,
) -> tuple[Branch, BranchState]:
    """Make a branch that shows the same state as its source; return the branch and that state.

    Cleanup removes versions of a table, and of the manifest, under its lock, and keeps the versions that a live branch
    shows. Versions that the source shows when the branch exists are safe without a lock. Versions that it showed before are
    opened under the lock: either cleanup came first, and the branch is removed again, or cleanup comes later and sees the
    branch.
    """
    engine.require_writable(OPERATION)
    branch = new_branch_name(name, OPERATION)
    origin = branch_name(source, OPERATION)
    engine.require_here(origin, OPERATION)
    with _lock_name(engine, branch, OPERATION):
        created = _create_from(engine, branch, origin, at)
    _log.info("branch.created", branch=branch, parent=origin, actor=actor)
    return created


def create_once(
    engine: Engine,
    name: str,
    source: str,
    at: At | None,
    actor: str | None,
    key: str,
) -> BranchOperationResult:
    """Make a branch under an idempotency key; the receipt names the state that it was made from."""
    engine.require_writable(OPERATION)
    branch = new_branch_name(name, OPERATION)
    origin = branch_name(source, OPERATION)
    request_fields = {"name": branch, "from": origin, "at": at}
    request = make_request(RequestKind.BRANCH_CREATE, MAIN, actor, key, **request_fields)

    def decide() -> Receipt:
        require_free_name(engine.manifest, branch)
        base = engine.view(origin, at).state
        if at is not None:
            refuse_amid_swap(base)
            refuse_older_schema(base, engine.manifest.current(origin))
        head = None if base.head is None else base.head.id
        return {"name": branch, "parent": base.branch, "version": base.version, "head": head}

    def make(receipt: Receipt) -> None:
        ref = engine.manifest.rows.branches().get(branch)
        expected_parent = (lance_branch(receipt["parent"]), receipt["version"])
        if ref is None or (ref.parent, ref.parent_version) != expected_parent:
            try:
                create(engine, branch, receipt["parent"], receipt["version"], actor=actor)
            except UserInputError as error:
                if at is not None:
                    raise
                # The head that was decided on has tables of an earlier schema by now.
                raise ReadSetConflict("the schema") from error

    return run_branch_operation_once(engine, request, decide, make)


def delete(
    engine: Engine,
    name: str,
    bound_to: BranchName,
    *,
    actor: str | None = None,
    incarnation: Incarnation | None = None,
    merged_into: BranchName | None = None,
) -> None:
    """Delete a branch that no other branch and no tag depends on; with an `incarnation`, no other branch of that name.

    No other process writes the branch or takes its name until the deletion is complete. With `merged_into`, a branch with
    commits that are missing there is refused.
    """
    engine.require_writable(DELETE)
    branch = branch_name(name, DELETE)
    engine.require_here(branch, DELETE)
    engine.recovery.heal()
    # A branch that does not exist needs no lock.
    engine.manifest.branch_incarnation(branch)
    with _lock_name(engine, branch, DELETE), _lock_writers(engine, branch) as held_locks:
        if merged_into is not None:
            _require_merged(engine, branch, merged_into)
        delete_branch(
            engine.manifest,
            engine.store.tables,
            branch,
            bound_to=bound_to,
            incarnation=incarnation,
            is_locked=lambda: held_locks.lost() is None,
        )
    _log.info("branch.deleted", branch=branch, actor=actor)


def _require_merged(engine: Engine, branch: BranchName, target: BranchName) -> None:
    """Refuse while a branch has a commit that the target lacks: the commit would be lost with the branch."""
    source, target_state = engine.manifest.current(branch), engine.manifest.current(target)
    if source.head is None:
        return
    if (
        target_state.head is None
        or source.head.id not in find_shared(engine.manifest, source, target_state).lowest
    ):
        raise BranchInUse(branch, [branch], f"it has commits that are not merged into '{target}'")


def _lock_writers(engine: Engine, branch: BranchName) -> AbstractContextManager[HeldLocks]:
    """Hold the locks of every table of a branch: each writer of the branch holds one of them, or the lock of merges."""
    try:
        tables = engine.manifest.current(branch).snapshot.entries if branch != MAIN else {}
    except (NotFound, TableNotFound):
        # The deletion itself refuses a branch that does not exist, and removes a ref without files.
        tables = {}
    fork = lance_branch(branch)
    keys = [merge_key(fork), *(lock_key(table, fork) for table in tables)]
    return engine.committer.locks.acquire(keys, Activity(DELETE))


def delete_once(
    engine: Engine,
    name: str,
    bound_to: BranchName,
    actor: str | None,
    key: str,
    merged_into: BranchName | None = None,
) -> BranchOperationResult:
    """Delete a branch under an idempotency key; a later branch of that name stays."""
    engine.require_writable(DELETE)
    branch = branch_name(name, DELETE)
    request_fields = {} if merged_into is None else {"merged_into": merged_into}
    request = make_request(
        RequestKind.BRANCH_DELETE, MAIN, actor, key, name=branch, **request_fields
    )

    def decide() -> Receipt:
        require_deletable(engine.manifest, engine.store.tables, branch, bound_to)
        if merged_into is not None:
            _require_merged(engine, branch, merged_into)
        incarnation = engine.manifest.branch_incarnation(branch)
        return {"name": branch, "incarnation": [list(part) for part in incarnation]}

    def remove(receipt: Receipt) -> None:
        decided = incarnation_of(receipt["incarnation"])
        if not engine.manifest.is_gone(branch, decided):
            delete(
                engine,
                branch,
                bound_to,
                actor=actor,
                incarnation=decided,
                merged_into=merged_into,
            )

    return run_branch_operation_once(engine, request, decide, remove)


def _lock_name(engine: Engine, name: str, operation: str) -> AbstractContextManager[object]:
    """Keep other processes from a branch name: a ref found after a lost answer, or a removed ref, is never theirs."""
    return engine.committer.locks.acquire([branch_key(name)], Activity(operation))


def _create_from(
    engine: Engine, name: str, origin: BranchName, at: At | None
) -> tuple[Branch, BranchState]:
    if at is not None:
        base = engine.view(origin, at).state
        refuse_amid_swap(base)
        return _create_from_past(engine, name, base), base
    for _ in range(BRANCH_CAPTURES_MAX - 1):
        # Cleanup was faster than the branch: the present state of the source serves as well.
        # The same holds after a schema change.
        with suppress(HistoryReclaimed, ReadSetConflict):
            return _create_from_now(engine, name, origin)
    return _create_from_now(engine, name, origin)


def _create_from_now(engine: Engine, name: str, source: BranchName) -> tuple[Branch, BranchState]:
    base = engine.view(source).state
    fail(Failpoint.BRANCH_CAPTURED)
    tables = engine.store.tables
    branch = create_branch(
        engine.manifest,
        tables,
        name,
        source=base.branch,
        state=base,
        is_alone=True,
    )
    current = _require_same_schema(engine, branch, base)
    if current.version != base.version:
        moved_tables = _list_moved_tables(base, current)
        with _lock_versions(engine, base, moved_tables):
            _require_versions(engine, branch, base, moved_tables)
    return branch, base


def _require_same_schema(engine: Engine, branch: Branch, base: BranchState) -> BranchState:
    """Read the source again; take the branch back if the schema changed since.

    A schema change that begins later sees the branch.
    """
    with _taking_back(engine, branch):
        current = engine.manifest.current(base.branch)
        if current.version != base.version and find_schema_change(base, current) is not None:
            raise ReadSetConflict("the schema")
    return current


def _list_moved_tables(base: BranchState, current: BranchState) -> list[Entry]:
    """List the tables that the source shows at another version by now."""
    current_entries = current.snapshot.entries
    return [
        entry
        for entry in base.snapshot.entries.values()
        if entry.table_key not in current_entries or current_entries[entry.table_key].at != entry.at
    ]


def _create_from_past(engine: Engine, name: str, base: BranchState) -> Branch:
    fail(Failpoint.BRANCH_PAST)
    entries = list(base.snapshot.entries.values())
    with _lock_versions(engine, base, entries):
        branch = create_branch(
            engine.manifest,
            engine.store.tables,
            name,
            source=base.branch,
            at=base.version,
            is_alone=True,
        )
        _require_same_schema(engine, branch, base)
        _require_versions(engine, branch, base, entries)
    return branch


def _lock_versions(
    engine: Engine, base: BranchState, entries: Iterable[Entry]
) -> AbstractContextManager[HeldLocks]:
    """Hold the locks of tables and of the manifest, so that no cleanup removes their versions."""
    keys = [lock_key(entry.table_key, entry.at.branch) for entry in entries]
    keys.append(manifest_key(base.image.branch))
    return engine.committer.locks.acquire(keys, Activity(OPERATION))


def _require_versions(
    engine: Engine, branch: Branch, base: BranchState, entries: Iterable[Entry]
) -> None:
    """Open every version that a branch was made of; take the branch back if a version is missing."""
    with _taking_back(engine, branch):
        engine.manifest.require_version(base)
        for entry in entries:
            # Another process may have removed a version that is open here.
            engine.store.tables.forget(entry.at.path, entry.at.branch)
            engine.store.tables.open(entry.at)


@contextmanager
def _taking_back(engine: Engine, branch: Branch) -> Iterator[None]:
    """Delete a new branch when the block fails."""
    try:
        yield
    except BaseException:
        with suppress(OmniError):
            engine.manifest.rows.delete_branch(branch.name)
            engine.manifest.heads.end(branch.name)
        raise
