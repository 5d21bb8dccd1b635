"""The one exception tree of the package; every surface is a translation of it.

OmniError            kind, message, details, hint, code, to_dict()
├── UserInputError   change the request        ├── LimitError      send less, or wait
├── NotFoundError    name what exists          ├── RecoveryError   reopen, or let recovery finish
├── AuthError        ask for permission        ├── StorageError    look before repeating
└── ConflictError    read again, retry         └── InternalError   report it: a bug
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from omnigraph.limits import (
    CONFLICTS_SHOWN_MAX,
    PROBLEMS_SHOWN_MAX,
    SUGGESTIONS_MAX,
    VALUE_SHOWN_CHARS_MAX,
)
from omnigraph.values import dataclass


class OmniWarning(UserWarning):
    """Deprecations, pending work and lints; never an error."""


class OmniError(Exception):
    """The base of everything the package raises on purpose."""

    kind: ClassVar[str] = "error"
    http_code: ClassVar[str | None] = "internal"
    hint: str | None = None
    code: str | None = None

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        self.message = printable(message)
        super().__init__(self.message)
        self.details: dict[str, Any] = dict(details or {})
        if hint is not None:
            self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        if self.code is None or self.code in self.message:
            return self.message
        return f"[{self.code}] {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """The wire body."""
        body: dict[str, Any] = {"error": str(self)}
        if self.http_code is not None:
            body["code"] = self.http_code
        body["kind"] = self.kind
        if self.hint is not None:
            body["hint"] = self.hint
        return body | self.details

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take facts, not messages; rebuilding from state lets each keep its own signature.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[OmniError], args: tuple[Any, ...], state: dict[str, Any]) -> OmniError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UserInputError(OmniError):
    """The request must change."""

    kind = "user_input"
    http_code = "bad_request"


class NotFoundError(OmniError):
    """What was named does not exist."""

    kind = "not_found"
    http_code: ClassVar[str | None] = "not_found"


class AuthError(OmniError):
    """Permission is missing."""

    kind = "auth"
    http_code = "forbidden"


class ConflictError(OmniError):
    """The world moved; read again, then retry."""

    kind = "conflict"
    http_code: ClassVar[str | None] = "conflict"


class LimitError(OmniError):
    """Too much at once; send less, or wait."""

    kind = "limit"
    http_code = "bad_request"


class RecoveryError(OmniError):
    """An earlier write must be settled first."""

    kind = "recovery"
    http_code = None


class StorageError(OmniError):
    """The store failed; look before repeating."""

    kind = "storage_error"
    http_code = "internal"

    def __init__(
        self, message: str, *, storage_kind: str = "unknown", hint: str | None = None
    ) -> None:
        super().__init__(message, details={"storage": {"kind": storage_kind}}, hint=hint)
        self.storage_kind = storage_kind


class InternalError(OmniError):
    """A bug: report it."""

    kind = "internal_error"
    http_code = "internal"


# ---- change the request


class SchemaError(UserInputError):
    """Schema text does not parse, or contradicts itself."""

    kind = "schema_error"


class QueryError(UserInputError):
    """Query text does not parse, type-check or fit the call."""

    kind = "query_error"


class ParamError(UserInputError):
    """A parameter is missing, unknown or ill-typed."""

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
    """Configuration, profile or credentials contradict one another."""

    kind = "config_error"


class CursorRejected(UserInputError):
    """A cursor is malformed or belongs to another feed."""

    kind = "cursor_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(f"change cursor rejected: {reason}")


class UnsupportedMedia(UserInputError):
    """The content type is not one this route takes."""

    kind = "unsupported_media"


class MethodNotAllowed(UserInputError):
    """The route exists, the verb does not."""

    kind = "method_not_allowed"
    http_code = "method_not_allowed"


class BlobRange(UserInputError):
    """The requested range lies outside the blob."""

    kind = "blob_range"


class ExternalBlobPolicy(UserInputError):
    """A blob URI is outside the allowed locations."""

    kind = "external_blob_policy"


class EmbeddingError(UserInputError):
    """Text could not be turned into a vector."""

    kind = "embedding_error"


class UnsupportedSchemaChange(UserInputError):
    """A migration plan holds a change that cannot be applied."""

    kind = "unsupported_schema_change"


# ---- data that breaks a rule of the schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One violated rule: which rule, where, and what a reader needs to mend it."""

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


