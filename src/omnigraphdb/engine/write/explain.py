"""How a mutation would go about its work: its statements, and the plans of the matches that they write by."""

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
    given = StatementValues(params, datetime_of(engine.runtime.now_us()))
    found = [
        step
        for statement in mutation.statements
        for step in _explain_statement(statement, engine, view, given)
    ]
    return mutation.name, tuple(found)


def _explain_statement(
    statement: CheckedStatement, engine: Engine, view: View, given: StatementValues
) -> Iterator[Step]:
    yield Step(operator=_render(statement), depth=0, notes=tuple(_list_notes(statement)))
    if isinstance(statement.origin, CheckedRead):
        reader = open_reader(engine, view, statement.origin, given)
        yield from (replace(step, depth=step.depth + 1) for step in explain_steps(reader))


def _render(statement: CheckedStatement) -> str:
    word = _WORDS[type(statement)]
    listed = ", ".join(one.property for one in _list_assigned(statement))
    return f"{word} {statement.type_name}" + (f": {listed}" if listed else "")


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
        yield f"returns {', '.join(one.name for one in statement.returning)}"
