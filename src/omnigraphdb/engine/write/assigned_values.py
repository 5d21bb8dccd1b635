"""The values that a statement assigns, as columns of the types of their properties."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import TableType
from omnigraphdb.catalog.types import FLOATS, PropertyType
from omnigraphdb.catalog.values import Misfit, fit, key_text, key_texts
from omnigraphdb.compile.checked import Assign, AssignedValue, CheckedRead, Operand
from omnigraphdb.engine.read.evaluate import evaluate, repeat_value
from omnigraphdb.engine.write.table_source import StatementValues, TableSource
from omnigraphdb.errors import OmniError, Problem, data_error
from omnigraphdb.pipeline.input.columns import blob, shape
from omnigraphdb.storage.arrow import column


def resolve_value(type_: TableType, assign: Assign, statement_values: StatementValues) -> object:
    """Return the value that a property will hold in every row; raise if the value does not fit the property."""
    assert isinstance(assign.value, AssignedValue), "other values differ from row to row"
    value = spell_key(statement_values.of(assign.value), assign.value, assign.type)
    fitted = blob(value) if assign.type.is_blob and value is not None else fit(value, assign.type)
    if isinstance(fitted, Misfit):
        raise _refuse(type_, assign, fitted)
    return fitted


def spell_key(value: object, written: Operand, declared: PropertyType) -> object:
    """Return the id of a node that a statement names by a value of its key.

    The checker lets such values pass at the ends of edges.
    """
    if value is None or isinstance(value, str) or not declared.is_text or declared.is_list:
        return value
    return key_text(value, written.type)


def assign_columns(
    type_: TableType,
    assignments: Sequence[Assign],
    source: TableSource,
    origin: CheckedRead | object | None = None,
) -> dict[str, pa.Array]:
    """Compute a column for every assignment; a match has computed its columns already."""
    columns: dict[str, pa.Array] = {}
    for assign in assignments:
        if isinstance(assign.value, AssignedValue):
            value = resolve_value(type_, assign, source.given)
            columns[assign.property] = repeat_value(value, assign.type, source.rows)
            continue
        if isinstance(origin, CheckedRead):
            values = column(source.table, assign.property)
        else:
            values = evaluate(assign.value, source)
        columns[assign.property] = _fit_column(type_, assign, values, source)
    return columns


def _fit_column(
    type_: TableType, assign: Assign, values: pa.Array, source: TableSource
) -> pa.Array:
    """Give values the type of their property, or refuse the first that does not fit."""
    declared = assign.type
    if declared.is_text and not assign.value.type.is_text:
        values = key_texts(values, assign.value.type)
    if values.null_count and not declared.nullable:
        offset = pc.index(values.is_null(), True).as_py()
        raise _refuse(type_, assign, fit(None, declared), source, offset)
    if declared.is_blob:
        return _read_blobs(type_, assign, values, source)
    fitted = _cast(values, declared)
    return fitted if fitted is not None else _find_misfit(type_, assign, values, source)


def _cast(values: pa.Array, declared: PropertyType) -> pa.Array | None:
    """Cast a column; None when a value may not fit."""
    is_float = declared.scalar in FLOATS and not declared.is_list
    try:
        # A narrower float may round, a whole number may not lose its fraction.
        fitted = values.cast(declared.arrow, safe=declared.scalar not in FLOATS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if is_float and not declared.is_vector:
        return fitted if pc.all(pc.is_finite(fitted), min_count=0).as_py() else None
    return fitted


def _read_blobs(
    type_: TableType, assign: Assign, values: pa.Array, source: TableSource
) -> pa.Array:
    shaped = shape(values.to_pylist(), assign.type)
    for misfit in shaped.misfits:
        raise _refuse(type_, assign, Misfit(misfit.rule, misfit.reason), source, misfit.index)
    return shaped.values


def _find_misfit(
    type_: TableType, assign: Assign, values: pa.Array, source: TableSource
) -> pa.Array:
    """Refuse the first value that does not fit."""
    fitted_values = [fit(value, assign.type) for value in values.to_pylist()]
    for offset, fitted in enumerate(fitted_values):
        if isinstance(fitted, Misfit):
            raise _refuse(type_, assign, fitted, source, offset)
    return pa.array(fitted_values, assign.type.arrow)


def _refuse(
    type_: TableType,
    assign: Assign,
    misfit: object,
    source: TableSource | None = None,
    offset: int = 0,
) -> OmniError:
    assert isinstance(misfit, Misfit)
    rule = "W03" if misfit.rule.startswith("J") else misfit.rule
    location = "" if source is None else f", in the row {source.describe(offset)}"
    return data_error(
        [
            Problem(
                rule=rule,
                message=f"property '{assign.property}' of {type_.name}: {misfit.reason}{location}",
                table_key=type_.table_key,
                property=assign.property,
            )
        ]
    )


def list_columns(type_: TableType, columns: Mapping[str, pa.Array], rows: int) -> pa.Table:
    """Build whole rows of a type, with NULL in the columns that nothing was assigned to."""
    return pa.Table.from_arrays(
        [
            columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
            for field in type_.schema
        ],
        schema=type_.schema,
    )
