"""The first rows of any input, typed as little as possible: what a schema is inferred from."""

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
    """Whether every value came as text, as from a CSV file: then a text may stand for a number."""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What JSON calls the values of a column that are of several kinds; they are spelled as JSON here."""


def _list_paths(source: Any) -> list[Path]:
    """List the files that a source names."""
    is_list = isinstance(source, Iterable) and not isinstance(source, str | bytes)
    named = list(source) if is_list else [source]
    if not all(isinstance(one, str | Path) for one in named):
        raise UserInputError(
            "a schema is proposed from frames by type, a file or a list of files, "
            f"not {type(source).__name__}; nothing was proposed"
        )
    return [Path(one) for one in named]


def read_samples(source: Any, rows_max: int) -> dict[str, Sample]:
    """Read samples by type: of frames by name, of a file of records, or of files named after their types."""
    if isinstance(source, Mapping):
        return {str(name): read_sample(frame, rows_max) for name, frame in source.items()}
    paths = _list_paths(source)
    samples: dict[str, Sample] = {}
    for path in paths:
        records = _read_records(path, rows_max) if path.name.endswith(_LINES) else None
        found = records or {_name_type(path): read_sample(path, rows_max)}
        twice = sorted(samples.keys() & found.keys())
        if twice:
            raise UserInputError(
                f"'{path}' and an earlier file both hold rows of {twice[0]}; nothing was proposed",
                hint="name frames by type, each once",
            )
        samples |= found
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
            f"a {type(frame).__name__} is no frame: {error}; nothing was proposed"
        ) from error
    return Sample(rows=first[:rows_max], is_whole=first.num_rows <= rows_max)


def _take_first(frame: Any, rows: int) -> pa.Table:
    """The first rows of a frame; one that is computed on demand computes no more than them."""
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
    found = pa.RecordBatchReader.from_stream(frame)
    return _of_batches(found.schema, found, rows).rows


def _name_type(path: Path) -> str:
    """`people_at_work.csv` holds rows of PeopleAtWork."""
    stem = path.name.split(".")[0]
    words = [one for one in stem.replace("-", "_").split("_") if one]
    return "".join(one[:1].upper() + one[1:] for one in words)


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
    kept: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        kept.append(batch)
        count += batch.num_rows
        if count > rows_max:
            break
    rows = pa.Table.from_batches(kept, schema)
    return Sample(rows=rows[:rows_max], is_whole=count <= rows_max)


def _of_texts(path: Path, lines: Iterator[list[str]], rows_max: int) -> Sample:
    names = next(lines, None)
    if not names or len(set(names)) < len(names):
        raise UserInputError(
            f"'{path}' has no header, or one that names a column twice; nothing was proposed"
        )
    rows = [one for one in islice(lines, rows_max + 1) if one]
    wrong = next((n for n, one in enumerate(rows, 2) if len(one) != len(names)), None)
    if wrong is not None:
        raise UserInputError(
            f"'{path}' line {wrong} has not {len(names)} values; nothing was proposed"
        )
    columns = [
        pa.array([one[i] for one in rows[:rows_max]], pa.string()) for i in range(len(names))
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
    """Samples by type of a file in the load format; None for a file of plain rows."""
    try:
        lines = _read_lines(path)
        read = list(islice(lines, rows_max + 1))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserInputError(f"'{path}' cannot be read: {error}; nothing was proposed") from error
    if not read or not all(_is_record(one) for one in read):
        return None
    rows: dict[str, list[dict[str, Any]]] = {}
    for one in read[:rows_max]:
        ends = {end: one[end] for end in ("from", "to") if end in one}
        rows.setdefault(one.get("type") or one["edge"], []).append(ends | (one.get("data") or {}))
    whole = len(read) <= rows_max
    return {
        name: replace(_of_rows(iter(found), len(found)), is_whole=whole)
        for name, found in rows.items()
    }


def _is_record(row: dict[str, Any]) -> bool:
    is_node = isinstance(row.get("type"), str) and isinstance(row.get("data"), dict)
    return is_node or (isinstance(row.get("edge"), str) and "from" in row and "to" in row)


def _of_rows(rows: Iterator[Any], rows_max: int) -> Sample:
    read = list(islice(rows, rows_max + 1))
    names = dict.fromkeys(name for one in read for name in one)
    given = {name: [one.get(name) for one in read[:rows_max]] for name in names}
    columns = {name: _column(values) for name, values in given.items()}
    spelled = {name for name, one in columns.items() if pa.types.is_string(one.type)}
    kinds = {name: found for name in spelled if (found := _list_kinds(given[name])) != ("text",)}
    return Sample(rows=pa.table(columns), is_whole=len(read) <= rows_max, kinds=kinds)


def _list_kinds(values: list[Any]) -> tuple[str, ...]:
    """What JSON calls the values."""
    types = {type(one) for one in values if one is not None}
    return tuple(sorted({_KINDS.get(one, one.__name__) for one in types}))


def _column(values: list[Any]) -> pa.Array:
    """Values of JSON as a column; those of several kinds are spelled as JSON."""
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        found = pa.array(values)
        if not pa.types.is_floating(found.type) or not any(map(_exceeds_floats, values)):
            return found
    if all(one is None or _is_number(one) for one in values):
        # Whole numbers past 64 bits, or past what floats count, keep their digits as decimals.
        exact = [None if one is None else Decimal(str(one)) for one in values]
        # Arrow would cut the fraction of a float.
        whole = not any(isinstance(one, float) for one in values)
        for numbers, type_ in ((values, pa.uint64()), (exact, None))[not whole :]:
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return pa.array(numbers, type_)
    return pa.array(
        [one if one is None or isinstance(one, str) else json.dumps(one) for one in values]
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exceeds_floats(value: object) -> bool:
    return isinstance(value, int) and abs(value) > 1 << 53