def data_error(problems: Sequence[Problem], *, total: int | None = None) -> OmniError:
    """Build the error that a list of problems deserves; the first one decides its class."""
    first = problems[0]
    if first.rule == "W20":
        return KeyConflict(first.table_key or "", first.row_id, problems=problems, total=total)
    if re.fullmatch(r"W1[0-4]", first.rule):
        return ConstraintError(problems, total=total)
    if re.fullmatch(r"W1[56]", first.rule):
        return ReferentialError(problems, total=total)
    return DataError(problems, total=total)


# ---- name what exists


class NotFound(NotFoundError):
    """A graph, branch, commit, type, query or entity that is not there."""

    kind = "not_found"

    def __init__(
        self, what: str, name: str, *, known: Iterable[str] = (), hint: str | None = None
    ) -> None:
        near = did_you_mean(name, known)
        super().__init__(
            f"{what} '{name}' not found{suggestion(near)}",
            details={"missing": {"what": what, "name": name, "did_you_mean": near}},
            hint=hint,
        )
        self.what, self.name = what, name


class HistoryReclaimed(NotFoundError):
    """A past version was removed by cleanup, or with its branch."""

    kind = "history_reclaimed"
    http_code = None

    def __init__(self, table_key: str, version: int) -> None:
        super().__init__(
            f"version {version} of {table_key} is not there any more: it was removed by cleanup, or with its branch",
            details={"history_reclaimed": {"table_key": table_key, "table_version": version}},
            hint="read a later commit; what must stay readable needs a branch there, or a cleanup that keeps more",
        )


class ChangeFeedGap(NotFoundError):
    """A cursor points before what cleanup kept."""

    kind = "change_feed_gap"
    http_code = None

    def __init__(self, first_unreadable: str, cursor: str | None = None) -> None:
        gap = {"first_unreadable_commit_id": first_unreadable}
        super().__init__(
            f"the changes of commit {first_unreadable} were removed by cleanup",
            details={"change_feed_gap": gap | ({"cursor": cursor} if cursor else {})},
            hint="take a new baseline and follow the feed from there",
        )


class TableNotFound(NotFoundError):
    """A table, its branch or its version is not in the store."""

    kind = "table_not_found"

    def __init__(self, table: str, what: str = "table") -> None:
        super().__init__(
            f"{what} '{table}' is not in the store",
            details={"missing": {"what": what, "name": table, "did_you_mean": []}},
            hint="a version may have been removed by cleanup; a branch may have been deleted",
        )
        self.table, self.what = table, what


# ---- ask for permission


class Unauthenticated(AuthError):
    """A token is missing or invalid."""

    kind = "unauthenticated"
    http_code = "unauthorized"


class PolicyDenied(AuthError):
    """The policy said no, or nobody was named."""

    kind = "policy_denied"


# ---- read again, retry


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


class ManifestConflict(ConflictError):
    """A pin is not where this write was prepared."""

    kind = "manifest_conflict"
    code = "W30"

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"the write to {table_key} was prepared on version {expected}, but version {actual} is "
            "now published; nothing was written",
            details={
                "manifest_conflict": {
                    "table_key": table_key,
                    "expected": expected,
                    "actual": actual,
                }
            },
            hint="re-read and retry",
        )
        self.table_key, self.expected, self.actual = table_key, expected, actual


class ReadSetConflict(ConflictError):
    """Something the write relied on moved before its first effect."""

    kind = "read_set_conflict"
    code = "W30"

    def __init__(self, member: str, expected: object = None, actual: object = None) -> None:
        facts = {"member": member, "expected": expected, "actual": actual}
        super().__init__(
            f"{member} changed while the write was prepared"
            + (f" (expected {expected}, actual {actual})" if expected is not None else "")
            + "; nothing was written",
            details={"read_set_conflict": {k: v for k, v in facts.items() if v is not None}},
            hint="re-read and retry",
        )
        self.member, self.expected, self.actual = member, expected, actual


