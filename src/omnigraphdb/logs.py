"""Logs: events with fields, sent through the standard `logging`, never to stdout."""

import logging

# A program that wants events configures `logging`; without that, no event reaches stderr.
logging.getLogger("omnigraphdb").addHandler(logging.NullHandler())


class EventLogger:
    """Sends events that look like `event='sidecar.disarm_failed' operation='01…' level='warning'`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    @property
    def is_enabled(self) -> bool:
        """Whether events of normal operation are logged."""
        return self._logger.isEnabledFor(logging.INFO)

    def info(self, event: str, **fields: object) -> None:
        """Send an event of normal operation."""
        self._send(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Send an event that someone should look at."""
        self._send(logging.WARNING, event, fields)

    def failure(self, event: str, error: Exception, **fields: object) -> None:
        """Send a failure with its traceback."""
        self._send(logging.ERROR, event, {"reason": str(error), **fields}, error)

    def _send(
        self, level: int, event: str, fields: dict[str, object], error: Exception | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            said = {"event": event, **fields, "level": logging.getLevelName(level).lower()}
            text = " ".join(f"{name}={value!r}" for name, value in said.items())
            # As an argument: the text may hold a placeholder of `logging`.
            self._logger.log(level, "%s", text, exc_info=error, extra={"fields": said})


def get_logger(name: str) -> EventLogger:
    """Give the logger of a module."""
    return EventLogger(name)
