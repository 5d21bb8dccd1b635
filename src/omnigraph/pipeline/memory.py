"""Giving freed memory back to the system: allocators keep it for later, which counts where a process has a bound."""

import ctypes
from contextlib import suppress

import pyarrow as pa


def release_freed() -> None:
    """Give back what Arrow and the C library keep of freed memory; does nothing on a system whose library cannot."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
