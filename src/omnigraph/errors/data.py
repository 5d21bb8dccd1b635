"""Errors about records that break a rule of the schema."""

from collections.abc import Sequence
from typing import Any

from omnigraph.errors.base import OmniError
from omnigraph.errors.conflict import ConflictError
from omnigraph.errors.input import UserInputError
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One violated rule: which rule, where, and what a reader needs to correct it."""

    rule: str
    message: str
    line: int | None = None
    record: int | None = None
    file: str | None = None
    table_key: str | None = None
    row_id: str | None = None
    property: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The entry of `data_errors[]`; absent facts are left out."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None}

    def __str__(self) -> str:
        where = [str(self.file)] if self.file else []
        where += [f"line {self.line}"] if self.line is not None else []
        where += [f"record {self.record}"] if self.record is not None and self.line is None else []
        prefix = ", ".join(where) + ": " if where else ""
        return f"{prefix}[{self.rule}] {self.message}"


class _DataProblems(UserInputError):
    """Shared shape of the three data errors: problems shown, and how many there were."""

    def __init__(self, problems: Sequence[Problem], *, total: int | None = None) -> None:
        shown = tuple(problems[:PROBLEMS_SHOWN_MAX])
        count = total if total is not None else len(problems)
        super().__init__(
            _problem_text(shown, count),
            details={"data_errors": [p.to_dict() for p in shown], "total": count},
            code=shown[0].rule,
        )
        self.problems, self.total = shown, count

    @property
    def data_errors(self) -> list[dict[str, Any]]:
        """The structured form of what was violated."""
        return list(self.details["data_errors"])


def _problem_text(shown: Sequence[Problem], total: int) -> str:
    if total == 1:
        return f"{shown[0]}; no changes were made"
    lines = [f"{total} problems; no changes were made"]
    lines += [f"  {problem}" for problem in shown]
    if total > len(shown):
        lines.append(f"  … and {total - len(shown)} more")
    return "\n".join(lines)


class DataError(_DataProblems):
    """A record or value does not fit the schema."""

    kind = "data_error"


class ReferentialError(_DataProblems):
    """An edge would point at nothing."""

    kind = "referential_error"


class ConstraintError(_DataProblems):
    """A unique, cardinality, range, check or enum rule would break."""

    kind = "constraint_error"


class KeyConflict(ConflictError):
    """A strict insert met an id that exists."""

    kind = "key_conflict"
    code = "W20"

    def __init__(
        self,
        table_key: str,
        row_id: str | None,
        *,
        problems: Sequence[Problem] = (),
        total: int | None = None,
    ) -> None:
        shown = tuple(problems[:PROBLEMS_SHOWN_MAX])
        count = total if total is not None else len(problems)
        conflict = {"table_key": table_key} | ({"row_id": row_id} if row_id else {})
        details: dict[str, Any] = {"key_conflict": conflict}
        if shown:
            details |= {"data_errors": [p.to_dict() for p in shown], "total": count}
            message = _problem_text(shown, count)
        else:
            message = f"{table_key} already holds '{row_id}'; no changes were made"
        super().__init__(message, details=details, hint="use mode 'merge' to update what exists")
        self.table_key, self.row_id = table_key, row_id


_CONSTRAINT_RULES = frozenset({"W10", "W11", "W12", "W13", "W14"})
_ENDPOINT_RULES = frozenset({"W15", "W16"})


def data_error(problems: Sequence[Problem], *, total: int | None = None) -> OmniError:
    """Build the error that a list of problems deserves; the first one decides its class."""
    first = problems[0]
    if first.rule == "W20":
        return KeyConflict(first.table_key or "", first.row_id, problems=problems, total=total)
    if first.rule in _CONSTRAINT_RULES:
        return ConstraintError(problems, total=total)
    if first.rule in _ENDPOINT_RULES:
        return ReferentialError(problems, total=total)
    return DataError(problems, total=total)
