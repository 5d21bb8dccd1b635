"""The first rows of any input, typed as little as possible, from which a schema is inferred."""

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from omnigraphdb.errors import UserInputError
from omnigraphdb.values import dataclass

_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_KINDS = {
    str: "text",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Rows of one type, and whether they are all of them."""

    rows: pa.Table
    is_whole: bool
    texts_only: bool = False
    """True if every value came as text, as from a CSV file: then a text may stand for a number."""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The JSON kinds of the values of a column with several kinds; these values are spelled as JSON here."""


def _list_paths(source: Any) -> list[Path]:
    """List the files that a source names."""
    is_list = isinstance(source, Iterable) and not isinstance(source, str | bytes)
    paths = list(source) if is_list else [source]
    if not all(isinstance(path, str | Path) for path in paths):
        raise UserInputError(
            "a schema is proposed from frames by type, a file or a list of files, "
            f"not {type(source).__name__}; nothing was proposed"
        )
    return [Path(path) for path in paths]


def read_samples(source: Any, rows_max: int) -> dict[str, Sample]:
    """Read samples by type: of frames by name, of a file of records, or of files named after their types."""
    if isinstance(source, Mapping):
        return {str(name): read_sample(frame, rows_max) for name, frame in source.items()}
    paths = _list_paths(source)
    samples: dict[str, Sample] = {}
    for path in paths:
        records = _read_records(path, rows_max) if path.name.endswith(_LINES) else None
        file_samples = records or {_name_type(path): read_sample(path, rows_max)}
        repeated_names = sorted(samples.keys() & file_samples.keys())
        if repeated_names:
            raise UserInputError(
                f"'{path}' and an earlier file both hold rows of {repeated_names[0]}; nothing was proposed",
                hint="name frames by type, each once",
            )
        samples |= file_samples
    return samples


def read_sample(frame: Any, rows_max: int) -> Sample:
    """Read the first rows of one frame."""
    if isinstance(frame, str | Path):
        return _read_file(Path(frame), rows_max)
    if isinstance(frame, list):
        return _of_rows(iter(frame), rows_max)
    if isinstance(frame, pa.RecordBatchReader):
        return _of_batches(frame.schema, frame, rows_max)
    try:
        first = _take_first(frame, rows_max + 1)
    except (TypeError, AttributeError, pa.ArrowException) as error:
        raise UserInputError(
            f"a {type(frame).__name__} is not a frame: {error}; nothing was proposed"
        ) from error
    return Sample(rows=first[:rows_max], is_whole=first.num_rows <= rows_max)


def _take_first(frame: Any, rows: int) -> pa.Table:
    """Take the first rows of a frame; a frame that is computed on demand computes no more rows."""
    if isinstance(frame, pa.Table):
        return frame[:rows]
    library = type(frame).__module__.partition(".")[0]
    if library == "pyspark":
        return frame.limit(rows).toArrow()
    if library == "polars":
        head = frame.head(rows)
        return pa.table(head.collect() if hasattr(head, "collect") else head)
    if library == "pandas":
        return pa.Table.from_pandas(frame.head(rows), preserve_index=False)
    if hasattr(frame, "scanner"):
        return frame.head(rows)
    reader = pa.RecordBatchReader.from_stream(frame)
    return _of_batches(reader.schema, reader, rows).rows


def _name_type(path: Path) -> str:
    """Name the type of a file: `people_at_work.csv` holds rows of PeopleAtWork."""
    stem = path.name.split(".")[0]
    words = [word for word in stem.replace("-", "_").split("_") if word]
    return "".join(word[:1].upper() + word[1:] for word in words)


def _read_file(path: Path, rows_max: int) -> Sample:
    try:
        if path.suffix == ".parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                return _of_batches(file.schema_arrow, file.iter_batches(65_536), rows_max)
        if path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as lines:
                return _of_texts(path, csv.reader(lines, strict=True), rows_max)
        if path.name.endswith(_LINES):
            return _of_rows(_read_lines(path), rows_max)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, pa.ArrowException) as error:
        raise UserInputError(f"'{path}' cannot be read: {error}; nothing was proposed") from error
    raise UserInputError(
        f"'{path}' is no .parquet, .csv, .jsonl or .ndjson file; nothing was proposed"
    )


