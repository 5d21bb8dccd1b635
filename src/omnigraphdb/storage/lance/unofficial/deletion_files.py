"""The contents of deletion files, decoded here: an Arrow array or a roaring bitmap of row offsets."""

import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.values import Offsets

_NO_OFFSETS: Final[Offsets] = np.empty(0, np.uint32)
_ALONE: Final = pa.ipc.IpcReadOptions(use_threads=False)
_DAMAGES: Final = (
    pa.ArrowException,
    struct.error,
    ArithmeticError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)
"""The errors of pyarrow, numpy and the loops below over bytes that are not a deletion file."""
_NAMES: Final = {"array": "an Arrow file of offsets", "bitmap": "a roaring bitmap"}
_NO_RUNS: Final = 12346
_SOME_RUNS: Final = 12347
_ARRAY_MAX: Final = 4096
_OFFSETS_FROM: Final = 4
_BITMAP_BYTES: Final = 8192


def decode_offsets(data: bytes, file_type: str) -> Offsets:
    """Read the offsets out of a deletion file, or say that it is damaged."""
    try:
        return _DECODERS[file_type](data)
    except _DAMAGES as error:
        raise StorageError(
            f"a deletion file of {len(data)} bytes is damaged: it is not {_NAMES[file_type]} ({error}); nothing was changed",
            storage_kind="permanent",
            hint="put the file back from a copy of the graph, or run `omnigraphdb repair`",
        ) from error


def _of_array(data: bytes) -> Offsets:
    # One small column: waking threads for it takes longer than reading it.
    with pa.ipc.open_file(pa.BufferReader(data), options=_ALONE) as source:
        column = source.read_all().column(0)
    if column.type != pa.uint32() or column.null_count:
        raise ValueError(f"its offsets are {column.type}")
    # Bytes of damaged lengths must not be read past the end of the file.
    column.validate(full=True)
    offsets: Offsets = np.sort(column.to_numpy())
    return offsets


def _of_bitmap(data: bytes) -> Offsets:
    """Read a roaring bitmap in its portable form: containers of 65,536 numbers each."""
    parts = [_container(data, key, size, start, runs) for key, size, start, runs in _headers(data)]
    return np.concatenate([_NO_OFFSETS, *parts])


def _headers(data: bytes) -> list[tuple[int, int, int, bool]]:
    """Read the key, number of values and offset of every container, and whether it holds runs."""
    (cookie,) = struct.unpack_from("<I", data)
    location = 4
    if cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, location)
        location, runs = location + 4, np.zeros(count, bool)
    elif cookie & 0xFFFF == _SOME_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(data, np.uint8, (count + 7) // 8, location)
        location, runs = location + len(flags), np.unpackbits(flags, bitorder="little").astype(bool)
    else:
        raise ValueError(f"it begins with {cookie}")
    described = np.frombuffer(data, "<u2", 2 * count, location).reshape(count, 2).astype(np.int64)
    location += 4 * count
    if cookie == _NO_RUNS or count >= _OFFSETS_FROM:
        location += 4 * count
    headers = []
    for number, (key, size) in enumerate(described.tolist()):
        headers.append((key, size + 1, location, bool(runs[number])))
        location += _length(data, size + 1, location, is_runs=bool(runs[number]))
    return headers


def _length(data: bytes, size: int, location: int, *, is_runs: bool) -> int:
    if is_runs:
        (count,) = struct.unpack_from("<H", data, location)
        return 2 + 4 * int(count)
    return 2 * size if size <= _ARRAY_MAX else _BITMAP_BYTES


def _container(data: bytes, key: int, size: int, location: int, is_runs: bool) -> Offsets:
    if is_runs:
        (count,) = struct.unpack_from("<H", data, location)
        pairs = np.frombuffer(data, "<u2", 2 * int(count), location + 2).reshape(-1, 2)
        starts, lengths = pairs[:, 0].astype(np.uint32), pairs[:, 1].astype(np.int64) + 1
        ends = np.cumsum(lengths)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        low = np.repeat(starts, lengths) + within.astype(np.uint32)
    elif size <= _ARRAY_MAX:
        low = np.frombuffer(data, "<u2", size, location).astype(np.uint32)
    else:
        bits = np.frombuffer(data, np.uint8, _BITMAP_BYTES, location)
        low = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.uint32)
    offsets: Offsets = low + np.uint32(key << 16)
    return offsets


_DECODERS: Final[dict[str, Callable[[bytes], Offsets]]] = {
    "array": _of_array,
    "bitmap": _of_bitmap,
}
