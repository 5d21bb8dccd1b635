"""Answers and refusals without what an actor may not read: branches, rows, and where the server keeps a graph."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from omnigraphdb.errors import (
    BranchExists,
    BranchInUse,
    ConstraintError,
    DataError,
    LockTimeout,
    NotFound,
    OmniError,
    Problem,
    ReferentialError,
    SchemaApplyConflict,
)

MayRead = Callable[[str], bool]
_BRANCH_KINDS: Final = frozenset({"branch", "branch or commit"})
"""What a lookup may have looked for where its suggestions are branches."""


def hide_unreadable(error: OmniError, may_read: MayRead, branch: str) -> OmniError:
    """Give a refusal that shows nothing which may not be read; most refusals show nothing of it and are given as they are.

    `branch`: the branch that was written.
    """
    match error:
        case NotFound() if error.what in _BRANCH_KINDS and error.known:
            readable = [name for name in error.known if may_read(name)]
            return NotFound(error.what, error.name, known=readable, hint=error.hint)
        case BranchInUse():
            return _hide_dependants(error, may_read)
        case BranchExists() if error.other is not None and not may_read(error.other):
            return BranchExists(error.name, is_hidden=True)
        case LockTimeout() if error.branch != branch and not may_read(error.branch):
            return error.without_branch()
        case SchemaApplyConflict() if error.branches:
            readable = [name for name in error.branches if may_read(name)]
            return SchemaApplyConflict.of_branches(
                readable, are_some_hidden=len(readable) < len(error.branches)
            )
        case DataError() | ReferentialError() | ConstraintError() if not may_read(branch):
            problems = [_hide_row(problem, error, branch) for problem in error.problems]
            return type(error)(problems, total=error.total)
        case _:
            return error


def _hide_row(problem: Problem, error: OmniError, branch: str) -> Problem:
    """Leave out the row that breaks a rule; a record that the caller brought and that cannot be read stays."""
    if isinstance(error, DataError) and (problem.line or problem.record) is not None:
        return problem
    table = "" if problem.table_key is None else f" of {problem.table_key}"
    return Problem(
        rule=problem.rule,
        message=f"a row{table} breaks a rule of the schema; you may not read branch '{branch}', so that it is not shown",
        line=problem.line,
        record=problem.record,
        table_key=problem.table_key,
    )


def _hide_dependants(error: BranchInUse, may_read: MayRead) -> BranchInUse:
    """Name the dependants of a branch where all may be read; tags are those of the branch itself."""
    if may_read(error.name) and all(may_read(name) for name in error.dependants):
        return error
    return BranchInUse(error.name, (), "branches or tags that you may not read depend on it")


def replace_addresses(value: Any, addresses: Sequence[str], name: str) -> Any:
    """Replace the addresses of a graph by its name in every text of a JSON value."""
    match value:
        case str():
            for address in addresses:
                value = value.replace(address, name)
            return value
        case Mapping():
            return {key: replace_addresses(one, addresses, name) for key, one in value.items()}
        case list() | tuple():
            return [replace_addresses(one, addresses, name) for one in value]
        case _:
            return value


def hide_addresses(error: OmniError, addresses: Sequence[str], name: str) -> OmniError:
    """Give a refusal that names a graph by its name, not by its addresses."""
    facts = (error.message, error.hint, error.details)
    hidden = replace_addresses(facts, addresses, name)
    if hidden == list(facts):
        return error
    shown = copy.copy(error)
    shown.message, shown.hint, shown.details = hidden
    shown.args = (shown.message,)
    return shown
