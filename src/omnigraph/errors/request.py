"""Errors of a request to a server: who asks, how often, in which form; and of a client that gets no answer."""

from collections.abc import Sequence

from omnigraph.errors.conflict import ConflictError
from omnigraph.errors.input import AuthError, LimitError, UserInputError
from omnigraph.errors.storage import StorageError


class Unauthenticated(AuthError):
    """The request brings no token that the server knows."""

    kind = "unauthenticated"
    http_code = "unauthorized"
    hint = "send the header `Authorization: Bearer TOKEN`"


class TooManyRequests(LimitError):
    """The actor has as much under way as it may have."""

    kind = "too_many_requests"
    http_code = "too_many_requests"
    hint = "wait until an earlier write of yours has ended, then send the request again"

    def __init__(self, resource: str, limit: int, *, retry_after: int = 1) -> None:
        super().__init__(
            f"{resource}: {limit} are under way for this actor, which is the limit; nothing was started"
        )
        self.resource, self.limit, self.retry_after = resource, limit, retry_after


class UnsupportedMedia(UserInputError):
    """The body has a content type or encoding that the route does not read."""

    kind = "unsupported_media"

    def __init__(self, given: str, wanted: str) -> None:
        super().__init__(f"the body is '{given}', this route reads {wanted}; nothing was done")


class MethodNotAllowed(UserInputError):
    """The route knows other methods."""

    kind = "method_not_allowed"
    http_code = "method_not_allowed"

    def __init__(self, method: str, path: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{path} answers {', '.join(allowed)}, not {method}; nothing was done")
        self.allowed = tuple(allowed)


class BlobRange(UserInputError):
    """A range lies outside a blob."""

    kind = "blob_range"

    def __init__(self, what: str, start: int, length: int, count: int | None = None) -> None:
        wanted = f"{start} on" if count is None else f"{start} on, {count} of them"
        end = None if count is None else start + count
        super().__init__(
            f"{what} has {length} bytes, and those from {wanted} were asked for; nothing was read",
            details={"blob_range": {"start": start, "end": end, "length": length}},
        )
        self.length = length


class BlobPrecondition(ConflictError):
    """The blob has another tag than the request expects."""

    kind = "blob_precondition"

    def __init__(self, tag: str) -> None:
        super().__init__(f"the blob has the tag {tag}, which the request does not name")


class ServerUnreachable(StorageError):
    """A server gave no answer, or none that can be read."""

    kind = "server_unreachable"
