"""The issues that the doctor finds."""

from collections.abc import Iterable
from typing import Any

from omnigraph.display import Sheet, Shown, count_of, tabulate
from omnigraph.ids import TableKey
from omnigraph.values import dataclass


class Examination(Shown, list["Issue"]):
    """The issues of an examination; without any the graph is healthy.

    A deep examination also counts the files that it compared with their recorded digests, and the files of the newest
    versions that have no recorded digest.
    """

    def __init__(
        self,
        issues: Iterable["Issue"] = (),
        *,
        files_compared: int | None = None,
        files_without_digest: int | None = None,
    ) -> None:
        super().__init__(issues)
        self.files_compared = files_compared
        self.files_without_digest = files_without_digest

    def to_dict(self) -> dict[str, Any]:
        """The wire form; what only a deep examination counts is left out of another."""
        counts = {
            "files_compared": self.files_compared,
            "files_without_digest": self.files_without_digest,
        }
        return {
            "settled": not self,
            "findings": [one.to_dict() for one in self],
            **{name: count for name, count in counts.items() if count is not None},
        }

    def _sheet(self) -> Sheet:
        """The issues, and what to do about each."""
        deep = {
            "files compared": self.files_compared,
            "files without digest": self.files_without_digest,
        }
        names = ("check", "branch", "table_key", "message", "remedy")
        return Sheet(
            title=count_of(len(self), "issue") if self else "no issues: every invariant holds",
            facts={name: count for name, count in deep.items() if count is not None},
            grids=(tabulate(self, *names),) if self else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A broken invariant: which one, where, and what to do about it."""

    check: str
    message: str
    remedy: str
    branch: str | None = None
    table_key: TableKey | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None}

    def __str__(self) -> str:
        where = "".join(f" [{one}]" for one in (self.branch, self.table_key) if one)
        return f"{self.check}{where}: {self.message}; {self.remedy}"
