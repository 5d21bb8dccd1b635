"""The issues that the doctor finds."""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Self

from omnigraphdb.display import Displayable, Report, count_of, tabulate
from omnigraphdb.errors import OmniError, TableNotFound
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, derived, wire


class Examination(Displayable, list["Issue"]):
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
        """Give the JSON form; only a deep examination includes the counts."""
        return self.listed().to_dict()

    @classmethod
    def of(cls, answer: "IssueList") -> Self:
        """Return the examination that has these issues."""
        return cls(
            answer.findings,
            files_compared=answer.files_compared,
            files_without_digest=answer.files_without_digest,
        )

    def listed(self) -> "IssueList":
        """Return the issues and the counts as a value."""
        return IssueList(
            findings=tuple(self),
            files_compared=self.files_compared,
            files_without_digest=self.files_without_digest,
        )

    def _report(self) -> Report:
        """List the issues with their remedies."""
        deep = {
            "files compared": self.files_compared,
            "files without digest": self.files_without_digest,
        }
        names = ("check", "branch", "table_key", "message", "remedy")
        return Report(
            title=count_of(len(self), "issue") if self else "no issues: every invariant holds",
            facts={name: count for name, count in deep.items() if count is not None},
            grids=(tabulate(self, *names),) if self else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue(Value):
    """A broken invariant: its check, its branch and table, and the remedy."""

    check: str
    message: str
    remedy: str
    branch: str | None = field(default=None, metadata=wire(omit=True))
    table_key: TableKey | None = field(default=None, metadata=wire(omit=True))

    def __str__(self) -> str:
        location = "".join(f" [{name}]" for name in (self.branch, self.table_key) if name)
        return f"{self.check}{location}: {self.message}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueList(Value):
    """The issues of an examination; only a deep examination has the counts of files."""

    findings: tuple[Issue, ...]
    files_compared: int | None = field(default=None, metadata=wire(omit=True))
    files_without_digest: int | None = field(default=None, metadata=wire(omit=True))

    @derived
    def settled(self) -> bool:
        """Whether every invariant holds."""
        return not self.findings


# ---- files


RESTORE = (
    "restore it from a copy of the graph; without a copy, export the readable tables or read an earlier "
    "commit (`at=`)"
)
REBUILD = "build the index again with `omnigraphdb index build`"


def report_damaged(
    path: str,
    problem: str,
    use: str,
    branches: Sequence[BranchName],
    table: TableKey | None,
    remedy: str = RESTORE,
    written: str = "",
) -> Issue:
    """Make the issue of a file whose content is not the written content; `use` names the versions that need it."""
    return Issue(
        check="damaged file",
        message=f"'{path}' is not what was written{written}: {problem}; {use}",
        remedy=remedy,
        branch=", ".join(branches) or None,
        table_key=table,
    )


def report_unreadable_branch(branch: BranchName, error: OmniError) -> Issue:
    """Make the issue of a branch that cannot be read; a branch without any file can only be deleted."""
    remedy = f"{RESTORE}; if it was deleted before, delete it again: a late request brought its name back"
    return Issue(
        check="unreadable branch",
        message=str(error),
        remedy=remedy if isinstance(error, TableNotFound) else RESTORE,
        branch=branch,
    )


def report_missing(
    path: str, use: str, branches: Sequence[BranchName], table: TableKey | None
) -> Issue:
    """Make the issue of a file that does not exist."""
    return Issue(
        check="missing file",
        message=f"'{path}' does not exist, and {use}",
        remedy=RESTORE,
        branch=", ".join(branches) or None,
        table_key=table,
    )
