"""What merge, diff and the change feed return: frozen values with a wire form."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from omnigraph.api.results import Commit
from omnigraph.engine.history.baseline import Baseline as BaselineFact
from omnigraph.engine.history.diff import Endpoints, EntityChange, EntityKind, Op
from omnigraph.engine.history.feed import Block, Chapter, Page
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.relate import Outcome
from omnigraph.engine.merge.verbs import Merged
from omnigraph.values import dataclass

__all__ = [
    "Change",
    "ChangeBlock",
    "ChangePage",
    "ChangeStream",
    "Conflict",
    "Diff",
    "DiffStats",
    "MergeResult",
]

CHANGES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What a merge did, or with `dry_run` would do; `tables` counts inserts, updates and deletes."""

    source: str
    target: str
    outcome: Outcome
    tables: Mapping[str, tuple[int, int, int]]
    commit: Commit | None
    conflicts: tuple[Conflict, ...] = ()
    actor: str | None = None
    dry_run: bool = False

    @classmethod
    def of(cls, merged: Merged, actor: str | None, *, dry_run: bool) -> Self:
        """The public view of a merge."""
        return cls(
            source=merged.source,
            target=merged.target,
            outcome=merged.outcome,
            tables={str(key): counts for key, counts in merged.tables.items()},
            commit=None if merged.commit is None else Commit.of(merged.commit),
            conflicts=merged.conflicts,
            actor=actor,
            dry_run=dry_run,
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        shown: dict[str, Any] = {
            "source": self.source,
            "target": self.target,
            "outcome": str(self.outcome),
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "changes_by_table": [
                {"table_key": key, "inserts": n, "updates": u, "deletes": d}
                for key, (n, u, d) in self.tables.items()
            ],
        }
        if self.dry_run:
            shown |= {"dry_run": True, "conflicts": [one.to_dict() for one in self.conflicts]}
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entity that differs; `properties` names what an update changed, `images=True` fills in the rows."""

    op: Op
    table_key: str
    kind: EntityKind
    type_name: str
    id: str
    endpoints: Endpoints | None
    manifest_version: int
    table_version: int
    properties: tuple[str, ...] = ()
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None

    @classmethod
    def of(cls, change: EntityChange) -> Self:
        """The public view of a change."""
        return cls(
            op=change.op,
            table_key=change.table_key,
            kind=change.kind,
            type_name=change.type_name,
            id=change.id,
            endpoints=change.endpoints,
            manifest_version=change.manifest_version,
            table_version=change.table_version,
            properties=change.properties,
            before=change.before,
            after=change.after,
        )

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
class DiffStats:
    """How much differs; `types_affected` are type names, sorted."""

    inserts: int
    updates: int
    deletes: int
    types_affected: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "inserts": self.inserts,
            "updates": self.updates,
            "deletes": self.deletes,
            "types_affected": list(self.types_affected),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The entities that differ between two states, by table key, then id."""

    base: str | None
    head: str | None
    changes: tuple[Change, ...]

    @property
    def stats(self) -> DiffStats:
        """How much differs."""
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
        }

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __repr__(self) -> str:
        stats = self.stats
        head = (
            f"<Diff {self.base}..{self.head}: +{stats.inserts} ~{stats.updates} -{stats.deletes}>"
        )
        lines = [head, *(str(change) for change in self.changes[:CHANGES_SHOWN_MAX])]
        more = len(self.changes) - CHANGES_SHOWN_MAX
        return "\n".join([*lines, f"… {more} more"] if more > 0 else lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBlock:
    """One commit and everything it changed."""

    commit: Commit
    changes: tuple[Change, ...]
    next_page_token: str | None = None

    @classmethod
    def of(cls, block: Block) -> Self:
        """The public view of a block."""
        return cls(commit=Commit.of(block.commit), changes=changes_of(block.changes))

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

    @classmethod
    def of(cls, chapter: Chapter) -> Self:
        """The public view of a commit that is told."""
        told = map(Change.of, chapter.changes)
        return cls(commit=Commit.of(chapter.commit), cursor=chapter.cursor, changes=told)

    def to_dict(self) -> dict[str, Any]:
        """The wire form; reads the changes that are left to their end."""
        block = ChangeBlock(commit=self.commit, changes=tuple(self.changes))
        return block.to_dict() | {"cursor": self.cursor}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A file that holds one whole state, and the cursor from which the change feed goes on after it."""

    commit: Commit
    cursor: str
    records: int

    @classmethod
    def of(cls, found: BaselineFact) -> Self:
        """The public view of a baseline."""
        return cls(commit=Commit.of(found.commit), cursor=found.cursor, records=found.records)

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

    @classmethod
    def of(cls, page: Page) -> Self:
        """The public view of a page."""
        blocks = tuple(ChangeBlock.of(block) for block in page.blocks)
        return cls(blocks=blocks, cursor=page.cursor, caught_up=page.caught_up)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "blocks": [block.to_dict() for block in self.blocks],
            "cursor": self.cursor,
            "caught_up": self.caught_up,
        }


def changes_of(found: Iterable[EntityChange]) -> tuple[Change, ...]:
    """The public view of changes."""
    return tuple(Change.of(change) for change in found)
