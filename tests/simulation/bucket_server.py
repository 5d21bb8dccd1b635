"""The bucket of the simulation over HTTP: requests of obstore and Lance come in, each with the name of its client."""

import re
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from tests.simulation.bucket import XML, Answer, Bucket, NoAnswer, Request, refuse

_REASONS: Final = {
    200: "OK",
    204: "No Content",
    206: "Partial Content",
    403: "Forbidden",
    404: "Not Found",
    412: "Precondition Failed",
    416: "Range Not Satisfiable",
    501: "Not Implemented",
    503: "Slow Down",
}


@dataclass(frozen=True, slots=True)
class _Message:
    """A request as it came over HTTP."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class _Handler(socketserver.StreamRequestHandler):
    """One connection of a client: it stands for the task that waits for the answer."""

    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    bucket: Bucket

    def handle(self) -> None:
        try:
            while (message := _read_message(self.rfile)) is not None:
                request = _request_of(self.bucket, message)
                answer = self.bucket.step(request.client, request)
                self._write(answer, has_body=message.method != "HEAD")
        except (NoAnswer, ConnectionError):
            # The client meets the end of its connection.
            return

    def _write(self, answer: Answer, *, has_body: bool) -> None:
        lines = [f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        if answer.status != 204:
            lines.append(f"Content-Length: {len(answer.body)}")
        self.wfile.write("\r\n".join((*lines, "", "")).encode())
        if has_body:
            self.wfile.write(answer.body)
        self.wfile.flush()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 256
    # Connections end with their clients, which may live as long as the process.
    block_on_close = False


@dataclass(frozen=True, slots=True)
class ServedBucket:
    """A bucket, and where clients reach it."""

    bucket: Bucket
    endpoint: str

    def options(self, client: str) -> dict[str, str]:
        """The storage options of one client: it repeats no request, and waits as long as it takes."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": client,
            "aws_secret_access_key": "x",
            "aws_region": "us-east-1",
            "allow_http": "true",
            "timeout": "600s",
            "client_max_retries": "0",
            "client_retry_timeout": "1",
        }


@contextmanager
def serve(bucket: Bucket) -> Iterator[ServedBucket]:
    """Serve a bucket on loopback while the block runs."""
    handler = type("BucketHandler", (_Handler,), {"bucket": bucket})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield ServedBucket(bucket, f"http://127.0.0.1:{server.server_address[1]}")
        finally:
            server.shutdown()
            thread.join()


def _read_message(stream: BufferedIOBase) -> _Message | None:
    line = stream.readline()
    if not line:
        return None
    method, target, _ = line.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        raise NotImplementedError(f"{method} {target}: a body of chunks")
    body = stream.read(int(headers.get("content-length", 0)))
    return _Message(method, target, headers, body)


def _request_of(bucket: Bucket, message: _Message) -> Request:
    """Find out what a message asks for; nothing happens yet."""
    url = urlsplit(message.target)
    key = unquote(url.path).lstrip("/").partition("/")[2]
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    headers = message.headers
    absent, match = headers.get("if-none-match") == "*", headers.get("if-match")

    def request(verb: str, key: str, carry_out: Callable[[], Answer]) -> Request:
        return Request(
            client=_client_of(headers),
            verb=verb,
            key=key,
            is_conditional=absent or match is not None,
            carry_out=carry_out,
        )

    match message.method:
        case "GET" if not key or "list-type" in query:
            return request("LIST", query.get("prefix", ""), lambda: bucket.list_page(query))
        case "GET" | "HEAD":
            return request(message.method, key, lambda: bucket.get(key, headers.get("range")))
        case "PUT" if "x-amz-copy-source" in headers:
            source = unquote(headers["x-amz-copy-source"]).lstrip("/").partition("/")[2]
            return request("PUT", key, lambda: bucket.copy(key, source, absent=absent))
        case "PUT" if not query:
            return request(
                "PUT", key, lambda: bucket.put(key, message.body, absent=absent, match=match)
            )
        case "DELETE" if not query:
            return request("DELETE", key, lambda: _delete(bucket, [key]))
        case "PUT" if "uploadId" in query:
            upload, number = query["uploadId"], int(query["partNumber"])
            return request("PART", key, lambda: bucket.put_part(upload, number, message.body))
        case "POST" if "uploads" in query:
            return request("PART", key, lambda: bucket.begin_upload(key))
        case "POST" if "uploadId" in query:
            upload = query["uploadId"]
            return request(
                "PUT", key, lambda: bucket.end_upload(key, upload, absent=absent, match=match)
            )
        case "DELETE" if "uploadId" in query:
            upload = query["uploadId"]
            return request("PART", key, lambda: bucket.abort_upload(upload))
        case "POST" if "delete" in query:
            keys = [unescape(k.decode()) for k in re.findall(rb"<Key>(.*?)</Key>", message.body)]
            return request("DELETE", keys[0], lambda: _delete_many(bucket, keys))
    return request(message.method, key, lambda: refuse(501, "NotImplemented"))


def _client_of(headers: Mapping[str, str]) -> str:
    signed = re.search(r"Credential=([^/]+)/", headers.get("authorization", ""))
    return "" if signed is None else signed[1]


def _delete(bucket: Bucket, keys: Sequence[str]) -> Answer:
    bucket.delete(keys)
    return Answer(204)


def _delete_many(bucket: Bucket, keys: Sequence[str]) -> Answer:
    bucket.delete(keys)
    deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
    return Answer(200, XML, f"<DeleteResult>{deleted}</DeleteResult>".encode())
