"""A background recoverer: settles what dead writers left, every few seconds, while a handle is open."""

import threading

from omnigraph.errors import OmniError
from omnigraph.logs import get_logger
from omnigraph.recovery.sweep import Recovery

_log = get_logger(__name__)


class Reconciler:
    """One daemon thread; nothing happens before `start` and after `stop`."""

    def __init__(self, recovery: Recovery, seconds: float) -> None:
        self._recovery = recovery
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="omnigraph-reconciler", daemon=True)

    def start(self) -> None:
        """Begin; the first look comes after one pause, since an open has just looked."""
        self._thread.start()

    def end(self) -> None:
        """Let it end by itself; for a handle that was dropped without being closed."""
        self._stopping.set()

    def stop(self) -> None:
        """End, and wait for the operation in hand."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._recovery.settle()
            except OmniError as error:
                # Whatever stands in the way is told to the next write or open; here it is tried again.
                _log.warning("reconciler.failed", reason=str(error))
