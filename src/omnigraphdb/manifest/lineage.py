"""The history of a branch: its commits, its head, and lookups among them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import InternalError, NotFound, NotFoundError, StorageError, UserInputError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName, CommitId
from omnigraphdb.manifest.merged import COMMIT_COLUMNS, merged_commits
from omnigraphdb.manifest.records import (
    KEY,
    GraphCommit,
    ObjectType,
    commit_of,
    head_row,
    lance_branch,
)
from omnigraphdb.manifest.table_history import rows_of
from omnigraphdb.runtime import us_of
from omnigraphdb.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS
from omnigraphdb.storage.rows import Rows
from omnigraphdb.values import dataclass

PREFIX_CHARS_MIN: Final = 8
"""A commit may be named by a unique prefix of its id from this length on."""

COMMIT_ID_CHARS: Final = 26
"""Length of a ULID."""

SPELL_COMMIT: Final = (
    f"a commit is named by its full id or by a unique prefix of at least {PREFIX_CHARS_MIN} characters, "
    "a moment as 2026-11-15T16:07:00Z"
)

_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""The beginning of a moment; no commit id has a hyphen."""


# ---- from rows


def commits_of(rows: pa.Table) -> tuple[GraphCommit, ...]:
    """Decode every commit row, in listing order."""
    return decode_commits(rows_of(rows, ObjectType.GRAPH_COMMIT, COMMIT_COLUMNS))


def newest_of(rows: pa.Table, count: int) -> tuple[GraphCommit, ...]:
    """Decode only the newest commits, at least `count` where there are as many, in listing order."""
    commits = rows_of(rows, ObjectType.GRAPH_COMMIT, COMMIT_COLUMNS)
    if commits.num_rows > count > 0:
        newest = pc.select_k_unstable(commits, k=count, sort_keys=[("table_version", "descending")])
        # Commits of one swap have one version.
        oldest = pc.min(commits["table_version"].take(newest))
        commits = commits.filter(pc.greater_equal(commits["table_version"], oldest))
    return decode_commits(commits)


def merged_of(rows: pa.Table) -> tuple[GraphCommit, ...]:
    """Decode every commit that a merge brought, by age."""
    return tuple(sorted(decode_commits(merged_commits(rows)), key=_age))


def head_of(rows: pa.Table, branch: BranchName) -> GraphCommit | None:
    """Decode the head only: the commit that the head row of the branch names.

    A branch that was never written has no such row yet; its head is the newest commit it inherited.
    """
    commit_id = named_head(rows, head_row(branch))
    return _newest(rows) if commit_id is None else find_commit(rows, commit_id) or _newest(rows)


def named_head(rows: pa.Table, row: str) -> CommitId | None:
    """Read the commit that the head row of a branch names."""
    index = pc.index(rows[KEY], row).as_py()
    text = None if index < 0 else rows["metadata"][index].as_py()
    try:
        commit_id = None if text is None else json.loads(text).get("head_commit_id")
    except (ValueError, AttributeError) as error:
        raise InternalError(
            f"the manifest row '{row}' has metadata that is not a head's; the manifest is damaged"
        ) from error
    return None if commit_id is None else CommitId(str(commit_id))


def _newest(rows: pa.Table) -> GraphCommit | None:
    versions = rows_of(rows, ObjectType.GRAPH_COMMIT, ("table_version",))
    if not versions.num_rows:
        return None
    newest = rows.filter(pc.equal(rows["table_version"], pc.max(versions["table_version"])))
    return decode_commits(rows_of(newest, ObjectType.GRAPH_COMMIT, COMMIT_COLUMNS))[-1]


def find_commit(rows: pa.Table, commit: CommitId) -> GraphCommit | None:
    """Decode one commit, if these rows hold it."""
    at = pc.index(rows[KEY], commit).as_py()
    if at < 0:
        return None
    decoded = decode_commits(rows_of(rows.slice(at, 1), ObjectType.GRAPH_COMMIT, COMMIT_COLUMNS))
    return decoded[0] if decoded else None


def find_batch(rows: pa.Table, batch_id: str) -> GraphCommit | None:
    """Decode the commit that holds a batch, if there is one; other commits are not decoded."""
    commits = rows_of(rows, ObjectType.GRAPH_COMMIT, COMMIT_COLUMNS)
    candidates = commits.filter(pc.match_substring(commits["metadata"], json.dumps(batch_id)))
    return next(
        (commit for commit in decode_commits(candidates) if commit.batch_id == batch_id), None
    )


def has_commits(rows: pa.Table) -> bool:
    """Tell whether there is any lineage in these rows."""
    return bool(pc.any(pc.equal(rows["object_type"], ObjectType.GRAPH_COMMIT.value)).as_py())


def decode_commits(rows: pa.Table) -> tuple[GraphCommit, ...]:
    """Decode commits from their columns, in listing order."""
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
    damaged = (name for name, text in zip(ids, texts, strict=True) if not _is_commit(text))
    return InternalError(
        f"the manifest row '{next(damaged, '?')}' ({ObjectType.GRAPH_COMMIT}) has metadata that is not "
        "a commit's; the manifest is damaged and its history cannot be read"
    )


def _is_commit(text: str) -> bool:
    try:
        return isinstance(json.loads(text)["created_at"], int)
    except (ValueError, LookupError, TypeError):
        return False


