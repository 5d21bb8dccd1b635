"""Refusals of a server as the errors that the same call raises on a graph at hand."""

import inspect
from collections.abc import Mapping
from typing import Any

from omnigraph import errors
from omnigraph.errors import InternalError, OmniError
from omnigraph.remote.decode import read_conflict

_PLAIN = {"error", "code", "kind", "hint", "outcome", "request_id"}
_GROUPS = {
    400: errors.UserInputError,
    401: errors.Unauthenticated,
    403: errors.AuthError,
    404: errors.NotFoundError,
}


def error_of(body: Any, status: int, headers: Mapping[str, str]) -> OmniError:
    """Build the error that a body describes: its class by its kind, its facts as they came."""
    facts = body if isinstance(body, dict) else {}
    kind = _CLASSES.get(str(facts.get("kind")), _GROUPS.get(status, InternalError))
    error = kind.__new__(kind)
    message = str(facts.get("error") or f"the server answered {status}")
    error.args = (message,)
    error.message = message
    error.details = {name: value for name, value in facts.items() if name not in _PLAIN}
    if facts.get("hint") is not None:
        error.hint = str(facts["hint"])
    error.code = _find_code(error.details) or kind.code
    _add_facts(error, headers)
    return error


def _list_classes() -> dict[str, type[OmniError]]:
    """Classes by kind; where a group and a class of it share a kind, the class."""
    found: dict[str, type[OmniError]] = {}
    for _, one in inspect.getmembers(errors, inspect.isclass):
        if issubclass(one, OmniError) and (
            one.kind not in found or issubclass(one, found[one.kind])
        ):
            found[one.kind] = one
    return found


_CLASSES = _list_classes()


def _find_code(details: Mapping[str, Any]) -> str | None:
    """The finest code of an error, which its structured field carries."""
    match details:
        case {"diagnostic": {"code": str(code)}} | {"param": {"code": str(code)}}:
            return code
        case {"data_errors": [{"rule": str(code)}, *_]}:
            return code
        case _:
            return None


def _add_facts(error: OmniError, headers: Mapping[str, str]) -> None:
    """Set the attributes that callers read."""
    match error:
        case errors.MergeConflicts():
            shown = error.details.get("merge_conflicts", ())
            error.conflicts = tuple(read_conflict(one) for one in shown)
            error.total = error.details.get("merge_conflicts_total", len(error.conflicts))
        case errors.PreconditionFailed():
            facts = error.details.get("precondition_failure", {})
            error.expected, error.actual = facts.get("expected"), facts.get("actual")
        case errors.TooManyRequests():
            error.retry_after = int(headers.get("retry-after", "1"))
        case errors.NotFound():
            facts = error.details.get("missing", {})
            error.what, error.name = facts.get("what", ""), facts.get("name", "")
        case _:
            pass
