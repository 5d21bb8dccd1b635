"""The description of a graph: its types, branches, newest commits, and what recovery has yet to finish."""

from typing import Any

from omnigraphdb.api.branches import Branch, Branches, list_shown
from omnigraphdb.api.results import Commit, Commits, RecoverySidecar
from omnigraphdb.display import Grid, Sheet, Shown, count_of, spell_bytes
from omnigraphdb.engine.description import TypeDescription, describe_types
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

COMMITS_DESCRIBED = 5
"""Newest commits that a description shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description(Shown):
    """What a graph holds at one moment of a branch: types with rows, sizes and indexes, branches, newest commits."""

    uri: str
    branch: str
    commit: str | None
    manifest_version: int
    types: tuple[TypeDescription, ...]
    branches: tuple[Branch, ...]
    commits: tuple[Commit, ...]
    pending: tuple[RecoverySidecar, ...] = ()

    @property
    def rows(self) -> int:
        """Nodes and edges together."""
        return sum(one.rows for one in self.types)

    @property
    def bytes(self) -> int:
        """The size of the data files that this state shows."""
        return sum(one.bytes for one in self.types)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "branch": self.branch,
            "graph_commit_id": self.commit,
            "manifest_version": self.manifest_version,
            "rows": self.rows,
            "bytes": self.bytes,
            "types": [one.to_dict() for one in self.types],
            "branches": [one.to_dict() for one in self.branches],
            "commits": [one.to_dict() for one in self.commits],
            "pending": [one.to_dict() for one in self.pending],
        }

    def _sheet(self) -> Sheet:
        """Types, branches and commits, one table each."""
        grids = (
            _type_grid(self.types),
            Branches(self.branches).grid("branches"),
            Commits(self.commits).grid("newest commits"),
        )
        pending = count_of(len(self.pending), "pending operation")
        return Sheet(
            title=f"{self.uri} on {self.branch}: {count_of(self.rows, 'row')}, {spell_bytes(self.bytes)}",
            facts={"commit": self.commit or "none"},
            grids=tuple(grid for grid in grids if grid.rows),
            notes=(f"{pending}; see pending_recoveries()",) if self.pending else (),
        )


def describe(engine: Engine, view: View) -> Description:
    """Describe what a view shows; opens each of its tables once and reads no rows."""
    return Description(
        uri=engine.uri,
        branch=view.branch,
        commit=view.commit,
        manifest_version=view.version,
        types=describe_types(engine, view),
        branches=tuple(list_shown(engine.manifest, lambda _: True, compare=True)),
        commits=tuple(map(Commit.of, view.lineage.listed(limit=COMMITS_DESCRIBED))),
        pending=tuple(map(RecoverySidecar.of, engine.recovery.forecast())),
    )


def _type_grid(types: tuple[TypeDescription, ...]) -> Grid:
    rows = [
        (one.kind, one.name, one.rows, spell_bytes(one.bytes), one.fragments, _spell_indexes(one))
        for one in types
    ]
    columns = ("kind", "type", "rows", "size", "fragments", "indexes")
    return Grid(columns=columns, rows=rows, caption="types", rows_max=len(rows))


def _spell_indexes(one: TypeDescription) -> str:
    """`2 of 3 ready: name pending`."""
    if not one.indexes:
        return ""
    unready = [f"{index.column} {index.state}" for index in one.indexes if index.state != "ready"]
    covered = f"{len(one.indexes) - len(unready)} of {len(one.indexes)} ready"
    return f"{covered}: {', '.join(unready)}" if unready else covered
