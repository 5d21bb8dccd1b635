"""The intent record of a write: what it will do, on disk before the first effect, gone after the last."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from omnigraph.errors import InternalError, SidecarUnreadable
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import CommitId, OperationId, TableKey, Version
from omnigraph.storage import layout
from omnigraph.storage.objects import Objects

SCHEMA_VERSION: Final = 3
CONFIRMATION_FLOOR: Final = 2
"""From this version on a merge is judged by its confirmation; fixed for good."""
DELTA_FLOOR: Final = 3
"""From this version on pointer updates, uuids and read sets are complete; fixed for good."""


class WriterKind(StrEnum):
    """Who wrote; the stored spelling only ever grows."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


class Mode(StrEnum):
    """How movement of a HEAD is read."""

    STRICT = "strict"
    LOOSE = "loose"
    CONFIRMED = "confirmed"


def mode_of(kind: WriterKind, schema_version: int) -> Mode:
    """Resolve the mode of a sidecar once, exhaustively."""
    match kind:
        case WriterKind.MUTATION | WriterKind.LOAD:
            return Mode.STRICT
        case WriterKind.SCHEMA_APPLY | WriterKind.ENSURE_INDICES | WriterKind.OPTIMIZE:
            return Mode.LOOSE
        case WriterKind.BRANCH_MERGE:
            return Mode.CONFIRMED if schema_version >= CONFIRMATION_FLOOR else Mode.LOOSE


