"""A disk of a few hundred kilobytes, where the machine lets a test mount one."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DETACH = 2


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a small file system for a block; skips where that needs rights the test does not have."""
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={size}".encode()
    linux = sys.platform.startswith("linux")
    if not linux or libc.mount(b"tmpfs", str(place).encode(), b"tmpfs", 0, options):
        pytest.skip("this machine does not let a test mount a file system")
    try:
        yield place
    finally:
        libc.umount2(str(place).encode(), _DETACH)
