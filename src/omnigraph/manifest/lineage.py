"""The history of a graph: commits, heads, lookups and the merge base of two of them."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError, NotFound, UserInputError
from omnigraph.ids import CommitId
from omnigraph.manifest.lives import rows_of
from omnigraph.manifest.records import KEY, GraphCommit, ObjectType, commit_of
from omnigraph.runtime import us_of
from omnigraph.values import dataclass

PREFIX_CHARS_MIN: Final = 8
"""A commit may be named by a unique prefix of its id from this length on."""

COMMIT_ID_CHARS: Final = 26
"""Length of a ULID."""

_COLUMNS: Final = (KEY, "table_branch", "table_version", "metadata")


# ---- from rows


def commits_of(rows: pa.Table) -> tuple[GraphCommit, ...]:
    """Decode every commit row, in listing order."""
    return _decoded(rows_of(rows, ObjectType.GRAPH_COMMIT, _COLUMNS))


def head_of(rows: pa.Table) -> GraphCommit | None:
    """Decode the head only: the commits of the newest manifest version, the others are not touched."""
    versions = rows_of(rows, ObjectType.GRAPH_COMMIT, ("table_version",))
    if not versions.num_rows:
        return None
    newest = rows.filter(pc.equal(rows["table_version"], pc.max(versions["table_version"])))
    return _decoded(rows_of(newest, ObjectType.GRAPH_COMMIT, _COLUMNS))[-1]


def find_commit(rows: pa.Table, commit: CommitId) -> GraphCommit | None:
    """Decode one commit, if these rows hold it."""
    at = pc.index(rows[KEY], commit).as_py()
    if at < 0:
        return None
    decoded = _decoded(rows_of(rows.slice(at, 1), ObjectType.GRAPH_COMMIT, _COLUMNS))
    return decoded[0] if decoded else None


def has_commits(rows: pa.Table) -> bool:
    """Tell whether there is any lineage in these rows."""
    return bool(pc.any(pc.equal(rows["object_type"], ObjectType.GRAPH_COMMIT.value)).as_py())


def _decoded(rows: pa.Table) -> tuple[GraphCommit, ...]:
    # One JSON document for all of them: a parser call per commit would dominate long histories.
    texts = rows["metadata"].to_pylist()
    columns = [rows[name].to_pylist() for name in (KEY, "table_branch", "table_version")]
    try:
        facts = json.loads("[" + ",".join(texts) + "]")
        decoded = [commit_of(*parts) for parts in zip(*columns, facts, strict=True)]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _undecodable(columns[0], texts) from error
    return tuple(sorted(decoded, key=_order))


def _undecodable(ids: Sequence[str], texts: Sequence[str]) -> InternalError:
    broken = (name for name, text in zip(ids, texts, strict=True) if not _is_commit(text))
    return InternalError(
        f"the manifest row '{next(broken, '?')}' ({ObjectType.GRAPH_COMMIT}) has metadata that is not "
        "a commit's; the manifest is damaged and its history cannot be read"
    )


def _is_commit(text: str) -> bool:
    try:
        return isinstance(json.loads(text)["created_at"], int)
    except (ValueError, LookupError, TypeError):
        return False


def _order(commit: GraphCommit) -> tuple[int, int, str]:
    return commit.order


# ---- one branch's history


@dataclass(frozen=True)
class Lineage:
    """The commits visible on one branch, its own and inherited ones, oldest first."""

    commits: tuple[GraphCommit, ...]

    @cached_property
    def by_id(self) -> Mapping[CommitId, GraphCommit]:
        """The commits by id."""
        return {commit.id: commit for commit in self.commits}

    @property
    def head(self) -> GraphCommit | None:
        """The newest commit."""
        return self.commits[-1] if self.commits else None

    def find(self, name: str) -> GraphCommit | None:
        """Find a commit by id or unique prefix; a prefix of several is refused."""
        text = name.strip().upper()
        exact = self.by_id.get(CommitId(text))
        if exact is not None or not PREFIX_CHARS_MIN <= len(text) < COMMIT_ID_CHARS:
            return exact
        near = [commit for commit in self.commits if commit.id.startswith(text)]
        if len(near) > 1:
            raise ambiguous(name, near)
        return near[0] if near else None

    def listed(
        self,
        *,
        actor: str | None = None,
        since: CommitId | datetime | None = None,
        limit: int | None = None,
    ) -> tuple[GraphCommit, ...]:
        """List commits newest first; `since` is a commit (left out) or a moment (kept)."""
        found = (c for c in self._after(since) if actor is None or c.actor == actor)
        return tuple(islice(found, limit))

    def _after(self, since: CommitId | datetime | None) -> Iterator[GraphCommit]:
        newest_first = reversed(self.commits)
        if since is None:
            return newest_first
        if isinstance(since, datetime):
            moment = us_of(since)
            return (commit for commit in newest_first if commit.created_at >= moment)
        start = self.find(since)
        if start is None:
            raise unknown_commit(since)
        return (commit for commit in newest_first if commit.order > start.order)

    def at_moment(self, moment: datetime) -> GraphCommit | None:
        """The newest commit made at or before a moment."""
        us = us_of(moment)
        return next((c for c in reversed(self.commits) if c.created_at <= us), None)

    def with_commits(self, newer: Iterable[GraphCommit]) -> "Lineage":
        """The history once these commits, newer than all others, are published."""
        return Lineage((*self.commits, *newer))


def unknown_commit(name: str) -> NotFound:
    """The error for a commit that no branch shows."""
    return NotFound(
        "commit",
        name,
        hint=f"a commit is named by its full id or by a unique prefix of at least "
        f"{PREFIX_CHARS_MIN} characters",
    )


def ambiguous(name: str, near: Iterable[GraphCommit]) -> UserInputError:
    """The error for a prefix that several commits share."""
    ids = ", ".join(commit.id for commit in list(near)[:3])
    return UserInputError(
        f"the commit prefix '{name}' is not unique: {ids}; no changes were made",
        hint="give more characters of the id",
    )


# ---- two histories


def plain_base(
    ours: pa.Table, our_head: CommitId, theirs: pa.Table, their_head: CommitId
) -> GraphCommit | None:
    """Find the merge base of two branches that parted once: only one went on, or neither merged anything since.

    None when it is not as plain. Of the rows of both only commits are decoded that the other does not show, so that
    a long history costs nothing.
    """
    left, right = (rows_of(rows, ObjectType.GRAPH_COMMIT, _COLUMNS) for rows in (ours, theirs))
    own, other = _only_in(left, right), _only_in(right, left)
    if own and other and any(c.merged_parent for c in (*own.values(), *other.values())):
        return None
    base = _left_at(own, our_head)
    if base is None or base != _left_at(other, their_head):
        return None
    return find_commit(ours, base)


def _only_in(rows: pa.Table, others: pa.Table) -> dict[CommitId, GraphCommit]:
    shared = pc.is_in(rows[KEY], value_set=others[KEY].combine_chunks())
    return {commit.id: commit for commit in _decoded(rows.filter(pc.invert(shared)))}


def _left_at(own: Mapping[CommitId, GraphCommit], head: CommitId) -> CommitId | None:
    """The first commit that is not one's own, going back along first parents."""
    commit: CommitId | None = head
    while commit is not None and commit in own:
        commit = own[commit].parent
    return commit


