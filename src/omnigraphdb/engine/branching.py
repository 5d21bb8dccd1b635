"""Making and deleting branches: one made from a point of history is safe from cleanup, one with a key is made once."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from omnigraphdb.commit.locks import HeldLocks, branch_key, lock_key, manifest_key, merge_key
from omnigraphdb.engine.keyed import (
    Effect,
    Receipt,
    Verb,
    effect_once,
    make_request,
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
    """Make a branch that shows what its source shows; gives the state it was made from as well.

    Cleanup removes versions of a table, and of the manifest, under its lock, and keeps what a live branch shows. What
    the source shows when the branch exists is safe without a lock; what it showed before is opened under the lock:
    either cleanup came first, and the branch is removed again, or cleanup comes later and sees the branch.
    """
    engine.require_writable(OPERATION)
    chosen = new_branch_name(name, OPERATION)
    origin = branch_name(source, OPERATION)
    engine.require_here(origin, OPERATION)
    with _lock_name(engine, chosen, OPERATION):
        made = _create_from(engine, chosen, origin, at)
    _log.info("branch.created", branch=chosen, parent=origin, actor=actor)
    return made


def create_once(
    engine: Engine,
    name: str,
    source: str,
    at: At | None,
    actor: str | None,
    key: str,
) -> Effect:
    """Make a branch under an idempotency key; the receipt says from which state."""
    engine.require_writable(OPERATION)
    chosen = new_branch_name(name, OPERATION)
    origin = branch_name(source, OPERATION)
    asked = {"name": chosen, "from": origin, "at": at}
    request = make_request(Verb.BRANCH_CREATE, MAIN, actor, key, **asked)

    def decide() -> Receipt:
        require_free_name(engine.manifest, chosen)
        base = engine.view(origin, at).state
        if at is not None:
            refuse_amid_swap(base)
            refuse_older_schema(base, engine.manifest.current(origin))
        head = None if base.head is None else base.head.id
        return {"name": chosen, "parent": base.branch, "version": base.version, "head": head}

    def make(receipt: Receipt) -> None:
        ref = engine.manifest.rows.branches().get(chosen)
        made_from = (lance_branch(receipt["parent"]), receipt["version"])
        if ref is None or (ref.parent, ref.parent_version) != made_from:
            try:
                create(engine, chosen, receipt["parent"], receipt["version"], actor=actor)
            except UserInputError as error:
                if at is not None:
                    raise
                # The head that was decided on has tables of an earlier schema by now.
                raise ReadSetConflict("the schema") from error

    return effect_once(engine, request, decide, make)


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

    Nobody writes the branch meanwhile, and nobody takes its name before the last of it is gone. With `merged_into`, a
    branch that has commits which that one has not is refused.
    """
    engine.require_writable(DELETE)
    chosen = branch_name(name, DELETE)
    engine.require_here(chosen, DELETE)
    engine.recovery.heal()
    # What does not exist needs no lock.
    engine.manifest.branch_incarnation(chosen)
    with _lock_name(engine, chosen, DELETE), _lock_writers(engine, chosen) as held_locks:
        if merged_into is not None:
            _require_merged(engine, chosen, merged_into)
        delete_branch(
            engine.manifest,
            engine.store.tables,
            chosen,
            bound_to=bound_to,
            incarnation=incarnation,
            is_locked=lambda: held_locks.lost() is None,
        )
    _log.info("branch.deleted", branch=chosen, actor=actor)


def _require_merged(engine: Engine, branch: BranchName, target: BranchName) -> None:
    """Refuse while a branch has a commit that the target has not: it would go with the branch."""
    source, into = engine.manifest.current(branch), engine.manifest.current(target)
    if source.head is None:
        return
    if into.head is None or source.head.id not in find_shared(engine.manifest, source, into).lowest:
        raise BranchInUse(branch, [branch], f"it has commits that are not merged into '{target}'")


