"""A way to a server that cuts connections: after so many bytes of the request, or of the reply."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraphdb.runtime import SystemRuntime


class Hurried(SystemRuntime):
    """The system, but repetitions follow at once."""

    def wait(self, seconds: float) -> None:
        """Do not wait."""


class Side(StrEnum):
    """Whose bytes are counted."""

    REQUEST = "request"
    REPLY = "reply"


@dataclass
class Cutter:
    """Carries connections to a server, counts their bytes, and cuts the next one where it is told to."""

    url: str
    carried: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(Side, 0))
    """Bytes of the connection that was carried last."""
    cuts: int = 0
    """Connections that were cut."""
    _next: tuple[Side, int] | None = None

    def cut_next(self, side: Side, after: int) -> None:
        """Cut the next connection after so many bytes of one side."""
        self._next = (side, after)

    def take_cut(self) -> tuple[Side, int] | None:
        """The cut of a connection that begins now."""
        found, self._next = self._next, None
        return found


@contextmanager
def cutting(server: str) -> Iterator[Cutter]:
    """Open a way to a server, and close it with everything that goes through it."""
    host, port = server.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    cutter = Cutter(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def carry(client: socket.socket) -> None:
        cut = cutter.take_cut()
        with client, socket.create_connection((host, int(port)), timeout=30) as upstream:
            client.settimeout(30)
            ends = {Side.REQUEST: (client, upstream), Side.REPLY: (upstream, client)}
            cutter.carried = dict.fromkeys(Side, 0)
            pumps = [
                threading.Thread(
                    target=_pump,
                    args=(cutter, side, *ends[side], cut[1] if cut and cut[0] is side else None),
                    daemon=True,
                )
                for side in Side
            ]
            for one in pumps:
                one.start()
            for one in pumps:
                one.join()

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=carry, args=(client,), daemon=True)
            threads.append(thread)
            thread.start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield cutter
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(10)
        for one in threads:
            one.join(10)


def _pump(
    cutter: Cutter, side: Side, source: socket.socket, sink: socket.socket, most: int | None
) -> None:
    """Carry bytes from one socket to another, at most so many; then end both ways of both."""
    passed = 0
    with suppress(OSError):
        if most == 0:
            # A cut before the reply has begun could come before the request has arrived.
            source.recv(1, socket.MSG_PEEK)
        while most is None or passed < most:
            chunk = source.recv(65536 if most is None else min(65536, most - passed))
            if not chunk:
                break
            sink.sendall(chunk)
            passed += len(chunk)
            cutter.carried[side] = passed
        else:
            cutter.cuts += 1
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