class Decided(StrEnum):
    """A decision that must not be taken again."""

    ROLL_BACK = "RollBack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One table the operation commits to: where it stood, where it will stand."""

    table_key: TableKey
    table_path: str
    table_branch: str | None
    expected: Version
    post_commit: Version
    confirmed: Version | None = None
    uuids: tuple[str, ...] = ()
    forked: bool = False
    token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A table to register; `created` when this operation made the dataset."""

    table_key: TableKey
    table_path: str
    table_branch: str | None = None
    created: bool = True


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A table to hide from this version on."""

    table_key: TableKey
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerUpdate:
    """A pin that moves without a commit on its table."""

    table_key: TableKey
    version: Version
    branch: str | None
    row_count: int
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a recoverer decided, and what it has restored so far."""

    decision: Decided
    restored: Mapping[TableKey, Version] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """One pending operation."""

    operation_id: OperationId
    writer_kind: WriterKind
    branch: str | None
    actor: str | None
    started_at: str
    tables: tuple[Pin, ...] = ()
    registrations: tuple[Registration, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    pointer_updates: tuple[PointerUpdate, ...] = ()
    read_set: Mapping[TableKey, Version] = field(default_factory=dict)
    merge_source: CommitId | None = None
    commit_id: CommitId | None = None
    recorded: Recorded | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def mode(self) -> Mode:
        """How its movements are read."""
        return mode_of(self.writer_kind, self.schema_version)

    @property
    def path(self) -> str:
        """Where it lies, relative to the graph root."""
        return layout.sidecar_path(self.operation_id)

    def confirm(self, achieved: Mapping[TableKey, Version]) -> "Sidecar":
        """Note the exact version each pin reached; every one must have one."""
        missing = [pin.table_key for pin in self.tables if pin.table_key not in achieved]
        if missing:
            raise InternalError(
                f"operation {self.operation_id} has no version of {missing[0]} to confirm"
            )
        pins = tuple(replace(pin, confirmed=achieved[pin.table_key]) for pin in self.tables)
        return replace(self, tables=pins)


# ---- JSON


def encode(sidecar: Sidecar, root: layout.Root) -> str:
    """Write a sidecar as JSON; table paths are spelled in full, absent facts are left out."""
    body = {
        "schema_version": sidecar.schema_version,
        "operation_id": sidecar.operation_id,
        "started_at": sidecar.started_at,
        "branch": sidecar.branch,
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
        "commit_id": sidecar.commit_id,
        "recovery": _recorded_json(sidecar.recorded),
    }
    always = {"branch", "actor_id", "tables"}
    kept = {k: v for k, v in body.items() if k in always or v not in (None, [], {})}
    return json.dumps(kept, indent=1)


def _pin_json(pin: Pin, root: layout.Root) -> dict[str, Any]:
    body = {
        "table_key": pin.table_key,
        "table_path": root.at(pin.table_path),
        "expected_version": pin.expected,
        "post_commit_pin": pin.post_commit,
        "table_branch": pin.table_branch,
        "confirmed_version": pin.confirmed,
        "transaction_uuids": list(pin.uuids) or None,
        "forked": pin.forked or None,
        "fencing_token": pin.token,
    }
    return {k: v for k, v in body.items() if v is not None}


def _registration_json(registration: Registration) -> dict[str, Any]:
    body = {
        "table_key": registration.table_key,
        "table_path": registration.table_path,
        "table_branch": registration.table_branch,
        "created": registration.created,
    }
    return {k: v for k, v in body.items() if v is not None}


def _pointer_json(pointer: PointerUpdate) -> dict[str, Any]:
    body = {
        "table_key": pointer.table_key,
        "table_version": pointer.version,
        "table_branch": pointer.branch,
        "row_count": pointer.row_count,
        "table_path": pointer.path,
    }
    return {k: v for k, v in body.items() if v is not None}


def _recorded_json(recorded: Recorded | None) -> dict[str, Any] | None:
    if recorded is None:
        return None
    return {"decision": str(recorded.decision), "restored": dict(recorded.restored)}


def decode(path: str, text: str) -> Sidecar:
    """Read a sidecar by the meaning of its own version; anything else is refused, loudly."""
    try:
        body = json.loads(text)
        version = int(body["schema_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise SidecarUnreadable(path, f"it is not a sidecar ({error})") from error
    if version > SCHEMA_VERSION or version < 1:
        raise SidecarUnreadable(
            path, f"its schema version {version} is newer than the maximum {SCHEMA_VERSION}"
        )
    try:
        return _decode_body(body, version)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SidecarUnreadable(path, f"a field is missing or malformed ({error!r})") from error


def _decode_body(body: Mapping[str, Any], version: int) -> Sidecar:
    return Sidecar(
        schema_version=version,
        operation_id=OperationId(str(body["operation_id"])),
        started_at=str(body["started_at"]),
        branch=body["branch"],
        actor=body["actor_id"],
        writer_kind=WriterKind(body["writer_kind"]),
        tables=tuple(_decode_pin(pin) for pin in body["tables"]),
        registrations=tuple(
            _decode_registration(r) for r in body.get("additional_registrations", ())
        ),
        tombstones=tuple(
            Tombstone(TableKey(t["table_key"]), Version(int(t["tombstone_version"])))
            for t in body.get("tombstones", ())
        ),
        pointer_updates=tuple(_decode_pointer(p) for p in body.get("pointer_updates", ())),
        read_set={
            TableKey(r["table_key"]): Version(int(r["expected"])) for r in body.get("read_set", ())
        },
        merge_source=body.get("merge_source_commit_id"),
        commit_id=body.get("commit_id"),
        recorded=_decode_recorded(body.get("recovery")),
    )


def _decode_pin(body: Mapping[str, Any]) -> Pin:
    confirmed = body.get("confirmed_version")
    return Pin(
        table_key=TableKey(str(body["table_key"])),
        table_path=_relative(str(body["table_path"])),
        table_branch=body.get("table_branch"),
        expected=Version(int(body["expected_version"])),
        post_commit=Version(int(body["post_commit_pin"])),
        confirmed=None if confirmed is None else Version(int(confirmed)),
        uuids=tuple(body.get("transaction_uuids", ())),
        forked=bool(body.get("forked", False)),
        token=body.get("fencing_token"),
    )


def _relative(uri: str) -> str:
    """`nodes/<hash>` out of a full address, whatever root it was written under."""
    return "/".join(uri.rstrip("/").split("/")[-2:])


def _decode_registration(body: Mapping[str, Any]) -> Registration:
    return Registration(
        table_key=TableKey(str(body["table_key"])),
        table_path=str(body["table_path"]),
        table_branch=body.get("table_branch"),
        created=bool(body.get("created", False)),
    )


def _decode_pointer(body: Mapping[str, Any]) -> PointerUpdate:
    return PointerUpdate(
        table_key=TableKey(str(body["table_key"])),
        version=Version(int(body["table_version"])),
        branch=body.get("table_branch"),
        row_count=int(body["row_count"]),
        path=body.get("table_path"),
    )


def _decode_recorded(body: Mapping[str, Any] | None) -> Recorded | None:
    if body is None:
        return None
    restored = {TableKey(k): Version(int(v)) for k, v in body.get("restored", {}).items()}
    return Recorded(decision=Decided(body["decision"]), restored=restored)


# ---- their life on disk


@dataclass(frozen=True, slots=True)
class Sidecars:
    """The folder of pending operations."""

    objects: Objects
    root: layout.Root

    def arm(self, sidecar: Sidecar) -> None:
        """Make the intent durable; nothing has moved yet when this fails."""
        fail(Failpoint.SIDECAR_WRITE)
        self.objects.put(sidecar.path, encode(sidecar, self.root))

    def confirm(self, sidecar: Sidecar) -> None:
        """Make the outcome of a merge durable."""
        fail(Failpoint.SIDECAR_CONFIRM)
        self.objects.put(sidecar.path, encode(sidecar, self.root))

    def record(self, sidecar: Sidecar) -> None:
        """Make a decision durable before its first destructive act."""
        self.objects.put(sidecar.path, encode(sidecar, self.root))

    def disarm(self, operation_id: OperationId) -> None:
        """Remove a spent intent."""
        fail(Failpoint.SIDECAR_DELETE)
        self.objects.delete(layout.sidecar_path(operation_id))

    def names(self) -> tuple[str, ...]:
        """Paths of all pending sidecars, oldest first; other files are ignored."""
        fail(Failpoint.SIDECAR_LIST)
        return tuple(path for path in self.objects.list(layout.RECOVERY) if path.endswith(".json"))

    def read(self, path: str) -> Sidecar | None:
        """Read one; None when its owner finished meanwhile."""
        text = self.objects.read(path)
        return None if text is None else decode(path, text)

    def pending(self) -> tuple[Sidecar, ...]:
        """Every pending operation, oldest first; an unreadable file is refused, loudly."""
        names = self.names()
        if names:
            fail(Failpoint.SIDECAR_LISTED)
        found = (self.read(path) for path in names)
        return tuple(sidecar for sidecar in found if sidecar is not None)
