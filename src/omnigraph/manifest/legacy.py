"""History as graphs before stamp 4 kept it: two tables beside the manifest, read and never written."""

from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.errors import NotFoundError, StorageError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.records import GraphCommit, commit_of, lance_branch
from omnigraph.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS
from omnigraph.storage.rows import Rows
from omnigraph.values import dataclass


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
        named = self._rows(self.actors, LEGACY_ACTORS, MAIN)
        actors = {row["graph_commit_id"]: row["actor_id"] for row in named}
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
