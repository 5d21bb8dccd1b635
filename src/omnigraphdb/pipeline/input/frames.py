"""Frames of one type: Arrow, pandas and polars tables, Parquet, CSV and JSONL files, typed column by column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType, TableType
from omnigraphdb.catalog.types import FLOATS, INTEGERS, NUMBERS, PropertyType, Scalar
from omnigraphdb.catalog.values import key_texts
from omnigraphdb.commit.origins import Origins, join_origins, rows_in
from omnigraphdb.errors import Problem, UserInputError, did_you_mean, shorten, suggestion
from omnigraphdb.limits import FRAME_ROWS
from omnigraphdb.pipeline.input.columns import (
    DAYS,
    INSTANTS,
    ColumnMisfit,
    TypedColumn,
    relist,
    shape,
)
from omnigraphdb.pipeline.input.intake import Intake, Part
from omnigraphdb.pipeline.input.text_tables import WIDE, is_worth_threads, read_csv, shape_lists
from omnigraphdb.storage.arrow import column as table_column
from omnigraphdb.values import dataclass

_ENDS = {"from": "src", "to": "dst"}
_TEXT = PropertyType(scalar=Scalar.STRING)


def read_frame(frame: Any, type_: TableType) -> pa.Table:
    """Read a frame of any kind as an Arrow table."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    try:
        if isinstance(frame, pa.RecordBatchReader):
            return frame.read_all()
        if isinstance(frame, str | Path):
            return _read_file(Path(frame), type_)
        if type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns"):
            return _from_pandas(frame, type_)
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
    except (OSError, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        where = f"'{frame}'" if isinstance(frame, str | Path) else f"the frame of '{type_.name}'"
        raise UserInputError(f"{where} cannot be read: {error}; no changes were made") from error
    raise UserInputError(
        f"the frame of '{type_.name}' is a {type(frame).__name__}; expected an Arrow, pandas, polars or DuckDB table, "
        "or the path of a Parquet, CSV or JSONL file; no changes were made"
    )


def _read_file(path: Path, type_: TableType) -> pa.Table:
    if path.suffix == ".parquet":
        threads = is_worth_threads(path)
        with pyarrow.parquet.ParquetFile(path, pre_buffer=threads) as file:
            return file.read(use_threads=threads)
    if path.suffix == ".csv":
        return read_csv(path, type_)
    raise UserInputError(
        f"'{path}' is not a frame: expected a .parquet, .csv, .jsonl or .ndjson file; no changes were made",
        hint="records of several types in one .jsonl file are loaded without naming a type",
    )


def _from_pandas(frame: Any, type_: TableType) -> pa.Table:
    """Convert a pandas frame; its index is not a column of the graph."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except OverflowError:
        if not frame.columns.is_unique:
            raise
    # Without a type Arrow reads a Python integer as an I64.
    wide = [
        name
        for name, target in list_columns(type_).items()
        if name in frame.columns and frame[name].dtype == object and target.scalar in NUMBERS
    ]
    rows = pa.Table.from_pandas(frame.drop(columns=wide), preserve_index=False)
    for name in wide:
        rows = rows.append_column(name, _convert_numbers(frame[name], list_columns(type_)[name]))
    return rows


def _convert_numbers(values: Any, target: PropertyType) -> pa.Array:
    """Convert a column of Python numbers; numbers that do not fit the property stay, so that an error can name them."""
    nested = target.is_list or target.is_vector
    try:
        return pa.Array.from_pandas(
            values, type=pa.list_(target.arrow.value_type) if nested else target.arrow
        )
    except (pa.ArrowException, OverflowError):
        return pa.Array.from_pandas(values, type=pa.list_(WIDE) if nested else WIDE)


def take_frame(
    type_: TableType,
    frame: pa.Table,
    intake: Intake,
    first: int = 1,
) -> None:
    """Read the rows of a frame into an intake, numbered from `first` on."""
    _take_rows(type_, frame, number_rows(frame, first), intake)


def number_rows(frame: pa.Table, first: int = 1, file: str | None = None) -> Origins:
    """Number the rows of a frame from `first` on."""
    return rows_in(file, np.arange(first, first + frame.num_rows, dtype=np.int64))


def take_frames(
    type_: TableType, frames: Sequence[tuple[pa.Table, Origins]], intake: Intake
) -> None:
    """Read frames of one type into an intake: consecutive ones with the same columns at once, if all values fit.

    Converting the columns of a small frame costs more than reading its file.
    """
    for _, group in groupby(frames, key=lambda pair: pair[0].schema):
        run = list(group)
        if len(run) > 1:
            joined = Intake(intake.catalog, shown_max=0)
            rows = pa.concat_tables([frame for frame, _ in run])
            _take_rows(type_, rows, join_origins([origins for _, origins in run]), joined)
            if not joined.total:
                intake.join(joined)
                continue
        # Problems are reported frame by frame.
        for frame, origins in run:
            _take_rows(type_, frame, origins, intake)


def _take_rows(type_: TableType, frame: pa.Table, origins: Origins, intake: Intake) -> None:
    renamed_frame = frame.rename_columns([column_name(type_, name) for name in frame.column_names])
    problems = _find_misnamed(type_, renamed_frame)
    if problems:
        intake.refuse(replace(problem, file=origins.files[0]) for problem in problems)
        return
    columns = {
        name: _column(type_, name, renamed_frame, target, origins, intake)
        for name, target in list_columns(type_).items()
    }
    intake.add(
        type_,
        Part(
            columns=columns,
            explicit_ids=_read_ids(type_, renamed_frame, origins, intake),
            origins=origins,
        ),
    )


def column_name(type_: TableType, name: str) -> str:
    """Return the table column that a frame column fills."""
    return _ENDS.get(name, name) if isinstance(type_, EdgeType) else name


def _find_misnamed(type_: TableType, frame: pa.Table) -> list[Problem]:
    """Find columns that are unknown, given twice, or missing."""
    table = type_.table_key
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    expected_names = ["id", *ends, *type_.properties]
    problems = []
    for index, name in enumerate(frame.column_names):
        if name not in expected_names:
            near = suggestion(did_you_mean(name, expected_names))
            message = f"unknown column '{name}' of {type_.name}{near}"
            problems.append(Problem(rule="J05", message=message, table_key=table, property=name))
        elif name in frame.column_names[:index]:
            message = f"column '{name}' of {type_.name} is given twice"
            problems.append(Problem(rule="J06", message=message, table_key=table, property=name))
    for end in ends:
        if end not in frame.column_names:
            message = (
                f"an edge frame of {type_.name} needs the columns src and dst (or from and to)"
            )
            problems.append(Problem(rule="J04", message=message, table_key=table, property=end))
    return problems


def list_columns(type_: TableType) -> dict[str, PropertyType]:
    """List the columns of a table but its ids, in the order in which they are read."""
    ends = {"src": _TEXT, "dst": _TEXT} if isinstance(type_, EdgeType) else {}
    return ends | {name: type_.properties[name].type for name in sorted(type_.properties)}


def _column(
    type_: TableType,
    name: str,
    frame: pa.Table,
    target: PropertyType,
    origins: Origins,
    intake: Intake,
) -> pa.Array:
    values = table_column(frame, name) if name in frame.column_names else None

    def shape_part(start: int, rows: int) -> TypedColumn:
        if values is None:
            return shape([None] * rows, target)
        return shape_table_column(type_, name, values.slice(start, rows), target, intake.catalog)

    def describe(wrong: ColumnMisfit) -> Problem:
        return origins.of(wrong.index).problem(
            "J04" if name in ("src", "dst") and wrong.rule == "J14" else wrong.rule,
            f"column '{name}' of {type_.name}: {wrong.reason}",
            table_key=type_.table_key,
            property=name,
            value=None if values is None else _spell_cell(values, wrong.index),
        )

    return _take_values(frame.num_rows, target, shape_part, describe, intake)


def _take_values(
    rows: int,
    target: PropertyType,
    shape_part: Callable[[int, int], TypedColumn],
    describe: Callable[[ColumnMisfit], Problem],
    intake: Intake,
) -> pa.Array:
    """Convert a column part by part, so that the values which do not fit are never in memory together."""
    parts = []
    for start in range(0, rows, FRAME_ROWS):
        shaped = shape_part(start, min(FRAME_ROWS, rows - start))
        misfits = shaped.misfits
        if start:
            misfits = tuple(replace(misfit, index=misfit.index + start) for misfit in misfits)
        intake.refuse_each(misfits, describe)
        parts.append(shaped.values)
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays(parts) if parts else pa.nulls(0, target.arrow)


def _spell_cell(values: pa.Array, row: int) -> str | None:
    """Spell a cell for a message; None where it has no value."""
    value = _python_values(values.slice(row, 1))[0]
    return None if value is None else shorten(value)


def _read_ids(type_: TableType, frame: pa.Table, origins: Origins, intake: Intake) -> pa.Array:
    """Read the explicit ids of a frame: texts, or values of the type of the key."""
    if "id" not in frame.column_names:
        return pa.nulls(frame.num_rows, pa.string())
    key = type_.key_type if isinstance(type_, NodeType) else None
    values, target = table_column(frame, "id"), replace(_TEXT, nullable=True)

    def describe(wrong: ColumnMisfit) -> Problem:
        return origins.of(wrong.index).problem(
            "J09",
            f"the id of {type_.name} is text: {wrong.reason}",
            table_key=type_.table_key,
            property="id",
            value=_spell_cell(values, wrong.index),
        )

    return _take_values(
        frame.num_rows,
        target,
        lambda start, rows: _shape_ids(values.slice(start, rows), key, target),
        describe,
        intake,
    )


def shape_table_column(
    type_: TableType, name: str, values: pa.Array, target: PropertyType, catalog: Catalog
) -> TypedColumn:
    """Convert a column of a table: an end of an edge, or a property."""
    if isinstance(type_, EdgeType) and name in _ENDS.values():
        return _shape_ids(values, catalog.end_key_type(type_, name), target)
    return shape_column(values, target)


def _shape_ids(values: pa.Array, key: PropertyType | None, target: PropertyType) -> TypedColumn:
    """Convert a column of ids: texts are ids, a column of the type of the key becomes its canonical texts."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if key is None or key.is_text or not _casts_cleanly(values.type, key):
        return shape_column(values, target)
    shaped = shape_column(values, replace(key, nullable=target.nullable))
    return TypedColumn(key_texts(shaped.values, key), shaped.misfits)


def shape_column(values: pa.Array, target: PropertyType) -> TypedColumn:
    """Convert an Arrow column to the type of a property; only columns that may not fit go through Python."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if (target.is_list or target.is_vector) and _is_text(values.type):
        return shape_lists(values, target)
    if _casts_cleanly(values.type, target):
        try:
            cast = _cast(values, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return shape(_python_values(values), target)
        if (target.nullable or cast.null_count == 0) and _is_plain(cast, target):
            return TypedColumn(cast)
    return shape(_python_values(values), target)


def _python_values(values: pa.Array) -> list[Any]:
    """Convert values to Python; instants as milliseconds, since Python has a smaller range than Arrow."""
    if _is_list(values.type):
        values = relist(_plain_items(values.flatten()), values)
    try:
        python_values: list[Any] = _plain_items(values).to_pylist()
    except (OverflowError, ValueError):
        # Python has no such date, time or number, and no property holds one.
        texts = values.cast(pa.string()).to_pylist()
        return [None if text is None else ArrowOnly(text) for text in texts]
    return _whole_numbers(python_values) if _is_whole_decimal(_item(values.type)) else python_values


def _plain_items(values: pa.Array) -> pa.Array:
    return _milliseconds(values) if pa.types.is_timestamp(values.type) else values


def _whole_numbers(values: Any) -> Any:
    """Convert decimals of any depth to Python integers."""
    if isinstance(values, list):
        return [_whole_numbers(value) for value in values]
    return None if values is None else int(values)


@dataclass(frozen=True, slots=True)
class ArrowOnly:
    """A value that Arrow has and Python has not: it fits no property."""

    text: str

    def __str__(self) -> str:
        return self.text


def _is_list(arrow_type: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(arrow_type) for test in kinds)


def _is_text(arrow_type: pa.DataType) -> bool:
    return any(test(arrow_type) for test in _FAMILIES[Scalar.STRING])


def _is_whole_decimal(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(arrow_type) and arrow_type.scale == 0)


def _item(arrow_type: pa.DataType) -> pa.DataType:
    """Return the item type of a list type; any other type itself."""
    return arrow_type.value_type if _is_list(arrow_type) else arrow_type


def _cast(values: pa.Array, target: PropertyType) -> pa.Array:
    # A cast would cut instants to their days.
    if not pa.types.is_timestamp(_item(values.type)):
        return values.cast(target.arrow)
    if not target.is_list:
        return _milliseconds(values).cast(target.arrow)
    return relist(_milliseconds(values.flatten()).cast(pa.date64()), values).cast(target.arrow)


def _milliseconds(values: pa.Array) -> pa.Array:
    """Convert instants to milliseconds, rounded down, before 1970 as well as after."""
    parts = {"us": 1_000, "ns": 1_000_000}.get(values.type.unit)
    if parts is not None:
        numbers = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return pa.array(numbers // parts, mask=pc.is_null(values).to_numpy(zero_copy_only=False))
    return values.cast(pa.timestamp("ms", values.type.tz), safe=False).cast(pa.int64())


def _is_plain(values: pa.Array, target: PropertyType) -> bool:
    """Whether numbers are finite, dates and instants within RFC 3339, and no list item is missing."""
    flat = values
    if target.is_vector or target.is_list:
        flat = values.flatten()
        if flat.null_count:
            return False
    if target.scalar in FLOATS:
        return bool(pc.all(pc.is_finite(flat), min_count=0).as_py())
    if target.scalar is Scalar.DATETIME:
        return _are_within(flat.cast(pa.int64()), INSTANTS)
    return target.scalar is not Scalar.DATE or _are_within(flat.cast(pa.int32()), DAYS)


def _are_within(numbers: pa.Array, bounds: tuple[int, int]) -> bool:
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is None or bounds[0] <= ends["min"] <= ends["max"] <= bounds[1]


_FAMILIES: Mapping[Scalar, tuple[Any, ...]] = {
    Scalar.STRING: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    Scalar.BOOL: (pa.types.is_boolean,),
    Scalar.DATE: (pa.types.is_date32,),
    # A date stands for its midnight, as in text.
    Scalar.DATETIME: (pa.types.is_date64, pa.types.is_timestamp, pa.types.is_date32),
    Scalar.BLOB: (pa.types.is_binary, pa.types.is_large_binary),
}


def _casts_cleanly(arrow_type: pa.DataType, target: PropertyType) -> bool:
    """Whether the Arrow type is of the same family as the property, so that a safe cast decides."""
    if pa.types.is_null(arrow_type):
        return True
    if target.is_vector or target.is_list:
        if not _is_list(arrow_type):
            return False
        return _casts_cleanly(arrow_type.value_type, PropertyType(scalar=target.scalar))
    if target.scalar in INTEGERS:
        return bool(pa.types.is_integer(arrow_type)) or _is_whole_decimal(arrow_type)
    if target.scalar in FLOATS:
        return bool(pa.types.is_floating(arrow_type) or pa.types.is_integer(arrow_type))
    return any(test(arrow_type) for test in _FAMILIES[target.scalar])
