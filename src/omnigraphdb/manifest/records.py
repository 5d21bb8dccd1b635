"""The rows of `__manifest`: their Arrow schema, the typed records they carry, and how records become rows."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.ids import (
    FORCED_REPAIR_ACTOR,
    MAIN,
    RECOVERY_ACTOR,
    REPAIR_ACTOR,
    BranchName,
    CommitId,
    OperationId,
    TableKey,
    Version,
)
from omnigraphdb.values import dataclass

PRIMARY_KEY: Final = b"lance-schema:unenforced-primary-key"
"""Field metadata that makes a swap contend on the key; without it rivals are rebased silently."""

KEY: Final = "object_id"

DIGESTS: Final = "digests"
"""The field of a version row's metadata that notes the digests of the files its commit brought."""

MANIFEST_SCHEMA: Final = pa.schema(
    [
        pa.field(KEY, pa.string(), nullable=False, metadata={PRIMARY_KEY: b"true"}),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.string(), nullable=True))),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)

_UINT64: Final = 2**64 - 1

CONFIG: Final[Mapping[str, str]] = {"table_version_management": "true"}
"""Dataset configuration of a manifest."""


class ObjectType(StrEnum):
    """The type of a manifest row; readers skip types they do not know."""

    TABLE = "table"
    TABLE_VERSION = "table_version"
    TOMBSTONE = "table_tombstone"
    GRAPH_COMMIT = "graph_commit"
    GRAPH_HEAD = "graph_head"
    MERGED_COMMIT = "merged_commit"
    """A commit of another branch that a merge brought: part of the ancestry of this branch, not of its history."""
    LOST_COMMIT = "lost_commit"
    """An ancestor that no branch knows any more; noted once, so that it is not searched for again."""
    OPERATION = "operation"
    """The effect of a write with an idempotency key."""
    TAG = "tag"
    """A name for a commit; on the manifest of main alone."""
    POLICY = "policy"
    """One version of the policy that the graph keeps; on the manifest of main alone."""


