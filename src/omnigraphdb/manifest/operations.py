"""Operations: the rows that record what a write with an idempotency key did, and what such a key may be."""

import json
from typing import Final

import pyarrow.compute as pc

from omnigraphdb.errors import ConflictError, InternalError, UserInputError, shorten
from omnigraphdb.ids import OperationId
from omnigraphdb.manifest.names import is_utf8
from omnigraphdb.manifest.records import KEY, ObjectType, Operation, operation_of, operation_row
from omnigraphdb.manifest.state import BranchState

KEY_CHARS_MAX: Final = 255


class KeyPublished(ConflictError):
    """A rival published the key while this write was prepared; whoever asked looks at what the rival did."""

    def __init__(self, key: str, operation_id: OperationId) -> None:
        super().__init__(
            f"the idempotency key '{key}' was published by operation {operation_id}; nothing was written",
            hint="retry with the same key: the result of that operation is returned",
        )


def idempotency_key(given: str) -> str:
    """Read an idempotency key: 1 to 255 printable characters."""
    if not is_utf8(given):
        raise _make_refusal(given, "it is no text")
    if not given or given.isspace():
        raise _make_refusal(given, "it is empty")
    if len(given) > KEY_CHARS_MAX:
        raise _make_refusal(
            given, f"it has {len(given)} characters, at most {KEY_CHARS_MAX} are stored"
        )
    if not given.isprintable():
        raise _make_refusal(given, "it holds characters that cannot be printed")
    return given


def _make_refusal(given: object, rule: str) -> UserInputError:
    return UserInputError(
        f"the idempotency key {shorten(repr(given))} cannot be used: {rule}; no changes were made",
        hint=f"a key is 1 to {KEY_CHARS_MAX} printable characters, such as a UUID, new for each request",
    )


def find_operation(state: BranchState, actor: str | None, key: str) -> Operation | None:
    """Find what a branch did under a key of an actor; an operation of another branch does not count."""
    wanted = operation_row(state.branch, actor, key)
    rows = state.image.cached
    at = pc.index(rows[KEY], wanted).as_py()
    if at < 0:
        rows = state.image.rows
        at = pc.index(rows[KEY], wanted).as_py()
    if at < 0 or rows["object_type"][at].as_py() != ObjectType.OPERATION:
        return None
    try:
        facts = json.loads(rows["metadata"][at].as_py())
        return operation_of(rows["table_branch"][at].as_py(), facts)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InternalError(
            f"the manifest row '{rows[KEY][at]}' ({ObjectType.OPERATION}) has metadata that is not an "
            "operation's; the manifest is damaged"
        ) from error
