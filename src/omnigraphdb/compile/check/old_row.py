"""Values of an upsert behind a match that read the existing row: `$.p` beside the variables of the match.

The match gives the key by which the row is found, so the match cannot read the row. The parts of a value that read
the match become columns of the match, and the rest of the value is evaluated beside the row.
"""

from collections.abc import Iterator, Sequence

from omnigraphdb.compile.check.context import Context
from omnigraphdb.compile.checked import (
    ROW,
    Assign,
    BlockValue,
    Call,
    Column,
    EntityRef,
    Field,
    Operand,
    PathValue,
    PropertyRef,
)
from omnigraphdb.compile.plan.visit import list_children, replace_parts, variables_of
from omnigraphdb.language.query import tree
from omnigraphdb.values import replace

_PREFIX = "#match"
"""No property has such a name."""
_OF_ENTITIES = frozenset({"type", "entity"})


def reads_row(assign: Assign) -> bool:
    """Whether a value reads the row that is there."""
    return ROW in variables_of(assign.value)


def split_values(assigned: Sequence[Assign]) -> tuple[tuple[Assign, ...], tuple[Column, ...]]:
    """Split values that read the row: the parts that read the match become columns of it and fields of the value."""
    fields: dict[Operand, Field] = {}
    for assignment in filter(reads_row, assigned):
        for part in _list_matched(assignment.value):
            fields.setdefault(part, Field(f"{_PREFIX}{len(fields)}", part.type))
    values = tuple(
        replace(assignment, value=replace_parts(assignment.value, fields))
        if reads_row(assignment)
        else assignment
        for assignment in assigned
    )
    columns = (
        Column(name=field.name, expr=part, type=field.type) for part, field in fields.items()
    )
    return values, tuple(columns)


def _list_matched(part: object) -> Iterator[Operand]:
    """List the largest parts of a value that are not expressions over values: leaves, paths, types of entities."""
    match part:
        case PropertyRef(variable=variable) | EntityRef(variable=variable):
            if variable != ROW:
                yield part
        case Field() | PathValue():
            yield part
        case Call(function=function) if function in _OF_ENTITIES:
            yield part
        case _:
            for child in list_children(part):
                yield from _list_matched(child)


def refuse_row_in_blocks(
    statement: tree.Upsert, blocks: Sequence[BlockValue], context: Context
) -> None:
    """Refuse `$.p` inside of a block: blocks belong to the match, which is read before the row is found."""
    for block in blocks:
        if ROW in block.pattern.outer or ROW in variables_of(block.argument):
            message = (
                "a block behind a match cannot use '$.'; compare what the block gives with it outside, or bind the entity"
                " in the match and update it"
            )
            context.findings.report("T73", statement.assignments[0].span, message)
            return