def merge_base(
    commits: Mapping[CommitId, GraphCommit], source: CommitId, target: CommitId
) -> GraphCommit | None:
    """Find the nearest common ancestor of two commits over both parents; None when there is none.

    A common ancestor of another common ancestor is never chosen: its changes are on both sides already.
    """
    from_source, from_target = _distances(commits, source), _distances(commits, target)
    common = from_source.keys() & from_target.keys()
    covered = {parent for commit in common for parent in _parents(commits[commit])}
    best = [commits[commit] for commit in common - covered]
    return min(
        best,
        key=lambda c: (from_source[c.id] + from_target[c.id], -c.manifest_version, _descending(c)),
        default=None,
    )


def _descending(commit: GraphCommit) -> tuple[int, ...]:
    return tuple(-ord(char) for char in commit.id)


def _distances(commits: Mapping[CommitId, GraphCommit], start: CommitId) -> dict[CommitId, int]:
    """Walk both parents breadth first; parents nobody shows end the walk."""
    distances = {start: 0} if start in commits else {}
    waiting = deque(distances)
    while waiting:
        commit = waiting.popleft()
        for parent in _parents(commits[commit]):
            if parent in commits and parent not in distances:
                distances[parent] = distances[commit] + 1
                waiting.append(parent)
    return distances


def _parents(commit: GraphCommit) -> Iterator[CommitId]:
    if commit.parent is not None:
        yield commit.parent
    if commit.merged_parent is not None:
        yield commit.merged_parent
