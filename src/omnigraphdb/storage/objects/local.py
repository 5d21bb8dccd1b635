"""Texts in a directory: whole files that appear by link or rename, and a true conditional replace."""

import errno
import hashlib
import itertools
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from omnigraphdb.errors import InternalError, StorageError
from omnigraphdb.limits import OBJECT_GUARD_SECONDS_MAX, OBJECT_ROUNDS_MAX
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.kernel_locks import try_lock, unlock
from omnigraphdb.storage.layout import OBJECT_GUARD, Root
from omnigraphdb.storage.objects.faults import StorageKind, StoreAction, storage_error, text_of
from omnigraphdb.storage.objects.protocol import (
    Stamp,
    Versioned,
    count_request,
    directory_path,
    is_object_path,
    object_path,
)

_temporary_numbers = itertools.count(1)
_GONE: Final = (errno.ENOENT, errno.ENOTDIR)
_GUARD_POLL_SECONDS: Final = 0.0005


class LocalObjects:
    """Objects under a directory of this machine.

    A write is prepared as `name#<digits>` and appears by link (create) or rename (replace), so a process
    killed at any point leaves the old or the new text. Replacing, renaming and deleting hold one kernel lock
    per root, which makes compare-and-replace atomic between processes; reading holds none.
    """

    def __init__(self, root: Root, *, fsync: bool = False, runtime: Runtime = SYSTEM) -> None:
        self._root = root
        self._directory = f"{root.uri.rstrip('/')}/"
        self._fsync = fsync
        self._runtime = runtime

    # ---- reading

    def read(self, path: str) -> str | None:
        """Read a whole text; None only when it is genuinely not there."""
        data = self.read_bytes(path)
        return None if data is None else text_of(data, self._root, path)

    def read_all(self, paths: Sequence[str]) -> list[str | None]:
        """Read several texts, each as `read` does."""
        return [self.read(path) for path in paths]

    def read_versioned(self, path: str) -> Versioned | None:
        """Read a text with its token; None only when it is genuinely not there."""
        data = self.read_bytes(path)
        if data is None:
            return None
        # A text that was replaced since it was read seems younger, never older.
        with suppress(FileNotFoundError):
            changed_us = os.stat(self._directory + path).st_mtime_ns // 1_000
            return Versioned(text_of(data, self._root, path), _token(data), changed_us)
        return None

    def read_bytes(self, path: str) -> bytes | None:
        """Read a small file of another kind whole; None only when it is genuinely not there."""
        with count_request(StoreAction.READ, self._root, path):
            return _bytes_of(self._file(path))

    def map_bytes(self, path: str) -> memoryview | None:
        """Map a file of any size; None only when it is genuinely not there."""
        with count_request(StoreAction.READ, self._root, path):
            return _map_of(self._file(path))

    def exists(self, path: str) -> bool:
        """Tell whether there is a text, or any text below this path."""
        file = self._file(path)
        with count_request(StoreAction.LOOK, self._root, path):
            mode = _mode_of(file)
            return stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and _holds_any(file))

    def list(self, prefix: str) -> tuple[str, ...]:
        """List the texts directly in a directory, sorted; empty when there is none."""
        directory = directory_path(prefix)
        with count_request(StoreAction.LIST, self._root, directory):
            names = _file_names(self._root.at(directory))
        paths = (f"{directory}/{name}" if directory else name for name in names)
        return tuple(sorted(path for path in paths if is_object_path(path)))

    def times(self, prefix: str) -> dict[str, int]:
        """Tell when each text directly in a directory was written, in microseconds of the disk's own clock."""
        times: dict[str, int] = {}
        for path in self.list(prefix):
            # A text may be removed after it was listed.
            with suppress(FileNotFoundError):
                times[path] = os.stat(self._directory + path).st_mtime_ns // 1_000
        return times

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp]:
        """Tell texts by inode, time and size; a missing one has none.

        A replaced file has another inode, an edited one another time. Every read checks a few texts in this way, so
        each is checked alone: a listing of their directory may be longer.
        """
        stamps: dict[str, Stamp] = {}
        for path in paths:
            try:
                seen = os.stat(self._directory + path)
            except OSError as error:
                if error.errno not in _GONE:
                    raise storage_error(error, StoreAction.LOOK, self._root, path) from error
            else:
                stamps[path] = (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        record(Cost.OBJECT_LISTS)
        return stamps

    def have_stamps(self, paths: Sequence[str], stamps: Mapping[str, Stamp]) -> bool:
        """Tell whether texts still have the stamps that they had, and the others still are not there.

        Every read asks this, so a missing text is looked for without the error that `stat` would make.
        """
        directory = self._directory
        for path in paths:
            expected = stamps.get(path)
            if expected is None:
                if os.access(directory + path, os.F_OK):
                    return False
                continue
            try:
                seen = os.stat(directory + path)
            except OSError:
                return False
            if expected != (seen.st_ino, seen.st_mtime_ns, seen.st_size):
                return False
        record(Cost.OBJECT_LISTS)
        return True

    # ---- writing

    def put(self, path: str, text: str) -> str:
        """Write a text and give its token: readers see the old or the new one, never a part."""
        data = text.encode()
        with count_request(StoreAction.WRITE, self._root, path):
            self._write(path, data, self._replace)
        return _token(data)

    def put_bytes(self, path: str, data: bytes) -> None:
        """Replace a file of another kind: readers see the old or the new one, never a part."""
        with count_request(StoreAction.WRITE, self._root, path):
            self._write(path, data, self._replace)

    def put_if_absent(self, path: str, text: str | bytes) -> str | None:
        """Create a text, or a file of another kind, and give its token; of N concurrent callers all but one get None."""
        data = text.encode() if isinstance(text, str) else text
        with count_request(StoreAction.CREATE, self._root, path):
            return _token(data) if self._write(path, data, _link) else None

    def put_if_match(self, path: str, text: str, token: str) -> str | None:
        """Replace the text the token names and give its new token; None when another writer was faster."""
        data = text.encode()

        def replace_if_same(temporary: str, file: str) -> bool:
            with self._guard():
                seen = _bytes_of(file)
                if seen is None or _token(seen) != token:
                    return False
                os.replace(temporary, file)
            return True

        with count_request(StoreAction.REPLACE, self._root, path):
            if _mode_of(self._file(path)) == 0:
                return None
            return _token(data) if self._write(path, data, replace_if_same) else None

    def rename(self, source: str, target: str) -> None:
        """Move a text over another, in one step."""
        old, new = self._file(source), self._file(target)
        if old == new:
            return
        with count_request(StoreAction.RENAME, self._root, source):
            # Checked first: a rename that fails must not leave a new directory behind.
            os.stat(old)
            self._make_directory(os.path.dirname(new))
            with self._guard():
                os.replace(old, new)
            self._sync_directory(os.path.dirname(new))

    def copy(self, source: str, target: str) -> None:
        """Copy a file; the copy has a new modification time, unlike a hard link."""
        old, new = self._file(source), self._file(target)
        temporary = f"{new}#{os.getpid()}{next(_temporary_numbers):09d}"
        with count_request(StoreAction.WRITE, self._root, target):
            self._make_directory(os.path.dirname(new))
            try:
                shutil.copyfile(old, temporary)
                os.rename(temporary, new)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise

    def delete(self, path: str) -> None:
        """Remove a text, if it is there."""
        file = self._file(path)
        with count_request(StoreAction.DELETE, self._root, path):
            mode = _mode_of(file, follow=False)
            if mode and not stat.S_ISDIR(mode):
                with self._guard(), suppress(FileNotFoundError):
                    os.unlink(file)

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a directory, if there is anything."""
        directory = directory_path(prefix)
        if not directory:
            raise InternalError(
                "delete_prefix needs a directory inside the root, not the root itself"
            )
        with count_request(StoreAction.DELETE, self._root, directory):
            if stat.S_ISDIR(_mode_of(self._root.at(directory))):
                _remove_tree(self._root.at(directory))

    # ---- how a text appears

    def _file(self, path: str) -> str:
        return self._root.at(object_path(path))

    def _write(self, path: str, data: bytes, appear: Callable[[str, str], bool]) -> bool:
        """Prepare a temporary file beside the target, then let it appear."""
        file = self._file(path)
        temporary = self._temporary(file, data)
        try:
            won = appear(temporary, file)
        finally:
            # A rename has removed this name; a link has left it as a second name of the text.
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        if won:
            self._sync_directory(os.path.dirname(file))
        return won

    def _temporary(self, file: str, data: bytes) -> str:
        for _ in range(OBJECT_ROUNDS_MAX):
            temporary = f"{file}#{os.getpid()}{next(_temporary_numbers):09d}"
            try:
                self._fill(temporary, data)
            except FileNotFoundError:
                self._make_directory(os.path.dirname(file))
            except FileExistsError:
                continue
            else:
                return temporary
        raise StorageError(
            f"could not write '{file}': its directory was removed {OBJECT_ROUNDS_MAX} times meanwhile; "
            "nothing was written",
            storage_kind=StorageKind.TRANSIENT,
        )

    def _fill(self, temporary: str, data: bytes) -> None:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(descriptor, "wb", closefd=True) as stream:
                stream.write(data)
                stream.flush()
                if self._fsync:
                    # Before the name appears: a power cut must not leave a name without its text.
                    os.fsync(stream.fileno())
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _replace(self, temporary: str, file: str) -> bool:
        with self._guard():
            os.replace(temporary, file)
        return True

    def _make_directory(self, directory: str) -> None:
        if os.path.isdir(directory):
            return
        os.makedirs(directory, exist_ok=True)
        while self._fsync and directory.startswith(self._root.uri):
            directory = os.path.dirname(directory)
            self._sync_directory(directory)

    def _sync_directory(self, directory: str) -> None:
        if not self._fsync:
            return
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # ---- the guard

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Hold the lock of this root's replacing writers; the kernel releases it when the process dies."""
        descriptor = self._acquire_guard(self._root.at(OBJECT_GUARD))
        try:
            yield
        finally:
            unlock(descriptor)

    def _acquire_guard(self, file: str) -> int:
        deadline = self._runtime.monotonic() + OBJECT_GUARD_SECONDS_MAX
        while self._runtime.monotonic() < deadline:
            descriptor = try_lock(file)
            if descriptor is not None:
                return descriptor
            self._runtime.wait(self._runtime.jitter(_GUARD_POLL_SECONDS))
        raise StorageError(
            f"waited {OBJECT_GUARD_SECONDS_MAX:g} s for '{file}', which a writer holds for microseconds; "
            "nothing was written",
            storage_kind=StorageKind.TRANSIENT,
            hint="look for a stopped process that has the file open",
        )


def _link(temporary: str, file: str) -> bool:
    try:
        os.link(temporary, file)
    except FileExistsError:
        return False
    return True


def _bytes_of(file: str) -> bytes | None:
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except IsADirectoryError:
        return None
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def _map_of(file: str) -> memoryview | None:
    try:
        with open(file, "rb") as stream:
            if not os.fstat(stream.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        if error.errno in (*_GONE, errno.EISDIR):
            return None
        raise


def _mode_of(file: str, *, follow: bool = True) -> int:
    """Return the type and mode of a file; 0 when it does not exist."""
    try:
        return os.stat(file, follow_symlinks=follow).st_mode
    except OSError as error:
        if error.errno in _GONE:
            return 0
        raise


def _file_names(directory: str) -> tuple[str, ...]:
    try:
        with os.scandir(directory) as entries:
            return tuple(entry.name for entry in entries if entry.is_file())
    except OSError as error:
        if error.errno in _GONE:
            return ()
        raise


def _holds_any(directory: str) -> bool:
    def refuse(error: OSError) -> None:
        if error.errno not in _GONE:
            raise error

    walk = os.walk(directory, onerror=refuse)
    return any(is_object_path(name) for _, _, names in walk for name in names)


def _remove_tree(directory: str) -> None:
    """Remove a directory while others may still put files into it, or remove it too."""
    for _ in range(OBJECT_ROUNDS_MAX):
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            if not os.path.lexists(directory):
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
        else:
            return
    raise OSError(errno.ENOTEMPTY, "other writers kept filling it", directory)


def _token(data: bytes) -> str:
    # Content, not inode or time: both are used again within one tick of the clock.
    return hashlib.sha256(data).hexdigest()
