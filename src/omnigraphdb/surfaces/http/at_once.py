"""Answers at once: reads of what is in memory, in the loop of the server, without a task and without a thread.

Whatever is refused here, and whatever is not known to be short, goes through the gates of the application, which says why.
"""

from collections.abc import Mapping
from typing import Any, Final

from omnigraphdb.errors import OmniError
from omnigraphdb.runtime import Runtime
from omnigraphdb.surfaces.http import calls
from omnigraphdb.surfaces.http.access import AccessLog
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.entry import check_entry
from omnigraphdb.surfaces.http.replies import JSON, Reply
from omnigraphdb.surfaces.http.requests import Headers, RequestIds
from omnigraphdb.surfaces.http.routing import Match, Router
from omnigraphdb.surfaces.http.served import Served
from omnigraphdb.surfaces.http.shapes import check_shape
from omnigraphdb.values import dataclass

BODY_BYTES_MAX: Final = 16 * 1024
"""A body that takes longer than that to read is no lookup."""
_ELSEWHERE: Final = frozenset(
    name.encode()
    for name in (calls.CONDITION, calls.TIMEOUT, "content-encoding", "transfer-encoding", "origin")
)
"""Headers that only the application heeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A request that may be answered at once when its body is whole."""

    match: Match
    headers: Headers
    began: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOnce:
    """Answers lookups from what is served."""

    served: Served
    router: Router
    ids: RequestIds
    log: AccessLog
    runtime: Runtime

    def expect(self, scope: Mapping[str, Any]) -> Waiting | None:
        """Give a request that may be answered here once its body is whole; None for any other."""
        if self.served.draining:
            return None
        match = self.router.find_plain(scope["method"], scope["raw_path"])
        if match is None or match.route.look_up is None or scope["query_string"]:
            return None
        headers = Headers(scope["headers"])
        size = calls.announced_bytes(headers)
        if size is None or size > BODY_BYTES_MAX or headers.has_any(_ELSEWHERE):
            return None
        try:
            check_entry(self.served.entry, match.route.method, headers)
        except OmniError:
            return None
        return Waiting(match=match, headers=headers, began=self.runtime.monotonic())

    def answer(self, waiting: Waiting, body: bytes) -> Reply | None:
        """Answer from memory; None for anything else."""
        try:
            return self._answer(waiting, body)
        except Exception:  # noqa: BLE001 - the application meets the same failure, and tells it
            return None

    def _answer(self, waiting: Waiting, body: bytes) -> Reply | None:
        match, headers, served = waiting.match, waiting.headers, self.served
        route, tokens = match.route, served.tokens
        assert route.look_up is not None
        actor = None if tokens is None else tokens.find_actor(headers.get("authorization"))
        if headers.get("content-type") != JSON or len(body) > served.limits.body_bytes:
            return None
        call = Call(
            served=served,
            target=served.find_graph(match.graph_id),
            actor=actor,
            path=match.names,
            query={},
            headers=headers,
            body=check_shape(route.body, calls.parse_json(body)),
        )
        found = route.look_up(call)
        if found is None:
            return None
        request_id = self.ids.choose(headers)
        self.log.note(
            began=waiting.began,
            route=match.template,
            method=route.method,
            status=found.status,
            actor=actor,
            graph=match.graph_id,
            request_id=request_id,
        )
        return Reply(body=found.body, headers={"x-request-id": request_id})
