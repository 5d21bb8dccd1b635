"""The route of blobs: bytes of one property, whole or in part, under the rules of conditional requests."""

import re
from typing import TYPE_CHECKING, Final

from omnigraphdb.errors import BlobPrecondition, BlobRange, NotFound, UserInputError
from omnigraphdb.ids import edge_key, node_key
from omnigraphdb.surfaces.http.calls import Call, Param
from omnigraphdb.surfaces.http.reads import read_target
from omnigraphdb.surfaces.http.replies import BYTES, Reply, Stream

if TYPE_CHECKING:
    from omnigraphdb.api.blobs import Blob

PARAMS: Final = (
    Param(name="entity", required=True, text="`node` or `edge`."),
    Param(name="type", required=True, text="The type."),
    Param(name="id", required=True, text="The id of the entity."),
    Param(name="property", required=True, text="The property."),
    Param(name="branch", text="The branch; main by default."),
    Param(name="snapshot", text="A commit or a manifest version, instead of a branch."),
)
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def get_blob(call: Call) -> Reply | Stream:
    """Send a blob, or one range of it."""
    blob = _find(call)
    if blob.size is None:
        return _redirect(blob)
    refusal = _check_conditions(call, blob)
    if refusal is not None:
        return refusal
    span = _read_range(call, blob, blob.size)
    headers = _headers(blob)
    if span is None:
        headers["content-length"] = str(blob.size)
        return Stream(chunks=blob.chunks(), media=BYTES, headers=headers)
    start, end = span
    headers["content-length"] = str(end - start)
    headers["content-range"] = f"bytes {start}-{end - 1}/{blob.size}"
    chunks = blob.chunks(start, end - start)
    return Stream(chunks=chunks, media=BYTES, status=206, headers=headers)


def head_blob(call: Call) -> Reply | Stream:
    """Send what is known about a blob; no byte of it is read."""
    blob = _find(call)
    if blob.size is None:
        return _redirect(blob)
    refusal = _check_conditions(call, blob)
    if refusal is not None:
        return refusal
    return Reply(media=BYTES, headers=_headers(blob) | {"content-length": str(blob.size)})


def _find(call: Call) -> "Blob":
    asked = {name: call.text(name) for name in ("branch", "snapshot")}
    entity, name = call.text("entity"), call.text("type") or ""
    if entity not in ("node", "edge"):
        raise UserInputError(f"'entity' is 'node' or 'edge', not '{entity}'")
    key = node_key(name) if entity == "node" else edge_key(name)
    tables = call.place.graph.catalog.tables
    if key not in tables:
        raise NotFound(f"{entity} type", name, known=[one.name for one in tables.values()])
    return call.place.graph.blob(
        key,
        call.text("id") or "",
        call.text("property") or "",
        **read_target(call.place.graph, asked),
    )


def _redirect(blob: "Blob") -> Reply:
    """Name the place of an external blob; the server never fetches it."""
    uri = str(blob.uri)
    if not uri.isascii() or not uri.isprintable():
        raise UserInputError("the blob is stored at a place that no header can name")
    headers = {"location": uri, "cache-control": "no-store"}
    return Reply(media=None, status=302, headers=headers)


def _headers(blob: "Blob") -> dict[str, str]:
    commit = {} if blob.commit is None else {"omnigraph-snapshot-id": blob.commit}
    kind = {"omnigraph-blob-kind": blob.kind}
    return {"etag": blob.etag, "accept-ranges": "bytes", **kind, **commit}


# ---- conditions and ranges


def _check_conditions(call: Call, blob: "Blob") -> Reply | None:
    tag = blob.etag
    wanted, unwanted = call.headers.get("if-match"), call.headers.get("if-none-match")
    if wanted is not None and not _names(wanted, tag, weak=False):
        raise BlobPrecondition(tag)
    if unwanted is not None and _names(unwanted, tag, weak=True):
        return Reply(media=None, status=304, headers=_headers(blob))
    return None


def _names(header: str, tag: str, *, weak: bool) -> bool:
    """Whether a list of tags names this one; a weak tag counts only where bytes do not have to be equal."""
    given = [one.strip() for one in header.split(",")]
    return "*" in given or tag in given or (weak and f"W/{tag}" in given)


def _read_range(call: Call, blob: "Blob", size: int) -> tuple[int, int] | None:
    """The first byte and the end of a range; None means everything, which is the answer to what cannot be read."""
    given, condition = call.headers.get("range"), call.headers.get("if-range")
    found = _RANGE.fullmatch(given.strip()) if given is not None else None
    if (
        found is None
        or found[1] == found[2] == ""
        or (condition is not None and condition != blob.etag)
    ):
        return None
    first, last = found[1], found[2]
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start >= end:
        raise BlobRange(str(blob), start, size, end - start)
    return start, end
