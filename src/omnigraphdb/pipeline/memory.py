"""Giving freed memory back to the system: allocators keep it for later, which counts where a process has a bound."""

import ctypes
import os
from contextlib import suppress
from typing import Final

import pyarrow as pa

_ARENA_MAX: Final = -8
"""The option of the C library for the number of its arenas."""


def keep_little() -> None:
    """Make a long-running process keep little of its freed memory: call it before there are threads.

    Arrow allocates from the C library, which gives back memory that Arrow's own pools would keep; and threads share as
    many arenas as there are processors, since each of eight times as many would keep the memory freed in it. An
    environment variable that sets the pool or the arenas is respected.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_ARENA_MAX, max(2, os.cpu_count() or 2))


def release_freed() -> None:
    """Give back the freed memory that Arrow and the C library keep; do nothing on a system whose library cannot."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
