"""What maintenance reports: frozen values with a wire form."""

from collections.abc import Mapping
from typing import Any, Self

from omnigraph.api.results import Commit
from omnigraph.engine.history.parts import Part
from omnigraph.engine.maintenance.cleanup import TableCleaned
from omnigraph.engine.maintenance.indexes import IndexReport, IndexState, IndexStatus
from omnigraph.engine.maintenance.optimize import Skipped, TableOptimized
from omnigraph.engine.maintenance.relocate import Relocated
from omnigraph.engine.maintenance.repair import Action, Classification, TableRepaired
from omnigraph.storage.tables import IndexKind
from omnigraph.values import dataclass

__all__ = [
    "Action",
    "Classification",
    "CleanupReport",
    "ExportReport",
    "IndexKind",
    "IndexReport",
    "IndexState",
    "IndexStatus",
    "OptimizeReport",
    "Part",
    "RelocateReport",
    "RepairReport",
    "Skipped",
    "TableCleaned",
    "TableOptimized",
    "TableRepaired",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The files of an export, and who wrote them: `local` or `spark`."""

    uri: str
    commit: str | None
    engine: str
    parts: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "commit": self.commit,
            "engine": self.engine,
            "parts": [one.to_dict() for one in self.parts],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocateReport:
    """The branches that got another address, each with the one it had, and how many files were rewritten for it."""

    uri: str
    branches: Mapping[str, str]
    files_rewritten: int

    @classmethod
    def of(cls, done: Relocated) -> Self:
        """Report what relocating did."""
        return cls(uri=done.uri, branches=done.branches, files_rewritten=done.files)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "branches": [{"branch": b, "old_uri": old} for b, old in self.branches.items()],
            "files_rewritten": self.files_rewritten,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """What optimising did, by table; it changes no row, so that `commit` is None."""

    uri: str
    tables: tuple[TableOptimized, ...]
    commit: Commit | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "tables": [one.to_dict() for one in self.tables],
            "commit": None if self.commit is None else self.commit.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What cleanup removed, by table, or what it would remove when it was not confirmed.

    `scratch_removed` names loads that never ended and whose scratch files went.
    """

    uri: str
    tables: tuple[TableCleaned, ...]
    confirmed: bool
    scratch_removed: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "tables": [one.to_dict() for one in self.tables],
            "confirmed": self.confirmed,
            "scratch_removed": list(self.scratch_removed),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What repair found, by table, and the commit that adopted it."""

    uri: str
    tables: tuple[TableRepaired, ...]
    commit: Commit | None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "tables": [one.to_dict() for one in self.tables],
            "commit": None if self.commit is None else self.commit.to_dict(),
        }
