"""Texts in a bucket or in memory, through obstore, and the door that chooses a store for a root."""

import json
import mmap
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import AzureStore, GCSStore, MemoryStore, ObjectStore, S3Store

from omnigraphdb.errors import InternalError
from omnigraphdb.runtime import SYSTEM, Runtime, us_of
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.layout import LOCKS, Root
from omnigraphdb.storage.objects.conditions import make_conditions_error
from omnigraphdb.storage.objects.faults import (
    StorageKind,
    StoreAction,
    fault_of,
    is_missing,
    text_of,
    translate_object_faults,
)
from omnigraphdb.storage.objects.local import LocalObjects
from omnigraphdb.storage.objects.options import obstore_options
from omnigraphdb.storage.objects.protocol import (
    Objects,
    Stamp,
    Versioned,
    count_request,
    directory_path,
    is_object_path,
    object_path,
)


class StoreObjects:
    """Objects in one store of obstore; the store itself decides conditions and atomicity."""

    def __init__(self, root: Root, store: ObjectStore, *, prefix: str = "") -> None:
        self._root = root
        self._store = store
        self._prefix = prefix

    # ---- reading

    def read(self, path: str) -> str | None:
        """Read a whole text; None only when it is genuinely not there."""
        seen = self.read_versioned(path)
        return None if seen is None else seen.text

    def read_all(self, paths: Sequence[str]) -> list[str | None]:
        """Read several texts at the same time, each as `read` does."""
        with ThreadPoolExecutor(len(paths), "omnigraph-read") as pool:
            return list(pool.map(carry_context(self.read), paths))

    def read_versioned(self, path: str) -> Versioned | None:
        """Read a text with its token; None only when it does not exist."""
        stored = self._found(path)
        if stored is None:
            return None
        data, meta = stored
        text = text_of(data, self._root, path)
        return Versioned(text, _token(meta), us_of(meta["last_modified"]))

    def read_bytes(self, path: str) -> bytes | None:
        """Read a small file of another kind whole; None only when it does not exist."""
        stored = self._found(path)
        return None if stored is None else stored[0]

    def map_bytes(self, path: str) -> memoryview | None:
        """Bring a file of any size to this machine, and map it; None only when it does not exist."""
        with count_request(StoreAction.READ, self._root, path):
            try:
                response = obstore.get(self._store, self._key(path))
            except FileNotFoundError as error:
                _require_missing(error)
                return None
            # The file has no name, so that it is gone when nobody has it mapped.
            with tempfile.TemporaryFile() as file:
                for chunk in response.stream():
                    file.write(chunk)
                file.flush()
                size = file.tell()
                return memoryview(mmap.mmap(file.fileno(), size) if size else b"")

    def _found(self, path: str) -> tuple[bytes, Mapping[str, Any]] | None:
        with count_request(StoreAction.READ, self._root, path):
            try:
                response = obstore.get(self._store, self._key(path))
                return response.bytes().to_bytes(), response.meta
            except FileNotFoundError as error:
                _require_missing(error)
                return None

    def exists(self, path: str) -> bool:
        """Tell whether there is a text, or any text below this path."""
        key = self._key(path)
        with count_request(StoreAction.LOOK, self._root, path):
            try:
                obstore.head(self._store, key)
            except FileNotFoundError:
                # The listing also tells a missing bucket from a missing object; HEAD answers both alike.
                pages = obstore.list(self._store, prefix=key, chunk_size=1)
                return any(is_object_path(item["path"]) for page in pages for item in page)
            return True

    def list(self, prefix: str) -> tuple[str, ...]:
        """List the texts directly in a directory, sorted; empty when there is none."""
        return tuple(sorted(self.times(prefix)))

    def times(self, prefix: str) -> dict[str, int]:
        """Tell when each text directly in a directory was written, in microseconds of the store's own clock."""
        directory = directory_path(prefix)
        with count_request(StoreAction.LIST, self._root, directory):
            listing = obstore.list_with_delimiter(
                self._store, prefix=self._directory_key(directory)
            )
        paths = {self._relative(item["path"]): item for item in listing["objects"]}
        return {
            path: us_of(item["last_modified"])
            for path, item in paths.items()
            if path != directory and is_object_path(path)
        }

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp]:
        """Tell texts that lie in one directory by stamps that change when the text does: one listing."""
        directory = paths[0].rpartition("/")[0]
        with count_request(StoreAction.LIST, self._root, directory):
            listing = obstore.list_with_delimiter(
                self._store, prefix=self._directory_key(directory)
            )
        stamps = {self._relative(item["path"]): _token(item) for item in listing["objects"]}
        return {path: stamps[path] for path in paths if path in stamps}

    def have_stamps(self, paths: Sequence[str], stamps: Mapping[str, Stamp]) -> bool:
        """Tell whether texts still have the stamps that they had, and the others still are not there."""
        return self.stamps(paths) == stamps

    # ---- writing

    def put(self, path: str, text: str) -> str:
        """Write a text and give its token: readers see the old or the new one, never a part."""
        with count_request(StoreAction.WRITE, self._root, path):
            landed = obstore.put(self._store, self._key(path), text.encode(), use_multipart=False)
        return _token(landed)

    def put_bytes(self, path: str, data: bytes) -> None:
        """Replace a file of another kind: readers see the old or the new one, never a part."""
        with count_request(StoreAction.WRITE, self._root, path):
            obstore.put(self._store, self._key(path), data, use_multipart=False)

    def put_if_absent(self, path: str, text: str | bytes) -> str | None:
        """Create a text, or a file of another kind, and give its token; of N concurrent callers all but one get None."""
        data = text.encode() if isinstance(text, str) else text
        with count_request(StoreAction.CREATE, self._root, path):
            try:
                landed = obstore.put(
                    self._store,
                    self._key(path),
                    data,
                    mode="create",
                    use_multipart=False,
                )
            except AlreadyExistsError:
                return None
        return _token(landed)

    def put_if_match(self, path: str, text: str, token: str) -> str | None:
        """Replace the text the token names and give its new token; None when another writer was faster."""
        with count_request(StoreAction.REPLACE, self._root, path):
            try:
                landed = obstore.put(
                    self._store,
                    self._key(path),
                    text.encode(),
                    mode=_condition(token),
                    use_multipart=False,
                )
            except PreconditionError as error:
                _require_lost(error)
                return None
        return _token(landed)

    def rename(self, source: str, target: str) -> None:
        """Copy a text over another, then remove it; both may exist after a crash."""
        old, new = self._key(source), self._key(target)
        if old == new:
            return
        with count_request(StoreAction.RENAME, self._root, source):
            obstore.copy(self._store, old, new)
            obstore.delete(self._store, old)

    def copy(self, source: str, target: str) -> None:
        """Give a file a second one with the same bytes; they stay in the store."""
        with count_request(StoreAction.WRITE, self._root, target):
            obstore.copy(self._store, self._key(source), self._key(target))

    def delete(self, path: str) -> None:
        """Remove a text, if it is there."""
        with count_request(StoreAction.DELETE, self._root, path):
            try:
                obstore.delete(self._store, self._key(path))
            except FileNotFoundError as error:
                _require_missing(error)

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a directory, if there is anything."""
        directory = directory_path(prefix)
        if not directory:
            raise InternalError(
                "delete_prefix needs a directory inside the root, not the root itself"
            )
        with count_request(StoreAction.DELETE, self._root, directory):
            for page in obstore.list(self._store, prefix=self._directory_key(directory)):
                obstore.delete(self._store, [item["path"] for item in page])

    # ---- keys

    def _key(self, path: str) -> str:
        return self._directory_key(object_path(path))

    def _directory_key(self, directory: str) -> str:
        return "/".join(part for part in (self._prefix, directory) if part)

    def _relative(self, key: str) -> str:
        return key.removeprefix(f"{self._prefix}/") if self._prefix else key


def _require_missing(error: FileNotFoundError) -> None:
    """Pass a missing object; a missing bucket goes on as the error it is."""
    if not is_missing(error):
        raise error


def _require_lost(error: PreconditionError) -> None:
    """Pass a lost race; a missing bucket fails the precondition as well, and is an error."""
    if fault_of(error).kind is not StorageKind.PRECONDITION:
        raise error


# ---- which store


_BUILDERS: Final[Mapping[str, Callable[..., ObjectStore]]] = {
    "s3": S3Store,
    "gs": GCSStore,
    "az": AzureStore,
}
_memory_lock: Final = threading.Lock()
_memory_stores: Final[dict[str, MemoryStore]] = {}


def open_objects(
    root: Root,
    options: Mapping[str, str] | None = None,
    *,
    fsync: bool = False,
    runtime: Runtime = SYSTEM,
) -> Objects:
    """Choose the store behind a root; `fsync` makes a local write durable before it returns."""
    if root.is_local:
        return LocalObjects(root, fsync=fsync, runtime=runtime)
    if root.is_memory:
        return StoreObjects(root, _memory_store(root.container), prefix=root.prefix)
    with translate_object_faults(StoreAction.OPEN, root, ""):
        return StoreObjects(root, _remote_store(root, options), prefix=root.prefix)


def _memory_store(name: str) -> MemoryStore:
    """Share one memory per name in this process; Lance keeps its own and cannot see this one."""
    with _memory_lock:
        return _memory_stores.setdefault(name, MemoryStore())


def _remote_store(root: Root, options: Mapping[str, str] | None) -> ObjectStore:
    settings = obstore_options(root, options)
    return _BUILDERS[root.scheme](
        root.container,
        config=dict(settings.config),
        client_options=dict(settings.client),
        retry_config=dict(settings.retry),
    )


def prove_conditional_puts(objects: Objects, root: Root, runtime: Runtime = SYSTEM) -> None:
    """Refuse a store that ignores the conditions all our safety rests on; four small requests."""
    path = f"{LOCKS}/probe-{runtime.new_id()}.json"
    try:
        created = objects.put_if_absent(path, "first")
        is_repeated = objects.put_if_absent(path, "second")
        seen = objects.read_versioned(path)
        replaced = seen and objects.put_if_match(path, "third", seen.token)
        stale = seen and objects.put_if_match(path, "fourth", seen.token)
    finally:
        objects.delete(path)
    if not created or is_repeated or not replaced or stale:
        raise make_conditions_error(root)


# ---- tokens


def _token(meta: Mapping[str, Any]) -> str:
    return json.dumps([meta.get("e_tag"), meta.get("version")])


def _condition(token: str) -> Any:
    fields = zip(("e_tag", "version"), json.loads(token), strict=True)
    return {name: value for name, value in fields if value is not None}
