"""The change feed: the changes of each commit of a branch, oldest first, with a cursor to go on; one commit by pages."""

import base64
import binascii
import json
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.engine.history.changes import (
    Baseline,
    Change,
    ChangeBlock,
    ChangePage,
    ChangeStream,
)
from omnigraphdb.engine.history.compare import (
    EVERYTHING,
    ChangeFilter,
    ChangePosition,
    TablePair,
    compare_pair,
    list_changes_from,
    list_differing_pairs,
)
from omnigraphdb.engine.history.export import export_lines
from omnigraphdb.engine.results import Commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import (
    ChangeDiffRefused,
    ChangeFeedGap,
    CursorRejected,
    HistoryReclaimed,
    InternalError,
    StorageError,
    TableNotFound,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import BranchName, CommitId, TableKey, type_name
from omnigraphdb.limits import CHANGES_PAGE
from omnigraphdb.manifest.lineage import parse_moment
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import find_commit, state_of
from omnigraphdb.manifest.view import View
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass

_PAGE_PREFIX: Final = "og1p."
_NAMES: Final = {"commit", "wanted", "table", "after"}


_PREFIX: Final = "og1."


def page(
    engine: Engine,
    branch: BranchName,
    since: str | None = None,
    limit: int | None = None,
    filters: ChangeFilter = EVERYTHING,
    by: "FeedWorker | str" = "",
) -> ChangePage:
    """Read the feed from a cursor, after a commit, or from the beginning.

    A page holds whole commits and ends with the commit that brings it to `limit` changes. `by` compares the commits; if it
    is a text, this process compares them for that reason.
    """
    state = engine.manifest.current(branch)
    fail(Failpoint.FEED_CAPTURED)
    chain = list_first_parents(state)
    waiting = _list_after(chain, since, state)
    blocks: list[ChangeBlock] = []
    remaining = CHANGES_PAGE if limit is None else limit
    choice = ("local", by if isinstance(by, str) else "there is nothing to compare")
    with closing(_compare(engine, state, waiting, since, filters, by)) as compared:
        for commit, comparison in zip(waiting, compared, strict=False):
            changes = tuple(comparison.changes)
            blocks.append(ChangeBlock(commit=Commit.of(commit), changes=changes))
            if len(blocks) == 1 or choice[0] == "local":
                choice = (comparison.engine, comparison.reason)
            remaining -= len(changes)
            if remaining <= 0:
                break
    last = waiting[len(blocks) - 1].id if blocks else find_resume_point(chain, since, state)
    return ChangePage(
        blocks=tuple(blocks),
        cursor=cursor_at(state, last),
        caught_up=len(blocks) == len(waiting),
        engine=choice[0],
        reason=choice[1],
    )


def stream(
    engine: Engine,
    branch: BranchName,
    since: str | None = None,
    filters: ChangeFilter = EVERYTHING,
    by: "FeedWorker | str" = "",
) -> Iterator[ChangeStream]:
    """Read the feed up to the present head, commit by commit; no commit is in memory as a whole, however much it changed."""
    state = engine.manifest.current(branch)
    fail(Failpoint.FEED_CAPTURED)
    waiting = _list_after(list_first_parents(state), since, state)
    compared = _compare(engine, state, waiting, since, filters, by)
    return (
        ChangeStream(
            commit=Commit.of(commit),
            cursor=cursor_at(state, commit.id),
            changes=comparison.changes,
            engine=comparison.engine,
            reason=comparison.reason,
        )
        for commit, comparison in zip(waiting, compared, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCommit:
    """The changes of a commit, read on demand, and the engine that compared it."""

    changes: Iterator[Change]
    engine: str
    reason: str


FeedWorker = Callable[[Engine, Iterator["FeedStep"], ChangeFilter], Iterator[ComparedCommit]]
"""Compares commits, one after the other, with their parents."""


def _compare(
    engine: Engine,
    state: BranchState,
    waiting: Sequence[GraphCommit],
    since: str | None,
    filters: ChangeFilter,
    by: FeedWorker | str,
) -> Generator[ComparedCommit]:
    """Compare commits by workers, or in this process, which reads a commit only when the caller asks for it."""
    if isinstance(by, str):
        for commit in waiting:
            changes = _diff_since(engine, state, commit, since, filters)
            yield ComparedCommit(changes=changes, engine="local", reason=by)
        return
    steps = (_plan_step(engine, state, commit, since, filters) for commit in waiting)
    yield from by(engine, steps, filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedStep:
    """A commit of the feed and the tables it changed; any process that reaches the store can compare them."""

    commit: Commit
    pairs: tuple[TablePair, ...]
    since: str | None
    """From where the feed was read, for the error about a state that is gone."""

    def list_changes(self, tables: Tables, filters: ChangeFilter) -> Iterator[Change]:
        """List the changes of the commit, by table key, then id."""
        with self.report_gap():
            fail(Failpoint.FEED_OPENING)
            for pair in self.pairs:
                yield from compare_pair(tables, pair, filters)

    @contextmanager
    def report_gap(self) -> Iterator[None]:
        """Report a state that is gone as a gap of the feed."""
        try:
            yield
        except (HistoryReclaimed, TableNotFound) as error:
            raise ChangeFeedGap(self.commit.id, self.since) from error


def list_steps(
    engine: Engine, branch: BranchName, since: str | None, until: str | None, filters: ChangeFilter
) -> list[FeedStep]:
    """List the commits after one up to another, or up to the head; reads the manifest, no table."""
    state = engine.manifest.current(branch)
    fail(Failpoint.FEED_CAPTURED)
    chain = list_first_parents(state)
    end = None if until is None else find_resume_point(chain, until, state)
    waiting = _list_after(chain, since, state)
    if until is not None:
        last = next((n for n, commit in enumerate(waiting) if commit.id == end), -1)
        waiting = waiting[: last + 1]
    return [_plan_step(engine, state, commit, since, filters) for commit in waiting]


def _plan_step(
    engine: Engine,
    state: BranchState,
    commit: GraphCommit,
    since: str | None,
    filters: ChangeFilter,
) -> FeedStep:
    parent = state.lineage.require(commit.parent or CommitId(""))
    try:
        base = state_of(engine.manifest, parent.branch, parent)
        head = state_of(engine.manifest, commit.branch, commit)
    except (HistoryReclaimed, TableNotFound) as error:
        raise ChangeFeedGap(commit.id, since) from error
    pairs = list_differing_pairs(base, head, filters)
    return FeedStep(commit=Commit.of(commit), pairs=pairs, since=since)


def _diff_since(
    engine: Engine,
    state: BranchState,
    commit: GraphCommit,
    since: str | None,
    filters: ChangeFilter,
) -> Iterator[Change]:
    step = _plan_step(engine, state, commit, since, filters)
    yield from step.list_changes(engine.store.tables, filters)


def list_first_parents(state: BranchState) -> list[GraphCommit]:
    """List the commits from the first to the head along first parents, without the commit that created the graph."""
    by_id = state.lineage.by_id
    commit, commits = state.head, []
    while commit is not None and commit.parent is not None and commit.parent in by_id:
        commits.append(commit)
        commit = by_id[commit.parent]
    return commits[::-1]


def _list_after(
    chain: list[GraphCommit], since: str | None, state: BranchState
) -> list[GraphCommit]:
    if since is None:
        return chain
    start = find_resume_point(chain, since, state)
    position = next((n for n, commit in enumerate(chain) if commit.id == start), -1)
    return list(islice(chain, position + 1, None))


def find_resume_point(
    chain: list[GraphCommit],
    since: str | None,
    state: BranchState,
    filters: ChangeFilter | None = None,
) -> CommitId | None:
    """Find the commit after which the feed continues; None before the first."""
    if since is None:
        return None
    if since.startswith(_PREFIX):
        return _decode_cursor(since, chain, state, filters)
    moment = parse_moment(since)
    if moment is not None:
        before = state.lineage.at_moment(moment)
        return None if before is None else before.id
    commit = state.lineage.find(since)
    if commit is None:
        raise CursorRejected(
            f"'{since}' is neither a cursor nor a commit of branch '{state.branch}'"
        )
    if commit.parent is None:
        return None
    return _require_on_chain(commit.id, chain, state)


def _require_on_chain(commit: CommitId, chain: list[GraphCommit], state: BranchState) -> CommitId:
    if all(member.id != commit for member in chain):
        raise CursorRejected(
            f"commit {commit} came to branch '{state.branch}' through a merge, the feed follows first parents"
        )
    return commit


# ---- cursors


def cursor_at(
    state: BranchState, commit: CommitId | None, filters: ChangeFilter | None = None
) -> str:
    """Make a cursor of this incarnation of a branch that continues after a commit, perhaps under these filters only."""
    body = {"branch": state.branch, "line": incarnation_of(state), "after": commit}
    return encode_token(_PREFIX, body | ({} if filters is None else {"wanted": filters.digest}))


def _decode_cursor(
    cursor: str, chain: list[GraphCommit], state: BranchState, filters: ChangeFilter | None
) -> CommitId | None:
    body = decode_token(_PREFIX, cursor, {"branch", "line", "after"})
    if filters is not None and body.get("wanted", filters.digest) != filters.digest:
        raise CursorRejected("it was made for other types, kinds or operations")
    if body["branch"] != state.branch:
        raise CursorRejected(f"it belongs to branch '{body['branch']}', not to '{state.branch}'")
    if body["line"] != incarnation_of(state):
        raise CursorRejected(
            f"branch '{state.branch}' was deleted and made again since; begin its feed again"
        )
    return None if body["after"] is None else _require_on_chain(body["after"], chain, state)


def incarnation_of(state: BranchState) -> list[list[Any]]:
    """Spell the incarnation of a branch: a branch that is made again has another one."""
    return [list(part) for part in state.branch_incarnation]


# ---- tokens


def encode_token(prefix: str, body: Mapping[str, Any]) -> str:
    """Encode a body as one opaque word; the prefix names its kind."""
    packed = base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode())
    return prefix + packed.decode().rstrip("=")


def decode_token(prefix: str, token: str, names: set[str]) -> dict[str, Any]:
    """Decode a token; refuse a token of another kind, or a token that lacks a name."""
    text = token.removeprefix(prefix)
    if not token.startswith(prefix):
        raise CursorRejected("it is damaged")
    try:
        body = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error) as error:
        raise CursorRejected("it is damaged") from error
    if not isinstance(body, dict) or not names <= body.keys():
        raise CursorRejected("it is damaged")
    return body


# ---- baselines
# A file with one whole state, and the cursor from which the change feed continues.


def baseline(
    engine: Engine, branch: BranchName, out: Path, types: Sequence[str] | None = None
) -> Baseline:
    """Write every entity of a branch to a file; the file appears whole or not at all, and survives a power failure."""
    view = engine.view(branch)
    head = view.state.head
    if head is None:
        raise InternalError(f"branch '{branch}' has no commit")
    records = write_lines(out, export_lines(engine, view, types))
    return Baseline(commit=Commit.of(head), cursor=resume(view), records=records)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineStream:
    """One whole state as lines, once, and the cursor from which the feed goes on after it."""

    commit: str
    cursor: str
    lines: Iterator[pa.Buffer] = field(repr=False)


def stream_baseline(
    engine: Engine, branch: BranchName, types: Sequence[str] | None = None
) -> BaselineStream:
    """Capture a state now, and read its entities as the lines are consumed."""
    view = engine.view(branch)
    if view.commit is None:
        raise InternalError(f"branch '{branch}' has no commit")
    lines = export_lines(engine, view, types)
    return BaselineStream(commit=view.commit, cursor=resume(view), lines=lines)


def resume(view: View) -> str:
    """Make the cursor that continues after the head of a view."""
    head = view.state.head
    after = None if head is None or head.parent is None else head.id
    return cursor_at(view.state, after)


def write_lines(out: Path, lines: Iterable[pa.Buffer]) -> int:
    """Replace a file by these lines in one step; return the number of lines."""
    partial = out.with_name(f".{out.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        count = 0
        with partial.open("wb") as file:
            for text in lines:
                count += text.to_pybytes().count(b"\n")
                file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, out)
        _sync_directory(out.parent)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(out, error) from error
        raise
    return count


def _unwritable(out: Path, error: OSError) -> StorageError:
    return StorageError(
        f"'{out}' cannot be written: {error.strerror}; nothing was written",
        hint="name a file in a directory that is there, may be written to and has room",
    )


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- one commit
# The changes of one commit against its first parent, a page at a time.


def commit_changes(
    engine: Engine,
    name: str,
    filters: ChangeFilter = EVERYTHING,
    *,
    limit: int | None = None,
    token: str | None = None,
    nodes_first: bool = False,
) -> ChangeBlock:
    """Compare a commit with its first parent; changes before the token and after the limit are not read."""
    if limit is not None and limit < 1:
        raise UserInputError(f"commit changes: a page holds at least 1 change, not {limit}")
    commit, parent = _find_pair(engine, name)
    start = None if token is None else _decode_page_token(token, commit, filters)
    base = state_of(engine.manifest, parent.branch, parent)
    head = state_of(engine.manifest, commit.branch, commit)
    fail(Failpoint.FEED_OPENING)
    if commit.kind is CommitKind.SCHEMA_APPLY:
        _refuse_reshaped(engine.store.tables, commit, base, head, filters)
    tables = engine.store.tables
    changes = list_changes_from(tables, base, head, filters, start, nodes_first=nodes_first)
    listed = list(changes if limit is None else islice(changes, limit))
    more = limit is not None and next(changes, None) is not None
    return ChangeBlock(
        commit=Commit.of(commit),
        changes=tuple(change for _, change in listed),
        next_page_token=_encode_page_token(listed[-1][0], commit, filters) if more else None,
    )


def _find_pair(engine: Engine, name: str) -> tuple[GraphCommit, GraphCommit]:
    commit = find_commit(engine.manifest, name)
    if commit.parent is None:
        raise _make_refusal(
            commit, "created the graph and has no parent to be compared with", "parentless_commit"
        )
    return commit, find_commit(engine.manifest, commit.parent)


def _refuse_reshaped(
    tables: Tables, commit: GraphCommit, base: BranchState, head: BranchState, filters: ChangeFilter
) -> None:
    """Refuse a schema change that changed a requested type: rows of two shapes cannot be compared."""
    old = {entry.at.path: entry for entry in base.snapshot.entries.values()}
    new = {entry.at.path: entry for entry in head.snapshot.entries.values()}
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        key = (after or old[path]).table_key
        if filters.covers(key) and _differs_in_shape(tables, before, after):
            raise _refuse_schema_change(commit, key)


def _differs_in_shape(tables: Tables, before: Entry | None, after: Entry | None) -> bool:
    """Whether a table was created, dropped or renamed, or has other columns than before."""
    if before is None or after is None or before.table_key != after.table_key:
        return True
    if before.at == after.at:
        return False
    return bool(tables.open(before.at).schema != tables.open(after.at).schema)


def _refuse_schema_change(commit: GraphCommit, table: TableKey) -> ChangeDiffRefused:
    name = type_name(table)
    return _make_refusal(
        commit,
        f"changed the schema of {name}: its rows before and after have different shapes",
        "schema_boundary",
        type_name=name,
    )


def _make_refusal(commit: GraphCommit, why: str, reason: str, **facts: str) -> ChangeDiffRefused:
    refusal = {"reason": reason, "graph_commit_id": commit.id, **facts}
    return ChangeDiffRefused(
        f"commit {commit.id} {why}; nothing was compared",
        details={"change_diff_refusal": refusal},
        hint="`diff` compares any two states; `changes baseline` gives a whole one",
    )


# ---- tokens


def _encode_page_token(position: ChangePosition, commit: GraphCommit, filters: ChangeFilter) -> str:
    body = {"commit": commit.id, "wanted": filters.digest}
    return encode_token(_PAGE_PREFIX, body | {"table": position.table, "after": position.after})


def _decode_page_token(token: str, commit: GraphCommit, filters: ChangeFilter) -> ChangePosition:
    body = decode_token(_PAGE_PREFIX, token, _NAMES)
    if body["commit"] != commit.id:
        raise CursorRejected(f"it belongs to commit {body['commit']}, not to {commit.id}")
    if body["wanted"] != filters.digest:
        raise CursorRejected("the page before asked for other types, kinds or operations")
    return ChangePosition(table=int(body["table"]), after=str(body["after"]))
