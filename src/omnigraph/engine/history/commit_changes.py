"""What one commit changed against its first parent, a page at a time."""

import hashlib
import json
from itertools import islice
from typing import Final

from omnigraph.engine.history.changes import ChangeBlock
from omnigraph.engine.history.compare import (
    EVERYTHING,
    ChangePosition,
    Wanted,
    list_changes_from,
)
from omnigraph.engine.history.feed import decode_token, encode_token
from omnigraph.engine.results import Commit
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import ChangeDiffRefused, CursorRejected, UserInputError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import TableKey, type_name
from omnigraph.manifest.records import CommitKind, GraphCommit
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import find_commit, state_of
from omnigraph.storage.tables import Tables

_PREFIX: Final = "og1p."
_NAMES: Final = {"commit", "wanted", "table", "after"}


def commit_changes(
    engine: Engine,
    name: str,
    wanted: Wanted = EVERYTHING,
    *,
    limit: int | None = None,
    token: str | None = None,
) -> ChangeBlock:
    """Compare a commit with its first parent; changes before the token and after the limit are not read."""
    if limit is not None and limit < 1:
        raise UserInputError(f"commit changes: a page holds at least 1 change, not {limit}")
    commit, parent = _find_pair(engine, name)
    start = None if token is None else _decode_page_token(token, commit, wanted)
    base = state_of(engine.manifest, parent.branch, parent)
    head = state_of(engine.manifest, commit.branch, commit)
    fail(Failpoint.FEED_OPENING)
    if commit.kind is CommitKind.SCHEMA_APPLY:
        _refuse_reshaped(engine.store.tables, commit, base, head, wanted)
    found = list_changes_from(engine.store.tables, base, head, wanted, start)
    page = list(found if limit is None else islice(found, limit))
    more = limit is not None and next(found, None) is not None
    return ChangeBlock(
        commit=Commit.of(commit),
        changes=tuple(change for _, change in page),
        next_page_token=_encode_page_token(page[-1][0], commit, wanted) if more else None,
    )


def _find_pair(engine: Engine, name: str) -> tuple[GraphCommit, GraphCommit]:
    commit = find_commit(engine.manifest, name)
    if commit.parent is None:
        raise _make_refusal(
            commit, "created the graph and has no parent to be compared with", "parentless_commit"
        )
    return commit, find_commit(engine.manifest, commit.parent)


def _refuse_reshaped(
    tables: Tables, commit: GraphCommit, base: BranchState, head: BranchState, wanted: Wanted
) -> None:
    """Refuse a schema change that changed a wanted type: rows of two shapes cannot be compared."""
    old = {entry.at.path: entry for entry in base.snapshot.entries.values()}
    new = {entry.at.path: entry for entry in head.snapshot.entries.values()}
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        key = (after or old[path]).table_key
        if wanted.covers(key) and _differs_in_shape(tables, before, after):
            raise _refuse_schema_change(commit, key)


def _differs_in_shape(tables: Tables, before: Entry | None, after: Entry | None) -> bool:
    """Whether a table was created, dropped or renamed, or has other columns than before."""
    if before is None or after is None or before.table_key != after.table_key:
        return True
    if before.at == after.at:
        return False
    return bool(tables.open(before.at).schema != tables.open(after.at).schema)


def _refuse_schema_change(commit: GraphCommit, table: TableKey) -> ChangeDiffRefused:
    named = type_name(table)
    return _make_refusal(
        commit,
        f"changed the schema of {named}: its rows before and after have different shapes",
        "schema_boundary",
        type_name=named,
    )


def _make_refusal(commit: GraphCommit, why: str, reason: str, **facts: str) -> ChangeDiffRefused:
    refusal = {"reason": reason, "graph_commit_id": commit.id, **facts}
    return ChangeDiffRefused(
        f"commit {commit.id} {why}; nothing was compared",
        details={"change_diff_refusal": refusal},
        hint="`diff` compares any two states; `changes baseline` gives a whole one",
    )


# ---- tokens


def _encode_page_token(place: ChangePosition, commit: GraphCommit, wanted: Wanted) -> str:
    body = {"commit": commit.id, "wanted": _digest(wanted)}
    return encode_token(_PREFIX, body | {"table": place.table, "after": place.after})


def _decode_page_token(token: str, commit: GraphCommit, wanted: Wanted) -> ChangePosition:
    body = decode_token(_PREFIX, token, _NAMES)
    if body["commit"] != commit.id:
        raise CursorRejected(f"it belongs to commit {body['commit']}, not to {commit.id}")
    if body["wanted"] != _digest(wanted):
        raise CursorRejected("the page before asked for other types, kinds or operations")
    return ChangePosition(table=int(body["table"]), after=str(body["after"]))


def _digest(wanted: Wanted) -> str:
    """A digest of the filters: a token is valid under the same filters only."""
    parts = [wanted.tables, wanted.kinds, wanted.ops]
    text = json.dumps([None if p is None else sorted(map(str, p)) for p in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
