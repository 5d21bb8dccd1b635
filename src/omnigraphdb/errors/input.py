"""Errors that ask the caller to change the request: its text, its data, its names or its size."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from omnigraphdb.errors.base import OmniError
from omnigraphdb.errors.conflict import ConflictError
from omnigraphdb.errors.wording import did_you_mean, suggestion
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from omnigraphdb.values import dataclass


class UserInputError(OmniError):
    """The request must change.

    Correct the request as the message says.
    """

    kind = "user_input"
    http_code = "bad_request"


class SchemaError(UserInputError):
    """Schema text does not parse, or contradicts itself.

    Correct the text where the diagnostics point.
    """

    kind = "schema_error"


class QueryError(UserInputError):
    """Query text does not parse, type-check or fit the call.

    Correct the text where the diagnostics point, or use the call that the hint names.
    """

    kind = "query_error"


class ParamError(UserInputError):
    """A parameter is missing, unknown or ill-typed.

    Send a value of the type that the message names.
    """

    kind = "param_error"

    def __init__(self, name: str, code: str, message: str, *, expected: str, got: str) -> None:
        param = {"name": name, "code": code, "expected": expected, "got": got}
        super().__init__(message, details={"param": param}, code=code)
        self.name, self.expected, self.got = name, expected, got


class ReadOnlyError(UserInputError):
    """A writer was called on a handle opened read-only."""

    kind = "read_only"

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation} needs a writable graph, this one was opened read-only; no changes were made",
            hint="open the graph without read_only=True",
        )


class GraphClosed(UserInputError):
    """A handle was used after it was closed."""

    kind = "closed"

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"the handle of graph '{uri}' is closed; no changes were made",
            hint="open the graph again",
        )


class ConfigError(UserInputError):
    """Configuration, profile or credentials contradict one another.

    Correct the setting, the profile or the variable that the message names.
    """

    kind = "config_error"


class CursorRejected(UserInputError):
    """A cursor is malformed or belongs to another feed.

    Pass the cursor as it came, with the same filters, or begin anew without one.
    """

    kind = "cursor_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(f"change cursor rejected: {reason}")


class EmbeddingError(UserInputError):
    """Text could not be turned into a vector.

    Look at the answer of the provider and at the settings of embeddings, or send the vector itself.
    """

    kind = "embedding_error"


class UnsupportedSchemaChange(UserInputError):
    """A migration plan holds a change that cannot be applied.

    Take the way that the step of the plan names, or load the data into a new graph.
    """

    kind = "unsupported_schema_change"


class AuthError(OmniError):
    """Permission is missing.

    Ask who keeps the server or its policy.
    """

    kind = "auth"
    http_code = "forbidden"


class PolicyDenied(AuthError):
    """The policy allows nothing of this to this actor, or no actor was given.

    Ask who keeps the policy for the action, or work on a branch that it allows.
    """

    kind = "forbidden"

    def __init__(
        self,
        message: str,
        *,
        action: str,
        branch: str | None = None,
        target_branch: str | None = None,
        hint: str | None = None,
    ) -> None:
        request = {"action": action, "branch": branch, "target_branch": target_branch}
        super().__init__(
            f"{message}; no changes were made",
            details={"denied": {key: value for key, value in request.items() if value is not None}},
            hint=hint,
        )


class PolicyConfigError(UserInputError):
    """A policy, or a file of cases, that means nothing as it stands; every problem is listed.

    Correct every problem that is listed.
    """

    kind = "policy_config"

    def __init__(self, name: str, messages: Sequence[str], what: str = "policy") -> None:
        listed = "; ".join(messages)
        count = "1 problem" if len(messages) == 1 else f"{len(messages)} problems"
        super().__init__(
            f"{name}: {count}: {listed}; the {what} was not used",
            details={"policy_problems": list(messages)},
        )
        self.name, self.problems = name, tuple(messages)


class NotFoundError(OmniError):
    """The request names something that does not exist.

    Name what exists: the message offers near names.
    """

    kind = "not_found"
    http_code: ClassVar[str | None] = "not_found"


class NotFound(NotFoundError):
    """A graph, branch, commit, type, query or entity does not exist.

    Name what exists: the message offers near names.
    """

    kind = "not_found"

    def __init__(
        self, what: str, name: str, *, known: Iterable[str] = (), hint: str | None = None
    ) -> None:
        names = tuple(known)
        near = did_you_mean(name, names)
        super().__init__(
            f"{what} '{name}' not found{suggestion(near)}",
            details={"missing": {"what": what, "name": name, "did_you_mean": near}},
            hint=hint,
        )
        self.what, self.name, self.known = what, name, names


class HistoryReclaimed(NotFoundError):
    """Cleanup removed a past version, or it was deleted with its branch."""

    kind = "history_reclaimed"
    http_code = None

    def __init__(self, table_key: str, version: int, commit: str | None = None) -> None:
        what = (
            f"version {version} of {table_key}"
            if commit is None
            else f"what commit {commit} showed"
        )
        facts = {"table_key": table_key, "table_version": version}
        super().__init__(
            f"{what} does not exist any more: cleanup removed it, or it was deleted with its branch",
            details={
                "history_reclaimed": facts if commit is None else facts | {"commit_id": commit}
            },
            hint="read a later commit; a branch at a commit, or a cleanup that keeps more, keeps a commit readable",
        )


class ChangeFeedGap(NotFoundError):
    """A cursor points before the history that cleanup left, or before the history that the actor may read."""

    kind = "change_feed_gap"
    http_code = None

    def __init__(
        self, first_unreadable: str, cursor: str | None = None, *, is_hidden: bool = False
    ) -> None:
        """`is_hidden`: the changes are there, and they were made on a branch that the actor may not read."""
        gap = {"first_unreadable_commit_id": first_unreadable}
        super().__init__(
            f"the changes of commit {first_unreadable} were made on a branch that you may not read"
            if is_hidden
            else f"cleanup removed the changes of commit {first_unreadable}",
            details={"change_feed_gap": gap | ({"cursor": cursor} if cursor else {})},
            hint="take a new baseline and follow the feed from there",
        )


class LimitError(OmniError):
    """Too much at once; send less, or wait.

    Send less, or wait.
    """

    kind = "limit"
    http_code: ClassVar[str | None] = "bad_request"


class ResourceLimit(LimitError):
    """A size bound was passed.

    Ask for less at a time, or raise the setting that the message names.
    """

    kind = "resource_limit"
    code = "W21"

    def __init__(
        self,
        resource: str,
        limit: int,
        actual: int,
        hint: str | None = None,
        *,
        setting: str | None = None,
    ) -> None:
        bound = f"{limit}" if setting is None else f"{limit} ({setting})"
        super().__init__(
            f"{resource}: {actual} is over the limit of {bound}; no changes were made",
            details={"resource_limit": {"resource": resource, "limit": limit, "actual": actual}},
            hint=hint,
        )


class BoundReached(LimitError):
    """An algorithm came to the end of its rounds or its time before it was done."""

    kind = "bound_reached"

    def __init__(self, name: str, bound: str, state: str) -> None:
        super().__init__(
            f"{name} has not ended after {bound}: {state}; nothing was written",
            details={"bound": {"algorithm": name, "bound": bound, "state": state}},
            hint="raise the bound, or accept a coarser answer (a larger tolerance, fewer samples)",
        )


class ReadCancelled(LimitError):
    """A read was stopped before it was done: its caller cancelled it, or its time was over."""

    kind = "read_cancelled"
    http_code = None

    def __init__(self, seconds: float | None = None, setting: str | None = None) -> None:
        if seconds is None:
            super().__init__("the read was cancelled; nothing was changed")
        else:
            bound = f"{seconds:g} s" if setting is None else f"{seconds:g} s ({setting})"
            super().__init__(
                f"the read has not ended after {bound} and was stopped; nothing was changed",
                hint="allow it more time, or ask for less",
            )
        self.seconds = seconds


# ---- records
# Errors about records that break a rule of the schema.


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One violated rule, its position, and the facts that a reader needs to correct it."""

    rule: str
    message: str
    line: int | None = None
    record: int | None = None
    file: str | None = None
    table_key: str | None = None
    row_id: str | None = None
    property: str | None = None
    value: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of `data_errors[]`; absent facts are left out."""
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
        shown_problems = tuple(problems[:PROBLEMS_SHOWN_MAX])
        count = total if total is not None else len(problems)
        super().__init__(
            _problem_text(shown_problems, count),
            details={"data_errors": [p.to_dict() for p in shown_problems], "total": count},
            code=shown_problems[0].rule,
        )
        self.problems, self.total = shown_problems, count

    @property
    def data_errors(self) -> list[dict[str, Any]]:
        """The structured form of the violated rules."""
        return list(self.details["data_errors"])


def _problem_text(problems: Sequence[Problem], total: int) -> str:
    if total == 1:
        return f"{problems[0]}; no changes were made"
    lines = [f"{total} problems; no changes were made"]
    lines += [f"  {problem}" for problem in problems]
    if total > len(problems):
        lines.append(f"  … and {total - len(problems)} more")
    return "\n".join(lines)


class DataError(_DataProblems):
    """A record or value does not fit the schema.

    Correct the records that `data_errors` names.
    """

    kind = "data_error"


class ReferentialError(_DataProblems):
    """An edge would point at nothing.

    Load the nodes first or with the edges, or name types to create (`create_missing`).
    """

    kind = "referential_error"


class ConstraintError(_DataProblems):
    """A unique, cardinality, range, check or enum rule would break.

    Correct the values that `data_errors` names, or the rule in the schema.
    """

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
        shown_problems = tuple(problems[:PROBLEMS_SHOWN_MAX])
        count = total if total is not None else len(problems)
        conflict = {"table_key": table_key} | ({"row_id": row_id} if row_id else {})
        details: dict[str, Any] = {"key_conflict": conflict}
        if shown_problems:
            details |= {"data_errors": [p.to_dict() for p in shown_problems], "total": count}
            message = _problem_text(shown_problems, count)
        else:
            message = f"{table_key} already holds '{row_id}'; no changes were made"
        super().__init__(message, details=details, hint="use mode='merge' to update what exists")
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
