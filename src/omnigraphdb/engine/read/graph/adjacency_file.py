"""The adjacency file: the neighbours of every source of an edge table, stored next to the table for later readers."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from xxhash import xxh3_128

from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.columns.layout import Layout
from omnigraphdb.engine.read.columns.row_ids import NarrowIntegers
from omnigraphdb.engine.read.graph.adjacency import Adjacency, Slots
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.values import FragmentInfo, TableAt, incarnation_of
from omnigraphdb.values import dataclass

FILE_NAME: Final = "_adjacency/out"
"""The path below the directory of an edge table; the content names the version of the table."""

FILE_EDGE_BYTES: Final = 4
"""The bytes of a file for each pair, and for each source, while row ids fit in four bytes."""

_MAGIC: Final = b"omniadj1"
_LENGTH: Final = struct.Struct("<I")
_DIGEST_BYTES: Final = 16
_ALIGNED: Final = 8
_TYPES: Final[Mapping[int, np.dtype[Any]]] = {4: np.dtype("<i4"), 8: np.dtype("<i8")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAdjacency:
    """An adjacency and the layouts it was built from; `dangling` if an end of some edge did not exist.

    `entry` is a version of the edge table with the layout `edges`.
    """

    adjacency: Adjacency
    entry: Entry | None
    edges: Layout
    sources: Layout
    targets: Layout
    dangling: bool


# ---- writing


def encode_adjacency(cached: CachedAdjacency) -> bytes:
    """Write an adjacency of pairs as a file: a header, the arrays, and a digest of both."""
    assert cached.entry is not None, "a table without a version has no file"
    adjacency, slots = cached.adjacency, cached.adjacency.slots
    arrays = [adjacency.offsets, adjacency.targets]
    arrays += [] if slots.known is None else [slots.known]
    header = json.dumps(
        {
            "entry": _encode_entry(cached.entry),
            "edges": _encode_layout(cached.edges),
            "sources": _encode_layout(cached.sources),
            "targets": _encode_layout(cached.targets),
            "dangling": cached.dangling,
            "slots": [slots.low, slots.size],
            "arrays": [[array.itemsize, len(array)] for array in arrays],
        }
    ).encode()
    start = len(_MAGIC) + _LENGTH.size
    padded = header + b" " * (-(start + len(header)) % _ALIGNED)
    parts = [_MAGIC, _LENGTH.pack(len(padded)), padded]
    for array in arrays:
        data = array.astype(_TYPES[array.itemsize], copy=False).tobytes()
        parts += [data, b"\0" * (-len(data) % _ALIGNED)]
    digest = xxh3_128()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def _encode_entry(entry: Entry) -> Mapping[str, Any]:
    return {
        "table_key": entry.table_key,
        "path": entry.at.path,
        "branch": entry.at.branch,
        "version": entry.version,
        "rows": entry.row_count,
        "incarnation": entry.incarnation,
        "branch_incarnation": entry.branch_incarnation,
    }


def _encode_layout(layout: Layout) -> Sequence[Any]:
    return [
        layout.path,
        [[f.id, f.files, f.deletions, f.physical_rows, f.deleted_rows, f.bytes] for f in layout.fragments],
    ]  # fmt: skip


# ---- reading


def decode_adjacency(
    data: memoryview, cache: ByteCache, *, mapped: bool = False
) -> CachedAdjacency | None:
    """Read the adjacency of a file; None for a file that is damaged, cut off or of another kind."""
    body = data[:-_DIGEST_BYTES]
    magic, digest = bytes(data[: len(_MAGIC)]), bytes(data[-_DIGEST_BYTES:])
    if magic != _MAGIC or xxh3_128(body).digest() != digest:
        return None
    (length,) = _LENGTH.unpack_from(data, len(_MAGIC))
    start = len(_MAGIC) + _LENGTH.size
    header = json.loads(bytes(data[start : start + length]))
    arrays = _decode_arrays(body[start + length :], header["arrays"])
    low, size = header["slots"]
    return CachedAdjacency(
        adjacency=Adjacency(
            slots=Slots(low, size, arrays[2] if len(arrays) > 2 else None),
            offsets=arrays[0],
            targets=arrays[1],
            mapped=mapped,
        ),
        entry=_decode_entry(header["entry"]),
        edges=_decode_layout(header["edges"], cache),
        sources=_decode_layout(header["sources"], cache),
        targets=_decode_layout(header["targets"], cache),
        dangling=header["dangling"],
    )


def _decode_arrays(data: memoryview, shapes: Sequence[Sequence[int]]) -> list[NarrowIntegers]:
    arrays, start = [], 0
    for itemsize, count in shapes:
        arrays.append(np.frombuffer(data, _TYPES[itemsize], count, start))
        start += itemsize * count
        start += -start % _ALIGNED
    return arrays


def _decode_entry(record: Mapping[str, Any]) -> Entry:
    return Entry(
        table_key=TableKey(record["table_key"]),
        at=TableAt(
            path=record["path"], branch=record["branch"], version=Version(record["version"])
        ),
        row_count=record["rows"],
        incarnation=record["incarnation"],
        branch_incarnation=incarnation_of(record["branch_incarnation"]),
    )  # fmt: skip


def _decode_layout(record: Sequence[Any], cache: ByteCache) -> Layout:
    """Return the shared layout with these fragments: the same object as the layout of an open table."""
    path, rows = record
    fragments = tuple(
        FragmentInfo(
            id=number,
            files=tuple(files),
            deletions=deletions,
            physical_rows=physical,
            deleted_rows=deleted,
            bytes=size,
        )
        for number, files, deletions, physical, deleted, size in rows
    )
    return cache.intern((path, fragments), Layout(path, fragments))
