"""Sidecars as JSON: written as version 3, a group as version 4, each read by the meaning of its own version."""

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import pyarrow as pa

from omnigraphdb.commit.sidecar import (
    CONFIRMATION_FLOOR,
    DELTA_FLOOR,
    GROUP_VERSION,
    Decided,
    Pin,
    PointerUpdate,
    RecordedDecision,
    Registration,
    Sidecar,
    TableOutcome,
    Tombstone,
    WriterKind,
)
from omnigraphdb.errors import SidecarUnreadable
from omnigraphdb.ids import CommitId, OperationId, TableKey, Version
from omnigraphdb.limits import SIDECAR_COMMITS_MAX
from omnigraphdb.manifest.change import OperationDraft
from omnigraphdb.manifest.merged import COMMIT_SCHEMA
from omnigraphdb.manifest.records import agreed_json, agreed_of
from omnigraphdb.storage.layout import Root, sidecar_path
from omnigraphdb.storage.values import Incarnation

_Json = Mapping[str, Any]
_One = TypeVar("_One")
_ALWAYS: Final = frozenset({"branch", "actor_id", "tables"})
_TABLE: Final = re.compile(r"(?:^|/)((?:nodes|edges)/[0-9a-f]{16}(?:-\d+)?)(?:/tree/.+)?/?$")


# ---- writing


def encode(sidecar: Sidecar, root: Root) -> str:
    """Write a sidecar; table paths are spelled in full, absent facts are left out."""
    return json.dumps(_body(sidecar, root))


def _body(sidecar: Sidecar, root: Root) -> dict[str, Any]:
    body = {
        "schema_version": sidecar.schema_version,
        "operation_id": sidecar.operation_id,
        "started_at": sidecar.started_at,
        "branch": sidecar.branch,
        "branch_identifier": _incarnation_json(sidecar.branch_incarnation),
        "actor_id": sidecar.actor,
        "writer_kind": str(sidecar.writer_kind),
        "tables": [_pin_json(pin, root) for pin in sidecar.tables],
        "additional_registrations": [_registration_json(r) for r in sidecar.registrations],
        "tombstones": [
            {"table_key": t.table_key, "tombstone_version": t.version} for t in sidecar.tombstones
        ],
        "pointer_updates": [_pointer_json(p) for p in sidecar.pointer_updates],
        "read_set": [
            {"table_key": key, "expected": version} for key, version in sidecar.read_set.items()
        ],
        "merge_source_commit_id": sidecar.merge_source,
        "merged_lineage": _lineage_json(sidecar),
        "commit_id": sidecar.commit_id,
        "if_commit": sidecar.if_commit,
        "batch_id": sidecar.batch_id,
        "batch_request": sidecar.batch_request,
        "message": sidecar.message,
        "idempotency": _operation_json(sidecar.operation),
        "schema_ir_hash": sidecar.schema_hash,
        "recovery": _encode_recorded(sidecar.recorded),
        "members": [_body(member, root) for member in sidecar.members],
    }
    return {k: v for k, v in body.items() if k in _ALWAYS or v not in (None, [], {})}


def _present(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}


def _incarnation_json(line: Incarnation | None) -> list[list[Any]] | None:
    return None if line is None else [list(part) for part in line]


def _pin_json(pin: Pin, root: Root) -> dict[str, Any]:
    return _present(
        {
            "table_key": pin.table_key,
            "table_path": root.at(pin.table_path),
            "expected_version": pin.expected,
            "post_commit_pin": pin.post_commit,
            "table_branch": pin.table_branch,
            "confirmed_version": pin.confirmed,
            "transaction_uuids": list(pin.uuids) or None,
            "digests": dict(pin.digests) or None,
            "forked": pin.forked or None,
            "fencing_token": pin.token,
        }
    )


def _registration_json(registration: Registration) -> dict[str, Any]:
    return _present(
        {
            "table_key": registration.table_key,
            "table_path": registration.table_path,
            "table_branch": registration.table_branch,
            "created": registration.created,
        }
    )


