"""Bodies as they arrive: packed ones unpacked, Arrow streams checked before Arrow reads them; none takes more than it may."""

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.limits import RESULT_BATCH_ROWS

PIECE_BYTES: Final = 1024 * 1024
"""What is unpacked at a time."""


class UnreadableBody(ValueError):
    """A body that is not what its headers say."""


class BodyTooLarge(UnreadableBody):
    """A body that takes more than the bound of answers."""

    def __init__(self, part: str, bound: int) -> None:
        super().__init__(f"{part} takes more than the {bound} bytes that are allowed")


def unpack(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Unpack a body piece by piece, however much a piece would grow at once."""
    if encoding in ("", "identity"):
        yield from chunks
        return
    if encoding != "gzip":
        raise UnreadableBody(f"its body is packed by '{encoding}', which was not asked for")
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        for chunk in chunks:
            while chunk and not unpacking.eof:
                yield unpacking.decompress(chunk, PIECE_BYTES)
                chunk = unpacking.unconsumed_tail
            if unpacking.eof and (chunk or unpacking.unused_data):
                raise UnreadableBody("its gzip data goes on after its end")
    except zlib.error as error:
        raise UnreadableBody(f"its gzip data is damaged: {error}") from error
    if not unpacking.eof:
        raise UnreadableBody("its gzip data is cut off")


class BodyFile(io.RawIOBase):
    """The body of an answer as a file that is read while it arrives."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Say that it is read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, as far as the body reaches; no memory is taken for what does not come."""
        parts, count = [], 0
        while size < 0 or count < size:
            if not self._rest:
                self._rest = memoryview(next(self._chunks, b""))
            if not self._rest:
                break
            part = self._rest if size < 0 else self._rest[: size - count]
            self._rest = self._rest[len(part) :]
            parts.append(part)
            count += len(part)
        return b"".join(parts)


# ---- Arrow

_MARK: Final = 0xFFFFFFFF
_DICTIONARY, _BATCH = 2, 3


def check_messages(body: BodyFile, bound: int, *, in_all: bool) -> Iterator[bytes]:
    """Give an Arrow stream on, message by message, once the sizes that a message tells are within the bound."""
    taken = 0
    while True:
        prefix = _read_exactly(body, 8)
        mark, size = struct.unpack("<Ii", prefix)
        if mark != _MARK or size < 0:
            raise UnreadableBody("its body is not an Arrow stream")
        if size == 0:
            # Arrow asks for nothing after the end, so this is looked at before it.
            if body.read(1):
                raise UnreadableBody("its Arrow stream goes on after its end")
            yield prefix
            return
        if size > bound:
            raise BodyTooLarge("a message of its Arrow stream", bound)
        metadata = _read_exactly(body, size)
        length = _check_metadata(metadata)
        taken = size + length + (taken if in_all else 0)
        if taken > bound:
            part = "its Arrow stream" if in_all else "a message of its Arrow stream"
            raise BodyTooLarge(part, bound)
        yield prefix + metadata
        if length:
            yield _read_exactly(body, length)


def _read_exactly(body: BodyFile, count: int) -> bytes:
    found = body.read(count)
    if len(found) < count:
        raise UnreadableBody("its Arrow stream is cut off")
    return found


def _check_metadata(metadata: bytes) -> int:
    """Give the length of the body of a message; refuse what would grow when Arrow reads it."""
    try:
        root = _follow(metadata, 0)
        kind_at, header_at, length_at = (_find_field(metadata, root, at) for at in (1, 2, 3))
        kind = 0 if kind_at is None else metadata[kind_at]
        length: int = 0 if length_at is None else struct.unpack_from("<q", metadata, length_at)[0]
        batch = None
        if kind in (_DICTIONARY, _BATCH) and header_at is not None:
            batch = _follow(metadata, header_at)
        if kind == _DICTIONARY and batch is not None:
            data = _find_field(metadata, batch, 1)
            batch = None if data is None else _follow(metadata, data)
        rows_at = None if batch is None else _find_field(metadata, batch, 0)
        rows = 0 if rows_at is None else struct.unpack_from("<q", metadata, rows_at)[0]
        is_packed = batch is not None and _find_field(metadata, batch, 3) is not None
    except (struct.error, IndexError) as error:
        raise UnreadableBody("a message of its Arrow stream is damaged") from error
    if is_packed:
        raise UnreadableBody("its Arrow stream is packed, which was not asked for")
    # A row takes a bit at least; batches without any bytes are never longer than those that a server makes.
    if length < 0 or not 0 <= rows <= max(8 * length, RESULT_BATCH_ROWS):
        raise UnreadableBody("a message of its Arrow stream tells sizes that cannot be")
    return length


def _follow(data: bytes, at: int) -> int:
    """Where an offset of a flat buffer leads."""
    return int(at + struct.unpack_from("<I", data, at)[0])


def _find_field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of a flat buffer stands, None where it has its default."""
    names = table - struct.unpack_from("<i", data, table)[0]
    if names < 0:
        raise struct.error("a table before its buffer")
    size, place = struct.unpack_from("<H", data, names)[0], 4 + 2 * number
    offset = struct.unpack_from("<H", data, names + place)[0] if place + 2 <= size else 0
    return table + offset if offset else None


_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 and 9999, counted from 1970."""
_PARTS_OF_DAY: Final = {
    "s": 86_400,
    "ms": 86_400_000,
    "us": 86_400_000_000,
    "ns": 86_400_000_000_000,
}


def check_values(array: pa.Array) -> None:
    """Refuse values that no Python value stands for: days before the year 1 or after 9999."""
    type_ = array.type
    if pa.types.is_dictionary(type_):
        check_values(array.dictionary)
    elif pa.types.is_struct(type_):
        for part in array.flatten():
            check_values(part)
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        check_values(array.flatten())
    elif pa.types.is_date32(type_):
        _check_days(array.view(pa.int32()), 1)
    elif pa.types.is_timestamp(type_):
        _check_days(array.view(pa.int64()), _PARTS_OF_DAY[type_.unit])


def _check_days(numbers: Any, parts: int) -> None:
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is not None and not (
        _FIRST_DAY * parts <= bounds["min"] and bounds["max"] < (_LAST_DAY + 1) * parts
    ):
        raise UnreadableBody("its Arrow stream has days outside of the years 1 to 9999")
