"""The error of a client that got an unusable answer to its call."""

from omnigraphdb.errors.request import ServerUnreachable
from omnigraphdb.errors.wording import shorten

BEGINNING_CHARS_MAX = 120
"""Characters of an unreadable answer that its error shows."""

_REFUSALS = frozenset(
    {400, 401, 403, 404, 405, 406, 407, 410, 411, 413, 414, 415, 421, 422, 429, 431}
)
"""Statuses that a server or a proxy sends before a request is carried out."""
_PASSING = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may be answered."""


class RemoteError(ServerUnreachable):
    """A server, or a proxy before it, gave an answer that the client cannot take for the answer of its call.

    Check the address and the answer of the proxy; the hint says whether the call may be repeated.
    """

    kind = "remote_error"

    def __init__(
        self,
        reason: str,
        *,
        server: str,
        method: str,
        path: str,
        writes: bool,
        status: int | None = None,
        content_type: str | None = None,
        beginning: bytes = b"",
        is_passing: bool = False,
        hint: str | None = None,
    ) -> None:
        """Word the answer; `is_passing` says that it broke off, so that the same request may be answered later."""
        excerpt = shorten(beginning.decode("utf-8", "backslashreplace"), BEGINNING_CHARS_MAX)
        is_refused = status is not None and (300 <= status < 400 or status in _REFUSALS)
        self.is_unknown = writes and not is_refused
        passes = is_passing or status in _PASSING
        state = (
            "whether the write was done is unknown" if self.is_unknown else "nothing was changed"
        )
        begins = f"; it begins with '{excerpt}'" if excerpt else ""
        super().__init__(
            f"{method} {shorten(path, BEGINNING_CHARS_MAX)} of '{shorten(server, BEGINNING_CHARS_MAX)}' got "
            f"{_name_answer(status, content_type)}: {reason}{begins}; {state}",
            storage_kind="transient" if passes else "unknown",
            hint=hint or _advise(status, is_unknown=self.is_unknown, passes=passes),
        )
        self.method, self.path, self.status = method, path, status
        self.content_type, self.beginning = content_type, excerpt


def _name_answer(status: int | None, content_type: str | None) -> str:
    if status is None:
        return "an answer that is not HTTP"
    kind = "no content type" if content_type is None else f"'{shorten(content_type)}'"
    return f"the answer {status} with {kind}"


def _advise(status: int | None, *, is_unknown: bool, passes: bool) -> str:
    if is_unknown:
        return "look at the newest commit before you repeat it; with an idempotency key a repetition is safe"
    if passes:
        return "send it again later"
    if status in (401, 403, 407):
        return "check the token; the answer came from a proxy before the omnigraphdb server"
    return "check that the address is that of an omnigraphdb server, and what a proxy before it answers"
