"""Parameters where a query uses them: what a value must be beyond its declared type."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from omnigraph.catalog.fit import Misfit, fit
from omnigraph.compile.checked import (
    AllOf,
    AnyOf,
    Assign,
    AssignedValue,
    Bm25,
    Checked,
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
    Condition,
    Const,
    ItemExpr,
    Nearest,
    Not,
    Now,
    ParamRef,
    Pattern,
    Rrf,
    TextMatch,
    VariableKind,
)
from omnigraph.compile.params import bind
from omnigraph.errors import ParamError, Problem, data_error, shorten
from omnigraph.ids import edge_key, node_key


def arguments(
    checked: Checked, given: Mapping[str, Any] | None, *, strict: bool = False
) -> dict[str, object]:
    """Bind the parameters of a query and hold each to the use that is made of it.

    A text to search for, a vector to rank by, a limit and an offset cannot be NULL; a limit, an
    offset and an edit distance cannot be negative, and the constant of a fusion must be positive.
    """
    values = bind(checked.params, given, strict=strict)
    if isinstance(checked, CheckedRead):
        for reference, word, least in _uses(checked):
            _require(reference, word, least, values)
    return values


def _require(
    reference: Const | ParamRef | None, word: str, least: int | None, values: Mapping[str, object]
) -> None:
    if not isinstance(reference, ParamRef):
        return
    value = values[reference.name]
    if value is None:
        raise _refused(reference, "P05", f"{word} cannot be null", "null")
    if least is not None and isinstance(value, int) and value < least:
        raise _refused(reference, "P02", f"{word} must be at least {least}", shorten(value))


def _refused(reference: ParamRef, code: str, rule: str, came: str) -> ParamError:
    message = (
        f"parameter '{reference.name}' ({reference.type}): {rule}, got {came}. Nothing was run"
    )
    return ParamError(reference.name, code, message, expected=str(reference.type), got=came)


# ---- where a read uses parameters


_Use = tuple[Const | ParamRef | None, str, int | None]


def _uses(read: CheckedRead) -> Iterator[_Use]:
    yield read.limit, "limit", 0
    yield read.offset, "offset", 0
    yield from _pattern_uses(read.pattern)
    for column in read.columns:
        yield from _expression_uses(column.expr)
    for key in read.order:
        if not isinstance(key.key, str):
            yield from _expression_uses(key.key)


def _pattern_uses(pattern: Pattern) -> Iterator[_Use]:
    for condition in pattern.conditions:
        yield from _condition_uses(condition)
    for block in (*pattern.negations, *pattern.optionals):
        yield from _pattern_uses(block)


def _condition_uses(condition: Condition) -> Iterator[_Use]:
    match condition:
        case TextMatch():
            yield from _expression_uses(condition)
        case AllOf() | AnyOf():
            for part in condition.parts:
                yield from _condition_uses(part)
        case Not():
            yield from _condition_uses(condition.part)
        case _:
            return


def _expression_uses(expr: ItemExpr) -> Iterator[_Use]:
    match expr:
        case TextMatch():
            yield expr.query, f"the query text of {expr.function}", None
            yield expr.distance, "the edit distance of fuzzy", 0
        case Nearest():
            yield expr.query, "the query of nearest", None
        case Bm25():
            yield expr.query, "the query text of bm25", None
        case Rrf():
            yield from _expression_uses(expr.first)
            yield from _expression_uses(expr.second)
            yield expr.k, "the constant k of rrf", 1
        case _:
            return


# ---- what a mutation writes


def assigned(
    mutation: CheckedMutation, values: Mapping[str, object], now: datetime
) -> tuple[dict[str, object], ...]:
    """Give the columns each statement sets, as its table stores them; deletes set none.

    Every value that cannot be stored is reported at once, also when no entity would match.
    """
    problems: list[Problem] = []
    rows = [_row(statement, values, now, problems) for statement in mutation.statements]
    if problems:
        raise data_error(problems)
    return tuple(rows)


def evaluate(value: AssignedValue, values: Mapping[str, object], now: datetime) -> object:
    """The Python value behind a literal, a parameter or the clock."""
    match value:
        case Const():
            return value.value
        case ParamRef():
            return values[value.name]
        case Now():
            return now


def _row(
    statement: CheckedStatement,
    values: Mapping[str, object],
    now: datetime,
    problems: list[Problem],
) -> dict[str, object]:
    row: dict[str, object] = {}
    if isinstance(statement, CheckedDelete):
        return row
    for assignment in statement.assignments:
        found = fit(evaluate(assignment.value, values, now), assignment.type)
        if isinstance(found, Misfit):
            problems.append(_problem(statement, assignment, found))
        row[assignment.property] = found
    return row


def _problem(
    statement: CheckedInsert | CheckedUpdate, assignment: Assign, found: Misfit
) -> Problem:
    is_edge = isinstance(statement, CheckedInsert) and statement.kind is VariableKind.EDGE
    label = f"{statement.type_name}.{assignment.property}"
    return Problem(
        rule=found.rule,
        message=f"'{label}' is {assignment.type}: {found.reason}",
        table_key=edge_key(statement.type_name) if is_edge else node_key(statement.type_name),
        property=assignment.property,
    )
