"""Tags: names of commits, kept on the manifest of main; a tag keeps its commit readable."""

import json
import re
from datetime import datetime
from typing import Final

import pyarrow.compute as pc

from omnigraphdb.errors import ConflictError, InternalError, UserInputError, shorten
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.names import find_broken_rule, is_utf8
from omnigraphdb.manifest.records import KEY, ObjectType, Tag, tag_of, tag_row
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.table_history import rows_of

_COMMIT: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{8,26}", re.IGNORECASE)
"""A text that could be the beginning of a commit id."""


def tag_name(text: str) -> str:
    """Read the name of a new tag: a name that a branch may have, and that does not name a point in history already."""
    fault = "it is not text" if not is_utf8(text) else _find_broken_rule(text)
    if fault is not None:
        raise UserInputError(
            f"the tag name '{shorten(text)}' cannot be used: {fault}; no changes were made",
            hint="a tag holds letters, digits, '.', '-', '_' and '/', such as 'release/1.4'",
        )
    return text


def _find_broken_rule(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name == MAIN:
        return "it is the name of a branch"
    if name.isdigit():
        return "a number is a manifest version"
    if _COMMIT.fullmatch(name):
        return "it could be the id of a commit"
    if _is_moment(name):
        return "it is a moment"
    return find_broken_rule(name)


def _is_moment(name: str) -> bool:
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return False
    return True


# ---- reading


def list_tags(state: BranchState) -> tuple[Tag, ...]:
    """Read the tags of main, by name."""
    rows = rows_of(state.image.recent, ObjectType.TAG, (KEY, "table_branch", "metadata"))
    tags = (_decode(*row.values()) for row in rows.sort_by(KEY).to_pylist())
    return tuple(tag for tag in tags if tag.commit is not None)


def _decode(object_id: str, branch: str | None, metadata: str) -> Tag:
    try:
        return tag_of(object_id, branch, json.loads(metadata))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InternalError(
            f"the manifest row '{object_id}' ({ObjectType.TAG}) has metadata that is not a tag's; the manifest is damaged"
        ) from error


def find_tag(state: BranchState, name: str) -> Tag | None:
    """Find a tag of main by its name."""
    row_key = tag_row(name)
    rows = state.image.recent
    index = pc.index(rows[KEY], row_key).as_py()
    if index < 0:
        return None
    tag = _decode(row_key, rows["table_branch"][index].as_py(), rows["metadata"][index].as_py())
    return None if tag.commit is None else tag


def require_free(state: BranchState, tag: Tag) -> None:
    """Refuse to give a name to a commit while another commit has it."""
    existing = find_tag(state, tag.name)
    if existing is not None and tag.commit not in (None, existing.commit):
        raise ConflictError(
            f"the tag '{tag.name}' names commit {existing.commit} already; nothing was written",
            details={"tag": {"name": tag.name, "commit_id": existing.commit}},
            hint="take another name, or delete the tag first",
        )
