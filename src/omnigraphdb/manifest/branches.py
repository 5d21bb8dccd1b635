"""Graph branches: create, list, delete. A ref on the manifest is the sole authority for their existence."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from omnigraphdb.errors import (
    BranchExists,
    BranchInUse,
    ForkExists,
    HistoryReclaimed,
    LockTimeout,
    NotFoundError,
    OmniError,
    ReadSetConflict,
    SchemaApplyConflict,
    TableNotFound,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.limits import (
    BRANCH_CREATE_WAIT_SECONDS,
    BRANCH_CREATE_WAITS_MAX,
    PUBLISH_LOCK_SECONDS_MAX,
)
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.lineage import find_commit, named_head
from omnigraphdb.manifest.manifest import Manifest, PublishLock
from omnigraphdb.manifest.migrate import load_migrated, migrate
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK, branch_name, nesting, new_branch_name
from omnigraphdb.manifest.records import (
    CommitKind,
    GraphCommit,
    graph_branch,
    head_row,
    lance_branch,
)
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.stamp import CURRENT
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.tags import list_tags
from omnigraphdb.manifest.travel import At, state_at
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.rows import Rows
from omnigraphdb.storage.values import MAIN_INCARNATION, BranchRef, Incarnation
from omnigraphdb.values import dataclass

_log = get_logger(__name__)


class Forks(Protocol):
    """The operations on Lance branches that graph branches need, for all tables and the manifest."""

    def forks(self, path: str) -> Mapping[str, BranchRef]:
        """Return the Lance branches of a table, by name."""
        ...

    def drop_fork(self, path: str, branch: str) -> None:
        """Remove a Lance branch; nothing to do when it is gone."""
        ...

    def drop_tree(self, path: str, branch: str) -> None:
        """Remove the files of a Lance branch that has no ref; refuses when it has one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A graph branch and its parent; main has neither a parent nor a creation time."""

    name: BranchName
    parent: BranchName | None
    created_at: int | None


def list_branches(manifest: Manifest) -> tuple[Branch, ...]:
    """List main, then the others by name; internal ones are hidden."""
    refs = manifest.rows.branches()
    visible_refs = (refs[name] for name in sorted(refs) if name != SCHEMA_APPLY_LOCK)
    return (
        Branch(name=MAIN, parent=None, created_at=None),
        *(_branch(ref) for ref in visible_refs),
    )


def _branch(ref: BranchRef) -> Branch:
    return Branch(
        name=BranchName(ref.name), parent=graph_branch(ref.parent), created_at=ref.created_us
    )


def read_head(
    manifest: Manifest, branch: Branch, parents: Iterable[BranchName]
) -> GraphCommit | None:
    """Read the head of a branch without its history; `parents` are the branches it comes from, the nearest first."""
    # Cleanup may remove the newest version after another one replaced it.
    with suppress(HistoryReclaimed):
        head = _find_head(manifest.rows, branch.name, [branch.name, *parents])
        if head is not None:
            return head
    return manifest.current(branch.name, remember=False).head


def _find_head(
    rows: Rows, branch: BranchName, heads_of: Sequence[BranchName]
) -> GraphCommit | None:
    """Find the head among the newest rows; a branch that was never written has the head of its parent branch."""
    names = [head_row(name) for name in heads_of]
    newest = rows.find_newest(lance_branch(branch), names)
    head_id = next(
        (commit_id for name in names if (commit_id := named_head(newest, name)) is not None), None
    )
    if head_id is None:
        return None
    commit = find_commit(newest, head_id)
    if commit is None:
        # Maintenance rewrites the head row alone; the commit is then among older rows.
        commit = find_commit(rows.find_newest(lance_branch(branch), [head_id]), head_id)
    return commit


def refuse_during_schema_apply(refs: Collection[str], operation: str) -> None:
    """Refuse an operation that a running schema change excludes."""
    if SCHEMA_APPLY_LOCK in refs:
        raise SchemaApplyConflict(
            f"{operation} has to wait: a schema change is in progress; no changes were made",
            hint="retry when it is done; reopen the graph read-write if it was killed",
        )


def is_schema_locked(manifest: Manifest) -> bool:
    """Whether a schema change holds the graph; one small read."""
    try:
        manifest.rows.incarnation(SCHEMA_APPLY_LOCK)
    except NotFoundError:
        return False
    return True


def lock_schema(manifest: Manifest, tables: Forks) -> None:
    """Lock the graph for a schema change; only one caller at a time can."""
    try:
        # The caller holds the lock of schema changes.
        _fork_branch(manifest, tables, SCHEMA_APPLY_LOCK, manifest.current(MAIN), is_alone=True)
    except BranchExists as error:
        raise SchemaApplyConflict(
            "schema apply: another schema change is already in progress; no changes were made",
            hint="retry when it is done; reopen the graph read-write if it was killed",
        ) from error


def unlock_schema(manifest: Manifest) -> None:
    """Unlock the graph; a lock that cannot be removed now is removed by the next read-write open."""
    try:
        manifest.rows.delete_branch(SCHEMA_APPLY_LOCK)
    except OmniError as error:
        _log.warning("schema.lock_kept", reason=str(error))


# ---- create


def create_branch(
    manifest: Manifest,
    tables: Forks,
    name: str,
    *,
    source: BranchName = MAIN,
    at: At | None = None,
    state: BranchState | None = None,
    is_alone: bool = False,
) -> Branch:
    """Create a branch with the state of its source, now or at a point of its history; copies nothing.

    `state` is the source's as the caller has just captured it. `is_alone`: the caller holds the lock of the name, so
    that a ref which appears is this call's own, also when the store answered otherwise.
    """
    new_name = new_branch_name(name, "branch create")
    with manifest.heads.lock_branch(new_name):
        require_free_name(manifest, new_name)
        if state is not None and state.stamp == CURRENT:
            base = state
        else:
            base = _base(manifest, branch_name(source, "branch create"), at)
        ref = _fork_branch(manifest, tables, new_name, base, is_alone=is_alone)
        with _undo_on_failure(lambda: manifest.rows.delete_branch(new_name)):
            fail(Failpoint.BRANCH_CREATED)
            # A schema change that took the lock meanwhile may have listed the branches before this one existed.
            if is_schema_locked(manifest):
                refuse_during_schema_apply(manifest.rows.branch_names(), "branch create")
            if base.stamp < CURRENT:
                migrate(manifest, new_name, lambda: base.lineage.commits)
    return _branch(ref)


def refuse_amid_swap(base: BranchState) -> None:
    """Refuse a point that no manifest version shows: a branch begins at a version."""
    if base.is_amid_swap and base.head is not None:
        raise UserInputError(
            f"branch create: commit {base.head.id} was published in one swap with later commits "
            f"(group {base.head.group}), and a branch begins at a swap; no changes were made",
            hint="begin at the last commit of the group, or at the one before its first",
        )


def require_free_name(manifest: Manifest, name: BranchName) -> None:
    """Refuse the name of a branch, a name that cannot stand beside it, and any name while the schema changes."""
    names = manifest.rows.branch_names()
    refuse_during_schema_apply(names, "branch create")
    if name in names:
        raise BranchExists(name)
    other = nesting(name, names)
    if other is not None:
        raise BranchExists(name, other)


def _base(manifest: Manifest, source: BranchName, at: At | None) -> BranchState:
    """Choose the state to fork from; the source is migrated first.

    A manifest of an older shape keeps its history elsewhere, under its own name; a branch of it would have none.
    """
    state = load_migrated(manifest, source)
    if at is None:
        return state
    past = state_at(manifest, source, at)
    refuse_older_schema(past, state)
    return past


def refuse_older_schema(past: BranchState, now: BranchState) -> None:
    """Refuse a branch of tables that the schema no longer describes: all branches share one schema."""
    commit = find_schema_change(past, now)
    if commit is not None:
        raise UserInputError(
            f"branch create: the schema changed in commit {commit.id}, after the point to start from; "
            "no changes were made",
            details={"schema_commit": commit.id},
            hint=f"start from commit {commit.id} or a later one; read earlier ones with `at`",
        )


def find_schema_change(earlier: BranchState, current: BranchState) -> GraphCommit | None:
    """Find the newest schema change since an earlier state of a branch."""
    since = None if earlier.head is None else earlier.head.id
    commits = current.lineage.listed(since=since)
    return next((commit for commit in commits if commit.kind is CommitKind.SCHEMA_APPLY), None)


def _fork_branch(
    manifest: Manifest, tables: Forks, name: BranchName, base: BranchState, *, is_alone: bool
) -> BranchRef:
    """Create the ref; remove files of a former branch of this name when no ref owns them.

    The client of a store repeats a request whose answer was lost, and then finds its own ref.
    """
    for _ in range(1 + BRANCH_CREATE_WAITS_MAX):
        try:
            return manifest.rows.create_branch(name, lance_branch(base.branch), base.version)
        except ForkExists as error:
            ref = manifest.rows.branches().get(name) if is_alone else None
            if ref is not None and _is_made_from(ref, base):
                return ref
            if error.has_ref or name in manifest.rows.branch_names():
                raise BranchExists(name) from error
            manifest.runtime.wait(BRANCH_CREATE_WAIT_SECONDS)
    tables.drop_tree(MANIFEST, name)
    return manifest.rows.create_branch(name, lance_branch(base.branch), base.version)


def _is_made_from(ref: BranchRef, base: BranchState) -> bool:
    return (ref.parent, ref.parent_version) == (lance_branch(base.branch), base.version)


# ---- delete


def delete_branch(
    manifest: Manifest,
    tables: Forks,
    name: str,
    *,
    bound_to: BranchName = MAIN,
    incarnation: Incarnation | None = None,
    is_locked: Callable[[], bool] = lambda: True,
) -> None:
    """Delete a branch that nothing depends on, and its forks; cleanup removes forks that cannot be removed now.

    `bound_to` is the branch of the caller's handle, which cannot be deleted. With an `incarnation`, another branch of
    that name stays. `is_locked`: the caller still keeps everybody else from writing the branch and from taking its name.
    """
    branch = _name_deletable(name)
    with _lock_publishers(manifest, branch):
        refs = manifest.rows.branches()
        refuse_during_schema_apply(refs, "branch delete")
        if incarnation is not None and (
            branch not in refs or refs[branch].incarnation != incarnation
        ):
            return
        if branch not in refs:
            raise manifest.no_branch(branch)
        fail(Failpoint.BRANCH_DROP_LISTED)
        owned = _list_owned(manifest, refs[branch])
        _refuse_used(manifest, tables, branch, refs, owned, bound_to)
        if not is_locked():
            raise ReadSetConflict(f"the lock of branch '{branch}'")
        manifest.rows.delete_branch(branch)
        manifest.heads.end(branch)
    _reclaim(manifest, tables, branch, owned, is_locked)


def require_deletable(
    manifest: Manifest, tables: Forks, name: str, bound_to: BranchName = MAIN
) -> None:
    """Refuse to delete main, a missing branch, and a branch that something depends on."""
    branch = _name_deletable(name)
    refs = manifest.rows.branches()
    refuse_during_schema_apply(refs, "branch delete")
    if branch not in refs:
        raise manifest.no_branch(branch)
    owned = _list_owned(manifest, refs[branch])
    _refuse_used(manifest, tables, branch, refs, owned, bound_to)


def _list_owned(manifest: Manifest, ref: BranchRef) -> tuple[Entry, ...]:
    """List the tables that a branch owns; a ref that arrived after the files of its branch were removed owns none."""
    try:
        return manifest.current(BranchName(ref.name), ref.incarnation).snapshot.owned()
    except TableNotFound:
        return ()


def _name_deletable(name: str) -> BranchName:
    branch = branch_name(name, "branch delete")
    if branch == MAIN:
        raise UserInputError(
            "branch delete: 'main' cannot be deleted; no changes were made",
            hint="every graph has a main branch",
        )
    return branch


@contextmanager
def _lock_publishers(manifest: Manifest, branch: BranchName) -> Iterator[None]:
    """Keep publishers from a branch during its deletion: a swap does not notice that another branch has its name."""
    with manifest.lock_branch(branch) as lock:
        if lock is not PublishLock.BRANCH:
            raise LockTimeout(MANIFEST, branch, PUBLISH_LOCK_SECONDS_MAX)
        yield


def _refuse_used(
    manifest: Manifest,
    tables: Forks,
    branch: BranchName,
    refs: Mapping[str, BranchRef],
    owned: tuple[Entry, ...],
    bound_to: BranchName,
) -> None:
    if branch == bound_to:
        raise BranchInUse(branch, [branch], f"this handle stands on '{branch}'")
    children = sorted(ref.name for ref in refs.values() if ref.parent == branch)
    if children:
        raise BranchInUse(branch, children, f"{_quote_names(children)} descends from it")
    tags = [tag.name for tag in list_tags(manifest.current(MAIN)) if tag.branch == branch]
    if tags:
        raise BranchInUse(branch, tags, f"the tag {_quote_names(tags)} names a commit of it")
    incarnations = {MAIN: MAIN_INCARNATION} | {
        BranchName(name): refs[name].incarnation for name in sorted(refs)
    }
    users = [
        other
        for other, branch_incarnation in incarnations.items()
        if owned
        and other != branch
        and _reads_files_of(manifest, other, branch_incarnation, branch)
    ]
    if users:
        raise BranchInUse(branch, users, f"{_quote_names(users)} shows tables it owns")
    forked = sorted(set(_list_dependent_forks(tables, branch, owned)) & refs.keys())
    if forked:
        raise BranchInUse(branch, forked, f"{_quote_names(forked)} forked tables from it")


def _quote_names(names: list[str] | list[BranchName]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _reads_files_of(
    manifest: Manifest, other: BranchName, branch_incarnation: Incarnation, branch: BranchName
) -> bool:
    try:
        # Merges point to tables of main alone; of another branch the column tells, without its history.
        if not manifest.rows.count_where(lance_branch(other), "table_branch", branch):
            return False
        entries = manifest.current(
            other, branch_incarnation, remember=False
        ).snapshot.entries.values()
    except OmniError:
        # Another process deletes the branch: it removes the ref first, then the files one by one.
        if not manifest.is_gone(other, branch_incarnation):
            raise
        return False
    return any(entry.at.branch == branch for entry in entries)


def _list_dependent_forks(
    tables: Forks, branch: BranchName, owned: tuple[Entry, ...]
) -> Iterator[str]:
    """List the branches whose fork of a table was made from this branch's fork: they share its files."""
    for entry in owned:
        with suppress(TableNotFound):
            refs = tables.forks(entry.at.path).values()
            yield from (ref.name for ref in refs if ref.parent == branch)


def _reclaim(
    manifest: Manifest,
    tables: Forks,
    branch: BranchName,
    owned: tuple[Entry, ...],
    is_locked: Callable[[], bool],
) -> None:
    legacy = manifest.legacy
    if legacy is not None:
        _try(branch, Failpoint.BRANCH_DROP_LINEAGE, partial(legacy.forget, branch))
    for entry in owned:

        def drop(path: str = entry.at.path) -> None:
            # A caller that lost its locks may meet a fork of the next branch of that name.
            if is_locked():
                tables.drop_fork(path, branch)

        _try(branch, Failpoint.BRANCH_DROP_FORKS, drop)


def _try(branch: BranchName, name: Failpoint, drop: Callable[[], None]) -> None:
    """Drop a leftover of a deleted branch; after a failure, cleanup drops it later."""
    try:
        fail(name)
        drop()
    except OmniError as error:
        _log.warning("branch.leftover_kept", branch=branch, at=name.value, reason=str(error))


@contextmanager
def _undo_on_failure(undo: Callable[[], None]) -> Iterator[None]:
    """Undo on any failure, and raise that failure."""
    try:
        yield
    except BaseException:
        with suppress(OmniError):
            undo()
        raise
