"""The manifest file of a version, and the manifest file of the next append: cut into its fields and joined again.

A file has sections, the message of the manifest, the position of that message and a footer. An append changes six numbers
of the message, adds its fragments behind the others, keeps the section of the indexes and brings a section with its
transaction. A file with anything that is not known here is left to Lance.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import lance
from lance.dataset import LanceOperation, Transaction
from lance.fragment import DataFile, FragmentMetadata

from omnigraphdb.storage.lance.unofficial.messages import (
    Field,
    find_run,
    message,
    number,
    numbers,
    present_number,
    read_fields,
)
from omnigraphdb.storage.lance.unofficial.sequences import encode_range, encode_run
from omnigraphdb.values import dataclass

_FOOTER: Final = struct.Struct("<QHH4s")
"""The position of the message, two numbers of the format, and the magic word."""
_LENGTH: Final = struct.Struct("<I")
_FORMAT: Final = (0, 2, b"LANC")

_SCHEMA, _FRAGMENTS, _VERSION, _INDICES, _TIME = 1, 2, 3, 6, 7
_READER_FLAGS, _WRITER_FLAGS, _MAX_FRAGMENT, _TRANSACTION_FILE = 9, 10, 11, 12
_WRITER, _NEXT_ROW, _TRANSACTION = 13, 14, 23
_KEPT: Final = frozenset({_SCHEMA, 5, _READER_FLAGS, _WRITER_FLAGS, _WRITER, 15, 16, 18, 19})
"""Fields that an append leaves as they are: the schema and its metadata, flags, the writer, the format of data files,
settings, base paths and metadata of the table."""
_CHANGED: Final = frozenset(
    {
        _VERSION,
        _INDICES,
        _TIME,
        _MAX_FRAGMENT,
        _TRANSACTION_FILE,
        _NEXT_ROW,
        _TRANSACTION,
    }
)
_DELETIONS, _STABLE_ROW_IDS, _SETTINGS = 1, 2, 8
_FLAGS_KNOWN: Final = _DELETIONS | _STABLE_ROW_IDS | _SETTINGS
_WRITER_HERE: Final = message(1, b"lance") + message(2, lance.__version__.encode())
_APPEND: Final = 100
"""The field of a transaction that describes an append."""


def read_max_fragment(dataset: lance.LanceDataset) -> int:
    """Read the greatest id that a fragment of a version had so far; -1 when its manifest names none."""
    fields = read_fields(dataset._ds.serialized_manifest())
    values = (field.value for field in fields if field.number == _MAX_FRAGMENT)
    return next((value for value in values if isinstance(value, int)), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """The manifest file of one version, in parts."""

    version: int
    fragments: bytes
    """The fields of all fragments, as they are in the message."""
    max_fragment: int
    """The greatest id that a fragment had so far; -1 when there was none."""
    next_row: int
    indices: bytes | None
    """The section of the indexes, if there is one."""
    kept: Mapping[int, bytes]
    """Fields that no append changes, as they are in the message."""
    transaction: bytes = b""
    transaction_file: str = ""
    time_ns: int = 0

    @classmethod
    def parse(cls, file: bytes) -> "ManifestFile | None":
        """Cut a file into its parts; None when there is anything in it that is not known here."""
        try:
            return _parse(file)
        except (ValueError, IndexError, struct.error):
            return None

    def append(self, transaction: Transaction, now_us: int) -> "ManifestFile | None":
        """Make the version after this one, which has more fragments; None for rows that Lance has to look at."""
        operation = transaction.operation
        if not isinstance(operation, LanceOperation.Append):
            return None
        fragments = tuple(operation.fragments)
        if not _are_plain(fragments):
            return None
        files = [_encode_files(fragment) for fragment in fragments]
        return replace(
            self,
            version=self.version + 1,
            fragments=b"".join((self.fragments, *self._describe(fragments, files))),
            max_fragment=self.max_fragment + len(fragments),
            next_row=self.next_row + sum(fragment.physical_rows for fragment in fragments),
            transaction=_encode_transaction(transaction, files),
            transaction_file=f"{transaction.read_version}-{transaction.uuid}.txn",
            time_ns=now_us * 1_000,
        )

    def _describe(
        self, fragments: Sequence[FragmentMetadata], files: Sequence[bytes]
    ) -> Iterator[bytes]:
        """Describe fragments with the ids and versions that the commit gives to them and their rows."""
        row = self.next_row
        fragment_ids = range(self.max_fragment + 1, self.max_fragment + 1 + len(fragments))
        for fragment_id, fragment, encoded_files in zip(
            fragment_ids, fragments, files, strict=True
        ):
            rows = fragment.physical_rows
            versions = encode_run(0, rows, self.version + 1)
            yield message(
                _FRAGMENTS,
                number(1, fragment_id)
                + encoded_files
                + message(5, message(1, encode_range(row, row + rows)))
                + message(7, versions)
                + message(9, versions),
            )
            row += rows

    def encode(self) -> bytes:
        """Join the parts: the file as Lance would write it."""
        indices = b"" if self.indices is None else _section(self.indices)
        sections = indices + _section(self.transaction)
        seconds, nanoseconds = divmod(self.time_ns, 1_000_000_000)
        fields = {
            **self.kept,
            _FRAGMENTS: self.fragments,
            _VERSION: number(_VERSION, self.version),
            _TIME: message(_TIME, number(1, seconds) + number(2, nanoseconds)),
            _MAX_FRAGMENT: present_number(_MAX_FRAGMENT, self.max_fragment),
            _TRANSACTION_FILE: message(_TRANSACTION_FILE, self.transaction_file.encode()),
            _NEXT_ROW: number(_NEXT_ROW, self.next_row),
            _TRANSACTION: present_number(_TRANSACTION, len(indices)),
        }
        if self.indices is not None:
            fields[_INDICES] = present_number(_INDICES, 0)
        manifest = b"".join(fields[key] for key in sorted(fields))
        return b"".join((sections, _section(manifest), _FOOTER.pack(len(sections), *_FORMAT)))


def _section(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


# ---- cutting


def _parse(file: bytes) -> ManifestFile | None:
    position, *form = _FOOTER.unpack(file[-_FOOTER.size :])
    if tuple(form) != _FORMAT:
        return None
    manifest = _read_section(file, position)
    spans: dict[int, list[Field]] = {}
    start, end = find_run(manifest, _FRAGMENTS)
    for field in (*read_fields(manifest[:start]), *read_fields(manifest[end:])):
        spans.setdefault(field.number, []).append(field)
    if not _is_supported(spans):
        return None
    return ManifestFile(
        version=_value(spans, _VERSION),
        fragments=manifest[start:end],
        max_fragment=_value(spans, _MAX_FRAGMENT, -1),
        next_row=_value(spans, _NEXT_ROW),
        indices=_read_section(file, _value(spans, _INDICES)) if _INDICES in spans else None,
        kept={
            key: b"".join(field.encoded for field in spans[key])
            for key in sorted(_KEPT & spans.keys())
        },
    )


def _is_supported(spans: Mapping[int, Sequence[Field]]) -> bool:
    """Whether an append to such a table changes no more than is known here; another Lance may have written other things."""
    if not spans.keys() <= _KEPT | _CHANGED or _WRITER not in spans:
        return False
    reader, writer = _value(spans, _READER_FLAGS), _value(spans, _WRITER_FLAGS)
    has_known_flags = not (reader | writer) & ~_FLAGS_KNOWN and reader & writer & _STABLE_ROW_IDS
    return bool(has_known_flags) and spans[_WRITER][0].value == _WRITER_HERE


def _value(spans: Mapping[int, Sequence[Field]], field: int, missing: int = 0) -> int:
    return int(spans[field][0].value) if field in spans else missing


def _read_section(file: bytes, position: int) -> bytes:
    (length,) = _LENGTH.unpack_from(file, position)
    start = position + _LENGTH.size
    if start + length > len(file):
        raise ValueError("a section ends after its file")
    return file[start : start + length]


# ---- describing an append


def _are_plain(fragments: Sequence[FragmentMetadata]) -> bool:
    """Whether all rows of fragments are new and lie in files of the table."""
    return all(
        not (fragment.deletion_file or fragment.row_id_meta or fragment.overlays)
        and all(file.base_id is None for file in fragment.files)
        for fragment in fragments
    )


def _encode_transaction(transaction: Transaction, files: Sequence[bytes]) -> bytes:
    properties = transaction.transaction_properties or {}
    appended = b"".join(message(1, encoded) for encoded in files)
    return (
        number(1, transaction.read_version)
        + message(2, transaction.uuid.encode())
        + b"".join(
            message(4, message(1, name.encode()) + message(2, value.encode()))
            for name, value in properties.items()
        )
        + message(_APPEND, appended)
    )


def _encode_files(fragment: FragmentMetadata) -> bytes:
    files = b"".join(message(2, _encode_file(file)) for file in fragment.files)
    return files + number(4, fragment.physical_rows)


def _encode_file(file: DataFile) -> bytes:
    return (
        message(1, file._path.encode())
        + numbers(2, file.fields)
        + numbers(3, file.column_indices)
        + number(4, file.file_major_version)
        + number(5, file.file_minor_version)
        + number(6, file.file_size_bytes or 0)
    )
