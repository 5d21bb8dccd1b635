"""Answers for browsers: which pages of other origins may use the server; none unless they are named."""

from typing import Final

from omnigraphdb.errors import ConfigError
from omnigraphdb.surfaces.http.replies import Reply
from omnigraphdb.surfaces.http.requests import Request

_METHODS: Final = "GET, POST, DELETE, HEAD"
_ACCEPTED: Final = "Authorization, Content-Type, Omnigraph-If-Graph-Commit, If-Match, If-None-Match, Range, Idempotency-Key, X-Request-Id"
_EXPOSED: Final = (
    "ETag, Omnigraph-Snapshot-Id, Retry-After, X-Request-Id, Deprecation, Link, Idempotency-Replay"
)
ANY: Final = "*"


class Cors:
    """An exact list of origins."""

    def __init__(self, origins: frozenset[str]) -> None:
        self._origins = origins

    def headers_of(self, request: Request) -> dict[str, str]:
        """The headers for the page that asks; none for an origin that is not in the list."""
        origin = self._find_origin(request) if self._origins else None
        if origin is None:
            return {}
        return {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": _EXPOSED,
            "vary": "Origin",
        }

    def answer_preflight(self, request: Request) -> Reply | None:
        """Answer the question of a browser before a request; None where it is none."""
        asked = "access-control-request-method" in request.headers
        if request.method != "OPTIONS" or not asked or self._find_origin(request) is None:
            return None
        headers = {
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": _ACCEPTED,
            "access-control-max-age": "600",
        }
        return Reply(media=None, status=204, headers=headers)

    def _find_origin(self, request: Request) -> str | None:
        origin = request.headers.get("origin")
        if origin is None or not self._origins:
            return None
        return origin if origin in self._origins or ANY in self._origins else None


def check_origins(origins: frozenset[str], *, has_tokens: bool) -> frozenset[str]:
    """Refuse to let every page use tokens."""
    if ANY in origins and has_tokens:
        raise ConfigError(
            "every origin (*) is let in while tokens are set: any page could use them; the server was not started",
            hint="name the origins",
        )
    return origins
