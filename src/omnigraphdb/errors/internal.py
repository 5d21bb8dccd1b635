"""Errors that are bugs of this package."""

from omnigraphdb.errors.base import OmniError


class InternalError(OmniError):
    """A bug: report it.

    Report the message.
    """

    kind = "internal_error"
    http_code = "internal"


class EngineError(InternalError):
    """Execution failed inside a valid request.

    Report the message.
    """

    kind = "engine_error"


class EvaluationError(EngineError):
    """A value of a query cannot be computed or represented: the request has to change, not the program.

    Nothing is to be reported: change the query, or the values that it computes with.
    """

    kind = "evaluation_error"
    http_code = "bad_request"


class PolicyEvaluationError(InternalError):
    """The policy could not be evaluated; nothing is allowed by that.

    Report the message; the policy keeps everybody out until it can be evaluated.
    """

    kind = "policy_error"

    def __init__(self, action: str, reason: str) -> None:
        super().__init__(
            f"the policy could not be evaluated for {action}: {reason}; no changes were made"
        )
