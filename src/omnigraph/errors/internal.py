"""Errors that are bugs of this package."""

from omnigraph.errors.base import OmniError


class InternalError(OmniError):
    """A bug: report it."""

    kind = "internal_error"
    http_code = "internal"


class EngineError(InternalError):
    """Execution failed inside a valid request."""

    kind = "engine_error"


class PolicyEvaluationError(InternalError):
    """The policy could not be evaluated; nothing is allowed by that."""

    kind = "policy_error"

    def __init__(self, action: str, reason: str) -> None:
        super().__init__(
            f"the policy could not be evaluated for {action}: {reason}; no changes were made"
        )
