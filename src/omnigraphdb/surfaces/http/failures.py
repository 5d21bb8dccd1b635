"""How an error becomes an answer: its status, its body, and what is known about a write that failed."""

from typing import Any, Final

from omnigraphdb import errors
from omnigraphdb.api.wire import OutcomeOutput
from omnigraphdb.errors import OmniError

_STATUSES: Final[tuple[tuple[tuple[type[OmniError], ...], int], ...]] = (
    ((errors.Unauthenticated,), 401),
    ((errors.AuthError, errors.ReadOnlyError), 403),
    ((errors.MethodNotAllowed,), 405),
    ((errors.RequestTimeout,), 408),
    ((errors.UnsupportedMedia,), 415),
    ((errors.BlobRange,), 416),
    ((errors.PreconditionFailed, errors.BlobPrecondition), 412),
    ((errors.TooManyRequests,), 429),
    ((errors.HeadersTooLarge,), 431),
    ((errors.NotReady,), 503),
    ((errors.ReadCancelled,), 504),
    ((errors.ServerBusy,), 503),
    ((errors.LimitError,), 413),
    ((errors.HistoryReclaimed, errors.ChangeFeedGap), 410),
    ((errors.NotFoundError,), 404),
    ((errors.RecoveryError, errors.GraphClosed), 503),
    ((errors.ConflictError,), 409),
    ((errors.UserInputError, errors.EvaluationError), 400),
)
HIDDEN: Final = "the server failed to answer; its log has the reason under this request id"
"""What a caller learns about a failure of the server itself."""


def status_of(error: Exception) -> int:
    """The status of an error, by its class; an error that is none of ours is a bug of the server."""
    return next((status for kinds, status in _STATUSES if isinstance(error, kinds)), 500)


def body_of(error: Exception, request_id: str, *, writes: bool) -> dict[str, Any]:
    """The body of an error; facts of a failure inside the server stay in its log."""
    status = status_of(error)
    if status == 500 or not isinstance(error, OmniError):
        kind = error.kind if isinstance(error, OmniError) else "internal_error"
        body: dict[str, Any] = {"error": HIDDEN, "code": "internal", "kind": kind}
    else:
        body = error.to_dict()
    if not body.get("merge_conflicts", True):
        del body["merge_conflicts"]
    outcome = {"outcome": outcome_of(error)} if writes else {}
    return body | outcome | {"request_id": request_id}


def headers_of(error: Exception) -> dict[str, str]:
    """The headers that go with an error."""
    match error:
        case errors.Unauthenticated():
            return {"www-authenticate": "Bearer"}
        case errors.MethodNotAllowed():
            return {"allow": ", ".join(error.allowed)}
        case errors.TooManyRequests() | errors.ServerBusy():
            return {"retry-after": str(error.retry_after)}
        case errors.RequestTimeout() | errors.HeadersTooLarge() | errors.NotReady():
            return {"connection": "close"}
        case errors.BlobRange():
            return {"content-range": f"bytes */{error.length}"}
        case _:
            return {}


def outcome_of(error: Exception) -> OutcomeOutput:
    """Tell what is known about a write that failed, and what its caller does next."""
    match error:
        case errors.TooManyRequests() | errors.RequestTimeout() | errors.NotReady():
            return {"execution": "not_started", "effects": "none", "action": "retry"}
        case errors.MergeConflicts():
            return {"execution": "finished", "effects": "none", "action": "fix"}
        case errors.RecoveryError():
            return {"execution": "finished", "effects": "unknown", "action": "recover"}
        case errors.ConflictError():
            return {"execution": "finished", "effects": "none", "action": "refresh"}
        case errors.UserInputError() | errors.NotFoundError() | errors.AuthError():
            return {"execution": "not_started", "effects": "none", "action": "fix"}
        case errors.LimitError():
            return {"execution": "not_started", "effects": "none", "action": "fix"}
        case _:
            return {"execution": "unknown", "effects": "unknown", "action": "reconcile"}
