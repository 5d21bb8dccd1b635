"""Parameters where a query uses them: what a value must be beyond its declared type."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from omnigraph.catalog.fit import Misfit, fit
from omnigraph.compile.checked import (
    Assign,
    AssignedValue,
    Checked,
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
    Const,
    Demand,
    Now,
    ParamRef,
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
        for demand in checked.demands:
            _require(demand, values[demand.parameter.name])
    return values


def _require(demand: Demand, value: object) -> None:
    parameter, word, least = demand.parameter, demand.word, demand.least
    if value is None:
        raise _make_refusal(parameter, "P05", f"{word} cannot be null", "null")
    if least is not None and isinstance(value, int) and value < least:
        raise _make_refusal(parameter, "P02", f"{word} must be at least {least}", shorten(value))


def _make_refusal(reference: ParamRef, code: str, rule: str, came: str) -> ParamError:
    message = (
        f"parameter '{reference.name}' ({reference.type}): {rule}, got {came}. Nothing was run"
    )
    return ParamError(reference.name, code, message, expected=str(reference.type), got=came)


# ---- what a mutation writes


def assign_columns(
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
