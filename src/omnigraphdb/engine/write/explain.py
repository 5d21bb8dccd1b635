"""The explanation of a mutation: its statements, and the plans of the matches that they write by."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from omnigraphdb.compile.checked import (
    Assign,
    CheckedDelete,
    CheckedInsert,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
    CheckedUpsert,
)
from omnigraphdb.engine.read.profile import Step
from omnigraphdb.engine.read.verbs import explain_steps
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.matches import open_reader
from omnigraphdb.engine.write.table_source import StatementValues
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.view import View
from omnigraphdb.runtime import datetime_of


def explain_mutation(
    engine: Engine, view: View, source: Source, name: str | None, params: Mapping[str, object]
) -> tuple[str, tuple[Step, ...]]:
    """Name a mutation and list its statements, each with the plan of its match below it; nothing runs."""
    mutation = engine.plans.mutation(view.accepted, source, name)
    statement_values = StatementValues(params, datetime_of(engine.runtime.now_us()))
    steps = [
        step
        for statement in mutation.statements
        for step in _explain_statement(statement, engine, view, statement_values)
    ]
    return mutation.name, tuple(steps)


def _explain_statement(
    statement: CheckedStatement, engine: Engine, view: View, statement_values: StatementValues
) -> Iterator[Step]:
    yield Step(operator=_render(statement), depth=0, notes=tuple(_list_notes(statement)))
    if isinstance(statement.origin, CheckedRead):
        reader = open_reader(engine, view, statement.origin, statement_values)
        yield from (replace(step, depth=step.depth + 1) for step in explain_steps(reader))


def _render(statement: CheckedStatement) -> str:
    verb = _WORDS[type(statement)]
    properties = ", ".join(assignment.property for assignment in _list_assigned(statement))
    return f"{verb} {statement.type_name}" + (f": {properties}" if properties else "")


_WORDS = {
    CheckedInsert: "Insert",
    CheckedUpsert: "Upsert",
    CheckedUpdate: "Update",
    CheckedDelete: "Delete",
}


def _list_assigned(statement: CheckedStatement) -> tuple[Assign, ...]:
    match statement:
        case CheckedUpsert():
            return (*statement.key, *statement.assignments)
        case CheckedInsert() | CheckedUpdate():
            return statement.assignments
        case CheckedDelete():
            return ()


def _list_notes(statement: CheckedStatement) -> Iterator[str]:
    if isinstance(statement, CheckedInsert) and statement.if_absent:
        yield "if absent"
    if isinstance(statement.origin, CheckedRead):
        yield "one row for each match"
    elif statement.origin is not None:
        yield f"one row for each item of ${statement.origin.name}"
    elif isinstance(statement, CheckedUpdate | CheckedDelete):
        yield "every row that satisfies the condition"
    if statement.returning:
        yield f"returns {', '.join(returned.name for returned in statement.returning)}"
