"""Errors in the words of the command line: the engine names keyword arguments, a shell has flags."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraphdb.errors import OmniError

_FLAGS = {
    "actor": "--as",
    "allow_data_loss": "--allow-data-loss",
    "allow_empty": "--allow-empty",
    "all": "--all",
    "allow_older_base": "--allow-older-base",
    "at": "--at",
    "branch": "--branch",
    "confirm": "--confirm",
    "create_missing": "--create-missing",
    "force": "--force",
    "from_branch": "--from",
    "granularity": "--granularity",
    "if_commit": "--if-commit",
    "into": "--into",
    "keep": "--keep",
    "limit": "--limit",
    "mode": "--mode",
    "older_than": "--older-than",
    "params": "--params",
    "rejects": "--rejects",
    "since": "--since",
    "type": "--type",
}
"""The flag of each keyword argument that an error may name."""

_ARGUMENT = re.compile(rf"(?<![\w.$])({'|'.join(_FLAGS)})=(True\b|…|'[\w./:+-]*'|(?![\w\"'(\[{{]))")
_SENTENCES = (
    (re.compile(r"name one of them: name='(\w+)'"), r"name one of them after the command: \1"),
    (re.compile(r"spark=False"), "--engine local"),
    (
        re.compile(r"open the graph itself where it is stored: omnigraphdb\.open\(…\)"),
        "name the graph by its path or URI instead of --server",
    ),
    (re.compile(r"\b(?:leave out|without) --engine local"), "leave out --engine local"),
)


def word_text(text: str) -> str:
    """A text of the engine with flags for keyword arguments."""
    for pattern, words in _SENTENCES:
        text = pattern.sub(words, text)
    return _ARGUMENT.sub(_spell_flag, text)


def _spell_flag(found: "re.Match[str]") -> str:
    flag, value = _FLAGS[found[1]], (found[2] or "").strip("'…")
    return flag if value in ("", "True") else f"{flag} {value}"


def word_body(error: "OmniError") -> "Mapping[str, Any]":
    """The wire body of an error for a reader of the command line."""
    body = error.to_dict()
    return body | {name: word_text(body[name]) for name in ("error", "hint") if name in body}
