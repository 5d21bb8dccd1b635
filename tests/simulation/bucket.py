"""A bucket in the test process: enough of S3 over HTTP for obstore and Lance, on a dict of immutable values.

A copy of the dict is a state in which everybody may have died. A client is named by its access key.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import sha256
from itertools import count
from typing import Any, Final
from xml.sax.saxutils import escape

NAME: Final = "b"
PAGE_KEYS: Final = 1000
XML: Final = {"Content-Type": "application/xml"}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A value of the dict: what was put, its token, and when by the clock of the bucket."""

    data: bytes
    etag: str
    changed: float


Stored = Mapping[str, StoredObject]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the bucket to one request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class NoAnswer(Exception):
    """The answer never reaches the client: its connection is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a client; `verb` is GET, HEAD, LIST, PUT, PART or DELETE, whatever HTTP calls it.

    A PART of an upload is nothing that anybody can read; the PUT that ends the upload is.
    """

    client: str
    verb: str
    key: str
    is_conditional: bool
    carry_out: Callable[[], Answer] = field(repr=False, compare=False)
    """Lets the request take effect now; may be called later than the request came, or twice, or not at all."""


Step = Callable[[str, Request], Answer]
"""Stands before and after the effect of a request of a client; raises `NoAnswer` when its client hears nothing."""


@dataclass(frozen=True, slots=True)
class DurableWrite:
    """A change of the bucket, and everything it held right after."""

    verb: str
    key: str
    after: Stored


