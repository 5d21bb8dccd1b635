"""One Blob value of one entity: what it is, and its bytes."""

from dataclasses import field
from typing import Any

import pyarrow as pa

from omnigraph.catalog.names import ROW_ID
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import NotFound, UserInputError
from omnigraph.ids import TableKey, is_node, type_name
from omnigraph.manifest.view import View
from omnigraph.storage.blobs import BlobForm, BlobKind, is_blob
from omnigraph.storage.tables import Table
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A Blob value; `size` is None for an external one, whose bytes are at `uri`."""

    table_key: TableKey
    id: str
    property: str
    kind: str
    size: int | None
    uri: str | None
    etag: str
    branch: str
    snapshot: str | None
    """The commit that was asked for, None for the newest."""
    commit: str | None
    table: Table = field(repr=False)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from `offset` on, at most `length` of them; an external blob is not downloaded."""
        if self.kind == BlobKind.EXTERNAL:
            raise UserInputError(
                f"{self} is only a reference to {self.uri}; nothing was downloaded",
                hint="read it from there",
            )
        size = self.size or 0
        if offset < 0 or (offset >= size and offset > 0) or (length is not None and length < 1):
            wanted = f"{offset} on" if length is None else f"{offset} on, {length} of them"
            raise UserInputError(
                f"{self} has {size} bytes, and those from {wanted} were asked for; nothing was read"
            )
        rows = _look_up(self.table, self.id, self.property, BlobForm.BYTES)
        found: bytes = rows[self.property][0].as_py() or b""
        return found[offset:] if length is None else found[offset : offset + length]

    def to_dict(self) -> dict[str, Any]:
        """The wire form, without unknown facts."""
        named = {"branch": self.branch} if self.snapshot is None else {"snapshot": self.snapshot}
        facts = {"kind": self.kind, "size": self.size, "etag": self.etag, "uri": self.uri}
        return {
            "selector": {
                "entity": "node" if is_node(self.table_key) else "edge",
                "type": type_name(self.table_key),
                "id": self.id,
                "property": self.property,
            },
            **{name: value for name, value in facts.items() if value is not None},
            "target": named | {"resolved_snapshot": self.commit},
        }

    def __str__(self) -> str:
        return f"{type_name(self.table_key)}.{self.property} of '{self.id}'"


def find_blob(
    engine: Engine, view: View, key: TableKey, identity: str, name: str, *, at: str | None
) -> Blob:
    """Find the Blob of one property of one entity; reads none of its bytes."""
    entry = view.snapshot.entries[key]
    table = engine.store.tables.open(entry.at)
    if name not in table.schema.names:
        raise NotFound(f"property of {type_name(key)}", name, known=table.schema.names)
    if not is_blob(table.schema.field(name).type):
        raise UserInputError(f"property '{name}' of {type_name(key)} is no Blob; nothing was read")
    rows = _look_up(table, identity, name, BlobForm.DESCRIPTOR)
    if not rows.num_rows:
        raise NotFound(type_name(key), identity)
    found = rows[name][0].as_py()
    if found is None:
        raise NotFound("Blob", f"{type_name(key)}.{name} of {identity}", hint="its value is null")
    return Blob(
        table_key=key,
        id=identity,
        property=name,
        kind=found["kind"],
        size=found["size"],
        uri=found["uri"],
        etag=f'"{entry.at.version}-{rows[ROW_ID][0].as_py()}"',
        branch=view.branch,
        snapshot=at,
        commit=view.commit,
        table=table,
    )


def _look_up(table: Table, identity: str, name: str, form: BlobForm) -> pa.Table:
    return table.lookup("id", pa.array([identity], pa.string()), [name], row_id=True, blobs=form)