class PublishContention(ConflictError):
    """The manifest swap was lost more often than the budget allows."""

    kind = "publish_contention"
    code = "W30"

    def __init__(self, branch: str, attempts: int) -> None:
        super().__init__(
            f"other writers of branch '{branch}' won {attempts} rounds in a row; nothing was written",
            details={"publish_contention": {"attempts": attempts}},
            hint="retry after a short wait",
        )
        self.branch, self.attempts = branch, attempts


_LOCKED = {
    "__schema_apply__": "schema changes",
    "__branch__": "the new branch '{branch}'",
    "__init__": "the new graph",
}


class LockTimeout(ConflictError):
    """A live writer held a lock for longer than this one waits."""

    kind = "lock_timeout"

    def __init__(
        self,
        table_key: str,
        branch: str,
        waited: float,
        *,
        holder: Mapping[str, Any] | None = None,
        since: str | None = None,
    ) -> None:
        where = _LOCKED.get(table_key, "{table_key} on branch '{branch}'").format(
            table_key=table_key, branch=branch
        )
        super().__init__(
            f"the lock of {where} did not become free within {waited:g} s: {_held_by(holder, since)}; "
            "nothing was written",
            details={
                "lock": {
                    "table_key": table_key,
                    "holder": None if holder is None else dict(holder),
                    "since": since,
                }
            },
            hint="retry; if that process is stopped, let it go on or end it; the setting `lock_wait` says how "
            "long to wait",
        )
        self.table_key, self.holder, self.since = table_key, holder, since


def _held_by(holder: Mapping[str, Any] | None, since: str | None) -> str:
    if holder is None:
        return "another writer holds it"
    doing = " ".join(str(holder[k]) for k in ("operation", "operation_id") if k in holder)
    begun = f" since {since}" if since else ""
    return f"process {holder['process']} on host '{holder['host']}' holds it{begun} for {doing}"


class MergeConflicts(ConflictError):
    """Both sides changed the same thing in different ways."""

    kind = "merge_conflicts"

    def __init__(self, conflicts: Sequence[Any]) -> None:
        shown = [c.to_dict() for c in conflicts[:CONFLICTS_SHOWN_MAX]]
        first = "; ".join(str(c.message) for c in conflicts[:3])
        more = f"; and {len(conflicts) - 3} more" if len(conflicts) > 3 else ""
        super().__init__(
            f"{len(conflicts)} merge conflicts, nothing was written: {first}{more}",
            details={"merge_conflicts": shown, "merge_conflicts_total": len(conflicts)},
            hint="inspect both sides with `diff`, change one of them, merge again",
        )
        self.conflicts = tuple(conflicts)


class MergeBaseUnavailable(ConflictError):
    """What two branches share cannot be read any more."""

    kind = "merge_base_unavailable"

    def __init__(self, source: str, target: str, commits: Sequence[str]) -> None:
        named = ", ".join(commits)
        super().__init__(
            f"'{source}' cannot be merged into '{target}': what both share is the work up to {named}, which was "
            "deleted with its branch or removed by cleanup, and no merge tells it; nothing was written",
            details={"merge_base": {"commits": list(commits)}},
            hint="`allow_older_base` merges over an older commit: changes that both have may come up as conflicts, "
            "and what one of them deleted or took back since may return",
        )
        self.commits = tuple(commits)


class BranchExists(ConflictError):
    """The name is taken, or nests with one that is."""

    kind = "branch_exists"

    def __init__(self, name: str, other: str | None = None) -> None:
        clash = (
            f"overlaps the live branch '{other}'" if other and other != name else "already exists"
        )
        super().__init__(
            f"branch '{name}' {clash}; no changes were made", details={"branch": {"name": name}}
        )


class BranchInUse(ConflictError):
    """Other branches depend on the one to delete."""

    kind = "branch_in_use"

    def __init__(self, name: str, dependants: Sequence[str], reason: str) -> None:
        super().__init__(
            f"branch '{name}' cannot be deleted: {reason}; no changes were made",
            details={"branch": {"name": name, "dependants": list(dependants)}},
        )


