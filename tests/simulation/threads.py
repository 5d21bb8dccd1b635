"""Locks, events, conditions, threads and pools that stand in for those of the standard library.

In a task of a world they wait for the scheduler; elsewhere nobody contends for them. `install` imports the engine with them
in place: classes that keep an `Event` as a default keep this one. The process does nothing else but simulate.
"""

import functools
import importlib
import os
import pkgutil
import socket
import sys
import threading as real
import types
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from concurrent.futures import Future
from typing import Any, Final

from tests.simulation.world import Ready, Task, World

_REAL_POOL: Final = futures.ThreadPoolExecutor
_REAL_THREAD: Final = real.Thread
_PACKAGES: Final = ("api", "commit", "engine", "manifest", "pipeline", "recovery", "storage")
_LIBRARIES: Final = ("lance", "obstore.store", "pyarrow.compute", "pyarrow.dataset", "xxhash")
"""What the engine loads; these have threads of their own."""

_worlds: list[World] = []


def enter(world: World) -> None:
    """Let tasks of a world wait for its scheduler from now on."""
    _worlds[:] = [world]


def _task() -> Task | None:
    return _worlds[0].task if _worlds else None


def _block(ready: Ready, seconds: float | None, why: str) -> bool:
    """Wait in a task; elsewhere nobody else runs, so that what is not there does not come."""
    return _worlds[0].block(ready, seconds, why) if _worlds else ready()


class Event:
    """As `threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return _block(self.is_set, timeout, "event")


class Lock:
    """As `threading.Lock`."""

    _may_nest = False

    def __init__(self) -> None:
        self._owner: object | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = _task() or real.get_ident()
        if not (self._may_nest and self._owner is me):
            seconds = None if timeout < 0 else timeout
            if self._owner is not None and not (
                blocking and _block(self._is_free, seconds, "lock")
            ):
                return False
            self._owner = me
        self._count += 1
        return True

    def _is_free(self) -> bool:
        return self._owner is None

    def release(self) -> None:
        self._count -= 1
        if self._count == 0:
            self._owner = None

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """As `threading.RLock`."""

    _may_nest = True


class NoLock:
    """The lock of a cached property, which all clients would share: later versions of Python have none."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Condition:
    """As `threading.Condition`."""

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock or RLock()
        self._notified = 0

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        seen = self._notified
        return self.wait_for(lambda: self._notified > seen, timeout)

    def wait_for(self, predicate: Ready, timeout: float | None = None) -> bool:
        self._lock.release()
        try:
            return _block(predicate, timeout, "condition")
        finally:
            self._lock.acquire()

    def notify(self, n: int = 1) -> None:
        self._notified += n

    def notify_all(self) -> None:
        self._notified += 1


class Thread:
    """As `threading.Thread`: a thread of a task is another task of its client, elsewhere a real one."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        assert target is not None, "no thread of the engine is a class of its own"
        self.name = name or "thread"
        self._work = lambda: target(*args, **(kwargs or {}))
        self._task: Task | None = None

    def start(self) -> None:
        me = _task()
        if me is None:
            _REAL_THREAD(target=self._work, name=self.name, daemon=True).start()
        else:
            self._task = _worlds[0].spawn(me.client, self.name, self._work)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_ended

    def join(self, timeout: float | None = None) -> None:
        _block(lambda: not self.is_alive(), timeout, "join")


class Pool:
    """As `ThreadPoolExecutor`, and does what it is given at once: requests of one client come in order."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, work: Callable[..., Any], *each: Iterable[Any]) -> list[Any]:
        # All are begun, as in a pool, before the first failure is told.
        return [
            one.result() for one in [self.submit(work, *args) for args in zip(*each, strict=False)]
        ]

    def shutdown(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        pass


_STAND_INS: Final = {
    "Event": Event,
    "Lock": Lock,
    "RLock": RLock,
    "Condition": Condition,
    "Thread": Thread,
}


def install() -> None:
    """Import every module of the engine with these in place; everybody else keeps the real ones."""
    if any(name.split(".")[0] == "omnigraphdb" for name in sys.modules):
        raise RuntimeError("the engine is imported already, with real locks")
    for library in _LIBRARIES:
        importlib.import_module(library)
    before = {name: getattr(real, name) for name in _STAND_INS}
    property_lock = vars(functools).get("RLock")
    vars(real).update(_STAND_INS)
    vars(futures)["ThreadPoolExecutor"] = Pool
    vars(functools)["RLock"] = NoLock
    try:
        for package in _PACKAGES:
            _import_all(f"omnigraphdb.{package}")
    finally:
        vars(real).update(before)
        vars(futures)["ThreadPoolExecutor"] = _REAL_POOL
        vars(functools)["RLock"] = property_lock
    _replace_modules()
    # Holders of locks are named in errors, and these in traces: they tell nothing of a machine.
    socket.gethostname = lambda: "simulated"
    os.getpid = lambda: 1


def _import_all(package: str) -> None:
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        importlib.import_module(module.name)


def _replace_modules() -> None:
    """Give modules of the engine that call `threading.Event` at run time a `threading` that has these."""
    stand_in = types.SimpleNamespace(**{**vars(real), **_STAND_INS})
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "omnigraphdb":
            for attribute, value in list(vars(module).items()):
                if value is real:
                    setattr(module, attribute, stand_in)
                elif value is _REAL_POOL:
                    setattr(module, attribute, Pool)
