"""Addresses inside branch manifests: Lance records there the absolute paths of the branches that a branch forked from.

A root that was moved or copied still has the addresses of its former location. A manifest file ends with its message, the
position of that message and a footer; everything before the message stays in place when its length changes.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final

from omnigraphdb.errors import StorageError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.storage.layout import Root, branch_path
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.values import dataclass

_FOOTER: Final = struct.Struct("<QHH4s")
"""The position of the message, two numbers of the format, and the magic word."""

_LENGTH: Final = struct.Struct("<I")
_MAGIC: Final = b"LANC"
_BASE_PATHS: Final = 18
"""The field of the message that lists the origins of a branch: `id`, `name` of the branch, `is_dataset_root`, `path`."""

_BASE_NAME: Final = 2
_BASE_PATH: Final = 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def canonical_root(root: Root) -> str:
    """Give the address of a root for branch manifests: on a disk without symbolic links."""
    return os.path.realpath(root.uri) if root.is_local else root.uri


def relocate_branch(root: Root, objects: Objects, path: str, branch: str) -> int:
    """Give every manifest of a branch of a table the address of this root; says how many files were rewritten.

    The oldest version comes first: as long as the newest one holds another address, so does the branch.
    """
    address, rewritten = canonical_root(root), 0
    files = objects.list(f"{branch_path(path, branch)}/_versions")
    # Names count down, so that the newest is listed first.
    for file in sorted((f for f in files if f.endswith(".manifest")), reverse=True):
        rewritten += _relocate_file(objects, file, address, path)
    return rewritten


def _relocate_file(objects: Objects, file: str, root: str, path: str) -> bool:
    data = objects.read_bytes(file)
    # A file that was removed meanwhile needs no address.
    changed = None if data is None else rebase_manifest(data, root, path, file)
    if changed is None:
        return False
    objects.put_bytes(file, changed)
    fail(Failpoint.RELOCATE_REWRITTEN)
    return True


def rebase_manifest(data: bytes, root: str, path: str, file: str) -> bytes | None:
    """Rewrite a manifest file with the addresses of a root; None when it has them already."""
    start, end = _message_span(data, file)
    message = data[start:end]
    parts = [_rebase_field(message, field, root, path, file) for field in _fields(message, file)]
    changed = b"".join(parts)
    if changed == message:
        return None
    return data[: start - _LENGTH.size] + _LENGTH.pack(len(changed)) + changed + data[end:]


def _message_span(data: bytes, file: str) -> tuple[int, int]:
    """Find where the message of a manifest file begins and ends."""
    if len(data) < _FOOTER.size + _LENGTH.size:
        raise _make_error(file, "it is too short")
    position, _, _, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    start = position + _LENGTH.size
    if magic != _MAGIC or start > len(data) - _FOOTER.size:
        raise _make_error(file, "its footer is not that of a manifest")
    end = start + _LENGTH.unpack_from(data, position)[0]
    if end != len(data) - _FOOTER.size:
        raise _make_error(file, "its message does not end where the footer begins")
    return start, end


def _rebase_field(message: bytes, field: "_Field", root: str, path: str, file: str) -> bytes:
    if field.number != _BASE_PATHS:
        return message[field.start : field.end]
    body = message[field.value : field.end]
    entries = list(_fields(body, file))
    texts = {
        entry.number: body[entry.value : entry.end].decode() for entry in entries if entry.is_bytes
    }
    location = branch_path(path, texts.get(_BASE_NAME) or None)
    if not texts.get(_BASE_PATH, "").endswith(f"/{location}"):
        raise _make_error(
            file,
            f"it names the origin '{texts.get(_BASE_PATH)}', which does not end with '{location}'",
        )
    address = f"{root.rstrip('/')}/{location}"
    parts = [
        _encode(_BASE_PATH, address.encode())
        if entry.number == _BASE_PATH
        else body[entry.start : entry.end]
        for entry in entries
    ]
    return _encode(_BASE_PATHS, b"".join(parts))


def _make_error(file: str, reason: str) -> StorageError:
    return StorageError(
        f"'{file}' cannot be given another address: {reason}; the file was left as it is",
        storage_kind="permanent",
        hint="put the file back from the original graph and repeat it; what was rewritten before stays right",
    )


# ---- protocol buffers, as far as they are needed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One field of a message: where it begins, where its value does, and where it ends."""

    number: int
    is_bytes: bool
    start: int
    value: int
    end: int


def _fields(message: bytes, file: str) -> Iterator[_Field]:
    location = 0
    try:
        while location < len(message):
            start = location
            tag, location = _read_varint(message, location)
            value, location = location, _skip(message, location, tag & 7)
            if tag & 7 == _BYTES:
                value = _read_varint(message, value)[1]
            yield _Field(
                number=tag >> 3, is_bytes=tag & 7 == _BYTES, start=start, value=value, end=location
            )
    except IndexError:
        raise _make_error(file, "its message is cut off") from None
    if location != len(message):
        raise _make_error(file, "its message is cut off")


def _skip(message: bytes, location: int, kind: int) -> int:
    if kind == _VARINT:
        return _read_varint(message, location)[1]
    if kind == _BYTES:
        length, location = _read_varint(message, location)
        return location + length
    if kind in (_FIXED64, _FIXED32):
        return location + (8 if kind == _FIXED64 else 4)
    raise IndexError(kind)


def _read_varint(message: bytes, location: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[location]
        location, number, shift = location + 1, number | (byte & 127) << shift, shift + 7
        if byte < 128:
            return number, location


def _encode(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
