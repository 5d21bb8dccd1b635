"""Digests of the files of a table: the writer of a file takes them, and a check compares them."""

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from xxhash import xxh3_128

from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.objects.faults import StoreAction

Digests: TypeAlias = Mapping[str, str]
"""XXH3-128 in base64 by the key of a file, as its commit notes it in the manifest."""

_DELETIONS: Final = "_deletions/"
_BUFFER: Final = 1 << 18
"""Bytes that are read at once: they stay in the processor's cache until they are digested."""
_DATA: Final = "data/"
_KEPT: Final = 16
"""Characters at the end of a name that tell it from all others of its table; the rest would only take room."""
_NAME: Final = re.compile(r"(?:^|(?<=/))(?:data|_deletions|_indices)/.+$")


def digest_key(name: str) -> str:
    """Shorten the name of a file below the directory of its branch: `data/<stem>.lance`, `_indices/<uuid>/<file>`."""
    _, _, rest = name.partition("/")
    stem, _ = os.path.splitext(rest)
    own, slash, inner = stem.partition("/")
    return (own if name.startswith(_DELETIONS) else own[-_KEPT:]) + slash + inner


def name_below_branch(path: str) -> str | None:
    """Return the name of a data, deletion or index file below the directory of its branch; None for other files."""
    match = _NAME.search(path)
    return None if match is None else match[0]


def digest_file(path: str) -> str:
    """Read a local file and give its digest."""
    digest = xxh3_128()
    with open(path, "rb", buffering=0) as file:
        # A large buffer for a small file would take longer than its digest.
        buffer = bytearray(min(_BUFFER, os.fstat(file.fileno()).st_size + 1))
        view = memoryview(buffer)
        while count := file.readinto(buffer):
            digest.update(view[:count])
    return base64.b64encode(digest.digest()).decode().rstrip("=")


def digest_new_files(location: TableLocation, names: Iterable[str]) -> dict[str, str]:
    """Read files that were just written from the page cache; nothing on an object store, which would be asked again."""
    if not location.root.is_local:
        return {}
    directory = location.root.at(branch_path(location.path, location.branch))
    with translate_faults(StoreAction.READ, location):
        return {
            digest_key(name): digest_file(f"{directory}/{name}")
            for name in _with_blobs(directory, names)
        }


def _with_blobs(directory: str, names: Iterable[str]) -> Iterator[str]:
    """List the files, and the large blobs that lie beside them in a directory of the same stem."""
    for name in names:
        yield name
        blob_directory = name.removesuffix(".lance")
        if name.startswith(_DATA) and os.path.isdir(f"{directory}/{blob_directory}"):
            yield from (
                f"{blob_directory}/{blob}"
                for blob in sorted(os.listdir(f"{directory}/{blob_directory}"))
            )
