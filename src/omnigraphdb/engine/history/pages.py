"""Pages of changes for readers on a wire: bounded in number and bytes, nodes before edges, and resumable inside a commit."""

import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from omnigraphdb.engine.history.authors import find_authored
from omnigraphdb.engine.history.changes import Change, ChangeBlock, Diff, DiffStats
from omnigraphdb.engine.history.compare import (
    ChangeFilter,
    ChangePosition,
    explain_local,
    list_changes_from,
    list_differing_pairs,
    number_pairs,
    resolve_state,
)
from omnigraphdb.engine.history.counts import CountedTable, count_table, sum_counts
from omnigraphdb.engine.history.feed import (
    cursor_at,
    decode_token,
    encode_token,
    find_resume_point,
    incarnation_of,
    list_first_parents,
)
from omnigraphdb.engine.history.log import Shows
from omnigraphdb.engine.results import Commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import (
    ChangeFeedGap,
    CursorRejected,
    HistoryReclaimed,
    ResourceLimit,
    TableNotFound,
)
from omnigraphdb.ids import BranchName, CommitId
from omnigraphdb.limits import CHANGES_PAGE, CHANGES_PAGE_BYTES, CHANGES_PAGE_MAX
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import state_of
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass

_FEED: Final = "og1f."
_DIFF: Final = "og1d."


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    """Part of the feed up to the head that its first page saw; a page that ends before it has a token instead of a cursor."""

    blocks: tuple[ChangeBlock, ...]
    next_page_token: str | None
    cursor: str | None
    caught_up: bool | None
    engine: str = "local"
    """The engine that compared the tables: this process."""
    reason: str = field(default="", compare=False)
    """The reason for the choice of engine; comparisons of results leave it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPage:
    """Part of a diff, and the counts of all changes."""

    diff: Diff
    stats: DiffStats
    next_page_token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageStart:
    """The start of a page: the head that the first page saw, the commit to go on with, and its last change that was listed."""

    head: CommitId
    commit: CommitId
    after: ChangePosition | None


def check_page_size(limit: int | None) -> int:
    """Return the number of changes of a page; a number above the bound is refused."""
    if limit is not None and limit > CHANGES_PAGE_MAX:
        raise ResourceLimit("changes of a page", CHANGES_PAGE_MAX, limit, "ask for fewer at a time")
    return CHANGES_PAGE if limit is None else limit


# ---- the feed


def start_feed(
    engine: Engine,
    branch: BranchName,
    since: str | None,
    limit: int | None,
    filters: ChangeFilter,
    shows: Shows,
) -> FeedPage:
    """Read the first page after a cursor or commit, or from the beginning; the head is captured now."""
    size, state = check_page_size(limit), engine.manifest.current(branch)
    chain = list_first_parents(state)
    start = find_resume_point(chain, since, state, filters)
    position = next((n for n, commit in enumerate(chain) if commit.id == start), -1)
    waiting = chain[position + 1 :]
    if not waiting:
        return _end_feed(engine, state, start, (), filters, caught_up=True)
    page_start = _PageStart(head=waiting[-1].id, commit=waiting[0].id, after=None)
    _refuse_hidden(waiting, shows)
    return _read_page(engine, state, waiting, page_start, size, filters)


def continue_feed(
    engine: Engine,
    branch: BranchName,
    token: str,
    limit: int | None,
    filters: ChangeFilter,
    shows: Shows,
) -> FeedPage:
    """Read the page that a token names."""
    state = engine.manifest.current(branch)
    page_start = _decode_start(token, state, filters)
    chain = list_first_parents(state)
    numbers = {commit.id: n for n, commit in enumerate(chain)}
    if page_start.head not in numbers or page_start.commit not in numbers:
        raise CursorRejected(f"it names a commit that branch '{branch}' does not have")
    waiting = chain[numbers[page_start.commit] : numbers[page_start.head] + 1]
    _refuse_hidden(waiting, shows)
    return _read_page(engine, state, waiting, page_start, check_page_size(limit), filters)


def _refuse_hidden(waiting: list[GraphCommit], shows: Shows) -> None:
    """Refuse a feed with a commit of a hidden branch: its changes would be shown, or be missing."""
    hidden = {name for name in {commit.branch for commit in waiting} if not shows(name)}
    commit = next((commit for commit in waiting if commit.branch in hidden), None)
    if commit is not None:
        raise ChangeFeedGap(commit.id, is_hidden=True)


def _read_page(
    engine: Engine,
    state: BranchState,
    waiting: list[GraphCommit],
    page_start: _PageStart,
    limit: int,
    filters: ChangeFilter,
) -> FeedPage:
    blocks: list[ChangeBlock] = []
    budget = _PageBudget(limit)
    for commit in waiting:
        after = page_start.after if commit.id == page_start.commit else None
        changes: list[Change] = []
        positioned_changes = _list_commit(engine, state, commit, filters, after)
        for position, change in positioned_changes:
            if budget.is_full:
                token = _encode_start(state, page_start.head, commit.id, after, filters)
                if changes:
                    blocks.append(ChangeBlock(commit=Commit.of(commit), changes=tuple(changes)))
                return FeedPage(
                    blocks=tuple(blocks),
                    next_page_token=token,
                    cursor=None,
                    caught_up=None,
                    reason=_explain_feed(engine, state),
                )
            changes.append(change)
            budget.take(change)
            after = position
        blocks.append(ChangeBlock(commit=Commit.of(commit), changes=tuple(changes)))
    is_head = state.head is not None and state.head.id == page_start.head
    return _end_feed(engine, state, page_start.head, tuple(blocks), filters, caught_up=is_head)


def _end_feed(
    engine: Engine,
    state: BranchState,
    last: CommitId | None,
    blocks: tuple[ChangeBlock, ...],
    filters: ChangeFilter,
    *,
    caught_up: bool,
) -> FeedPage:
    cursor = cursor_at(state, last, filters)
    return FeedPage(
        blocks=blocks,
        next_page_token=None,
        cursor=cursor,
        caught_up=caught_up,
        reason=_explain_feed(engine, state),
    )


def _explain_feed(engine: Engine, state: BranchState) -> str:
    return explain_local(state.snapshot.row_count, engine.settings.small_work_rows)


def _list_commit(
    engine: Engine,
    state: BranchState,
    commit: GraphCommit,
    filters: ChangeFilter,
    after: ChangePosition | None,
) -> Iterator[tuple[ChangePosition, Change]]:
    parent = state.lineage.require(commit.parent or CommitId(""))
    try:
        base = state_of(engine.manifest, parent.branch, parent)
        head = state_of(engine.manifest, commit.branch, commit)
        yield from list_changes_from(
            engine.store.tables, base, head, filters, after, nodes_first=True
        )
    except (HistoryReclaimed, TableNotFound) as error:
        raise ChangeFeedGap(commit.id) from error


class _PageBudget:
    """The remaining size of a page: changes and bytes."""

    def __init__(self, changes: int) -> None:
        self._changes, self._bytes = changes, CHANGES_PAGE_BYTES

    @property
    def is_full(self) -> bool:
        """Whether the next change belongs to the next page; one change always fits."""
        return self._changes <= 0 or self._bytes <= 0

    def take(self, change: Change) -> None:
        """Count a change."""
        self._changes -= 1
        self._bytes -= len(json.dumps([change.before, change.after]))


def _encode_start(
    state: BranchState,
    head: CommitId,
    commit: CommitId,
    after: ChangePosition | None,
    filters: ChangeFilter,
) -> str:
    position = None if after is None else [after.table, after.after]
    body = {"branch": state.branch, "line": incarnation_of(state), "wanted": filters.digest}
    return encode_token(_FEED, body | {"head": head, "commit": commit, "after": position})


def _decode_start(token: str, state: BranchState, filters: ChangeFilter) -> _PageStart:
    names = {"branch", "line", "wanted", "head", "commit", "after"}
    body = decode_token(_FEED, token, names)
    if body["branch"] != state.branch or body["line"] != incarnation_of(state):
        raise CursorRejected("it belongs to another branch, or to an earlier one of this name")
    _require_same_filters(body["wanted"], filters)
    after = _decode_position(body["after"])
    return _PageStart(head=CommitId(body["head"]), commit=CommitId(body["commit"]), after=after)


def _require_same_filters(digest: Any, filters: ChangeFilter) -> None:
    if digest != filters.digest:
        raise CursorRejected(
            "the page before asked for other types, kinds, operations, properties or actors"
        )


def _decode_position(position: Any) -> ChangePosition | None:
    match position:
        case None:
            return None
        case [int(table), str(after)]:
            return ChangePosition(table=table, after=after)
        case _:
            raise CursorRejected("it is damaged")


# ---- diffs


def page_diff(
    engine: Engine,
    branch: BranchName,
    ends: tuple[str, str],
    limit: int | None,
    filters: ChangeFilter,
    token: str | None,
    shows: Shows,
) -> DiffPage:
    """Compare two branches or commits, a page at a time; later pages compare the states that the first page saw."""
    page_start = None if token is None else _decode_diff(token, ends, filters)
    base_name, head_name = ends if page_start is None else page_start.states
    base = resolve_state(engine, base_name, branch)
    head = resolve_state(engine, head_name, branch)
    filters = find_authored(engine, base, head, filters, shows)
    start = None if page_start is None else page_start.after
    tables, size = engine.store.tables, check_page_size(limit)
    budget = _PageBudget(size)
    if page_start is None:
        changes, stats = _start_diff(tables, base, head, filters, size + 1)
    else:
        changes = list_changes_from(tables, base, head, filters, start, nodes_first=True)
        stats = page_start.stats
    page: list[Change] = []
    next_token = None
    for position, change in changes:
        if budget.is_full:
            next_token = _encode_diff(ends, (base, head), stats, start, filters)
            break
        page.append(change)
        budget.take(change)
        start = position
    commit_ids = (None if state.head is None else str(state.head.id) for state in (base, head))
    rows = sum(pair.row_count for pair in list_differing_pairs(base, head, filters))
    diff = Diff(
        base=next(commit_ids),
        head=next(commit_ids),
        changes=tuple(page),
        reason=explain_local(rows, engine.settings.small_work_rows),
    )
    return DiffPage(diff=diff, stats=stats, next_page_token=next_token)


def _start_diff(
    tables: Tables, base: BranchState, head: BranchState, filters: ChangeFilter, limit: int
) -> tuple[Iterator[tuple[ChangePosition, Change]], DiffStats]:
    """Compare two states once: describe the first changes, and count all."""
    counted: list[CountedTable] = []
    first: list[tuple[ChangePosition, Change]] = []
    for number, pair in number_pairs(base, head, filters, nodes_first=True):
        table = count_table(tables, pair, filters, limit - len(first))
        counted.append(table)
        first.extend(
            (ChangePosition(table=number, after=change.id), change) for change in table.first
        )
    return iter(first), sum_counts(counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DiffStart:
    """The start of a page of a diff: the compared commits, the last listed change, and the counts of all changes."""

    states: tuple[str, str]
    after: ChangePosition | None
    stats: DiffStats


def _encode_diff(
    ends: tuple[str, str],
    states: tuple[BranchState, BranchState],
    stats: DiffStats,
    after: ChangePosition | None,
    filters: ChangeFilter,
) -> str:
    position = None if after is None else [after.table, after.after]
    heads = ["" if state.head is None else state.head.id for state in states]
    body = {"ends": list(ends), "states": heads, "wanted": filters.digest, "after": position}
    return encode_token(_DIFF, body | {"stats": stats.to_dict()})


def _decode_diff(token: str, ends: tuple[str, str], filters: ChangeFilter) -> _DiffStart:
    body = _decode_body(token)
    if body["ends"] != list(ends):
        raise CursorRejected("the page before compared other states")
    _require_same_filters(body["wanted"], filters)
    return _DiffStart(
        states=read_compared(token),
        after=_decode_position(body["after"]),
        stats=_decode_stats(body["stats"]),
    )


def _decode_stats(stats: Any) -> DiffStats:
    """Decode the counts of the first page, which hold for all pages: the commits of a token never change."""
    match stats:
        case {
            "inserts": int(inserts),
            "updates": int(updates),
            "deletes": int(deletes),
            "types_affected": [*types],
        } if all(isinstance(name, str) for name in types):
            return DiffStats(
                inserts=inserts, updates=updates, deletes=deletes, types_affected=tuple(types)
            )
        case _:
            raise CursorRejected("it is damaged")


def _decode_body(token: str) -> dict[str, Any]:
    return decode_token(_DIFF, token, {"ends", "states", "wanted", "after", "stats"})


def read_compared(token: str) -> tuple[str, str]:
    """Read the two commits that the token of a page names; a client may have written the token itself."""
    match _decode_body(token)["states"]:
        case [str(base), str(head)]:
            return base, head
        case _:
            raise CursorRejected("it is damaged")