class SchemaApplyConflict(ConflictError):
    """A schema change is running, or branches stand in its way."""

    kind = "schema_apply_conflict"


class AlreadyInitialized(ConflictError):
    """There is a graph already."""

    kind = "already_initialized"

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"a graph exists at '{uri}'; no changes were made",
            details={"uri": uri},
            hint="open it, or choose another location",
        )


class InitializationClaimed(ConflictError):
    """Another init owns this root."""

    kind = "initialization_claimed"


class PreconditionFailed(ConflictError):
    """The branch head is not the commit the caller expected."""

    kind = "precondition_failed"
    http_code = None
    code = "W31"

    def __init__(self, expected: str, actual: str | None) -> None:
        super().__init__(
            f"the branch head is {actual}, not {expected}; nothing was written",
            details={"precondition_failure": {"expected": expected, "actual": actual}},
            hint="read the head again and decide",
        )
        self.expected, self.actual = expected, actual


class FormatVersion(ConflictError):
    """The storage stamp is outside what this release reads."""

    kind = "format_version"

    def __init__(self, found: object, supported: str, advice: str) -> None:
        super().__init__(
            f"the graph has internal schema version {found}, this release reads {supported}; {advice}",
            details={"format": {"found": found, "supported": supported}},
        )


class DriftError(ConflictError):
    """A table's HEAD is ahead of its pin and no sidecar explains it."""

    kind = "drift_error"

    def __init__(self, table_key: str, pin: int, head: int, advice: str) -> None:
        drift = {"table_key": table_key, "manifest_version": pin, "head_version": head}
        super().__init__(
            f"{table_key} is at version {head}, the graph pins {pin}; nothing was written: {advice}",
            details={"drift": drift},
            hint=advice,
        )
        self.table_key, self.pin, self.head = table_key, pin, head


class IndexRequired(ConflictError):
    """A search needs an index that is not there."""

    kind = "index_required"


class ChangeDiffRefused(ConflictError):
    """The two views cannot be compared."""

    kind = "change_diff_refused"


class SchemaContractError(ConflictError):
    """The stored schema files are incomplete or disagree."""

    kind = "schema_contract"


class BlobPrecondition(ConflictError):
    """The blob is not the one the caller expected."""

    kind = "blob_precondition"


class RowContention(ConflictError):
    """A compare-and-swap on rows lost against another writer; nothing was written."""

    kind = "row_contention"

    def __init__(self, table: str, branch: str | None, version: int) -> None:
        super().__init__(
            f"another writer changed the same rows of {table} on branch '{branch or 'main'}' after "
            f"version {version}; nothing was written",
            details={"row_contention": {"table": table, "version": version}},
            hint="load again and retry",
        )
        self.table, self.branch, self.version = table, branch, version


class HeadMoved(ConflictError):
    """A table's HEAD is not the base a change was staged on; nothing was committed."""

    kind = "head_moved"

    def __init__(self, table: str, expected: int, actual: int | None) -> None:
        seen = f"HEAD is {actual}" if actual is not None else "HEAD has moved on"
        super().__init__(
            f"a change of {table} was staged on version {expected}, but {seen}; nothing was committed",
            details={"head_moved": {"table": table, "expected": expected, "actual": actual}},
            hint="stage again on the new HEAD",
        )
        self.table, self.expected, self.actual = table, expected, actual


class TableExists(ConflictError):
    """A table was to be created where one is."""

    kind = "table_exists"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"a table exists at '{table}'; no changes were made", details={"table": table}
        )
        self.table = table


class ForkExists(ConflictError):
    """A Lance branch of that name, or the files of a former one, stand in the way of a fork."""

    kind = "fork_exists"

    def __init__(self, table: str, branch: str, *, has_ref: bool) -> None:
        left = "exists" if has_ref else "left files behind and has no ref"
        super().__init__(
            f"branch '{branch}' of {table} {left}; no changes were made",
            details={"fork": {"table": table, "branch": branch, "has_ref": has_ref}},
        )
        self.table, self.branch, self.has_ref = table, branch, has_ref


