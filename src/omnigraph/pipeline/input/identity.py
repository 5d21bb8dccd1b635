"""Ids of loaded rows: from the key, from the record, or fresh."""

from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import NodeType
from omnigraph.catalog.values import composite_id, key_texts
from omnigraph.storage.arrow import column

_CROCKFORD = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
_COUNTED_CHARS = 10
"""Characters of a ULID that are counted up; the rest, its time and some chance, is shared."""


def fresh_ids(seed: str, n: int) -> pa.Array:
    """Make n ULIDs that share the beginning of a fresh one and sort in order."""
    return fresh_ids_at(seed, np.arange(n, dtype=np.int64))


def fresh_ids_at(seed: str, positions: "np.ndarray[Any, np.dtype[np.int64]]") -> pa.Array:
    """Make the ULIDs of positions: the same ones whoever asks, and in the same order."""
    n = len(positions)
    prefix = np.frombuffer(seed[:-_COUNTED_CHARS].encode(), dtype=np.uint8)
    # The top bit of the counted part stays free, so that counting up never overflows it.
    start = _count_text(seed[-_COUNTED_CHARS:]) >> 1
    numbers = positions.astype(np.uint64) + np.uint64(start)
    shifts = np.arange(_COUNTED_CHARS - 1, -1, -1, dtype=np.uint64) * np.uint64(5)
    tail = _CROCKFORD[(numbers[:, None] >> shifts) & np.uint64(31)]
    texts = np.concatenate([np.broadcast_to(prefix, (n, len(prefix))), tail], axis=1)
    offsets = np.arange(n + 1, dtype=np.int32) * len(seed)
    return pa.StringArray.from_buffers(
        n, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts))
    )


def _count_text(text: str) -> int:
    value = 0
    for character in text.encode():
        value = value * 32 + int(np.flatnonzero(character == _CROCKFORD)[0])
    return value


def key_ids(type_: NodeType, rows: pa.Table) -> pa.Array:
    """The ids of a keyed type: canonical key texts; NULL where a key value is missing."""
    texts = [
        key_texts(column(rows, name), type_.properties[name].type) for name in type_.key_columns
    ]
    if len(texts) == 1:
        return texts[0]
    joined = [
        None if None in parts else composite_id(parts)
        for parts in zip(*(text.to_pylist() for text in texts), strict=True)
    ]
    return pa.array(joined, pa.string())
