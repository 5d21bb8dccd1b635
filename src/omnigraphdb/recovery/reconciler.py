"""A background thread that recovers operations of dead writers every few seconds while a handle is open."""

import threading

from omnigraphdb.errors import OmniError
from omnigraphdb.logs import get_logger
from omnigraphdb.recovery.sweep import Recovery

_log = get_logger(__name__)


class Reconciler:
    """One daemon thread; nothing happens before `start` and after `stop`."""

    def __init__(self, recovery: Recovery, seconds: float) -> None:
        self._recovery = recovery
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="omnigraph-reconciler", daemon=True)

    def start(self) -> None:
        """Start the thread; it waits once before the first recovery, because an open has just recovered."""
        self._thread.start()

    def end(self) -> None:
        """Ask the thread to end without waiting for it; for a handle that was dropped without being closed."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop the thread and wait for the operation it works on."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._recovery.recover_all()
            except OmniError as error:
                # The next write or open reports the problem; this thread tries again later.
                _log.warning("reconciler.failed", reason=str(error))
