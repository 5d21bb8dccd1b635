"""Answers of routes: a whole body, or a stream of chunks."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from omnigraphdb.values import dataclass

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"
BYTES: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that is known as a whole."""

    body: bytes = b""
    media: str | None = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer that is made while it is sent; `release` is called when it ends, however it ends."""

    chunks: Iterator[Any]
    media: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    release: Callable[[], None] = lambda: None


def reply_json(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Answer with a JSON document."""
    return Reply(body=encode_json(value), status=status, headers=headers or {})


def reply_write(value: Mapping[str, Any]) -> Reply:
    """Answer a write; one that was done before says so."""
    return reply_json(
        value, headers={"idempotency-replay": "true"} if value.get("replayed") else {}
    )


def encode_json(value: Any) -> bytes:
    """Encode a JSON document; half of a surrogate pair, which no UTF-8 spells, becomes a question mark."""
    return _ENCODER.encode(value).encode("utf-8", "replace")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
