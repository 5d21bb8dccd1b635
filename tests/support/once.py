"""An action for failpoints that runs on the first arrival only."""

import threading
from collections.abc import Callable


def once(act: Callable[[], object]) -> Callable[[], None]:
    """Act on the first arrival: what the action itself does may well arrive at the same place."""
    done = threading.Event()

    def run() -> None:
        if not done.is_set():
            done.set()
            act()

    return run
