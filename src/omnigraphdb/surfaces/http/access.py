"""The access log: what is noted of every request, as numbers and as an event."""

from omnigraphdb.logs import get_logger
from omnigraphdb.runtime import Runtime
from omnigraphdb.surfaces.http.metrics import Metrics

_log = get_logger("omnigraphdb.surfaces.http.app")


class AccessLog:
    """Notes requests that were answered; no bodies, no tokens."""

    def __init__(self, metrics: Metrics, runtime: Runtime) -> None:
        self._metrics, self._runtime = metrics, runtime

    def note(
        self,
        *,
        began: float,
        route: str,
        method: str,
        status: int,
        actor: str | None,
        graph: str | None,
        request_id: str,
    ) -> None:
        """Note a request whose answer was sent."""
        seconds = self._runtime.monotonic() - began
        self._metrics.count(route, method, status, seconds)
        if _log.is_enabled:
            _log.info(
                "http.request",
                method=method,
                route=route,
                status=status,
                milliseconds=round(seconds * 1000, 3),
                actor=actor,
                graph=graph,
                request_id=request_id,
            )
