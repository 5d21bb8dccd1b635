"""The change feed: what each commit of a branch changed, oldest first, with a cursor to continue from."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from omnigraph.engine.history.changes import Change, ChangeBlock, ChangePage, ChangeStream
from omnigraph.engine.history.compare import EVERYTHING, Wanted, list_changes
from omnigraph.engine.results import Commit
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import ChangeFeedGap, CursorRejected, HistoryReclaimed, TableNotFound
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName, CommitId
from omnigraph.limits import CHANGES_PAGE
from omnigraph.manifest.records import GraphCommit
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import state_of

_PREFIX: Final = "og1."


def page(
    engine: Engine,
    branch: BranchName,
    since: str | None = None,
    limit: int | None = None,
    wanted: Wanted = EVERYTHING,
) -> ChangePage:
    """Read the feed from a cursor, after a commit, or from the beginning.

    A page holds whole commits and ends with the one that brings it to `limit` changes.
    """
    state = engine.manifest.current(branch)
    fail(Failpoint.FEED_CAPTURED)
    chain = _list_first_parents(state)
    waiting = _list_after(chain, since, state)
    blocks: list[ChangeBlock] = []
    room = CHANGES_PAGE if limit is None else limit
    for commit in waiting:
        changes = tuple(_diff_since(engine, state, commit, since, wanted))
        blocks.append(ChangeBlock(commit=Commit.of(commit), changes=changes))
        room -= len(changes)
        if room <= 0:
            break
    last = waiting[len(blocks) - 1].id if blocks else _find_resume_point(chain, since, state)
    return ChangePage(
        blocks=tuple(blocks),
        cursor=cursor_at(state, last),
        caught_up=len(blocks) == len(waiting),
    )


def stream(
    engine: Engine, branch: BranchName, since: str | None = None, wanted: Wanted = EVERYTHING
) -> Iterator[ChangeStream]:
    """Read the feed up to the present head, commit by commit; no commit is in memory as a whole, however much it changed."""
    state = engine.manifest.current(branch)
    fail(Failpoint.FEED_CAPTURED)
    return (
        ChangeStream(
            commit=Commit.of(commit),
            cursor=cursor_at(state, commit.id),
            changes=_diff_since(engine, state, commit, since, wanted),
        )
        for commit in _list_after(_list_first_parents(state), since, state)
    )


def _diff_commits(
    engine: Engine, parent: GraphCommit, commit: GraphCommit, wanted: Wanted
) -> Iterator[Change]:
    base = state_of(engine.manifest, parent.branch, parent)
    head = state_of(engine.manifest, commit.branch, commit)
    fail(Failpoint.FEED_OPENING)
    return list_changes(engine.store.tables, base, head, wanted)


def _diff_since(
    engine: Engine, state: BranchState, commit: GraphCommit, since: str | None, wanted: Wanted
) -> Iterator[Change]:
    parent = state.lineage.by_id[commit.parent or CommitId("")]
    try:
        yield from _diff_commits(engine, parent, commit, wanted)
    except (HistoryReclaimed, TableNotFound) as error:
        raise ChangeFeedGap(commit.id, since) from error


def _list_first_parents(state: BranchState) -> list[GraphCommit]:
    """List the commits from the first to the head along first parents, without the commit that created the graph."""
    by_id = state.lineage.by_id
    commit, found = state.head, []
    while commit is not None and commit.parent is not None and commit.parent in by_id:
        found.append(commit)
        commit = by_id[commit.parent]
    return found[::-1]


def _list_after(
    chain: list[GraphCommit], since: str | None, state: BranchState
) -> list[GraphCommit]:
    if since is None:
        return chain
    start = _find_resume_point(chain, since, state)
    position = next((n for n, commit in enumerate(chain) if commit.id == start), -1)
    return list(islice(chain, position + 1, None))


def _find_resume_point(
    chain: list[GraphCommit], since: str | None, state: BranchState
) -> CommitId | None:
    """Find the commit after which the feed continues; None before the first."""
    if since is None:
        return None
    if since.startswith(_PREFIX):
        return _decode_cursor(since, chain, state)
    commit = state.lineage.find(since)
    if commit is None:
        raise CursorRejected(
            f"'{since}' is neither a cursor nor a commit of branch '{state.branch}'"
        )
    if commit.parent is None:
        return None
    return _require_on_chain(commit.id, chain, state)


def _require_on_chain(commit: CommitId, chain: list[GraphCommit], state: BranchState) -> CommitId:
    if all(one.id != commit for one in chain):
        raise CursorRejected(
            f"commit {commit} came to branch '{state.branch}' through a merge, the feed follows first parents"
        )
    return commit


# ---- cursors


def cursor_at(state: BranchState, commit: CommitId | None) -> str:
    """Make a cursor of this incarnation of a branch that continues after a commit."""
    return encode_token(
        _PREFIX, {"branch": state.branch, "line": _incarnation(state), "after": commit}
    )


def _decode_cursor(cursor: str, chain: list[GraphCommit], state: BranchState) -> CommitId | None:
    body = decode_token(_PREFIX, cursor, {"branch", "line", "after"})
    if body["branch"] != state.branch:
        raise CursorRejected(f"it belongs to branch '{body['branch']}', not to '{state.branch}'")
    if body["line"] != _incarnation(state):
        raise CursorRejected(
            f"branch '{state.branch}' was deleted and made again since; begin its feed again"
        )
    return None if body["after"] is None else _require_on_chain(body["after"], chain, state)


def _incarnation(state: BranchState) -> list[list[Any]]:
    return [list(part) for part in state.branch_incarnation]


# ---- tokens


def encode_token(prefix: str, body: Mapping[str, Any]) -> str:
    """Encode a body as one opaque word; the prefix names its kind."""
    packed = base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode())
    return prefix + packed.decode().rstrip("=")


def decode_token(prefix: str, token: str, names: set[str]) -> dict[str, Any]:
    """Decode a token; refuse one of another kind, or one that lacks a name."""
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
