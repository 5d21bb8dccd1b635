"""Frames of one type → the change of its table: Arrow, pandas and polars tables, Parquet and CSV files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.catalog.types import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.commit.changes import ChangeKind, TableChange
from omnigraph.commit.changes import column as whole
from omnigraph.errors import UserInputError, did_you_mean, suggestion
from omnigraph.pipeline.columns import Shaped, shape
from omnigraph.pipeline.entities import conforming, keyed_change
from omnigraph.pipeline.identity import fresh_ids, key_ids
from omnigraph.pipeline.records import Records
from omnigraph.runtime import Runtime

_ENDS = {"from": "src", "to": "dst"}


def read_frame(frame: Any, name: str) -> pa.Table:
    """Bring a frame of any kind into Arrow."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, str | Path):
        return _read_file(Path(frame))
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise UserInputError(
        f"the frame of '{name}' is a {type(frame).__name__}; expected an Arrow, pandas or polars table, "
        "or the path of a Parquet or CSV file; no changes were made"
    )


def _read_file(path: Path) -> pa.Table:
    readers = {".parquet": pyarrow.parquet.read_table, ".csv": pyarrow.csv.read_csv}
    reader = readers.get(path.suffix)
    if reader is None:
        raise UserInputError(
            f"'{path}' is no frame: expected a .parquet or .csv file; no changes were made",
            hint="records of several types in one .jsonl file are loaded without naming a type",
        )
    try:
        return reader(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserInputError(f"'{path}' cannot be read: {error}; no changes were made") from error


def frame_change(
    type_: TableType, frame: pa.Table, kind: ChangeKind, records: Records, runtime: Runtime
) -> TableChange | None:
    """Type the columns of a frame; None, with the problems noted, when some values are wrong."""
    before = records.problems.total
    named = frame.rename_columns([_column_name(type_, name) for name in frame.column_names])
    _refuse_unknown(type_, named, records)
    columns = _columns(type_, named, records)
    if records.problems.total > before:
        return None
    ids = _frame_ids(type_, named, pa.table(columns), records, runtime)
    if records.problems.total > before:
        return None
    numbers = np.arange(1, named.num_rows + 1, dtype=np.int64)
    rows = conforming(type_, {"id": ids} | columns)
    return keyed_change(type_, rows, kind, records, lines=numbers)


def _column_name(type_: TableType, name: str) -> str:
    return _ENDS.get(name, name) if isinstance(type_, EdgeType) else name


def _refuse_unknown(type_: TableType, frame: pa.Table, records: Records) -> None:
    ends = ("src", "dst") if isinstance(type_, EdgeType) else ()
    known = ["id", *ends, *type_.properties]
    for name in frame.column_names:
        if name not in known:
            near = suggestion(did_you_mean(name, known))
            message = f"unknown column '{name}' of {type_.name}{near}"
            records.refuse(0, "J05", message, table=type_.table_key, property=name)
    for end in ends:
        if end not in frame.column_names:
            message = (
                f"an edge frame of {type_.name} needs the columns src and dst (or from and to)"
            )
            records.refuse(0, "J04", message, table=type_.table_key, property=end)


def _columns(type_: TableType, frame: pa.Table, records: Records) -> dict[str, pa.Array]:
    text = PropertyType(scalar=Scalar.STRING)
    wanted: dict[str, PropertyType] = {}
    if isinstance(type_, EdgeType):
        wanted = {"src": text, "dst": text}
    wanted |= {name: type_.properties[name].type for name in sorted(type_.properties)}
    return {name: _column(type_, name, frame, target, records) for name, target in wanted.items()}


def _column(
    type_: TableType, name: str, frame: pa.Table, target: PropertyType, records: Records
) -> pa.Array:
    if name not in frame.column_names:
        shaped = shape([None] * frame.num_rows, target)
    else:
        shaped = shape_column(whole(frame, name), target)
    for wrong in shaped.misplaced:
        rule = "J04" if name in ("src", "dst") and wrong.rule == "J14" else wrong.rule
        message = f"column '{name}' of {type_.name}: {wrong.reason}"
        records.refuse(wrong.index + 1, rule, message, table=type_.table_key, property=name)
    return shaped.values


def shape_column(values: pa.Array, target: PropertyType) -> Shaped:
    """Turn an Arrow column into the column of a property; only doubtful ones go through Python."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if _casts_cleanly(values.type, target):
        try:
            cast = _cast(values, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return shape(values.to_pylist(), target)
        if (target.nullable or cast.null_count == 0) and _all_finite(cast, target):
            return Shaped(cast)
    return shape(values.to_pylist(), target)


def _cast(values: pa.Array, target: PropertyType) -> pa.Array:
    if target.scalar is Scalar.DATETIME and pa.types.is_timestamp(values.type):
        return (
            values.cast(pa.timestamp("ms", values.type.tz), safe=False)
            .cast(pa.int64())
            .cast(pa.date64())
        )
    return values.cast(target.arrow)


def _all_finite(values: pa.Array, target: PropertyType) -> bool:
    if target.scalar not in FLOATS:
        return True
    flat = values.flatten() if target.is_vector or target.is_list else values
    items_known = flat.null_count == 0 or not (target.is_vector or target.is_list)
    return items_known and bool(pc.all(pc.is_finite(flat), min_count=0).as_py())


_FAMILIES: Mapping[Scalar, tuple[Any, ...]] = {
    Scalar.STRING: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    Scalar.BOOL: (pa.types.is_boolean,),
    Scalar.DATE: (pa.types.is_date32,),
    Scalar.DATETIME: (pa.types.is_date64, pa.types.is_timestamp),
    Scalar.BLOB: (pa.types.is_binary, pa.types.is_large_binary),
}


def _casts_cleanly(found: pa.DataType, target: PropertyType) -> bool:
    """Whether the family of the Arrow type is the one the property holds, so that a safe cast decides."""
    if pa.types.is_null(found):
        return True
    if target.is_vector or target.is_list:
        is_list = (
            pa.types.is_list(found)
            or pa.types.is_large_list(found)
            or pa.types.is_fixed_size_list(found)
        )
        return is_list and _casts_cleanly(found.value_type, PropertyType(scalar=target.scalar))
    if target.scalar in INTEGERS:
        return bool(pa.types.is_integer(found))
    if target.scalar in FLOATS:
        return bool(pa.types.is_floating(found) or pa.types.is_integer(found))
    return any(test(found) for test in _FAMILIES[target.scalar])


def _frame_ids(
    type_: TableType, frame: pa.Table, rows: pa.Table, records: Records, runtime: Runtime
) -> pa.Array:
    given = whole(frame, "id").cast(pa.string()) if "id" in frame.column_names else None
    if isinstance(type_, NodeType) and type_.key is not None:
        ids = key_ids(type_, rows)
        for row in pc.indices_nonzero(pc.is_null(ids)).to_pylist():
            message = f"the key of {type_.name} has no finite value"
            records.refuse(row + 1, "W04", message, table=type_.table_key)
        if given is not None:
            for row in pc.indices_nonzero(
                pc.fill_null(pc.not_equal(given, ids), False)
            ).to_pylist():
                message = f"id '{given[row]}' of {type_.name} contradicts its key, whose id is '{ids[row]}'"
                records.refuse(row + 1, "J10", message, table=type_.table_key, property="id")
        return ids
    fresh = fresh_ids(runtime.new_id(), frame.num_rows)
    return fresh if given is None else pc.coalesce(given, fresh)
