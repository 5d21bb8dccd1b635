"""The description of a graph: its types, branches, newest commits, and what recovery has yet to finish."""

from collections.abc import Callable
from dataclasses import field

from omnigraphdb.api.branches import Branch, Branches, list_shown
from omnigraphdb.api.results import Commit, Commits, RecoverySidecar
from omnigraphdb.display import Displayable, Grid, Report, count_of, format_bytes
from omnigraphdb.engine.description import TypeDescription, describe_types
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, derived, wire

COMMITS_DESCRIBED = 5
"""Newest commits that a description shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description(Displayable, Value):
    """What a graph holds at one moment of a branch: types with rows, sizes and indexes, branches, newest commits."""

    uri: str
    branch: str
    commit: str | None = field(metadata=wire("graph_commit_id"))
    manifest_version: int
    types: tuple[TypeDescription, ...]
    branches: tuple[Branch, ...]
    commits: tuple[Commit, ...]
    pending: tuple[RecoverySidecar, ...] = ()

    @derived
    def rows(self) -> int:
        """Nodes and edges together."""
        return sum(one.rows for one in self.types)

    @derived
    def bytes(self) -> int:
        """The size of the data files that this state shows."""
        return sum(one.bytes for one in self.types)

    def _report(self) -> Report:
        """Types, branches and commits, one table each."""
        grids = (
            _type_grid(self.types),
            Branches(self.branches).grid("branches"),
            Commits(self.commits).grid("newest commits"),
        )
        pending = count_of(len(self.pending), "pending operation")
        return Report(
            title=f"{self.uri} on {self.branch}: {count_of(self.rows, 'row')}, {format_bytes(self.bytes)}",
            facts={"commit": self.commit or "none"},
            grids=tuple(grid for grid in grids if grid.rows),
            notes=(f"{pending}; see pending_recoveries()",) if self.pending else (),
        )


def describe(engine: Engine, view: View, may_show: Callable[[str], bool]) -> Description:
    """Describe a view for a caller who may see some branches; opens each of its tables once and reads no rows."""
    commits = map(Commit.of, view.lineage.listed(limit=COMMITS_DESCRIBED))
    pending = map(RecoverySidecar.of, engine.recovery.forecast())
    return Description(
        uri=engine.uri,
        branch=view.branch,
        commit=view.commit,
        manifest_version=view.version,
        types=describe_types(engine, view),
        branches=tuple(list_shown(engine.manifest, may_show, compare=True)),
        commits=tuple(commit for commit in commits if may_show(commit.branch)),
        pending=tuple(operation for operation in pending if may_show(operation.branch)),
    )


def _type_grid(types: tuple[TypeDescription, ...]) -> Grid:
    rows = [
        (one.kind, one.name, one.rows, format_bytes(one.bytes), one.fragments, _spell_indexes(one))
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
