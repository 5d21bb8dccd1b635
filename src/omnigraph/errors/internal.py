"""Errors that are bugs of this package."""

from omnigraph.errors.base import OmniError


class InternalError(OmniError):
    """A bug: report it."""

    kind = "internal_error"
    http_code = "internal"


class EngineError(InternalError):
    """Execution failed inside a valid request."""

    kind = "engine_error"
