"""The files that an operation adds to a table, and the proof that a local disk took them whole.

Lance does not report a failure of the last write of a file: a disk that is full at that moment leaves a file without its
end, and the commit would name it. An object store takes an object whole or not at all, so nothing is asked there.
"""

import errno
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from lance import LanceDataset, LanceOperation

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.lance.faults import TableLocation
from omnigraphdb.storage.lance.fragments import locate_file
from omnigraphdb.storage.lance.unofficial.deletion_files import decode_offsets
from omnigraphdb.storage.layout import Root, branch_path
from omnigraphdb.storage.objects.faults import StoreAction, storage_error
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

_FOOTER: Final = struct.Struct("<QQQIIHH4s")
"""The end of a Lance file: three positions, two counts, two numbers of the format, and the magic."""
_MAGIC: Final = b"LANC"
_BUFFER_ENTRY: Final = 16
"""Bytes of an entry in the last table of a Lance file, which ends where the footer begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file below the directory of a branch, with the facts that Lance noted of its contents."""

    name: str
    bytes: int | None = None
    deletions: tuple[str, int] | None = None
    """The form of a deletion file, and the rows that it deletes."""

    @property
    def is_data(self) -> bool:
        """Whether it holds rows."""
        return self.name.startswith("data/")


# ---- the files of an operation


def new_files(operation: Any) -> Iterator[NewFile]:
    """List the files that an operation adds on its own branch."""
    match operation:
        case LanceOperation.Append() | LanceOperation.Overwrite():
            yield from data_files(operation.fragments)
        case LanceOperation.Update():
            yield from data_files(operation.new_fragments)
            yield from deletion_files(operation.updated_fragments)
        case LanceOperation.Delete():
            yield from deletion_files(operation.updated_fragments)
        case LanceOperation.Rewrite():
            for group in operation.groups:
                yield from data_files(group.new_fragments)
        case LanceOperation.CreateIndex():
            yield from index_files(operation.new_indices)
        case _:
            pass


def data_files(fragments: Iterable[Any]) -> Iterator[NewFile]:
    """List the data files of fragments that lie on their own branch."""
    for fragment in fragments:
        for file in fragment.files:
            if file.base_id is None:
                yield _describe_data(file)


def deletion_files(fragments: Iterable[Any]) -> Iterator[NewFile]:
    """List the deletion files of fragments that lie on their own branch."""
    for fragment in fragments:
        file = fragment.deletion_file
        if file is not None and file.base_id is None:
            yield _describe_deletions(fragment.id, file)


def index_files(segments: Sequence[Any]) -> Iterator[NewFile]:
    """List the files of index segments."""
    for segment in segments:
        for file in segment.files or ():
            yield NewFile(name=f"_indices/{segment.uuid}/{file.path}", bytes=file.size_bytes)


def _describe_data(file: Any) -> NewFile:
    return NewFile(name=f"data/{file._path}", bytes=file.file_size_bytes or None)


def _describe_deletions(fragment: int, file: Any) -> NewFile:
    return NewFile(name=file.path(fragment), deletions=(file.file_type, file.num_deleted_rows))


# ---- whole or cut


def require_whole(location: TableLocation, operation: Any) -> None:
    """Refuse an operation that names a file of which the local disk took only a part."""
    if not location.root.is_local:
        return
    directory = branch_path(location.path, location.branch)
    for file in new_files(operation):
        cut = find_cut(location.root, f"{directory}/{file.name}", file)
        if cut is not None:
            raise make_cut_error(location.root, f"{directory}/{file.name}", cut)


def require_whole_file(root: Root, path: str) -> None:
    """Refuse a single Lance file of which the local disk took only a part."""
    cut = find_cut(root, path, NewFile(name=path)) if root.is_local else None
    if cut is not None:
        raise make_cut_error(root, path, cut)


def require_whole_blobs(location: TableLocation, fragments: Iterable[Any], expected: int) -> None:
    """Refuse fragments whose large blobs, which lie beside the rows, have fewer bytes than were given to Lance."""
    if not expected or not location.root.is_local:
        return
    directory = branch_path(location.path, location.branch)
    folders = [f"{directory}/{file.name.removesuffix('.lance')}" for file in data_files(fragments)]
    actual = sum(_count_bytes(location.root.at(folder)) for folder in folders)
    if actual < expected:
        cut = f"{actual} of {expected} bytes of large blobs are on the disk"
        raise make_cut_error(location.root, directory, cut)


