"""Work that many threads or processes do on one object at the same time; importable, so that fresh processes can run it."""

import threading
from collections.abc import Sequence
from typing import Protocol

from tests.support.store_roots import StoreRoot


class Barrier(Protocol):
    """The barrier before each round, for threads and processes alike."""

    def wait(self) -> int: ...


def create_each(
    barrier: Barrier, store_root: StoreRoot, me: int, paths: Sequence[str]
) -> list[str]:
    """Try to create every path, all racers at once; return the paths that this one created."""
    objects = store_root.open()
    won = []
    for path in paths:
        barrier.wait()
        if objects.put_if_absent(path, f"{me}"):
            won.append(path)
    return won


def replace_each(
    barrier: Barrier, store_root: StoreRoot, me: int, tokens: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Try to replace every path from a known token, all racers at once; return the paths that this one replaced, with new tokens."""
    objects = store_root.open()
    won = []
    for path, token in tokens:
        barrier.wait()
        new = objects.put_if_match(path, f"by {me}", token)
        if new is not None:
            won.append((path, new))
    return won


def count_up(store_root: StoreRoot, path: str, times: int) -> int:
    """Add to a counter by compare-and-replace; give the number of lost rounds."""
    objects = store_root.open()
    lost = 0
    for _ in range(times):
        while True:
            seen = objects.read_versioned(path)
            assert seen is not None
            if objects.put_if_match(path, str(int(seen.text) + 1), seen.token) is not None:
                break
            lost += 1
    return lost


def write_until_killed(store_root: StoreRoot, path: str, started: threading.Event) -> None:
    """Replace one large text again and again, by both ways."""
    objects = store_root.open()
    number = 0
    while True:
        number += 1
        objects.put(path, whole_text(number))
        seen = objects.read_versioned(path)
        assert seen is not None
        number += 1
        objects.put_if_match(path, whole_text(number), seen.token)
        started.set()


def whole_text(number: int) -> str:
    """A text large enough to be torn, and that shows when it was."""
    return f"{number}:" + f"{number % 10}" * 100_000


def is_whole(text: str) -> bool:
    """Whether a text is one of those, from its first to its last character."""
    return text == whole_text(int(text.partition(":")[0]))