def _lock_writers(engine: Engine, branch: BranchName) -> AbstractContextManager[HeldLocks]:
    """Hold the locks of every table of a branch: whoever writes the branch holds one of them, or that of merges."""
    try:
        tables = engine.manifest.current(branch).snapshot.entries if branch != MAIN else {}
    except (NotFound, TableNotFound):
        # The deletion itself refuses a branch that is not there, and removes a ref without files.
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
) -> Effect:
    """Delete a branch under an idempotency key; a branch of that name that is made later stays."""
    engine.require_writable(DELETE)
    chosen = branch_name(name, DELETE)
    asked = {} if merged_into is None else {"merged_into": merged_into}
    request = make_request(Verb.BRANCH_DELETE, MAIN, actor, key, name=chosen, **asked)

    def decide() -> Receipt:
        require_deletable(engine.manifest, engine.store.tables, chosen, bound_to)
        if merged_into is not None:
            _require_merged(engine, chosen, merged_into)
        incarnation = engine.manifest.branch_incarnation(chosen)
        return {"name": chosen, "incarnation": [list(part) for part in incarnation]}

    def remove(receipt: Receipt) -> None:
        decided = incarnation_of(receipt["incarnation"])
        if not engine.manifest.is_gone(chosen, decided):
            delete(
                engine,
                chosen,
                bound_to,
                actor=actor,
                incarnation=decided,
                merged_into=merged_into,
            )

    return effect_once(engine, request, decide, remove)


def _lock_name(engine: Engine, name: str, operation: str) -> AbstractContextManager[object]:
    """Keep others from the name: a ref that is found after a lost answer is our own, and what is removed is not theirs."""
    return engine.committer.locks.acquire([branch_key(name)], Activity(operation))


def _create_from(
    engine: Engine, name: str, origin: BranchName, at: At | None
) -> tuple[Branch, BranchState]:
    if at is not None:
        base = engine.view(origin, at).state
        refuse_amid_swap(base)
        return _create_from_past(engine, name, base), base
    for _ in range(BRANCH_CAPTURES_MAX - 1):
        # Cleanup was faster than the branch: what the source shows by now will do as well.
        # The same holds after a schema change.
        with suppress(HistoryReclaimed, ReadSetConflict):
            return _create_from_now(engine, name, origin)
    return _create_from_now(engine, name, origin)


def _create_from_now(engine: Engine, name: str, source: BranchName) -> tuple[Branch, BranchState]:
    base = engine.view(source).state
    fail(Failpoint.BRANCH_CAPTURED)
    tables = engine.store.tables
    made = create_branch(
        engine.manifest,
        tables,
        name,
        source=base.branch,
        state=base,
        is_alone=True,
    )
    now = _require_same_schema(engine, made, base)
    if now.version != base.version:
        left = _list_moved_tables(base, now)
        with _lock_versions(engine, base, left):
            _require_versions(engine, made, base, left)
    return made, base


def _require_same_schema(engine: Engine, made: Branch, base: BranchState) -> BranchState:
    """Read the source again; a branch is taken back when the schema changed since, for a change that began later sees it."""
    with _taking_back(engine, made):
        now = engine.manifest.current(base.branch)
        if now.version != base.version and find_schema_change(base, now) is not None:
            raise ReadSetConflict("the schema")
    return now


def _list_moved_tables(base: BranchState, now: BranchState) -> list[Entry]:
    """The tables that the source shows at another version by now."""
    shown = now.snapshot.entries
    return [
        e
        for e in base.snapshot.entries.values()
        if e.table_key not in shown or shown[e.table_key].at != e.at
    ]


def _create_from_past(engine: Engine, name: str, base: BranchState) -> Branch:
    fail(Failpoint.BRANCH_PAST)
    entries = list(base.snapshot.entries.values())
    with _lock_versions(engine, base, entries):
        made = create_branch(
            engine.manifest,
            engine.store.tables,
            name,
            source=base.branch,
            at=base.version,
            is_alone=True,
        )
        _require_same_schema(engine, made, base)
        _require_versions(engine, made, base, entries)
    return made


def _lock_versions(
    engine: Engine, base: BranchState, entries: Iterable[Entry]
) -> AbstractContextManager[HeldLocks]:
    """Hold the locks of tables and of the manifest, so that no cleanup removes versions of them."""
    keys = [lock_key(e.table_key, e.at.branch) for e in entries]
    keys.append(manifest_key(base.image.branch))
    return engine.committer.locks.acquire(keys, Activity(OPERATION))


def _require_versions(
    engine: Engine, made: Branch, base: BranchState, entries: Iterable[Entry]
) -> None:
    """Open every version a branch was made of; it is taken back when one of them is gone."""
    with _taking_back(engine, made):
        engine.manifest.require_version(base)
        for entry in entries:
            # What is open may have been removed by another process since.
            engine.store.tables.forget(entry.at.path, entry.at.branch)
            engine.store.tables.open(entry.at)


@contextmanager
def _taking_back(engine: Engine, made: Branch) -> Iterator[None]:
    """Delete a branch that was just made when the block fails."""
    try:
        yield
    except BaseException:
        with suppress(OmniError):
            engine.manifest.rows.delete_branch(made.name)
            engine.manifest.heads.end(made.name)
        raise
