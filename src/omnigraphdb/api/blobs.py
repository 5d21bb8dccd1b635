"""One Blob value of one entity: what it is, and its bytes."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import Any

import pyarrow as pa

from omnigraphdb.catalog.names import LAST_UPDATED, ROW_ID
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import BlobRange, NotFound, UserInputError
from omnigraphdb.ids import TableKey, is_node, type_name
from omnigraphdb.limits import BLOB_CHUNK_BYTES
from omnigraphdb.manifest.view import View
from omnigraphdb.storage.blobs import is_blob
from omnigraphdb.values import dataclass


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
    fetch: Callable[[int, int], bytes] = field(repr=False)
    """Reads so many bytes from an offset on."""

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from `offset` on, at most `length` of them; an external blob is not downloaded."""
        return b"".join(self.chunks(offset, length))

    def chunks(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes piece by piece, none of them longer than a few MiB."""
        if self.size is None:
            raise UserInputError(
                f"{self} is only a reference to {self.uri}; nothing was downloaded",
                hint="read it from there",
            )
        if (
            offset < 0
            or (offset >= self.size and offset > 0)
            or (length is not None and length < 1)
        ):
            raise BlobRange(str(self), offset, self.size, length)
        end = self.size if length is None else min(self.size, offset + length)
        return self._read_between(offset, end)

    def _read_between(self, start: int, end: int) -> Iterator[bytes]:
        for place in range(start, end, BLOB_CHUNK_BYTES):
            count = min(BLOB_CHUNK_BYTES, end - place)
            yield self.fetch(place, count)

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
    columns = ["id", name, LAST_UPDATED]
    rows = table.lookup("id", pa.array([identity], pa.string()), columns, row_id=True)
    if not rows.num_rows:
        raise NotFound(type_name(key), identity)
    row_id, updated, found = (rows[one][0].as_py() for one in (ROW_ID, LAST_UPDATED, name))
    if found is None:
        raise NotFound("Blob", f"{type_name(key)}.{name} of {identity}", hint="its value is null")
    # The row's last change, not the table's version: a tag holds until the row changes.
    place = f"{entry.at.path} {entry.at.branch} {row_id} {updated} {name}"
    return Blob(
        table_key=key,
        id=identity,
        property=name,
        kind=str(found["kind"]),
        size=found["size"],
        uri=found["uri"],
        etag=f'"{hashlib.sha256(place.encode()).hexdigest()[:32]}"',
        branch=view.branch,
        snapshot=at,
        commit=view.commit,
        fetch=partial(table.blob_range, name, row_id),
    )
