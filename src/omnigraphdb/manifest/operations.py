"""Operations: the rows that record the effect of a write with an idempotency key, and the rules for such a key."""

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
    """A rival published the key while this write was prepared; the caller looks at the operation of the rival."""

    def __init__(self, key: str, operation_id: OperationId) -> None:
        super().__init__(
            f"the idempotency key '{key}' was published by operation {operation_id}; nothing was written",
            hint="retry with the same key: the result of that operation is returned",
        )


def idempotency_key(key: str) -> str:
    """Read an idempotency key: 1 to 255 printable characters."""
    if not is_utf8(key):
        raise _make_refusal(key, "it is not text")
    if not key or key.isspace():
        raise _make_refusal(key, "it is empty")
    if len(key) > KEY_CHARS_MAX:
        raise _make_refusal(
            key, f"it has {len(key)} characters, at most {KEY_CHARS_MAX} are stored"
        )
    if not key.isprintable():
        raise _make_refusal(key, "it holds characters that cannot be printed")
    return key


def _make_refusal(key: object, rule: str) -> UserInputError:
    return UserInputError(
        f"the idempotency key {shorten(repr(key))} cannot be used: {rule}; no changes were made",
        hint=f"a key is 1 to {KEY_CHARS_MAX} printable characters, such as a UUID, new for each request",
    )


def find_operation(state: BranchState, actor: str | None, key: str) -> Operation | None:
    """Find the operation of a branch under a key of an actor; an operation of another branch does not count."""
    row_key = operation_row(state.branch, actor, key)
    rows = state.image.cached
    index = pc.index(rows[KEY], row_key).as_py()
    if index < 0:
        rows = state.image.rows
        index = pc.index(rows[KEY], row_key).as_py()
    if index < 0 or rows["object_type"][index].as_py() != ObjectType.OPERATION:
        return None
    try:
        facts = json.loads(rows["metadata"][index].as_py())
        return operation_of(rows["table_branch"][index].as_py(), facts)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InternalError(
            f"the manifest row '{rows[KEY][index]}' ({ObjectType.OPERATION}) has metadata that is not an "
            "operation's; the manifest is damaged"
        ) from error
