"""Clocks that tests move by hand: those of machines, and that of a store."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from obstore.store import MemoryStore

from omnigraphdb.runtime import SystemRuntime
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.cloud import StoreObjects
from omnigraphdb.storage.objects.protocol import Versioned
from tests.support.fault_objects import FaultObjects

_Landed = TypeVar("_Landed")


@dataclass
class World:
    """The time that really passes, in seconds."""

    now: float = 1_700_000_000.0

    def pass_time(self, seconds: float) -> None:
        """Let time pass, for every machine."""
        self.now += seconds


@dataclass
class Machine(SystemRuntime):
    """The clocks of one machine; waiting on it makes time pass everywhere."""

    world: World = field(default_factory=World)
    wall_off: float = 0.0
    """How far the wall clock is ahead."""
    slept: float = 0.0
    """For how long the machine was suspended: its monotonic clock stood still."""

    def now_us(self) -> int:
        return int((self.world.now + self.wall_off) * 1_000_000)

    def monotonic(self) -> float:
        return self.world.now - self.slept

    def wait(self, seconds: float) -> None:
        self.world.pass_time(seconds)


class DatedObjects(FaultObjects):
    """A store in memory that dates what it is given by a clock of its own, in whole seconds, as S3 does."""

    def __init__(self, world: World) -> None:
        root = root_of(f"memory://{random.getrandbits(64):x}")
        super().__init__(StoreObjects(root, MemoryStore()), root)
        self._world = world
        self._written: dict[str, float] = {}
        self.off = 0.0
        """How far the clock of the store is ahead."""

    def read_versioned(self, path: str) -> Versioned | None:
        stored = super().read_versioned(path)
        if stored is None:
            return None
        return replace(stored, changed_us=int(self._written[path]) * 1_000_000)

    def put(self, path: str, text: str) -> str:
        return self._date(path, lambda: super(DatedObjects, self).put(path, text))

    def put_if_absent(self, path: str, text: str | bytes) -> str | None:
        return self._date(path, lambda: super(DatedObjects, self).put_if_absent(path, text))

    def put_if_match(self, path: str, text: str, token: str) -> str | None:
        return self._date(path, lambda: super(DatedObjects, self).put_if_match(path, text, token))

    def _date(self, path: str, write: Callable[[], _Landed]) -> _Landed:
        landed = write()
        if landed is not None:
            self._written[path] = self._world.now + self.off
        return landed
