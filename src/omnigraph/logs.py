"""Logs: events with fields, sent through the standard `logging`, never to stdout."""

import logging

import structlog

_PROCESSORS = (
    structlog.stdlib.add_log_level,
    structlog.processors.KeyValueRenderer(key_order=["event"]),
)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Give a logger whose events look like `event='sidecar.disarm_failed' operation='01…'`."""
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=list(_PROCESSORS),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger
