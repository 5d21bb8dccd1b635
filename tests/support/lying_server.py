"""A server on a socket that answers every request with the bytes that it is told to, and what a client makes of them."""

import gzip
import inspect
import io
import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraphdb.api.blobs import Blob
from omnigraphdb.api.comparisons import BaselineStream, ChangeStream
from omnigraphdb.api.query_results import QueryResult, QueryStream
from omnigraphdb.remote.graph import RemoteGraph
from omnigraphdb.remote.graph.reads import RemoteSnapshot
from omnigraphdb.remote.transport import Transport
from tests.support.cutting import Hurried

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True)
class Request:
    """What a client sent, as far as an answer depends on it."""

    method: str
    target: str
    head: bytes
    body: bytes


Reply = Callable[[Request], bytes]


@dataclass
class Liar:
    """A listening socket, and the requests that came."""

    url: str
    requests: list[Request] = field(default_factory=list)

    def graph(self, *, token: str | None = None, answer_bytes: int | None = None) -> RemoteGraph:
        """A client of it, which repeats without waiting."""
        return RemoteGraph(Transport(self.url, token, None, Hurried(), answer_bytes=answer_bytes))


@contextmanager
def lying(reply: Reply) -> Iterator[Liar]:
    """Answer every request by a function, one request for each connection."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    liar = Liar(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def answer(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(30)
            request = _receive(client)
            if request is None:
                return
            liar.requests.append(request)
            client.sendall(reply(request))
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=answer, args=(client,), daemon=True)
            threads.append(thread)
            thread.start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield liar
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(10)
        for one in threads:
            one.join(10)


def _receive(client: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = client.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    named = dict(line.lower().split(b": ", 1) for line in lines[1:])
    while len(body) < int(named.get(b"content-length", b"0")):
        body += client.recv(65536)
    if b"transfer-encoding" in named:
        while not body.endswith(b"0\r\n\r\n"):
            body += client.recv(65536)
    method, target, _ = lines[0].decode().split(" ")
    return Request(method, target, head, body)


# ---- answers


def spell(
    body: bytes = b"",
    *,
    status: int | str = 200,
    media: str | None = JSON,
    length: int | None = None,
    **headers: str,
) -> bytes:
    """Spell an answer; its headers are sent as they are."""
    lines = [f"HTTP/1.1 {status}" if isinstance(status, str) else f"HTTP/1.1 {status} So"]
    lines += [] if media is None else [f"content-type: {media}"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    if "transfer_encoding" not in headers:
        lines.append(f"content-length: {len(body) if length is None else length}")
    lines.append("connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def spell_arrow(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    """Spell a table as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def spell_rows(columns: Mapping[str, Any], **facts: Any) -> pa.Table:
    """Make rows as a server sends them: what was read stands in their metadata."""
    told = {"query_name": "q", "branch": "main", "snapshot": None, "graph_commit_id": "c"} | facts
    table = pa.table(dict(columns))
    return table.replace_schema_metadata({"omnigraph": json.dumps(told)})


def pack(body: bytes) -> bytes:
    """Pack a body by gzip."""
    return gzip.compress(body, 6)


def pack_zeros(count: int, before: bytes = b"", after: bytes = b"", unit: bytes = b"\0") -> bytes:
    """Pack a unit again and again, without ever holding all of it."""
    packing = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    parts = [packing.compress(before)]
    piece = unit * (1024 * 1024)
    parts += [packing.compress(piece) for _ in range(count // len(piece))]
    parts += [packing.compress(after), packing.flush()]
    return b"".join(parts)


# ---- calls


def list_calls(folder: Path, required: Callable[[str, Path], Mapping[str, Any]]) -> dict[str, Any]:
    """Every public verb and property of a served graph that asks its server, called with right arguments."""
    calls: dict[str, Any] = {}
    for name, member in inspect.getmembers(RemoteGraph):
        if name.startswith("_") or name in ("close", "on", "uri"):
            continue
        calls[name] = _make_call(name, member, required(name, folder))
    return calls


def _make_call(name: str, member: Any, usual: Mapping[str, Any]) -> Callable[[RemoteGraph], Any]:
    if isinstance(member, property):
        return lambda graph: getattr(graph, name)
    needed = {
        one.name: usual.get(one.name, "main")
        for one in inspect.signature(member).parameters.values()
        if one.default is one.empty and one.name != "self" and one.kind is not one.VAR_KEYWORD
    }
    return lambda graph: consume(getattr(graph, name)(**needed))


def consume(found: Any) -> Any:
    """Read a result to its end."""
    match found:
        case QueryResult():
            return found.rows
        case QueryStream():
            return list(found.rows())
        case BaselineStream():
            return list(found.lines)
        case ChangeStream():
            return list(found.changes)
        case Blob():
            return found.read()
        case RemoteSnapshot():
            return (found.commit, found.manifest_version, found.tables(), found.to_dict())
        case pa.Table():
            return found.to_pylist()
        case Iterator():
            return [consume(one) for one in found]
        case _:
            return found
