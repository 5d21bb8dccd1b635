"""Refusals of a server as the errors that the same call raises on a graph at hand."""

import inspect
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import ceil
from typing import Any, Final

from omnigraphdb import errors
from omnigraphdb.engine.merge.conflicts import Conflict
from omnigraphdb.errors import InternalError, OmniError, escape_controls
from omnigraphdb.runtime import us_of
from omnigraphdb.wire import from_dict

WAIT_SECONDS_MAX: Final = 3_600
"""A server that asks for a longer wait is asked again after this."""

_PLAIN = {"error", "code", "kind", "hint", "outcome", "request_id"}
_GROUPS = {
    400: errors.UserInputError,
    401: errors.Unauthenticated,
    403: errors.AuthError,
    404: errors.NotFoundError,
}


def error_of(
    facts: Mapping[str, Any], status: int, headers: Mapping[str, str], now_us: int
) -> OmniError:
    """Build the error that a body describes: its class by its kind, its facts as they came."""
    kind = _CLASSES.get(str(facts.get("kind")), _GROUPS.get(status, InternalError))
    error = kind.__new__(kind)
    message = escape_controls(facts.get("error") or f"the server answered {status}")
    error.args = (message,)
    error.message = message
    error.details = {name: value for name, value in facts.items() if name not in _PLAIN}
    if facts.get("hint") is not None:
        error.hint = escape_controls(facts["hint"])
    error.code = _find_code(error.details) or kind.code
    _add_facts(error, headers, now_us)
    return error


def read_wait(text: str, now_us: int) -> int:
    """Read a `Retry-After`: a number of seconds, or the date of HTTP; what is neither is a second."""
    if text.isascii() and text.isdigit():
        return min(int(text[:10]), WAIT_SECONDS_MAX)
    try:
        moment = parsedate_to_datetime(text)
        seconds = (us_of(moment) - now_us) / 1_000_000
    except (ValueError, TypeError, OverflowError):
        return 1
    return max(0, min(ceil(seconds), WAIT_SECONDS_MAX))


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


def _add_facts(error: OmniError, headers: Mapping[str, str], now_us: int) -> None:
    """Set the attributes that callers read."""
    match error:
        case errors.MergeConflicts():
            shown = error.details.get("merge_conflicts", ())
            error.conflicts = tuple(from_dict(Conflict, one) for one in shown)
            error.total = error.details.get("merge_conflicts_total", len(error.conflicts))
        case errors.PreconditionFailed():
            facts = error.details.get("precondition_failure", {})
            error.expected, error.actual = facts.get("expected"), facts.get("actual")
        case errors.TooManyRequests() | errors.ServerBusy():
            error.retry_after = read_wait(headers.get("retry-after", ""), now_us)
        case errors.NotFound():
            facts = error.details.get("missing", {})
            error.what, error.name = facts.get("what", ""), facts.get("name", "")
        case _:
            pass
