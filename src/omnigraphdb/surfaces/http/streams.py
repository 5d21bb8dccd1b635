"""Routes that stream: exports, in chunks that wait for their reader."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.reads import read_target
from omnigraphdb.surfaces.http.replies import NDJSON, Stream

CHUNK_BYTES: Final = 64 * 1024
"""Bytes that are handed to the connection at once."""


def export(call: Call) -> Stream:
    """Stream every entity in the format that load reads."""
    body = call.body
    target = read_target(call.place.graph, body)
    call.served.exports.take()
    try:
        seen = call.place.graph.snapshot(**target)
        lines = seen.export_lines(body.get("type_names"))
        return stream_lines(lines, seen.commit, call.served.exports.give_back)
    except BaseException:
        call.served.exports.give_back()
        raise


def stream_lines(lines: Iterator[Any], commit: str | None, release: Callable[[], None]) -> Stream:
    """Answer with JSON lines; the first chunk is read now, so that a refusal still has a status."""
    chunks = cut_chunks(lines)
    first = next(chunks, b"")
    headers = {} if commit is None else {"omnigraph-snapshot-id": commit}
    return Stream(
        chunks=chain((first,), chunks),
        media=f"{NDJSON}; charset=utf-8",
        headers=headers,
        release=release,
    )


def cut_chunks(texts: Iterator[Any]) -> Iterator[bytes]:
    """Cut texts into pieces of bounded size."""
    for text in texts:
        whole = memoryview(text)
        for start in range(0, len(whole), CHUNK_BYTES):
            yield bytes(whole[start : start + CHUNK_BYTES])
