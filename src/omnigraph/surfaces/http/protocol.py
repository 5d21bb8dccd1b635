"""HTTP as uvicorn reads it: lookups are answered as soon as they are read, and what is no HTTP is refused in our words."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from omnigraph.runtime import SYSTEM
from omnigraph.surfaces.http.app import Application
from omnigraph.surfaces.http.at_once import Waiting
from omnigraph.surfaces.http.replies import Reply, encode_json

_Unstarted = tuple[RequestResponseCycle, Waiting]


class Protocol(HttpToolsProtocol):
    """One connection."""

    app: Application
    _unstarted: "_Unstarted | None" = None
    """A request that may be answered at once, while its body is read."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the application; for what may be answered at once only when the whole body shows that it must."""
        is_plain = cycle.keep_alive and not cycle.waiting_for_100_continue and app is self.app
        waiting = self.app.at_once.expect(cycle.scope) if is_plain else None
        if waiting is None:
            super()._start_asgi_task(cycle, app)
        elif cycle.more_body:
            self._unstarted = cycle, waiting
        else:
            self._answer(cycle, waiting)

    def on_message_complete(self) -> None:
        """Answer a request that waited for its body."""
        super().on_message_complete()
        unstarted, self._unstarted = self._unstarted, None
        if unstarted is not None:
            self._answer(*unstarted)

    def _answer(self, cycle: RequestResponseCycle, waiting: Waiting) -> None:
        reply = self.app.at_once.answer(waiting, bytes(cycle.body))
        if reply is None:
            super()._start_asgi_task(cycle, self.config.loaded_app)
            return
        cycle.response_started = cycle.response_complete = True
        self.transport.write(self._spell(reply))
        self.on_response_complete()

    def _spell(self, reply: Reply) -> bytes:
        """Spell an answer as the application's are spelt, in one piece: each write is a call of the system."""
        lines = [b"HTTP/1.1 200 OK\r\n"]
        for name, value in self.server_state.default_headers:
            lines += (name, b": ", value, b"\r\n")
        for title, text in reply.headers.items():
            lines.append(f"{title}: {text}\r\n".encode("latin-1"))
        length = len(reply.body)
        lines.append(f"content-type: {reply.media}\r\ncontent-length: {length}\r\n\r\n".encode())
        lines.append(reply.body)
        return b"".join(lines)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse what cannot be read, and close the connection."""
        body = encode_json(
            {
                "error": "the request is no HTTP/1.1 that can be read; nothing was done",
                "code": "bad_request",
                "kind": "user_input",
                "request_id": (request_id := SYSTEM.new_id()),
            }
        )
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {request_id}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
