"""Errors of a request to a server: who asks, how often, in which form; and of a client that gets no answer."""

from collections.abc import Sequence

from omnigraphdb.errors.conflict import ConflictError
from omnigraphdb.errors.input import AuthError, LimitError, UserInputError
from omnigraphdb.errors.storage import StorageError
from omnigraphdb.errors.wording import shorten


class Unauthenticated(AuthError):
    """The request brings no token that the server knows."""

    kind = "unauthenticated"
    http_code = "unauthorized"
    hint = "send the header `Authorization: Bearer TOKEN`"


class HostRefused(AuthError):
    """The request names a host that this server does not answer for."""

    kind = "host_refused"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the host '{shorten(host)}' is not this machine, which alone the server listens to; nothing was done",
            hint="ask 127.0.0.1 or localhost; `omnigraphdb serve --allow-host NAME` takes the name of a proxy on the same machine",
        )


class OriginRefused(AuthError):
    """A page of another origin sent a request that may change something."""

    kind = "origin_refused"

    def __init__(self, origin: str | None) -> None:
        sender = "another page" if origin is None else f"a page of '{shorten(origin)}'"
        super().__init__(
            f"the request was sent by {sender}, which this server does not let in; nothing was done",
            hint="`omnigraphdb serve --cors-origin ORIGIN` lets pages of an origin in",
        )


class AmbiguousHeader(UserInputError):
    """A header that must come once is missing, or comes more than once.

    Send the header exactly once.
    """

    kind = "ambiguous_header"

    def __init__(self, name: str, count: int) -> None:
        state = "is missing" if count == 0 else f"comes {count} times"
        super().__init__(
            f"the header {name} {state}; nothing was done", hint=f"send {name} exactly once"
        )


class HeadersTooLarge(LimitError):
    """The request line and the headers of a request are larger than a server reads."""

    kind = "headers_too_large"

    def __init__(self, limit: int, setting: str) -> None:
        super().__init__(
            f"the request line and headers are over the limit of {limit} bytes ({setting}); nothing was done",
            hint="send large values in the body",
            details={"resource_limit": {"resource": "header_bytes", "limit": limit}},
        )


class RequestTimeout(LimitError):
    """A request did not arrive whole in its time."""

    kind = "request_timeout"

    def __init__(self, part: str, seconds: float, setting: str) -> None:
        super().__init__(
            f"the {part} did not arrive within {seconds:g} s ({setting}); nothing was done",
            hint="send the request again; if the connection is slow, send less at a time",
        )


class NotReady(LimitError):
    """The server is about to end, or has no graph that it can reach."""

    kind = "not_ready"
    http_code = None
    hint = "send the request again later, or to another server"

    def __init__(self, status: str, *, graphs_ready: int, graphs_quarantined: int) -> None:
        super().__init__(
            f"the server is not ready: it is {status}; nothing was done",
            details={
                "status": status,
                "graphs_ready": graphs_ready,
                "graphs_quarantined": graphs_quarantined,
            },
        )


class TooManyRequests(LimitError):
    """The actor has as much under way as it may have."""

    kind = "too_many_requests"
    http_code = "too_many_requests"
    hint = "wait until an earlier request of yours has ended, then send this one again"

    def __init__(self, resource: str, limit: int, setting: str, *, retry_after: int = 1) -> None:
        super().__init__(
            f"{resource}: {limit} are under way for this actor, which is the limit ({setting}); nothing was started"
        )
        self.resource, self.limit = resource, limit
        self.setting, self.retry_after = setting, retry_after


class ServerBusy(LimitError):
    """All requests together use as much of the server as they may."""

    kind = "server_busy"
    http_code = None
    hint = "send the request again when others have ended; ask for less at a time"

    def __init__(
        self, resource: str, limit: int, actual: int, setting: str, *, retry_after: int = 1
    ) -> None:
        super().__init__(
            f"{resource}: {actual} is over the limit of {limit} of all requests of this server ({setting}); "
            "the request was stopped, nothing was changed",
            details={"resource_limit": {"resource": resource, "limit": limit, "actual": actual}},
        )
        self.resource, self.limit, self.actual = resource, limit, actual
        self.setting, self.retry_after = setting, retry_after


class UnsupportedMedia(UserInputError):
    """The body has a content type or encoding that the route does not read.

    Send the content type that the message names.
    """

    kind = "unsupported_media"

    def __init__(self, media_type: str | None, expected: str) -> None:
        if media_type is None:
            super().__init__(
                "the body does not say of which type it is; nothing was done",
                hint=f"send the header `Content-Type: {expected}`",
            )
        else:
            super().__init__(
                f"the body is '{media_type}', this route reads {expected}; nothing was done"
            )


class MethodNotAllowed(UserInputError):
    """The route knows other methods.

    Use a method that the message names.
    """

    kind = "method_not_allowed"
    http_code = "method_not_allowed"

    def __init__(self, method: str, path: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{path} answers {', '.join(allowed)}, not {method}; nothing was done")
        self.allowed = tuple(allowed)


class BlobRange(UserInputError):
    """A range lies outside a blob.

    Ask for bytes within the length that the message names.
    """

    kind = "blob_range"

    def __init__(self, what: str, start: int, length: int, count: int | None = None) -> None:
        requested = f"{start} on" if count is None else f"{start} on, {count} of them"
        end = None if count is None else start + count
        super().__init__(
            f"{what} has {length} bytes, and those from {requested} were asked for; nothing was read",
            details={"blob_range": {"start": start, "end": end, "length": length}},
        )
        self.length = length


class BlobPrecondition(ConflictError):
    """The blob has another tag than the request expects.

    Read the blob again: it changed.
    """

    kind = "blob_precondition"

    def __init__(self, tag: str) -> None:
        super().__init__(f"the blob has the tag {tag}, which the request does not name")


class ServerUnreachable(StorageError):
    """A server gave no answer, or an answer that cannot be read.

    Check the address and whether the server runs; after a write look at the newest commit first.
    """

    kind = "server_unreachable"