def _pointer_json(pointer: PointerUpdate) -> dict[str, Any]:
    return _present(
        {
            "table_key": pointer.table_key,
            "table_version": pointer.version,
            "table_branch": pointer.branch,
            "row_count": pointer.row_count,
            "table_path": pointer.path,
        }
    )


def _lineage_json(sidecar: Sidecar) -> dict[str, Any] | None:
    """Encode the lineage that a merge adds to its branch; many commits are packed, each takes some 200 bytes."""
    if sidecar.merge_source is None:
        return None
    commits = [list(row.values()) for row in sidecar.merged_commits.to_pylist()]
    is_long = len(commits) > SIDECAR_COMMITS_MAX
    agreed_rows = {"agreed_rows": agreed_json(sidecar.agreed)}
    return {"commits": _pack(commits) if is_long else commits} | _present(agreed_rows)


def _operation_json(operation: OperationDraft | None) -> dict[str, Any] | None:
    """Encode the row of an idempotency key; its actor may differ from that of the sidecar."""
    if operation is None:
        return None
    facts = {"actor_id": operation.actor, "receipt": dict(operation.receipt) or None}
    return {"key": operation.key, "request": operation.request} | _present(facts)


def _pack(commits: list[list[Any]]) -> str:
    return b64encode(zlib.compress(json.dumps(commits).encode())).decode()


def _encode_recorded(recorded: RecordedDecision | None) -> dict[str, Any] | None:
    if recorded is None:
        return None
    return {
        "decision": str(recorded.decision),
        "outcomes": [outcome.to_dict() for outcome in recorded.outcomes],
        "restored": dict(recorded.restored),
    }


# ---- reading


def decode(path: str, text: str) -> Sidecar:
    """Read a sidecar; refuse contents that this release cannot understand, loudly."""
    try:
        body = json.loads(text)
        version = body["schema_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise SidecarUnreadable(path, f"it is not a sidecar ({error})") from error
    if not isinstance(version, int) or version < 1:
        raise SidecarUnreadable(path, f"its schema version {version!r} never existed")
    if version > GROUP_VERSION:
        raise SidecarUnreadable(
            path, f"its schema version {version} is newer than the maximum {GROUP_VERSION}"
        )
    try:
        sidecar = _sidecar(body, version)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        zlib.error,
        pa.ArrowException,
    ) as error:
        raise SidecarUnreadable(path, f"a field is missing or malformed ({error!r})") from error
    if sidecar_path(sidecar.operation_id) != path:
        raise SidecarUnreadable(path, f"it names the operation {sidecar.operation_id}")
    return sidecar


def _sidecar(body: _Json, version: int) -> Sidecar:
    # A field that a version did not have means nothing in a file of that version.
    delta: _Json = body if version >= DELTA_FLOOR else {}
    grouped: _Json = body if version >= GROUP_VERSION else {}
    return Sidecar(
        schema_version=version,
        operation_id=OperationId(str(body["operation_id"])),
        started_at=str(body["started_at"]),
        branch=_text(body["branch"]),
        branch_incarnation=_incarnation(delta.get("branch_identifier")),
        actor=_text(body["actor_id"]),
        writer_kind=WriterKind(body["writer_kind"]),
        tables=tuple(_pin(pin, version) for pin in body["tables"]),
        registrations=_each(body, "additional_registrations", _registration),
        tombstones=_each(body, "tombstones", _decode_tombstone),
        pointer_updates=_each(delta, "pointer_updates", _pointer),
        read_set=dict(_each(delta, "read_set", _read)),
        merge_source=_commit(body.get("merge_source_commit_id")),
        merged_commits=_decode_merged_commits(delta.get("merged_lineage", {}).get("commits", [])),
        agreed=agreed_of(delta.get("merged_lineage", {}).get("agreed_rows")),
        commit_id=_commit(delta.get("commit_id")),
        if_commit=_commit(delta.get("if_commit")),
        batch_id=_text(delta.get("batch_id")),
        batch_request=_text(delta.get("batch_request")),
        message=_text(delta.get("message")),
        operation=_operation(body, delta.get("idempotency")),
        schema_hash=_text(delta.get("schema_ir_hash")),
        recorded=_decode_recorded(delta.get("recovery")),
        members=_each(grouped, "members", _member),
    )


