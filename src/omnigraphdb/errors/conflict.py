"""Errors after which the caller reads again and retries."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from omnigraphdb.errors.base import OmniError
from omnigraphdb.limits import CONFLICTS_SHOWN_MAX


class ConflictError(OmniError):
    """Another writer changed data that the request relied on; read again, then retry.

    Read again, decide again, then retry.
    """

    kind = "conflict"
    http_code: ClassVar[str | None] = "conflict"


class ManifestConflict(ConflictError):
    """A pin is not where this write was prepared."""

    kind = "manifest_conflict"
    code = "W30"

    def __init__(
        self, table_key: str, expected: int, actual: int, *, is_stale_base: bool = False
    ) -> None:
        """`is_stale_base`: nothing of the write has an effect, and the engine may prepare it again."""
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
        self.is_stale_base = is_stale_base


class ReadSetConflict(ConflictError):
    """Something the write relied on changed before its first effect."""

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
    "__branch__": "the branch name '{branch}'",
    "__init__": "the new graph",
}


class LockTimeout(ConflictError):
    """Live writers hold a lock for longer than this one waits; it is told at once when it cannot be served in time."""

    kind = "lock_timeout"

    def __init__(
        self,
        table_key: str,
        branch: str,
        waited: float,
        *,
        holder: Mapping[str, Any] | None = None,
        since: str | None = None,
        turns: tuple[int, float] | None = None,
    ) -> None:
        """`turns`: how many of others come before, and the seconds that each of the last ones took at least."""
        when = "did not become free" if turns is None else "cannot become free"
        super().__init__(
            f"the lock of {_name_lock(table_key, branch)} {when} within {waited:g} s: {_describe_holder(holder, since)}{_before(turns)}; "
            "nothing was written",
            details={
                "lock": {
                    "table_key": table_key,
                    "holder": None if holder is None else dict(holder),
                    "since": since,
                }
                | ({} if turns is None else {"turns_before": turns[0]})
            },
            hint="retry; if that process is stopped, let it go on or end it; the setting `lock_wait` says how "
            "long to wait",
        )
        self.table_key, self.branch, self.holder, self.since = table_key, branch, holder, since
        self._waited, self._turns = waited, turns

    def without_branch(self) -> "LockTimeout":
        """Return the same refusal without the name of the branch, for an actor that may not read the branch."""
        return LockTimeout(
            self.table_key,
            "one that you may not read",
            self._waited,
            holder=self.holder,
            since=self.since,
            turns=self._turns,
        )


class LockLost(ConflictError):
    """Work stood still for longer than its lease, so that others may have its lock by now; run it again."""

    kind = "lock_lost"

    def __init__(self, work: str, table_key: str, branch: str) -> None:
        super().__init__(
            f"{work} lost the lock of {_name_lock(table_key, branch)}: it stood still for longer than its lease, and "
            "others may be at work there; it stopped before its next change, and what it had done by then stays",
            details={"lock": {"table_key": table_key, "holder": None, "since": None}},
            hint="run it again",
        )
        self.table_key = table_key


def _name_lock(table_key: str, branch: str) -> str:
    return _LOCKED.get(table_key, "{table_key} on branch '{branch}'").format(
        table_key=table_key, branch=branch
    )


def _before(turns: tuple[int, float] | None) -> str:
    if turns is None:
        return ""
    return f", {turns[0]} more turns come before this one, and none of the last took less than {turns[1]:.2g} s"


def _describe_holder(holder: Mapping[str, Any] | None, since: str | None) -> str:
    if holder is None:
        return "another writer holds it"
    doing = " ".join(str(holder[k]) for k in ("operation", "operation_id") if k in holder)
    begun = f" since {since}" if since else ""
    return f"process {holder['process']} on host '{holder['host']}' holds it{begun} for {doing}"


class ConflictFacts(Protocol):
    """The facts about one conflict in the error of a merge; `omnigraphdb.Conflict` has them."""

    @property
    def table_key(self) -> str: ...
    @property
    def row_id(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def base(self) -> Mapping[str, Any] | None: ...
    @property
    def source(self) -> Mapping[str, Any] | None: ...
    @property
    def target(self) -> Mapping[str, Any] | None: ...
    @property
    def properties(self) -> tuple[str, ...]: ...
    def to_dict(self) -> dict[str, Any]: ...


class MergeConflicts(ConflictError):
    """Both sides changed the same thing in different ways."""

    kind = "merge_conflicts"

    def __init__(self, conflicts: Sequence[ConflictFacts], total: int | None = None) -> None:
        entries = [c.to_dict() for c in conflicts[:CONFLICTS_SHOWN_MAX]]
        count = len(conflicts) if total is None else total
        first = "; ".join(c.message for c in conflicts[:3])
        more = f"; and {count - 3} more" if count > 3 else ""
        super().__init__(
            f"{count} merge conflicts, nothing was written: {first}{more}",
            details={"merge_conflicts": entries, "merge_conflicts_total": count},
            hint="inspect both sides with `diff`, change one of them, merge again",
        )
        self.conflicts = tuple(conflicts)
        self.total = count


class MergeBaseUnavailable(ConflictError):
    """The common history of two branches cannot be read any more."""

    kind = "merge_base_unavailable"

    def __init__(self, source: str, target: str, commits: Sequence[str]) -> None:
        commit_names = ", ".join(commits)
        super().__init__(
            f"'{source}' cannot be merged into '{target}': their common history ends at {commit_names}, which was "
            "deleted with its branch or removed by cleanup, and no merge records it; nothing was written",
            details={"merge_base": {"commits": list(commits)}},
            hint="`allow_older_base` merges over an older commit: changes that both branches have may become conflicts, "
            "and rows that one branch deleted or changed back may return",
        )
        self.commits = tuple(commits)


class BranchExists(ConflictError):
    """The branch name exists, or overlaps with a name that exists.

    Take another name, or write to the branch that exists.
    """

    kind = "branch_exists"

    def __init__(self, name: str, other: str | None = None, *, is_hidden: bool = False) -> None:
        """`is_hidden`: the actor may not read the other branch, and is not told its name."""
        clash = (
            f"overlaps the live branch '{other}'" if other and other != name else "already exists"
        )
        clash = "overlaps a live branch that you may not read" if is_hidden else clash
        super().__init__(
            f"branch '{name}' {clash}; no changes were made", details={"branch": {"name": name}}
        )
        self.name, self.other = name, other


class BranchInUse(ConflictError):
    """Other branches depend on the one to delete.

    Delete the dependent branches first: the message names them.
    """

    kind = "branch_in_use"

    def __init__(self, name: str, dependants: Sequence[str], reason: str) -> None:
        super().__init__(
            f"branch '{name}' cannot be deleted: {reason}; no changes were made",
            details={"branch": {"name": name, "dependants": list(dependants)}},
        )
        self.name, self.dependants = name, tuple(dependants)


class IdempotencyConflict(ConflictError):
    """An idempotency key was used before, for another request."""

    kind = "idempotency_conflict"

    def __init__(self, key: str, branch: str, commit: str | None) -> None:
        did = "a write that changed nothing" if commit is None else f"commit {commit}"
        super().__init__(
            f"the idempotency key '{key}' was used on branch '{branch}' for another request ({did}); "
            "nothing was written",
            details={"idempotency": {"key": key, "branch": branch, "commit_id": commit}},
            hint="take a new key for a new request; the same request again returns its first result",
        )
        self.key, self.branch, self.commit = key, branch, commit


class BatchConflict(ConflictError):
    """A batch id was loaded before, with other types, other contents or other options."""

    kind = "batch_conflict"

    def __init__(self, batch_id: str, branch: str, commit: str, tables: Sequence[str] = ()) -> None:
        into = f" into {', '.join(tables)}" if tables else ""
        super().__init__(
            f"batch '{batch_id}' was loaded on branch '{branch}' before{into} (commit {commit}), and this load asks for "
            "other types, other contents or another mode; nothing was written",
            details={"idempotency": {"key": batch_id, "branch": branch, "commit_id": commit}},
            hint="give each writer of a stream a stream= of its own, or write all types in one transaction; "
            "other rows take another batch_id",
        )
        self.batch_id, self.branch, self.commit, self.tables = batch_id, branch, commit, tables


class SchemaApplyConflict(ConflictError):
    """Another schema change is running, or other branches prevent this one."""

    kind = "schema_apply_conflict"
    branches: tuple[str, ...] = ()
    """The branches that have to go first."""

    @classmethod
    def of_branches(cls, names: Sequence[str], *, are_some_hidden: bool = False) -> Self:
        """Refuse while there are branches beside main; branches that the actor may not read are not named."""
        others = ["others that you may not read"] if are_some_hidden else []
        error = cls(
            f"schema apply: the branches {', '.join([*names, *others])} exist, and only main may; no changes were made",
            details={"branches": list(names)},
            hint="merge or delete them first",
        )
        error.branches = tuple(names)
        return error


class AlreadyInitialized(ConflictError):
    """A graph exists at this location, or the files of an init that did not end.

    Open the graph, or choose another location; after an init that did not end, `omnigraphdb init --force`.
    """

    kind = "already_initialized"

    def __init__(self, uri: str, has_graph: bool = True) -> None:
        """`has_graph`: else there are schema files alone, of an init that died or still runs."""
        super().__init__(
            f"a graph exists at '{uri}'; no changes were made"
            if has_graph
            else f"schema files of an init that did not end are at '{uri}', and no graph; no changes were made",
            details={"uri": uri},
            hint="open it, or choose another location"
            if has_graph
            else "unless that init still runs, take its place with `omnigraphdb init --force`",
        )
        self.has_graph = has_graph


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
    """The storage stamp is outside the range that this release reads.

    Use a release that knows the format.
    """

    kind = "format_version"

    def __init__(self, stamp: object, supported: str, advice: str) -> None:
        super().__init__(
            f"the graph has internal schema version {stamp}, this release reads {supported}; {advice}",
            details={"format": {"found": stamp, "supported": supported}},
        )


class DriftError(ConflictError):
    """A table's HEAD is ahead of its pin and no sidecar explains it.

    Look at the table with `omnigraphdb doctor`, then adopt or undo the foreign write with `omnigraphdb repair`.
    """

    kind = "drift_error"

    def __init__(self, table_key: str, pin: int, head: int, advice: str) -> None:
        drift = {"table_key": table_key, "manifest_version": pin, "head_version": head}
        super().__init__(
            f"{table_key} is at version {head}, the graph pins {pin}; nothing was written: {advice}",
            details={"drift": drift},
            hint=advice,
        )
        self.table_key, self.pin, self.head = table_key, pin, head


class ChangeDiffRefused(ConflictError):
    """The two views cannot be compared.

    Compare two states of one graph that both can be read.
    """

    kind = "change_diff_refused"


class SchemaContractError(ConflictError):
    """The stored schema files are incomplete or disagree.

    Put the files of the schema back from a copy of the graph.
    """

    kind = "schema_contract"
