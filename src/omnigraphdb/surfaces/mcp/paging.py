"""Bounded answers: rows and bytes of a tool's result have a limit, the answer says so, and a cursor goes on."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from omnigraphdb.errors import ResourceLimit, UserInputError
from omnigraphdb.surfaces.mcp.tools import ROWS
from omnigraphdb.values import dataclass

BYTES_MAX: Final = 64 * 1024
"""Bytes of a result as JSON: some fifteen thousand words of a model's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where the next page begins, in the result of which call, at which commit."""

    call: str
    start: int = 0
    commit: str | None = None

    def encode(self) -> str:
        """Spell it for a caller, who gives it back as it is."""
        body = json.dumps([self.call, self.start, self.commit])
        return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def read_cursor(tool: str, asked: Mapping[str, Any], text: str | None) -> Cursor:
    """The place where a call goes on; a cursor of another call is refused."""
    call = hashlib.sha256(json.dumps([tool, asked], sort_keys=True).encode()).hexdigest()[:16]
    if text is None:
        return Cursor(call=call)
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        named, start, commit = json.loads(base64.urlsafe_b64decode(padded))
        is_whole = isinstance(start, int) and start >= 0 and isinstance(commit, str | None)
    except (ValueError, TypeError):
        named, start, commit, is_whole = None, 0, None, False
    if not is_whole or named != call:
        raise UserInputError(
            "the cursor belongs to another call; nothing was read",
            hint="repeat the call that gave it, with the same arguments, and add cursor; or leave cursor out to begin anew",
        )
    return Cursor(call=call, start=start, commit=commit)


def page_rows(
    answer: Mapping[str, Any],
    key: str,
    place: Cursor,
    limit: int | None,
    commit: str | None,
) -> dict[str, Any]:
    """Cut a list of an answer to the rows of a page; say how many there are and how to go on."""
    rows: Sequence[Any] = answer[key]
    wanted = rows[place.start : place.start + (limit or ROWS)]
    shown = wanted[: _count_fitting(wanted)]
    end = place.start + len(shown)
    page: dict[str, Any] = {"first": place.start, "rows": len(shown), "total": len(rows)}
    if end < len(rows):
        page["next_cursor"] = Cursor(call=place.call, start=end, commit=commit).encode()
        page["note"] = (
            f"{len(shown)} of {len(rows)} are shown. Repeat the call with cursor to go on, or ask for less: filter in "
            "match, return count(…), order and limit."
        )
    return {**answer, key: list(shown), "page": page}


def _count_fitting(rows: Sequence[Any]) -> int:
    """How many of the first rows fit; the first one must."""
    size = 0
    for count, row in enumerate(rows):
        size += len(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace")) + 1
        if size > BYTES_MAX:
            if count == 0:
                raise _too_large(size, "return fewer properties: one row alone is too large")
            return count
    return len(rows)


def require_bytes(answer: Mapping[str, Any], advice: str) -> None:
    """Refuse an answer that is too large."""
    size = len(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    if size > 4 * BYTES_MAX:
        raise _too_large(size, advice)


def _too_large(size: int, advice: str) -> ResourceLimit:
    return ResourceLimit("result_bytes", BYTES_MAX, size, hint=advice)
