"""Results of diff and the change feed: changed entities, alone, by commit and in pages, with their wire form."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from omnigraphdb.display import ROWS_SHOWN_MAX, ColouredCell, Displayable, Grid, Report, format_cell
from omnigraphdb.engine.diff.rows import Row
from omnigraphdb.engine.results import Commit
from omnigraphdb.ids import EntityKind, Op, TableKey, is_node, type_name
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The two ends of an edge."""

    src: str
    dst: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entity that differs; `properties` names the properties that an update changed, `images=True` fills in the rows."""

    op: Op
    table_key: TableKey
    id: str
    manifest_version: int
    table_version: int
    type_id: str = ""
    """The id of the type: a renamed type keeps its id, a type that is made again has another id."""
    endpoints: Endpoints | None = None
    properties: tuple[str, ...] = ()
    before: Row | None = None
    after: Row | None = None

    @property
    def kind(self) -> EntityKind:
        """Node or edge."""
        return EntityKind.NODE if is_node(self.table_key) else EntityKind.EDGE

    @property
    def type_name(self) -> str:
        """Its type."""
        return type_name(self.table_key)

    @property
    def values(self) -> dict[str, tuple[Any, Any]]:
        """The old and the new value of each property that an update changed, where `images=True` brought them."""
        was, now = self.before, self.after
        if self.op is not Op.UPDATE or was is None or now is None:
            return {}
        return {name: (was.get(name), now.get(name)) for name in self.properties}

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        ends = self.endpoints
        images = {"before": self.before, "after": self.after}
        return {
            "op": str(self.op),
            "table_key": self.table_key,
            "kind": str(self.kind),
            "type_name": self.type_name,
            "id": self.id,
            "endpoints": None if ends is None else {"src": ends.src, "dst": ends.dst},
            "manifest_version": self.manifest_version,
            "table_version": self.table_version,
            "properties": list(self.properties),
            **{side: row for side, row in images.items() if row is not None},
        }

    def __str__(self) -> str:
        ends = f" {self.endpoints.src} -> {self.endpoints.dst}" if self.endpoints else ""
        what = f" ({', '.join(self.properties)})" if self.properties else ""
        return f"{_SIGNS[self.op]} {self.table_key} {self.id}{ends}{what}"


_SIGNS: Mapping[Op, str] = {Op.INSERT: "+", Op.UPDATE: "~", Op.DELETE: "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffStats(Value):
    """The number of entities that differ, by operation; `types_affected` are type names, sorted."""

    inserts: int
    updates: int
    deletes: int
    types_affected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff(Displayable):
    """The entities that differ between two states, by table key, then id."""

    base: str | None
    head: str | None
    changes: tuple[Change, ...]
    engine: str = "local"
    """The engine that compared the tables: this process, or Spark."""
    reason: str = field(default="", compare=False)
    """The reason for the choice of engine; comparisons of results leave it out."""
    out: str | None = None
    """The file of the changes, if the caller named a file; `changes` is empty then."""
    written: DiffStats | None = None
    """The counts of the changes in the file."""

    @property
    def stats(self) -> DiffStats:
        """The counts of the changes."""
        if self.written is not None:
            return self.written
        counts = {op: sum(change.op is op for change in self.changes) for op in Op}
        return DiffStats(
            inserts=counts[Op.INSERT],
            updates=counts[Op.UPDATE],
            deletes=counts[Op.DELETE],
            types_affected=tuple(sorted({change.type_name for change in self.changes})),
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "from": self.base,
            "to": self.head,
            "changes": [change.to_dict() for change in self.changes],
            "stats": self.stats.to_dict(),
            "engine": self.engine,
            "reason": self.reason,
            **({"out": self.out} if self.out is not None else {}),
        }

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def _report(self) -> Report:
        """Tabulate the counts by type, then the changes: old and new values where `images=True` brought them."""
        stats = self.stats
        grids = (
            Grid(columns=("type", "inserts", "updates", "deletes"), rows=self._count_types()),
            Grid(
                columns=("", "type", "id", "change"),
                rows=list(map(_change_row, self.changes[:ROWS_SHOWN_MAX])),
                total=len(self.changes),
            ),
        )
        return Report(
            title=f"Diff {self.base}..{self.head}: +{stats.inserts} ~{stats.updates} -{stats.deletes}",
            grids=grids if self.changes else (),
        )

    def _count_types(self) -> list[tuple[str, int, int, int]]:
        counts = Counter((change.table_key, change.op) for change in self.changes)
        return [
            (key, counts[key, Op.INSERT], counts[key, Op.UPDATE], counts[key, Op.DELETE])
            for key in sorted({key for key, _ in counts})
        ]


def _change_row(change: Change) -> tuple[ColouredCell, str, str, str]:
    ends = "" if change.endpoints is None else f"{change.endpoints.src} → {change.endpoints.dst}"
    return (
        ColouredCell(_SIGNS[change.op], _TONES[change.op]),
        change.type_name,
        change.id,
        _spell_change(change) or ends,
    )


def _spell_change(change: Change) -> str:
    values = change.values
    if values:
        return ", ".join(
            f"{name}: {format_cell(was)} → {format_cell(now)}"
            for name, (was, now) in values.items()
        )
    return ", ".join(change.properties)


_TONES: Mapping[Op, str] = {Op.INSERT: "good", Op.UPDATE: "changed", Op.DELETE: "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBlock:
    """One commit and everything it changed."""

    commit: Commit
    changes: tuple[Change, ...]
    next_page_token: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        cause = self.commit.to_dict()
        return {
            "cause": {
                "graph_commit_id": cause["graph_commit_id"],
                "parent_commit_id": cause["parent_commit_id"],
                "merged_parent_commit_id": cause["merged_parent_commit_id"],
                "authored_branch": self.commit.branch,
                "actor_id": cause["actor_id"],
                "authored_at": cause["created_at"],
            },
            "changes": [change.to_dict() for change in self.changes],
            **({"next_page_token": self.next_page_token} if self.next_page_token else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStream:
    """One commit whose changes come one after the other, once; pass `cursor` as `since` to go on after it."""

    commit: Commit
    cursor: str
    changes: Iterator[Change]
    engine: str = "local"
    """The engine that compared the tables: this process, or Spark."""
    reason: str = field(default="", compare=False)
    """The reason for the choice of engine; comparisons of results leave it out."""

    def to_dict(self) -> dict[str, Any]:
        """The wire form; reads the changes that are left to their end."""
        block = ChangeBlock(commit=self.commit, changes=tuple(self.changes))
        choice = {"engine": self.engine, "reason": self.reason}
        return block.to_dict() | {"cursor": self.cursor} | choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A file that holds one whole state, and the cursor from which the change feed goes on after it."""

    commit: Commit
    cursor: str
    records: int

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "snapshot_commit_id": self.commit.id,
            "resume_cursor": self.cursor,
            "records": self.records,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """Whole commits in order; pass `cursor` as `since` to go on."""

    blocks: tuple[ChangeBlock, ...]
    cursor: str
    caught_up: bool
    engine: str = "local"
    """The engine that compared the tables: Spark if it compared the tables of any commit, else this process."""
    reason: str = field(default="", compare=False)
    """The reason for the choice of engine; comparisons of results leave it out."""

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "blocks": [block.to_dict() for block in self.blocks],
            "cursor": self.cursor,
            "caught_up": self.caught_up,
            "engine": self.engine,
            "reason": self.reason,
        }
