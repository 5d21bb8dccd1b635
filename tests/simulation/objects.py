"""A store in memory that keeps the contract of an object store, and `Objects` on it.

Every effect is one request. A client without a world carries its requests out at once, as the tests of the contracts need it.
"""

import errno
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from omnigraphdb.errors import InternalError, StorageError
from omnigraphdb.storage.layout import Root
from omnigraphdb.storage.objects.faults import StoreAction, storage_error, text_of
from omnigraphdb.storage.objects.protocol import (
    Stamp,
    Versioned,
    count_request,
    directory_path,
    is_object_path,
    object_path,
)
from tests.simulation.requested import Lost, Requests, Verb
from tests.simulation.world import Client, World

T = TypeVar("T")


@dataclass(frozen=True)
class Stored:
    """One object: its value, the token of this state of it, and when the store got it by its own clock."""

    value: object
    token: str
    changed_us: int


@dataclass
class Store:
    """Objects by key, each replaced as a whole."""

    now: Callable[[], float] = time.time
    objects: dict[str, Stored] = field(default_factory=dict)
    _number: int = 0
    writers: dict[str, str] = field(default_factory=dict)
    """The operation that wrote each row, by the row's mark; nobody but a judge looks."""
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def put(
        self, key: str, value: object, *, is_new: bool = False, token: str | None = None
    ) -> str | None:
        """Replace an object and give its token; None when it is there (`is_new`), or is not what a token names."""
        with self._guard:
            known = self.objects.get(key)
            if is_new and known is not None:
                return None
            if token is not None and (known is None or known.token != token):
                return None
            self._number += 1
            # Stores date their objects in whole seconds.
            made = Stored(value, f"e{self._number}", int(self.now()) * 1_000_000)
            self.objects[key] = made
            return made.token

    def get(self, key: str) -> Stored | None:
        """The object of a key."""
        return self.objects.get(key)

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        self.objects.pop(key, None)

    def list(self, directory: str, *, below: bool = False) -> list[str]:
        """List the keys in a directory, sorted; `below` those of its directories too."""
        start = f"{directory}/" if directory else ""
        keys = sorted(key for key in self.objects if key.startswith(start))
        return keys if below else [key for key in keys if "/" not in key[len(start) :]]


class Asker:
    """Whoever asks a store in the name of a client."""

    def __init__(self, store: Store, client: Client, requests: Requests) -> None:
        self.store = store
        self.client = client
        self._requests = requests

    def ask(self, verb: Verb, key: str, effect: Callable[[], T]) -> T:
        """Send one request."""
        return self._requests.request(self.client, verb, key, effect)


_stores: dict[str, Store] = {}


def make_lone_asker(uri: str | None = None) -> Asker:
    """Make a client that never fails, of a store of its own, or of the one that this process has at an address."""
    world = World(0)
    store = Store() if uri is None else _stores.setdefault(uri, Store())
    return Asker(store, Client(world, "alone"), Requests(world))


_NO_ANSWER: Final = OSError(errno.ETIMEDOUT, "Connection timed out")
_FULL: Final = OSError(errno.ENOSPC, "No space left on device")
_DENIED: Final = OSError(errno.EACCES, "Permission denied")


def make_failure(lost: Lost, action: StoreAction, root: Root, path: str) -> StorageError:
    """Make the error of a request without an answer, as the real stores make it."""
    if lost.is_full:
        return storage_error(_FULL, action, root, path)
    return storage_error(_DENIED if lost.is_denied else _NO_ANSWER, action, root, path)


