"""Pages of changes for readers on a wire: bounded in number and bytes, nodes before edges, and resumable inside a commit."""

import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from omnigraphdb.engine.history.authors import find_authored
from omnigraphdb.engine.history.changes import Change, ChangeBlock, Diff, DiffStats
from omnigraphdb.engine.history.compare import (
    ChangePosition,
    Wanted,
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
    """Who compared the tables: this process."""
    reason: str = field(default="", compare=False)
    """Why it did: no part of what was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPage:
    """Part of a diff, and how much differs altogether."""

    diff: Diff
    stats: DiffStats
    next_page_token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageStart:
    """Where a page begins: the head that the first page saw, the commit to go on with, and the changes of it that were given."""

    head: CommitId
    commit: CommitId
    after: ChangePosition | None


def check_page_size(limit: int | None) -> int:
    """The number of changes of a page; more than a page may hold is refused."""
    if limit is not None and limit > CHANGES_PAGE_MAX:
        raise ResourceLimit("changes of a page", CHANGES_PAGE_MAX, limit, "ask for fewer at a time")
    return CHANGES_PAGE if limit is None else limit


# ---- the feed


def start_feed(
    engine: Engine,
    branch: BranchName,
    since: str | None,
    limit: int | None,
    wanted: Wanted,
    shows: Shows,
) -> FeedPage:
    """Read the first page after a cursor or commit, or from the beginning; the head is captured now."""
    size, state = check_page_size(limit), engine.manifest.current(branch)
    chain = list_first_parents(state)
    start = find_resume_point(chain, since, state, wanted)
    position = next((n for n, commit in enumerate(chain) if commit.id == start), -1)
    waiting = chain[position + 1 :]
    if not waiting:
        return _end_feed(engine, state, start, (), wanted, caught_up=True)
    place = _PageStart(head=waiting[-1].id, commit=waiting[0].id, after=None)
    _refuse_hidden(waiting, shows)
    return _read_page(engine, state, waiting, place, size, wanted)


def continue_feed(
    engine: Engine,
    branch: BranchName,
    token: str,
    limit: int | None,
    wanted: Wanted,
    shows: Shows,
) -> FeedPage:
    """Read the page that a token names."""
    state = engine.manifest.current(branch)
    place = _decode_start(token, state, wanted)
    chain = list_first_parents(state)
    numbers = {commit.id: n for n, commit in enumerate(chain)}
    if place.head not in numbers or place.commit not in numbers:
        raise CursorRejected(f"it names a commit that branch '{branch}' does not have")
    waiting = chain[numbers[place.commit] : numbers[place.head] + 1]
    _refuse_hidden(waiting, shows)
    return _read_page(engine, state, waiting, place, check_page_size(limit), wanted)


def _refuse_hidden(waiting: list[GraphCommit], shows: Shows) -> None:
    """Refuse a feed with a commit of a branch that is not shown: what it changed would be shown, or be missing."""
    hidden = {name for name in {one.branch for one in waiting} if not shows(name)}
    commit = next((one for one in waiting if one.branch in hidden), None)
    if commit is not None:
        raise ChangeFeedGap(commit.id, is_hidden=True)


def _read_page(
    engine: Engine,
    state: BranchState,
    waiting: list[GraphCommit],
    place: _PageStart,
    limit: int,
    wanted: Wanted,
) -> FeedPage:
    blocks: list[ChangeBlock] = []
    room = _Room(limit)
    for commit in waiting:
        after = place.after if commit.id == place.commit else None
        changes: list[Change] = []
        found = _list_commit(engine, state, commit, wanted, after)
        for position, change in found:
            if room.is_full:
                token = _encode_start(state, place.head, commit.id, after, wanted)
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
            room.take(change)
            after = position
        blocks.append(ChangeBlock(commit=Commit.of(commit), changes=tuple(changes)))
    is_head = state.head is not None and state.head.id == place.head
    return _end_feed(engine, state, place.head, tuple(blocks), wanted, caught_up=is_head)


def _end_feed(
    engine: Engine,
    state: BranchState,
    last: CommitId | None,
    blocks: tuple[ChangeBlock, ...],
    wanted: Wanted,
    *,
    caught_up: bool,
) -> FeedPage:
    cursor = cursor_at(state, last, wanted)
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
    wanted: Wanted,
    after: ChangePosition | None,
) -> Iterator[tuple[ChangePosition, Change]]:
    parent = state.lineage.require(commit.parent or CommitId(""))
    try:
        base = state_of(engine.manifest, parent.branch, parent)
        head = state_of(engine.manifest, commit.branch, commit)
        yield from list_changes_from(
            engine.store.tables, base, head, wanted, after, nodes_first=True
        )
    except (HistoryReclaimed, TableNotFound) as error:
        raise ChangeFeedGap(commit.id) from error


class _Room:
    """What a page still holds: changes and bytes."""

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
    wanted: Wanted,
) -> str:
    position = None if after is None else [after.table, after.after]
    body = {"branch": state.branch, "line": incarnation_of(state), "wanted": wanted.digest}
    return encode_token(_FEED, body | {"head": head, "commit": commit, "after": position})


def _decode_start(token: str, state: BranchState, wanted: Wanted) -> _PageStart:
    names = {"branch", "line", "wanted", "head", "commit", "after"}
    body = decode_token(_FEED, token, names)
    if body["branch"] != state.branch or body["line"] != incarnation_of(state):
        raise CursorRejected("it belongs to another branch, or to an earlier one of this name")
    _require_same_filters(body["wanted"], wanted)
    after = _decode_position(body["after"])
    return _PageStart(head=CommitId(body["head"]), commit=CommitId(body["commit"]), after=after)


def _require_same_filters(found: Any, wanted: Wanted) -> None:
    if found != wanted.digest:
        raise CursorRejected(
            "the page before asked for other types, kinds, operations, properties or actors"
        )


def _decode_position(found: Any) -> ChangePosition | None:
    match found:
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
    wanted: Wanted,
    token: str | None,
    shows: Shows,
) -> DiffPage:
    """Compare two branches or commits, a page at a time; later pages compare the states that the first one saw."""
    place = None if token is None else _decode_diff(token, ends, wanted)
    base_name, head_name = ends if place is None else place.states
    base = resolve_state(engine, base_name, branch)
    head = resolve_state(engine, head_name, branch)
    wanted = find_authored(engine, base, head, wanted, shows)
    start = None if place is None else place.after
    tables, size = engine.store.tables, check_page_size(limit)
    room = _Room(size)
    if place is None:
        found, stats = _start_diff(tables, base, head, wanted, size + 1)
    else:
        found = list_changes_from(tables, base, head, wanted, start, nodes_first=True)
        stats = place.stats
    page: list[Change] = []
    next_token = None
    for position, change in found:
        if room.is_full:
            next_token = _encode_diff(ends, (base, head), stats, start, wanted)
            break
        page.append(change)
        room.take(change)
        start = position
    named = (None if one.head is None else str(one.head.id) for one in (base, head))
    rows = sum(pair.row_count for pair in list_differing_pairs(base, head, wanted))
    diff = Diff(
        base=next(named),
        head=next(named),
        changes=tuple(page),
        reason=explain_local(rows, engine.settings.small_work_rows),
    )
    return DiffPage(diff=diff, stats=stats, next_page_token=next_token)


def _start_diff(
    tables: Tables, base: BranchState, head: BranchState, wanted: Wanted, most: int
) -> tuple[Iterator[tuple[ChangePosition, Change]], DiffStats]:
    """Compare two states once: describe the first changes, and count all."""
    counted: list[CountedTable] = []
    first: list[tuple[ChangePosition, Change]] = []
    for number, pair in number_pairs(base, head, wanted, nodes_first=True):
        one = count_table(tables, pair, wanted, most - len(first))
        counted.append(one)
        first.extend((ChangePosition(table=number, after=found.id), found) for found in one.first)
    return iter(first), sum_counts(counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DiffStart:
    """Where a page of a diff begins: the compared commits, the changes that were given, and how much differs altogether."""

    states: tuple[str, str]
    after: ChangePosition | None
    stats: DiffStats


def _encode_diff(
    ends: tuple[str, str],
    states: tuple[BranchState, BranchState],
    stats: DiffStats,
    after: ChangePosition | None,
    wanted: Wanted,
) -> str:
    position = None if after is None else [after.table, after.after]
    heads = ["" if one.head is None else one.head.id for one in states]
    body = {"ends": list(ends), "states": heads, "wanted": wanted.digest, "after": position}
    return encode_token(_DIFF, body | {"stats": stats.to_dict()})


def _decode_diff(token: str, ends: tuple[str, str], wanted: Wanted) -> _DiffStart:
    body = _decode_body(token)
    if body["ends"] != list(ends):
        raise CursorRejected("the page before compared other states")
    _require_same_filters(body["wanted"], wanted)
    return _DiffStart(
        states=read_compared(token),
        after=_decode_position(body["after"]),
        stats=_decode_stats(body["stats"]),
    )


def _decode_stats(found: Any) -> DiffStats:
    """How much differs, as the first page counted it: the commits of a token never change."""
    match found:
        case {
            "inserts": int(inserts),
            "updates": int(updates),
            "deletes": int(deletes),
            "types_affected": [*types],
        } if all(isinstance(one, str) for one in types):
            return DiffStats(
                inserts=inserts, updates=updates, deletes=deletes, types_affected=tuple(types)
            )
        case _:
            raise CursorRejected("it is damaged")


def _decode_body(token: str) -> dict[str, Any]:
    return decode_token(_DIFF, token, {"ends", "states", "wanted", "after", "stats"})


def read_compared(token: str) -> tuple[str, str]:
    """The two commits that a token of a page names; whoever sends it may have written it himself."""
    match _decode_body(token)["states"]:
        case [str(base), str(head)]:
            return base, head
        case _:
            raise CursorRejected("it is damaged")
