"""HTTP as uvicorn reads it: lookups are answered as soon as they are read, and what does not arrive whole is refused in our words."""

from asyncio import TimerHandle, Transport
from enum import Enum, auto
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from omnigraphdb.errors import HeadersTooLarge, OmniError, RequestTimeout, UserInputError
from omnigraphdb.logs import get_logger
from omnigraphdb.surfaces.http.app import Application
from omnigraphdb.surfaces.http.at_once import Waiting
from omnigraphdb.surfaces.http.replies import Reply
from omnigraphdb.surfaces.http.requests import LATE
from omnigraphdb.surfaces.http.served import (
    BODY_TIME_SETTING,
    HEADER_BYTES_SETTING,
    HEADER_TIME_SETTING,
    STALL_TIME_SETTING,
)

_log = get_logger(__name__)
_Unstarted = tuple[RequestResponseCycle, Waiting]
_UNREADABLE: Final = "the request is no HTTP/1.1 that can be read; nothing was done"


class _Part(Enum):
    """The part of a request that is arriving."""

    HEAD = auto()
    BODY = auto()


class _Refused(Exception):
    """Stops the parser: the request is refused before it is whole."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    app: Application
    _unstarted: "_Unstarted | None" = None
    """A request that may be answered at once, while its body is read."""
    _part: _Part | None = None
    """None between two requests."""
    _part_began: float = 0.0
    _timer: TimerHandle | None = None
    """Ends the time of the part that is arriving."""
    _header_bytes: int = 0
    """Bytes of the request line, the headers and the trailers that the parser gave so far."""
    _unparsed_bytes: int = 0
    """Bytes since the parser last gave something; it keeps them, whatever they are."""
    _unsent_timer: TimerHandle | None = None
    """Ends the time in which the reader must take something of what is to be sent."""
    _refusal: OmniError | None = None

    # ---- bytes

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin a connection; one that sends nothing is as idle as one between two requests."""
        super().connection_made(transport)
        self._watch_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._stop_timer()
        self._stop_unsent_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read bytes, in pieces so small that headers without an end are refused before they are in memory."""
        if self._part is None:
            self._begin_part(_Part.HEAD)
        bytes_max = self._header_bytes_max
        for start in range(0, len(data), bytes_max):
            piece = data[start : start + bytes_max]
            self._unparsed_bytes += len(piece)
            super().data_received(piece)
            if self.transport.is_closing():
                return
            if self._unparsed_bytes > bytes_max:
                self._refuse(self._headers_too_large())
                return
        self._watch_part()

    # ---- what the parser gives

    def on_message_begin(self) -> None:
        """Begin a request, which may follow another one in the same bytes."""
        self._header_bytes = self._unparsed_bytes = 0
        if self._part is None:
            self._begin_part(_Part.HEAD)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one behind the body is counted and left out, since the request was judged by those before."""
        self._count_header(len(name) + len(value) + len(b": \r\n"))
        if self._part is _Part.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request; a target that names a host of its own is refused, since `Host` decides who is asked."""
        if not self.url.startswith(b"/") and self.url != b"*":
            raise _Refused
        self._unparsed_bytes = 0
        self._begin_part(_Part.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Answer a request that waited for its body."""
        self._part, self._unparsed_bytes = None, 0
        super().on_message_complete()
        unstarted, self._unstarted = self._unstarted, None
        if unstarted is not None:
            self._answer(*unstarted)

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self._header_bytes_max:
            self._refusal = self._headers_too_large()
            raise _Refused

    @property
    def _header_bytes_max(self) -> int:
        return self.app.served.limits.header_bytes

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(self._header_bytes_max, HEADER_BYTES_SETTING)

    # ---- times

    def _begin_part(self, part: _Part) -> None:
        self._stop_timer()
        self._part, self._part_began = part, self.loop.time()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch_part(self) -> None:
        """End the time of the part that is arriving when it is over; a whole request in one piece needs no timer."""
        if self._part is None:
            self._stop_timer()
            self._watch_idle()
            return
        times, end = self.app.served.times, self._part_began
        if self._part is _Part.HEAD:
            end += times.header_seconds
        else:
            self._stop_timer()
            end = min(end + times.body_seconds, self.loop.time() + times.stall_seconds)
        if self._timer is None:
            self._timer = self.loop.call_at(end, self._end_part)

    def _watch_idle(self) -> None:
        """Close the connection if nothing follows; the rest of a body that was answered early begins no request."""
        if not self._is_answering and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _end_part(self) -> None:
        """Refuse a request whose time is over, unless this server keeps it waiting."""
        self._timer = None
        if self.transport.is_closing():
            return
        is_queued = self._part is _Part.HEAD and self._is_answering
        if self.flow.read_paused or is_queued:
            self._part_began = self.loop.time()
            self._watch_part()
        elif self._part is _Part.HEAD:
            seconds = self.app.served.times.header_seconds
            self._refuse(RequestTimeout("head of the request", seconds, HEADER_TIME_SETTING))
        elif self._part is _Part.BODY:
            self._end_body(self.cycle)

    def _end_body(self, cycle: RequestResponseCycle) -> None:
        """Let the application refuse a body that did not arrive; one that nobody waits for ends the connection."""
        if cycle.response_complete:
            self.transport.close()
            return
        times = self.app.served.times
        is_stalled = self.loop.time() < self._part_began + times.body_seconds
        cycle.scope[LATE] = (  # type: ignore[typeddict-unknown-key]
            RequestTimeout("next piece of the body", times.stall_seconds, STALL_TIME_SETTING)
            if is_stalled
            else RequestTimeout("body", times.body_seconds, BODY_TIME_SETTING)
        )
        unstarted, self._unstarted = self._unstarted, None
        if unstarted is not None:
            super()._start_asgi_task(cycle, self.config.loaded_app)
        cycle.message_event.set()

    # ---- readers who stall

    def pause_writing(self) -> None:
        """Let the application wait for the reader."""
        super().pause_writing()
        self._watch_unsent()

    def resume_writing(self) -> None:
        """Let the application send more."""
        super().resume_writing()
        self._watch_unsent()

    def on_response_complete(self) -> None:
        """Begin the next request; the end of this answer may still have to be sent."""
        super().on_response_complete()
        self._watch_unsent()

    def _watch_unsent(self) -> None:
        """Start the time of the reader, if only the reader can change how much is to be sent."""
        self._stop_unsent_timer()
        if self not in self.connections:
            return
        seconds, unsent = self.app.served.request_seconds, self.transport.get_write_buffer_size()
        if seconds and unsent and (self.flow.write_paused or not self._is_answering):
            self._unsent_timer = self.loop.call_later(seconds, self._end_unsent, unsent)

    def _stop_unsent_timer(self) -> None:
        if self._unsent_timer is not None:
            self._unsent_timer.cancel()
            self._unsent_timer = None

    def _end_unsent(self, before: int) -> None:
        """End the connection of a reader who took nothing; closing it would wait for that reader without end."""
        unsent = self.transport.get_write_buffer_size()
        if unsent < before:
            self._watch_unsent()
            return
        self._unsent_timer = None
        seconds = self.app.served.request_seconds
        _log.warning("http.reader_stalled", seconds=seconds, unsent_bytes=unsent)
        self.transport.abort()

    # ---- answers

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the application; for what may be answered at once only when the whole body shows that it must."""
        is_plain = cycle.keep_alive and not cycle.waiting_for_100_continue and app is self.app
        # The application waits for a reader who has much to take.
        is_plain = is_plain and not self.flow.write_paused
        waiting = self.app.at_once.expect(cycle.scope) if is_plain else None
        if waiting is None:
            super()._start_asgi_task(cycle, app)
        elif cycle.more_body:
            self._unstarted = cycle, waiting
        else:
            self._answer(cycle, waiting)

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
        lines = [STATUS_LINE[reply.status]]
        for name, value in self.server_state.default_headers:
            lines += (name, b": ", value, b"\r\n")
        for title, text in reply.headers.items():
            lines.append(f"{title}: {text}\r\n".encode("latin-1"))
        length = len(reply.body)
        lines.append(f"content-type: {reply.media}\r\ncontent-length: {length}\r\n\r\n".encode())
        lines.append(reply.body)
        return b"".join(lines)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse what the parser stopped at."""
        self._refuse(self._refusal or UserInputError(_UNREADABLE))

    def _refuse(self, error: OmniError) -> None:
        """Refuse a request that cannot be read to its end, and close the connection."""
        is_own = self._part is _Part.BODY and not (self.pipeline or self.cycle.response_started)
        # Words in the midst of an earlier answer would be taken for a part of it.
        if is_own or not self._is_answering:
            self.transport.write(self._spell(self.app.refuse_unread(error)))
        self.transport.close()