def _member(body: _Json) -> Sidecar:
    return _sidecar(body, int(body["schema_version"]))


def _each(body: _Json, name: str, read: Callable[[_Json], _One]) -> tuple[_One, ...]:
    return tuple(read(entry) for entry in body.get(name, ()))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _commit(value: Any) -> CommitId | None:
    return None if value is None else CommitId(str(value))


def _operation(body: _Json, row: _Json | None) -> OperationDraft | None:
    if row is None:
        return None
    return OperationDraft(
        key=str(row["key"]),
        actor=_text(row.get("actor_id")),
        request=str(row["request"]),
        operation_id=OperationId(str(body["operation_id"])),
        receipt=dict(row.get("receipt", {})),
    )


def _decode_merged_commits(value: list[list[Any]] | str) -> pa.Table:
    commits = json.loads(zlib.decompress(b64decode(value))) if isinstance(value, str) else value
    rows = [dict(zip(COMMIT_SCHEMA.names, facts, strict=True)) for facts in commits]
    return pa.Table.from_pylist(rows, schema=COMMIT_SCHEMA)


def _incarnation(value: Any) -> Incarnation | None:
    return None if value is None else tuple((int(number), str(name)) for number, name in value)


def _pin(body: _Json, version: int) -> Pin:
    confirmed = body.get("confirmed_version") if version >= CONFIRMATION_FLOOR else None
    delta: _Json = body if version >= DELTA_FLOOR else {}
    return Pin(
        table_key=TableKey(str(body["table_key"])),
        table_path=_relative(str(body["table_path"])),
        table_branch=_text(body.get("table_branch")),
        expected=Version(int(body["expected_version"])),
        post_commit=Version(int(body["post_commit_pin"])),
        confirmed=None if confirmed is None else Version(int(confirmed)),
        uuids=tuple(map(str, delta.get("transaction_uuids", ()))),
        digests={str(key): str(digest) for key, digest in delta.get("digests", {}).items()},
        forked=bool(delta.get("forked", False)),
        token=_text(delta.get("fencing_token")),
    )


def _relative(uri: str) -> str:
    """Cut `nodes/<hash>` out of a full address under any root."""
    match = _TABLE.search(uri)
    if match is None:
        raise ValueError(f"'{uri}' is not the place of a table")
    return match[1]


def _registration(body: _Json) -> Registration:
    return Registration(
        table_key=TableKey(str(body["table_key"])),
        table_path=str(body["table_path"]),
        table_branch=_text(body.get("table_branch")),
        created=bool(body.get("created", False)),
    )


def _decode_tombstone(body: _Json) -> Tombstone:
    return Tombstone(TableKey(str(body["table_key"])), Version(int(body["tombstone_version"])))


def _pointer(body: _Json) -> PointerUpdate:
    return PointerUpdate(
        table_key=TableKey(str(body["table_key"])),
        version=Version(int(body["table_version"])),
        branch=_text(body.get("table_branch")),
        row_count=int(body["row_count"]),
        path=_text(body.get("table_path")),
    )


def _read(body: _Json) -> tuple[TableKey, Version]:
    return TableKey(str(body["table_key"])), Version(int(body["expected"]))


def _decode_recorded(body: _Json | None) -> RecordedDecision | None:
    if body is None:
        return None
    return RecordedDecision(
        decision=Decided(body["decision"]),
        outcomes=_each(body, "outcomes", _outcome),
        restored={TableKey(k): Version(int(v)) for k, v in body.get("restored", {}).items()},
    )


def _outcome(body: _Json) -> TableOutcome:
    return TableOutcome(
        table_key=TableKey(str(body["table_key"])),
        from_version=Version(int(body["from_version"])),
        to_version=Version(int(body["to_version"])),
    )