# ---- send less, or wait


class ResourceLimit(LimitError):
    """A size bound was passed."""

    kind = "resource_limit"
    code = "W21"

    def __init__(self, resource: str, limit: int, actual: int, hint: str | None = None) -> None:
        super().__init__(
            f"{resource}: {actual} is over the limit of {limit}; no changes were made",
            details={"resource_limit": {"resource": resource, "limit": limit, "actual": actual}},
            hint=hint,
        )


class TooManyRequests(LimitError):
    """The actor has too much in flight."""

    kind = "too_many_requests"
    http_code = "too_many_requests"


# ---- reopen, or let recovery finish


class RecoveryRequired(RecoveryError):
    """An interrupted write covers what this one needs."""

    kind = "recovery_required"
    code = "W32"

    def __init__(self, operation_id: str, message: str) -> None:
        super().__init__(
            message,
            details={"recovery_required": {"operation_id": operation_id}},
            hint="reopen the graph read-write, or run `omnigraph recovery run`",
        )
        self.operation_id = operation_id


class SidecarUnreadable(RecoveryError):
    """A sidecar cannot be understood, so no write is safe."""

    kind = "sidecar_unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"the recovery sidecar '{path}' cannot be used: {reason}; nothing was written",
            details={"sidecar": {"path": path, "reason": reason}},
            hint="read-only opens work; `omnigraph recovery list` shows it, "
            "`omnigraph recovery discard ID --confirm` removes it",
        )
        self.path, self.reason = path, reason


class Interleaved(RecoveryError):
    """A change landed, but not on the version it was staged on: a foreign commit lies between."""

    kind = "interleaved"

    def __init__(self, table: str, expected: int, actual: int | None) -> None:
        super().__init__(
            f"a commit to {table} was to become version {expected}, but a foreign commit interleaved "
            f"(it is version {actual if actual is not None else 'unknown'}); HEAD has moved and nothing "
            "was published",
            details={"interleaved": {"table": table, "expected": expected, "actual": actual}},
            hint="leave the recovery sidecar in place and reopen the graph read-write",
        )
        self.table, self.expected, self.actual = table, expected, actual


# ---- look before repeating


class ExternalBlobSource(StorageError):
    """A blob URI could not be read."""

    kind = "external_blob_source"


# ---- report it


class PolicyEvaluationError(InternalError):
    """The policy could not be evaluated."""

    kind = "policy_evaluation_error"


class EngineError(InternalError):
    """Execution failed inside a valid request."""

    kind = "engine_error"


class BlobIntegrity(InternalError):
    """A stored blob is not what its descriptor says."""

    kind = "blob_integrity"


# ---- wording shared by everyone


def shorten(value: object, limit: int = VALUE_SHOWN_CHARS_MAX) -> str:
    """A user value for a message: quoted as JSON would, cut to a bound."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply to show"
    except (TypeError, ValueError):
        text = repr(value)
    text = text[1:-1] if isinstance(value, str) else text
    text = printable(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """A text as it can be printed, sent and stored: half a surrogate pair cannot, its escape can."""
    return text.encode("utf-8", "backslashreplace").decode()


def did_you_mean(name: str, known: Iterable[str]) -> list[str]:
    """Close names: equal but for case first, then within a third of the length in edits.

    A single letter is not close to another: changing all of a name leaves nothing of it.
    """
    names = list(dict.fromkeys(known))
    folded = [n for n in names if n.lower() == name.lower() and n != name]
    distance = min(max(1, len(name) // 3), len(name) - 1)
    near = sorted((_edits(name.lower(), n.lower()), n) for n in names if n not in folded)
    return (folded + [n for edits, n in near if edits <= distance])[:SUGGESTIONS_MAX]


def suggestion(near: Sequence[str]) -> str:
    """`; did you mean 'a' or 'b'?`, or nothing."""
    return f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


def _edits(a: str, b: str) -> int:
    """Edit distance in which two swapped neighbours count as one slip."""
    if abs(len(a) - len(b)) > max(1, len(a) // 3):
        return max(len(a), len(b))
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        before, row = row, current
    return row[-1]
