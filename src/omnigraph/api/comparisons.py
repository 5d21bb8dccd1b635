"""What merge, diff and the change feed return: frozen values with a wire form."""

from collections.abc import Mapping
from typing import Any, Self

from omnigraph.engine.history.changes import (
    Baseline,
    Change,
    ChangeBlock,
    ChangePage,
    ChangeStream,
    Diff,
    DiffStats,
)
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.merge import Merged
from omnigraph.engine.merge.relate import Outcome
from omnigraph.engine.results import Commit
from omnigraph.values import dataclass

__all__ = [
    "Baseline",
    "Change",
    "ChangeBlock",
    "ChangePage",
    "ChangeStream",
    "Conflict",
    "Diff",
    "DiffStats",
    "MergeResult",
]


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
