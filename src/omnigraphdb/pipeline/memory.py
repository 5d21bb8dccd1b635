"""Giving freed memory back to the system: allocators keep it for later, which counts where a process has a bound."""

import ctypes
import os
from contextlib import suppress
from typing import Final

import pyarrow as pa

_ARENA_MAX: Final = -8
"""What the C library calls the number of its arenas."""


def keep_little() -> None:
    """Have a process that runs long keep little of what it freed: call it before there are threads.

    Arrow allocates from the C library, which gives back what its own pools would keep; and threads share as many arenas
    as there are processors, since each of eight times as many would keep what it freed. Whoever set the variables of
    either has decided already.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_ARENA_MAX, max(2, os.cpu_count() or 2))


def release_freed() -> None:
    """Give back what Arrow and the C library keep of freed memory; does nothing on a system whose library cannot."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
