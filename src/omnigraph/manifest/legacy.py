"""History as graphs before stamp 4 kept it: two tables beside the manifest, read and never written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import NotFoundError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName
from omnigraph.manifest.records import GraphCommit, commit_of, lance_branch
from omnigraph.storage.rows import Rows


@dataclass(frozen=True, slots=True)
class LegacyLineage:
    """The two tables: commits, branched like the manifest, and actors, flat by commit id."""

    commits: Rows
    actors: Rows

    def read(self, branch: BranchName) -> tuple[GraphCommit, ...]:
        """Read the commits of a branch, by id; a table that is not there holds none.

        Only "not found" counts as not there: any other failure surfaces, because a migration that took it for
        an empty history would lose it for good.
        """
        fail(Failpoint.MIGRATE_LEGACY_OPEN)
        rows = _rows(self.commits, lance_branch(branch))
        actors = {row["graph_commit_id"]: row["actor_id"] for row in _rows(self.actors, None)}
        commits = (_commit(row, actors) for row in rows)
        return tuple(sorted(commits, key=lambda commit: commit.id))

    def forget(self, branch: BranchName) -> None:
        """Drop the ref a deleted branch had here."""
        if self.commits.exists():
            self.commits.delete_branch(branch)


def _rows(table: Rows, branch: str | None) -> list[dict[str, Any]]:
    if not table.exists():
        return []
    try:
        rows = table.load(branch).rows
    except NotFoundError:
        return []
    stamped = rows.schema.get_field_index("created_at")
    return list(
        rows.set_column(stamped, "created_at", rows["created_at"].cast("int64")).to_pylist()
    )


def _commit(row: Mapping[str, Any], actors: Mapping[str, str]) -> GraphCommit:
    facts = {
        "parent_commit_id": row["parent_commit_id"],
        "merged_parent_commit_id": row["merged_parent_commit_id"],
        "actor_id": actors.get(row["graph_commit_id"]),
        "created_at": row["created_at"],
    }
    return commit_of(row["graph_commit_id"], row["manifest_branch"], row["manifest_version"], facts)
