"""Pushing what Lance wrote to the disk: Lance itself never asks for it."""

import ctypes
import os
from typing import Final

_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)


def sync_file_system(directory: str) -> None:
    """Wait until everything written to the file system of a directory would survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if hasattr(_LIBRARY, "syncfs"):
            if _LIBRARY.syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), directory)
        else:
            os.sync()
    finally:
        os.close(descriptor)
