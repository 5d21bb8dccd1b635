"""Versions that are opened beside the write that made them, on an object store."""

import threading

from omnigraphdb.storage.lance.tables import OPENING


def await_openings() -> None:
    """Wait until they are open, so that what they ask for is counted here and not later."""
    for thread in threading.enumerate():
        if thread.name == OPENING:
            thread.join()