def _order(commit: GraphCommit) -> tuple[int, int, str]:
    return commit.order


def _age(commit: GraphCommit) -> tuple[int, str]:
    return (commit.created_at, commit.id)


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

    def require(self, id: CommitId) -> GraphCommit:
        """Find a commit that a row of the manifest names; without it the manifest is damaged."""
        commit = self.by_id.get(id)
        if commit is None:
            raise StorageError(
                f"the manifest names commit {id}, and none of its rows is that commit; nothing was changed",
                storage_kind="permanent",
                hint="run `omnigraphdb doctor --deep`, which names damaged files",
            )
        return commit

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
        """List commits newest first; `since` is a commit (left out) or a moment (kept), which may be a text."""
        commits = (c for c in self._after(since) if actor is None or c.actor == actor)
        return tuple(islice(commits, limit))

    def _after(self, since: CommitId | datetime | None) -> Iterator[GraphCommit]:
        newest_first = reversed(self.commits)
        if since is None:
            return newest_first
        since = parse_moment(since) or since if isinstance(since, str) else since
        if isinstance(since, datetime):
            moment = us_of(since)
            return (commit for commit in newest_first if commit.created_at >= moment)
        start = self.find(since)
        if start is None:
            raise commit_not_found(since)
        return takewhile(lambda commit: commit.id != start.id, newest_first)

    def at_moment(self, moment: datetime) -> GraphCommit | None:
        """Return the newest commit made at or before a moment."""
        us = us_of(moment)
        return next((c for c in reversed(self.commits) if c.created_at <= us), None)

    def with_merged(self, merged: Iterable[GraphCommit]) -> "Lineage":
        """Return these commits and the commits that merges brought, by age: versions of two branches do not compare."""
        return Lineage(tuple(sorted((*self.commits, *merged), key=_age)))

    def with_commits(self, newer: Iterable[GraphCommit]) -> "Lineage":
        """Return the history once these commits, newer than all others, are published."""
        return Lineage((*self.commits, *newer))


def parse_moment(text: str) -> datetime | None:
    """Read a moment, such as 2026-11-15T16:07:00Z; without an offset it is in UTC. Return None for any other text."""
    if _MOMENT.match(text) is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def commit_not_found(name: str) -> NotFound:
    """Make the error for a commit that no branch shows."""
    return NotFound("commit", name, hint=SPELL_COMMIT)


def ambiguous(name: str, near: Iterable[GraphCommit]) -> UserInputError:
    """Make the error for a prefix that several commits share."""
    ids = ", ".join(commit.id for commit in list(near)[:3])
    return UserInputError(
        f"the commit prefix '{name}' is not unique: {ids}; no changes were made",
        hint="give more characters of the id",
    )


# ---- the history of graphs before stamp 4


@dataclass(frozen=True, slots=True)
class LegacyLineage:
    """The two tables: commits, branched like the manifest, and actors, flat by commit id.

    `has_files` tells whether anything lies at a path: a table without its versions is damaged, not absent.
    """

    commits: Rows
    actors: Rows
    has_files: Callable[[str], bool]

    def read(self, branch: BranchName) -> tuple[GraphCommit, ...]:
        """Read the commits of a branch, by id; a table that does not exist at all holds none.

        Anything else that cannot be read is an error: a migration that took it for an empty history would lose
        the history for good.
        """
        fail(Failpoint.MIGRATE_LEGACY_OPEN)
        rows = self._rows(self.commits, LEGACY_COMMITS, branch)
        actor_rows = self._rows(self.actors, LEGACY_ACTORS, MAIN)
        actors = {row["graph_commit_id"]: row["actor_id"] for row in actor_rows}
        commits = (_commit(row, actors) for row in rows)
        return tuple(sorted(commits, key=lambda commit: commit.id))

    def forget(self, branch: BranchName) -> None:
        """Drop the ref a deleted branch had here."""
        if self.commits.exists():
            self.commits.delete_branch(branch)

    def _rows(self, table: Rows, path: str, branch: BranchName) -> list[dict[str, Any]]:
        if not table.exists():
            if self.has_files(path):
                raise _unreadable(path, branch, "its files are there, and no version of it")
            return []
        try:
            rows = table.load(lance_branch(branch)).rows
        except NotFoundError as error:
            raise _unreadable(path, branch, str(error)) from error
        stamped = rows.schema.get_field_index("created_at")
        return list(
            rows.set_column(stamped, "created_at", rows["created_at"].cast("int64")).to_pylist()
        )


def _unreadable(path: str, branch: BranchName, cause: str) -> StorageError:
    on = "" if branch == MAIN else f" of branch '{branch}'"
    other = "" if branch == MAIN else ", or delete the branch if it is not needed"
    return StorageError(
        f"the history{on} is kept in '{path}' and could not be read: {cause}; nothing was changed",
        storage_kind="not_found",
        hint=f"put '{path}' back from a copy of the graph{other}; until then open the graph read-only",
    )


def _commit(row: Mapping[str, Any], actors: Mapping[str, str]) -> GraphCommit:
    facts = {
        "parent_commit_id": row["parent_commit_id"],
        "merged_parent_commit_id": row["merged_parent_commit_id"],
        "actor_id": actors.get(row["graph_commit_id"]),
        "created_at": row["created_at"],
    }
    return commit_of(row["graph_commit_id"], row["manifest_branch"], row["manifest_version"], facts)
