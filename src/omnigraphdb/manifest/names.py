"""Rules for the names of branches and actors, and for the messages of commits."""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from omnigraphdb.errors import UserInputError, shorten
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.limits import BRANCH_FILE_BYTES_MAX, BRANCH_NAME_BYTES_MAX, MESSAGE_CHARS_MAX

SCHEMA_APPLY_LOCK: Final = BranchName("__schema_apply_lock__")
"""Exists while a schema change runs; hidden from listings, refused by every branch operation."""

_ALLOWED: Final = "letters, digits, '.', '-' and '_' in parts separated by '/'"


def branch_name(text: str, operation: str) -> BranchName:
    """Read the name of a branch that is to be used; blanks around it do not count."""
    if text == MAIN:
        return MAIN
    if not is_utf8(text):
        raise _make_refusal(text, operation, "it is not text")
    name = text.strip()
    if not name:
        raise _make_refusal(text, operation, "it is empty")
    if name == SCHEMA_APPLY_LOCK:
        raise _make_refusal(name, operation, "it is reserved for schema changes")
    return BranchName(name)


def new_branch_name(text: str, operation: str) -> BranchName:
    """Read the name of a branch that is to be created; every rule it breaks is a refusal."""
    name = branch_name(text, operation)
    if name == MAIN:
        raise _make_refusal(name, operation, "main always exists")
    rule = find_broken_rule(name)
    if rule is not None:
        raise _make_refusal(name, operation, rule)
    return name


def find_broken_rule(name: str) -> str | None:
    """Find the rule that a name breaks; files, refs and commands carry it."""
    if len(name.encode()) > BRANCH_NAME_BYTES_MAX:
        return f"it is longer than {BRANCH_NAME_BYTES_MAX} bytes"
    if len(quote(name, safe="")) > BRANCH_FILE_BYTES_MAX:
        return f"as a file name it is longer than {BRANCH_FILE_BYTES_MAX} bytes"
    if name.startswith("-"):
        return "it begins with '-'"
    if name.startswith("/") or name.endswith("/") or "//" in name:
        return "it has an empty part between slashes"
    if ".." in name:
        return "it holds '..'"
    if any(part in (".", "") or part.endswith(".lock") for part in name.split("/")):
        return "a part of it is '.' or ends with '.lock'"
    refused_chars = sorted(set(re.findall(r"[^A-Za-z0-9._/-]", name)))
    if refused_chars:
        return f"it holds {', '.join(repr(char) for char in refused_chars)}; allowed are {_ALLOWED}"
    return None


def actor_name(actor: str | None) -> str | None:
    """Read the actor of a write: text that can be stored, or nobody."""
    if actor is None or is_utf8(actor):
        return actor or None
    raise UserInputError(
        f"the actor '{shorten(actor)}' is not text that can be stored; no changes were made",
        hint="an actor is UTF-8 text, such as 'ann' or 'agent:import'",
    )


def commit_message(message: str | None) -> str | None:
    """Read the message of a commit: some text, of any number of lines."""
    if message is None:
        return None
    fault = _find_message_fault(message)
    if fault is None:
        return message
    raise UserInputError(
        f"the message '{shorten(message)}' cannot be stored: {fault}; no changes were made",
        hint=f"a message is text of at most {MESSAGE_CHARS_MAX} characters",
    )


def _find_message_fault(text: object) -> str | None:
    if not isinstance(text, str) or not is_utf8(text):
        return "it is not text"
    if not text.strip():
        return "it is empty"
    if len(text) > MESSAGE_CHARS_MAX:
        return f"it has {len(text)} characters"
    refused_chars = sorted(
        {char for char in text if not char.isprintable() and char not in "\n\r\t"}
    )
    return f"it holds {refused_chars[0]!r}" if refused_chars else None


def is_utf8(text: object) -> bool:
    """Whether something is text that can be stored: half of a surrogate pair cannot."""
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _make_refusal(name: object, operation: str, rule: str) -> UserInputError:
    return UserInputError(
        f"{operation}: the branch name '{shorten(name)}' cannot be used: {rule}; no changes were made",
        hint=f"a branch name holds {_ALLOWED}",
    )


def nesting(name: str, others: Iterable[str]) -> str | None:
    """Find a name that is a path prefix of this one or the reverse: their files would nest."""
    return next(
        (o for o in sorted(others) if o.startswith(f"{name}/") or name.startswith(f"{o}/")), None
    )