def _of_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], rows_max: int) -> Sample:
    sample_batches: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        sample_batches.append(batch)
        count += batch.num_rows
        if count > rows_max:
            break
    rows = pa.Table.from_batches(sample_batches, schema)
    return Sample(rows=rows[:rows_max], is_whole=count <= rows_max)


def _of_texts(path: Path, lines: Iterator[list[str]], rows_max: int) -> Sample:
    names = next(lines, None)
    if not names or len(set(names)) < len(names):
        raise UserInputError(
            f"'{path}' has no header, or its header names a column twice; nothing was proposed"
        )
    rows = [cells for cells in islice(lines, rows_max + 1) if cells]
    wrong = next((n for n, cells in enumerate(rows, 2) if len(cells) != len(names)), None)
    if wrong is not None:
        raise UserInputError(
            f"'{path}' line {wrong} has not {len(names)} values; nothing was proposed"
        )
    columns = [
        pa.array([cells[i] for cells in rows[:rows_max]], pa.string()) for i in range(len(names))
    ]
    return Sample(rows=pa.table(columns, names), is_whole=len(rows) <= rows_max, texts_only=True)


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    open_text: Any = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            yield _read_object(line, number)


def _read_object(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number} is no JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(row, dict):
        raise ValueError(f"line {number} is no JSON object")
    return row


def _read_records(path: Path, rows_max: int) -> dict[str, Sample] | None:
    """Read samples by type from a file in the load format; None for a file of plain rows."""
    try:
        lines = _read_lines(path)
        records = list(islice(lines, rows_max + 1))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserInputError(f"'{path}' cannot be read: {error}; nothing was proposed") from error
    if not records or not all(_is_record(record) for record in records):
        return None
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in records[:rows_max]:
        ends = {end: record[end] for end in ("from", "to") if end in record}
        rows.setdefault(record.get("type") or record["edge"], []).append(
            ends | (record.get("data") or {})
        )
    is_whole = len(records) <= rows_max
    return {
        name: replace(_of_rows(iter(type_rows), len(type_rows)), is_whole=is_whole)
        for name, type_rows in rows.items()
    }


def _is_record(row: dict[str, Any]) -> bool:
    is_node = isinstance(row.get("type"), str) and isinstance(row.get("data"), dict)
    return is_node or (isinstance(row.get("edge"), str) and "from" in row and "to" in row)


def _of_rows(rows: Iterator[Any], rows_max: int) -> Sample:
    records = list(islice(rows, rows_max + 1))
    names = dict.fromkeys(name for record in records for name in record)
    values_by_name = {name: [record.get(name) for record in records[:rows_max]] for name in names}
    columns = {name: _column(values) for name, values in values_by_name.items()}
    text_names = {name for name, array in columns.items() if pa.types.is_string(array.type)}
    kinds = {
        name: value_kinds
        for name in text_names
        if (value_kinds := _list_kinds(values_by_name[name])) != ("text",)
    }
    return Sample(rows=pa.table(columns), is_whole=len(records) <= rows_max, kinds=kinds)


def _list_kinds(values: list[Any]) -> tuple[str, ...]:
    """List the JSON kinds of the values."""
    types = {type(value) for value in values if value is not None}
    return tuple(sorted({_KINDS.get(type_, type_.__name__) for type_ in types}))


def _column(values: list[Any]) -> pa.Array:
    """Convert JSON values to a column; values of several kinds become their JSON texts."""
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        array = pa.array(values)
        if not pa.types.is_floating(array.type) or not any(map(_exceeds_floats, values)):
            return array
    if all(value is None or _is_number(value) for value in values):
        # Whole numbers past 64 bits, or past the integers that floats hold, keep their digits as decimals.
        exact = [None if value is None else Decimal(str(value)) for value in values]
        # Arrow would cut the fraction of a float.
        are_integers = not any(isinstance(value, float) for value in values)
        for numbers, type_ in ((values, pa.uint64()), (exact, None))[not are_integers :]:
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return pa.array(numbers, type_)
    return pa.array(
        [
            value if value is None or isinstance(value, str) else json.dumps(value)
            for value in values
        ]
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exceeds_floats(value: object) -> bool:
    return isinstance(value, int) and abs(value) > 1 << 53