class SimulatedObjects:
    """Implements `Objects`."""

    def __init__(self, asker: Asker, root: Root) -> None:
        self._asker = asker
        self._store = asker.store
        self._root = root

    def _ask(self, verb: Verb, action: StoreAction, path: str, effect: Callable[[], T]) -> T:
        with count_request(action, self._root, path):
            return self._send(verb, action, path, effect)

    def _send(self, verb: Verb, action: StoreAction, path: str, effect: Callable[[], T]) -> T:
        try:
            return self._asker.ask(verb, path, effect)
        except Lost as lost:
            raise make_failure(lost, action, self._root, path) from lost

    # ---- reading

    def read(self, path: str) -> str | None:
        seen = self.read_versioned(path)
        return None if seen is None else seen.text

    def read_all(self, paths: Sequence[str]) -> list[str | None]:
        return [self.read(path) for path in paths]

    def read_versioned(self, path: str) -> Versioned | None:
        found = self._find(path)
        if found is None:
            return None
        text = text_of(_bytes_of(found), self._root, path)
        return Versioned(text, found.token, found.changed_us)

    def read_bytes(self, path: str) -> bytes | None:
        found = self._find(path)
        return None if found is None else _bytes_of(found)

    def map_bytes(self, path: str) -> memoryview | None:
        data = self.read_bytes(path)
        return None if data is None else memoryview(data)

    def _find(self, path: str) -> Stored | None:
        key = object_path(path)
        return self._ask(Verb.READ, StoreAction.READ, key, lambda: self._store.get(key))

    def exists(self, path: str) -> bool:
        key = object_path(path)

        def look() -> bool:
            return self._store.get(key) is not None or bool(self._store.list(key, below=True))

        return self._ask(Verb.READ, StoreAction.LOOK, key, look)

    def list(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(self.times(prefix)))

    def times(self, prefix: str) -> Mapping[str, int]:
        return {key: stored.changed_us for key, stored in self._list(prefix).items()}

    def stamps(self, paths: Sequence[str]) -> Mapping[str, Stamp]:
        listed = self._list(paths[0].rpartition("/")[0])
        return {path: listed[path].token for path in paths if path in listed}

    def have_stamps(self, paths: Sequence[str], stamps: Mapping[str, Stamp]) -> bool:
        return self.stamps(paths) == stamps

    def _list(self, prefix: str) -> dict[str, Stored]:
        directory = directory_path(prefix)

        def look() -> dict[str, Stored]:
            keys = self._store.list(directory)
            return {key: self._store.objects[key] for key in keys if is_object_path(key)}

        return self._ask(Verb.LIST, StoreAction.LIST, directory, look)

    # ---- writing

    def put(self, path: str, text: str) -> str:
        token = self._put(Verb.WRITE, StoreAction.WRITE, path, text.encode())
        assert token is not None, "a put without a condition lands"
        return token

    def put_bytes(self, path: str, data: bytes) -> None:
        self._put(Verb.WRITE, StoreAction.WRITE, path, data)

    def put_if_absent(self, path: str, text: str | bytes) -> str | None:
        data = text.encode() if isinstance(text, str) else text
        return self._put(Verb.CONDITIONAL, StoreAction.CREATE, path, data, is_new=True)

    def put_if_match(self, path: str, text: str, token: str) -> str | None:
        data = text.encode()
        return self._put(Verb.CONDITIONAL, StoreAction.REPLACE, path, data, token=token)

    def _put(
        self,
        verb: Verb,
        action: StoreAction,
        path: str,
        data: bytes,
        *,
        is_new: bool = False,
        token: str | None = None,
    ) -> str | None:
        key = object_path(path)
        return self._ask(
            verb, action, key, lambda: self._store.put(key, data, is_new=is_new, token=token)
        )

    def rename(self, source: str, target: str) -> None:
        old, new = object_path(source), object_path(target)
        if old == new:
            return
        with count_request(StoreAction.RENAME, self._root, source):
            self._copy(StoreAction.RENAME, old, new)
            self._send(Verb.DELETE, StoreAction.RENAME, old, lambda: self._store.delete(old))

    def copy(self, source: str, target: str) -> None:
        with count_request(StoreAction.WRITE, self._root, target):
            self._copy(StoreAction.WRITE, object_path(source), object_path(target))

    def _copy(self, action: StoreAction, old: str, new: str) -> None:
        def copy() -> bool:
            found = self._store.get(old)
            if found is not None:
                self._store.put(new, found.value)
            return found is not None

        if not self._send(Verb.WRITE, action, new, copy):
            raise FileNotFoundError(old)

    def delete(self, path: str) -> None:
        key = object_path(path)
        self._ask(Verb.DELETE, StoreAction.DELETE, key, lambda: self._store.delete(key))

    def delete_prefix(self, prefix: str) -> None:
        directory = directory_path(prefix)
        if not directory:
            raise InternalError("delete_prefix needs a directory inside the root")
        listed = self._ask(
            Verb.LIST,
            StoreAction.DELETE,
            directory,
            lambda: self._store.list(directory, below=True),
        )
        for key in listed:
            self.delete(key)


def _bytes_of(stored: Stored) -> bytes:
    assert isinstance(stored.value, bytes), "versions of tables are read by `Lines`"
    return stored.value