def _count_bytes(folder: str) -> int:
    if not os.path.isdir(folder):
        return 0
    with os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries)


def make_cut_error(root: Root, path: str, cut: str) -> StorageError:
    """Make the error for a new file that is not whole; a full disk is the reason known."""
    return storage_error(OSError(errno.ENOSPC, cut), StoreAction.WRITE, root, path)


def find_cut(root: Root, path: str, file: NewFile) -> str | None:
    """Find in which way a file on the local disk is not whole; None when it is.

    A data file has the size that Lance counted while it wrote. Lance notes no size of a deletion file, which is decoded, and
    some sizes of index files after a copy of a cut file: their own footer tells where they end.
    """
    try:
        if file.deletions is not None:
            return _find_cut_deletions(root.at(path), *file.deletions)
        if file.is_data and file.bytes is not None:
            return _compare_bytes(os.stat(root.at(path)).st_size, file.bytes)
        return _find_cut_end(root.at(path))
    except FileNotFoundError:
        return "the file does not exist"


def _compare_bytes(actual: int, expected: int) -> str | None:
    return None if actual == expected else f"{actual} of {expected} bytes are on the disk"


def _find_cut_deletions(file: str, form: str, expected: int) -> str | None:
    with open(file, "rb") as opened:
        return find_wrong_deletions(opened.read(), form, expected)


def find_wrong_deletions(data: bytes, form: str, expected: int) -> str | None:
    """Compare the contents of a deletion file with the note of Lance; describe the difference, None without one."""
    try:
        actual = len(decode_offsets(data, form))
    except StorageError:
        return f"the file ends after {len(data)} bytes"
    # Earlier versions of Lance did not note the count.
    is_whole = actual == expected or not expected
    return None if is_whole else f"{actual} of {expected} deleted rows are on the disk"


def find_cut_end(root: Root, path: str) -> str | None:
    """Find whether a Lance file on the local disk lacks its end; None when it does not, or lies elsewhere."""
    return _find_cut_end(root.at(path)) if root.is_local else None


def _find_cut_end(file: str) -> str | None:
    """Read the footer of a Lance file, which is written last: the table before it ends where the footer begins."""
    with open(file, "rb", buffering=0) as opened:
        size = os.fstat(opened.fileno()).st_size
        end = os.pread(opened.fileno(), _FOOTER.size, max(size - _FOOTER.size, 0))
    if len(end) == _FOOTER.size:
        _, _, table, entries, *_, magic = _FOOTER.unpack(end)
        if magic == _MAGIC and table + _BUFFER_ENTRY * entries + _FOOTER.size == size:
            return None
    return f"the file ends after {size} bytes, without its footer"


# ---- the files of a version


def find_cut_file(root: Root, dataset: LanceDataset, at: TableAt) -> tuple[str, str] | None:
    """Find a file of rows of a version that is not whole on the local disk, and in which way; None when there is none."""
    for path, file in row_files(dataset, at).items():
        cut = find_cut(root, path, file)
        if cut is not None:
            return path, cut
    return None


def find_cut_index_file(location: TableLocation) -> tuple[str, str] | None:
    """Find a part of an index on a branch that is not whole, and in which way; None when there is none."""
    if not location.root.is_local:
        return None
    directory = f"{branch_path(location.path, location.branch)}/_indices"
    for folder, _, names in os.walk(location.root.at(directory)):
        for name in names:
            path = f"{directory}{folder.removeprefix(location.root.at(directory))}/{name}"
            cut = find_cut(location.root, path, NewFile(name=name))
            if cut is not None:
                return path, cut
    return None


def row_files(dataset: LanceDataset, at: TableAt) -> dict[str, NewFile]:
    """List the data and deletion files of a version that lie under the graph root, by their path there."""
    files_by_path: dict[str, NewFile] = {}
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        deleted = metadata.deletion_file
        bases = [(file.base_id, _describe_data(file)) for file in metadata.files]
        if deleted is not None:
            bases.append((deleted.base_id, _describe_deletions(metadata.id, deleted)))
        for base_id, file in bases:
            path = locate_file(dataset, at.path, at.branch, base_id, file.name)
            if path is not None:
                files_by_path[path] = file
    return files_by_path