class Bucket:
    """The objects of one bucket."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.step: Step = lambda _client, request: request.carry_out()
        self._clock = clock
        self._ahead = 0.0
        self._mutex = threading.Lock()
        self._recorded: list[DurableWrite] | None = None
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._upload_numbers = count(1)

    def now(self) -> float:
        """The time of the bucket, in seconds since the epoch."""
        return self._clock() + self._ahead

    def pass_time(self, seconds: float) -> None:
        """Move the clock on: everything here is older by so much."""
        self._ahead += seconds

    def restore(self, objects: Stored) -> None:
        """Bring back an earlier state; time goes on from its last change."""
        with self._mutex:
            self.objects = dict(objects)
            now = self._clock()
            self._ahead = max((stored.changed for stored in objects.values()), default=now) - now

    @contextmanager
    def recording(self) -> Iterator[list[DurableWrite]]:
        """Copy the bucket after each of its changes while the block runs."""
        with self._mutex:
            writes: list[DurableWrite] = []
            self._recorded = writes
        try:
            yield writes
        finally:
            with self._mutex:
                self._recorded = None

    # ---- effects

    def put(self, key: str, data: bytes, *, absent: bool, match: str | None) -> Answer:
        """Put an object, on a condition."""
        with self._mutex:
            current = self.objects.get(key)
            if (absent and current) or (match and (current is None or current.etag != match)):
                return refuse(412, "PreconditionFailed")
            changed = self.now()
            # Lance takes an object with another token for another file: equal contents put at two times differ.
            etag = f'"{sha256(data + repr(changed).encode()).hexdigest()[:32]}"'
            self.objects[key] = StoredObject(data, etag, changed)
            self._note("PUT", key)
        return Answer(200, {"ETag": etag})

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects one after the other; those that are not there are no error."""
        for key in keys:
            with self._mutex:
                if self.objects.pop(key, None) is not None:
                    self._note("DELETE", key)

    def get(self, key: str, span: str | None) -> Answer:
        """Read an object, or a range of its bytes."""
        stored = self.objects.get(key)
        if stored is None:
            return refuse(404, "NoSuchKey")
        headers = {
            "ETag": stored.etag,
            "Last-Modified": formatdate(stored.changed, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        size = len(stored.data)
        bounds = None if span is None else _bounds_of(span, size)
        if bounds is None:
            return Answer(200, headers, stored.data)
        first, last = bounds
        if first > last:
            return refuse(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return Answer(206, headers, stored.data[first : last + 1])

    def list_page(self, query: Mapping[str, str]) -> Answer:
        """List one page of the keys under a prefix, those below a delimiter as their common prefix."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after") or ""
        page_keys = int(query.get("max-keys", PAGE_KEYS))
        entries: list[str] = []
        last, is_cut, common = "", False, ""
        with self._mutex:
            matching = sorted(
                (k, v) for k, v in self.objects.items() if k > after and k.startswith(prefix)
            )
        for key, stored in matching:
            folder, is_below, _ = (
                key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            )
            rolled = prefix + folder + delimiter if is_below else ""
            # A token that is a common prefix says that its keys were listed.
            if rolled and (rolled == common or after.startswith(rolled)):
                continue
            if len(entries) == page_keys:
                is_cut = True
                break
            last, common = rolled or key, rolled
            entries.append(_prefix_xml(rolled) if rolled else _entry_xml(key, stored))
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{NAME}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries)}</KeyCount>"
            f"<MaxKeys>{page_keys}</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}"
            f"{''.join(entries)}</ListBucketResult>"
        )
        return Answer(200, XML, body.encode())

    def copy(self, key: str, source: str, *, absent: bool) -> Answer:
        """Put a copy of another object."""
        stored = self.objects.get(source)
        if stored is None:
            return refuse(404, "NoSuchKey")
        done = self.put(key, stored.data, absent=absent, match=None)
        if done.status != 200:
            return done
        body = f"<CopyObjectResult><ETag>{escape(done.headers['ETag'])}</ETag></CopyObjectResult>"
        return Answer(200, XML, body.encode())

    def begin_upload(self, key: str) -> Answer:
        """Begin an upload in parts."""
        name = f"upload-{next(self._upload_numbers)}"
        self._uploads[name] = {}
        body = (
            f"<InitiateMultipartUploadResult><Bucket>{NAME}</Bucket><Key>{escape(key)}</Key>"
            f"<UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
        )
        return Answer(200, XML, body.encode())

    def put_part(self, upload: str, number: int, data: bytes) -> Answer:
        """Take one part of an upload."""
        if upload not in self._uploads:
            return refuse(404, "NoSuchUpload")
        self._uploads[upload][number] = data
        return Answer(200, {"ETag": f'"{upload}-{number}"'})

    def end_upload(self, key: str, upload: str, *, absent: bool, match: str | None) -> Answer:
        """Put the parts of an upload together to an object, on a condition."""
        parts = self._uploads.get(upload)
        if parts is None:
            return refuse(404, "NoSuchUpload")
        data = b"".join(parts[number] for number in sorted(parts))
        done = self.put(key, data, absent=absent, match=match)
        if done.status != 200:
            return done
        del self._uploads[upload]
        etag = escape(done.headers["ETag"])
        body = (
            f"<CompleteMultipartUploadResult><Bucket>{NAME}</Bucket><Key>{escape(key)}</Key>"
            f"<ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        )
        return Answer(200, XML, body.encode())

    def abort_upload(self, upload: str) -> Answer:
        """Forget the parts of an upload."""
        self._uploads.pop(upload, None)
        return Answer(204)

    def _note(self, verb: str, key: str) -> None:
        if self._recorded is not None:
            self._recorded.append(DurableWrite(verb, key, dict(self.objects)))


# ---- answers


def refuse(status: int, code: str) -> Answer:
    """Refuse a request by a status and the name that S3 has for it."""
    return Answer(status, XML, f"<Error><Code>{code}</Code><Message/></Error>".encode())


def _bounds_of(span: str, size: int) -> tuple[int, int] | None:
    """The first and last byte of a range; of a suffix as many as there are."""
    parts: Any = re.fullmatch(r"bytes=(\d*)-(\d*)", span)
    if parts is None:
        return None
    first, last = parts.groups()
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last), size - 1) if last else size - 1


def _entry_xml(key: str, stored: StoredObject) -> str:
    changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored.changed))
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{changed}</LastModified>"
        f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.data)}</Size></Contents>"
    )


def _prefix_xml(prefix: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