class CommitKind(StrEnum):
    """The cause of a graph commit."""

    INIT = "init"
    MUTATION = "mutation"
    LOAD = "load"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_MERGE = "branch_merge"
    ENSURE_INDICES = "ensure_indices"
    OPTIMIZE = "optimize"
    REPAIR = "repair"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A table key and the place of its table; a name added again after a drop is a new incarnation."""

    table_key: TableKey
    path: str
    incarnation: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A version of a table that was published; `branch` is the Lance branch that holds it."""

    table_key: TableKey
    path: str
    version: Version
    branch: str | None
    row_count: int
    incarnation: int = 1
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of the files that this version brought, by their keys (`storage.lance.digests`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """Hides every version of one incarnation up to and including its own."""

    table_key: TableKey
    version: Version
    incarnation: int = 1


Agreed = tuple[tuple[TableKey, tuple[str, ...] | None], ...]
"""Ids by table; None for a table that has too many of them, or rows of which only some properties agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCommit:
    """One entry of the history. `manifest_version` is a hint: the first version that may show it."""

    id: CommitId
    branch: BranchName
    manifest_version: Version
    created_at: int
    kind: CommitKind
    parent: CommitId | None = None
    merged_parent: CommitId | None = None
    actor: str | None = None
    tables: tuple[TableKey, ...] = ()
    operation_id: OperationId | None = None
    batch_id: str | None = None
    batch_request: str | None = None
    """The digest of the request of the load of the batch; None in commits of earlier releases."""
    agreed: "Agreed | None" = None
    """Of a merge: rows that both sides had changed in the same way; None where that was not noted."""
    pins: Mapping[TableKey, Version] = field(default_factory=dict, repr=False, compare=False)
    """The versions of the tables that it changed, as it left them; commits of one swap leave different ones."""
    message: str | None = None
    group: str | None = None
    """The swap that this commit shares with others; None for a commit that has a swap of its own."""
    replaced_schema: str | None = None
    """The hash of the schema that it replaced and that is kept; None in commits of earlier releases and of recoveries."""

    @property
    def order(self) -> tuple[int, int, str]:
        """The place in a listing; the greatest of a branch is its head."""
        return (self.manifest_version, self.created_at, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphHead:
    """The row every publish of a branch rewrites, so that no two publishes miss each other."""

    branch: BranchName
    commit: CommitId | None
    parent: CommitId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The effect of a write with an idempotency key: its request, its receipt, and its commit if it changed anything."""

    branch: BranchName
    actor: str | None
    key: str
    request: str
    """The digest of the request; the same key with another digest is a conflict."""
    operation_id: OperationId
    created_at: int
    commit: CommitId | None = None
    receipt: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The report of the write, as JSON, without its commit."""
    is_pending: bool = False
    """Whether a branch operation is decided and perhaps not done; a repeated call completes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a commit of a branch; without a commit the name is free again."""

    name: str
    commit: CommitId | None
    branch: BranchName
    created_at: int
    actor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """The policy from one change of it to the next; without a text the graph keeps none."""

    number: int
    text: str | None = field(repr=False)
    created_at: int
    actor: str | None = None


Record = (
    Registration
    | TableVersion
    | Tombstone
    | GraphCommit
    | GraphHead
    | Operation
    | Tag
    | PolicyVersion
)


def lance_branch(branch: BranchName) -> str | None:
    """Spell a graph branch as storage does: main is None."""
    return None if branch == MAIN else branch


def graph_branch(branch: str | None) -> BranchName:
    """Spell a storage branch as everyone above does."""
    return MAIN if branch is None else BranchName(branch)


def object_id(record: Record) -> str:
    """Name the row of a record."""
    match record:
        case Registration():
            return record.table_key + _incarnation_suffix(record.incarnation)
        case TableVersion():
            return version_row(record.table_key, record.version, record.incarnation)
        case Tombstone():
            return f"{record.table_key}$tombstone${record.version:020d}{_incarnation_suffix(record.incarnation)}"
        case GraphCommit():
            return record.id
        case GraphHead():
            return head_row(record.branch)
        case Operation():
            return operation_row(record.branch, record.actor, record.key)
        case Tag():
            return tag_row(record.name)
        case PolicyVersion():
            return policy_row(record.number)


def version_row(table: TableKey, version: Version, incarnation: int) -> str:
    """Name the row of a table version."""
    return f"{table}${version:020d}{_incarnation_suffix(incarnation)}"


def head_row(branch: BranchName) -> str:
    """Name the row that every publish of a branch replaces."""
    return f"graph_head:{branch}"


def operation_row(branch: BranchName, actor: str | None, key: str) -> str:
    """Name the row of an idempotency key: the same branch, actor and key give the same row, so rivals collide."""
    # An absent actor differs from an actor that is called "".
    scope = json.dumps([actor, key]).encode()
    return f"op:{branch}:{hashlib.sha256(scope).hexdigest()[:32]}"


def tag_row(name: str) -> str:
    """Name the row of a tag."""
    return f"tag:{name}"


def policy_row(number: int) -> str:
    """Name the row of a policy version: two changes of one policy collide."""
    return f"policy:{number:08d}"


def _incarnation_suffix(incarnation: int) -> str:
    return f"#{incarnation}" if incarnation > 1 else ""


def encode(records: Iterable[Record]) -> pa.Table:
    """Lay records out as manifest rows."""
    rows = [_row(record) for record in records]
    # Column by column: `from_pylist` takes twice as long for the few rows of a commit.
    columns = [
        pa.array([row.get(column.name) for row in rows], column.type) for column in MANIFEST_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=MANIFEST_SCHEMA)


def _row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {KEY: object_id(record), "table_key": ""}
    match record:
        case Registration():
            return row | {
                "object_type": ObjectType.TABLE,
                "table_key": record.table_key,
                "location": record.path,
            }
        case TableVersion():
            return row | {
                "object_type": ObjectType.TABLE_VERSION,
                "table_key": record.table_key,
                "table_version": record.version,
                "table_branch": record.branch,
                "row_count": record.row_count,
                "metadata": _text(version_facts(record)),
            }
        case Tombstone():
            return row | {
                "object_type": ObjectType.TOMBSTONE,
                "table_key": record.table_key,
                "table_version": record.version,
            }
        case GraphCommit():
            return row | {
                "object_type": ObjectType.GRAPH_COMMIT,
                "table_version": record.manifest_version,
                "table_branch": lance_branch(record.branch),
                "metadata": _text(commit_facts(record)),
            }
        case GraphHead():
            facts = {"head_commit_id": record.commit, "parent_commit_id": record.parent}
            return row | {"object_type": ObjectType.GRAPH_HEAD, "metadata": _text(facts)}
        case Operation():
            return row | {
                "object_type": ObjectType.OPERATION,
                "table_branch": lance_branch(record.branch),
                "metadata": _text(_operation_facts(record)),
            }
        case Tag():
            return row | {
                "object_type": ObjectType.TAG,
                "table_branch": lance_branch(record.branch),
                "metadata": _text(_tag_facts(record)),
            }
        case PolicyVersion():
            return row | {
                "object_type": ObjectType.POLICY,
                "metadata": _text(_policy_facts(record)),
            }


def version_facts(record: TableVersion) -> dict[str, Any]:
    """Return the JSON of a version row; readers of other releases know the first two facts and skip the rest."""
    return {
        "manifest_path": _version_file(record),
        "naming_scheme": "V2",
        DIGESTS: dict(record.digests) or None,
    }


def _version_file(record: TableVersion) -> str:
    tree = f"/tree/{record.branch}" if record.branch else ""
    return f"{record.path}{tree}/_versions/{_UINT64 - record.version:020d}.manifest"


def commit_facts(commit: GraphCommit) -> dict[str, Any]:
    """Return the JSON of a commit row; readers of other releases know the first four facts and skip the rest."""
    return {
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": commit.created_at,
        "kind": commit.kind.value,
        "tables": list(commit.tables) or None,
        "operation_id": commit.operation_id,
        "batch_id": commit.batch_id,
        "batch_request": commit.batch_request,
        "agreed_rows": agreed_json(commit.agreed),
        "pins": dict(commit.pins) or None,
        "message": commit.message,
        "group": commit.group,
        "replaced_schema": commit.replaced_schema,
    }


def _operation_facts(operation: Operation) -> dict[str, Any]:
    return {
        "key": operation.key,
        "actor_id": operation.actor,
        "request": operation.request,
        "operation_id": operation.operation_id,
        "created_at": operation.created_at,
        "commit_id": operation.commit,
        "receipt": dict(operation.receipt) or None,
        "pending": operation.is_pending or None,
    }


def _tag_facts(tag: Tag) -> dict[str, Any]:
    return {"commit_id": tag.commit, "created_at": tag.created_at, "actor_id": tag.actor}


def _policy_facts(policy: PolicyVersion) -> dict[str, Any]:
    return {"text": policy.text, "created_at": policy.created_at, "actor_id": policy.actor}


def _text(facts: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in facts.items() if value is not None})


def commit_of(
    commit_id: str, branch: str | None, version: int, facts: Mapping[str, Any]
) -> GraphCommit:
    """Read a commit from the parts of its row."""
    return GraphCommit(
        id=CommitId(commit_id),
        branch=graph_branch(branch),
        manifest_version=Version(version),
        created_at=int(facts["created_at"]),
        kind=_kind(facts),
        parent=facts.get("parent_commit_id"),
        merged_parent=facts.get("merged_parent_commit_id"),
        actor=facts.get("actor_id"),
        tables=tuple(TableKey(key) for key in facts.get("tables") or ()),
        operation_id=facts.get("operation_id"),
        batch_id=facts.get("batch_id"),
        batch_request=facts.get("batch_request"),
        agreed=agreed_of(facts.get("agreed_rows")),
        pins={TableKey(key): Version(at) for key, at in (facts.get("pins") or {}).items()},
        message=facts.get("message"),
        group=facts.get("group"),
        replaced_schema=facts.get("replaced_schema"),
    )


def operation_of(branch: str | None, facts: Mapping[str, Any]) -> Operation:
    """Read an operation from the parts of its row."""
    return Operation(
        branch=graph_branch(branch),
        actor=facts.get("actor_id"),
        key=str(facts["key"]),
        request=str(facts["request"]),
        operation_id=OperationId(str(facts["operation_id"])),
        created_at=int(facts["created_at"]),
        commit=facts.get("commit_id"),
        receipt=facts.get("receipt") or {},
        is_pending=bool(facts.get("pending", False)),
    )


def tag_of(object_id: str, branch: str | None, facts: Mapping[str, Any]) -> Tag:
    """Read a tag from the parts of its row."""
    return Tag(
        name=object_id.removeprefix("tag:"),
        commit=facts.get("commit_id"),
        branch=graph_branch(branch),
        created_at=int(facts["created_at"]),
        actor=facts.get("actor_id"),
    )


def policy_of(object_id: str, facts: Mapping[str, Any]) -> PolicyVersion:
    """Read a policy version from the parts of its row."""
    text = facts.get("text")
    return PolicyVersion(
        number=int(object_id.removeprefix("policy:")),
        text=None if text is None else str(text),
        created_at=int(facts["created_at"]),
        actor=facts.get("actor_id"),
    )


def agreed_json(agreed_rows: Agreed | None) -> dict[str, list[str] | None] | None:
    """Return the stored form of rows that both sides of a merge had changed in the same way."""
    if agreed_rows is None:
        return None
    return {key: None if ids is None else list(ids) for key, ids in agreed_rows}


def agreed_of(stored: Mapping[str, list[str] | None] | None) -> Agreed | None:
    """Read the stored form."""
    if stored is None:
        return None
    return tuple(
        (TableKey(key), None if ids is None else tuple(ids)) for key, ids in sorted(stored.items())
    )


_KINDS: Final = {kind.value: kind for kind in CommitKind}
_ACTOR_KINDS: Final = {
    RECOVERY_ACTOR: CommitKind.RECOVERY,
    REPAIR_ACTOR: CommitKind.REPAIR,
    FORCED_REPAIR_ACTOR: CommitKind.REPAIR,
}


def _kind(facts: Mapping[str, Any]) -> CommitKind:
    """Return the recorded kind; a commit without one, or with one of a later release, tells by its shape."""
    recorded_kind = _KINDS.get(facts.get("kind", ""))
    if recorded_kind is not None:
        return recorded_kind
    if facts.get("merged_parent_commit_id"):
        return CommitKind.BRANCH_MERGE
    if not facts.get("parent_commit_id"):
        return CommitKind.INIT
    return _ACTOR_KINDS.get(facts.get("actor_id", ""), CommitKind.MUTATION)
