"""Files of records: Arrow parses blocks of lines at once, and lines that it cannot parse are read one by one."""

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from omnigraphdb.catalog.model import Catalog, EdgeType, TableType
from omnigraphdb.catalog.types import INTEGERS, PropertyType
from omnigraphdb.commit.origins import Origins
from omnigraphdb.errors import UserInputError, shorten
from omnigraphdb.limits import (
    BLOCK_BYTES,
    BLOCK_LINES,
    JSONL_LINE_BYTES_MAX,
    RECORD_SHOWN_CHARS_MAX,
    RECORDS_TYPED,
)
from omnigraphdb.pipeline.input.columns import json_type, shape_arrow
from omnigraphdb.pipeline.input.intake import Intake, Part
from omnigraphdb.pipeline.input.records import Batch, Fault, NumberedRecord, as_record
from omnigraphdb.storage.arrow import column
from omnigraphdb.values import dataclass

_HEAD = re.compile(rb'\s*\{\s*"(type|edge)"\s*:\s*"([^"\\]*)"')
"""The beginning of a record whose type is known without parsing the rest of the line."""

_NUMBERED = re.compile(rb'"(from|to|src|dst)"\s*:\s*-?[0-9]')
"""The ends of an edge that are numbers."""

_ENDS = (("from", "src"), ("to", "dst"))
"""The names of the ends of an edge: in a record, and in a row or a table."""


_HEADING = frozenset({"kind", "query_name", "target", "row_count"})
"""The members of the first line of a query's result in JSON lines."""
_METADATA = b'"metadata"'


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of a file, and the number of the first."""

    texts: Sequence[bytes]
    first: int = 1
    file: str | None = None


def take_file(path: Path, intake: Intake) -> None:
    """Read the records of a file into an intake, block by block."""
    for block in _blocks(path):
        take_block(block, intake)


def take_row_file(path: Path, type_: TableType, intake: Intake) -> None:
    """Read a file of rows of one type: objects of property values, without envelope."""
    for block in _blocks(path):
        take_row_block(block, type_, intake)


def take_row_block(block: Block, type_: TableType, intake: Intake) -> None:
    """Read lines that are rows of one type: Arrow parses whole columns, or else lines are read one by one."""
    texts = block.texts
    # The first line of a query's result is not a row.
    start = int(block.first == 1 and _METADATA in texts[0])
    indexes = [index for index in range(start, len(texts)) if not texts[index].isspace()]
    part = _parse_rows(type_, intake.catalog, block, indexes)
    if part is None:
        _read_one_by_one(block, range(len(texts)), intake, type_)
        return
    intake.add(type_, part)
    _read_one_by_one(block, range(start), intake, type_)


Texts = list[bytes]
"""Consecutive lines."""


def texts_of(stream: IO[Any]) -> Iterator[Texts]:
    """Read the lines of an open file, bytes or text, some at a time."""
    for block in _blocks_of(stream, None):
        yield list(block.texts)


def take_texts(texts: Iterable[Texts], name: str, intake: Intake) -> None:
    """Read records from lines that arrive some at a time."""
    first = 1
    for lines in texts:
        take_block(Block(lines, first, name), intake)
        first += len(lines)


def blocks_in(text: bytes) -> Iterator[Block]:
    """Cut a text into blocks of lines, numbered from 1."""
    yield from _blocks_of(io.BytesIO(text), None, opens=False)


def _blocks(path: Path) -> Iterator[Block]:
    """Read a file in blocks of lines, decompressed where needed."""
    with open_lines(path) as lines:
        yield from _blocks_of(lines, str(path))


def read_blocks(path: Path, start: int, end: int | None) -> Iterator[Block]:
    """Read the lines that begin in a range of bytes, in blocks, numbered from 1 within the range."""
    with open_lines(path) as lines:
        if start:
            # A line belongs to the range in which it begins, so the rest of an earlier line is skipped.
            lines.seek(start - 1)
            lines.readline()
        yield from _blocks_of(_Until(lines, end) if end is not None else lines, None, not start)


@dataclass(slots=True)
class _Until:
    """The lines of a file that begin before a byte."""

    lines: IO[bytes]
    end: int

    def readlines(self, hint: int) -> list[bytes]:
        """Read whole lines of about `hint` bytes together; none at the end."""
        rest = self.end - self.lines.tell()
        if rest <= 0:
            return []
        # `readlines(n)` stops once it has more than n bytes, and with n = 0 it never stops.
        size_hint = min(hint, rest) - 1
        return self.lines.readlines(size_hint) if size_hint else [self.lines.readline()]


@contextmanager
def open_lines(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of lines; a file that cannot be read is an input error."""
    try:
        with open(path, "rb") as raw:
            stream: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            with io.BufferedReader(stream, 1 << 20) as lines:
                yield lines
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserInputError(f"'{path}' cannot be read: {reason}; no changes were made") from error


def _blocks_of(lines: Any, name: str | None, opens: bool = True) -> Iterator[Block]:
    first = 1
    while read := _read_lines(lines):
        # Half of a surrogate pair is not UTF-8: such a line is refused with its number, as a line of bytes is.
        texts = [
            text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
            for text in read
        ]
        if opens and first == 1:
            texts[0] = texts[0].removeprefix(codecs.BOM_UTF8)
        yield Block(texts, first, name)
        first += len(texts)


def _read_lines(lines: IO[Any]) -> list[Any]:
    """Read lines until they are many or long together."""
    read: list[Any] = []
    size = 0
    while size < BLOCK_BYTES and len(read) < BLOCK_LINES:
        more = lines.readlines(BLOCK_BYTES // 8)
        if not more:
            break
        read += more
        size += sum(map(len, more))
    return read


def take_block(block: Block, intake: Intake) -> None:
    """Read lines: Arrow parses whole columns where it gives exactly our result, other lines are read one by one."""
    tables, doubtful = _sort_by_type(block.texts, intake.catalog)
    for type_, indexes in tables:
        part = _parse_lines(type_, intake.catalog, block, indexes)
        if part is None:
            doubtful += indexes
        else:
            intake.add(type_, part)
    if doubtful:
        _read_one_by_one(block, sorted(doubtful), intake)


# ---- whole columns by Arrow

Indexes = list[int]
"""Lines of a block, counted from 0."""


def _sort_by_type(
    texts: Sequence[bytes], catalog: Catalog
) -> tuple[list[tuple[TableType, Indexes]], Indexes]:
    """Sort lines by type, as far as their beginnings show it; the other lines are doubtful."""
    tables: dict[str, tuple[TableType, Indexes]] = {}
    doubtful: Indexes = []
    lists: dict[bytes, Indexes] = {}
    match = _HEAD.match
    for index, text in enumerate(texts):
        head = match(text)
        # A line that ends inside a record, or is too long, is refused when it is read by itself.
        if head is None or not _is_whole(text) or len(text) > JSONL_LINE_BYTES_MAX:
            doubtful.append(index)
            continue
        indexes = lists.get(head[0])
        if indexes is None:
            indexes = lists[head[0]] = _find_list(head, catalog, tables, doubtful)
        indexes.append(index)
    return list(tables.values()), doubtful


def _is_whole(text: bytes) -> bool:
    return text.endswith(b"}\n") or text.rstrip().endswith(b"}")


def _find_list(
    head: re.Match[bytes],
    catalog: Catalog,
    tables: dict[str, tuple[TableType, Indexes]],
    doubtful: Indexes,
) -> Indexes:
    name = head[2].decode(errors="replace")
    type_ = catalog.nodes.get(name) if head[1] == b"type" else catalog.edge(name)
    if type_ is None:
        return doubtful
    return tables.setdefault(type_.table_key, (type_, []))[1]


def _parse_lines(type_: TableType, catalog: Catalog, block: Block, indexes: Indexes) -> Part | None:
    """Parse records of one type; None when any of them is not surely right."""
    ends = _list_ends(type_, catalog, block.texts[indexes[0]], [name for name, _ in _ENDS])
    rows = _parse_json(block, indexes, _envelope_of(ends, _list_properties(type_)))
    if rows is None:
        return None
    data = column(rows, "data")
    members = dict(zip(data.type.names, data.flatten(), strict=True))
    return _make_part(type_, block, indexes, members, [column(rows, name) for name, _ in ends])


def _parse_rows(type_: TableType, catalog: Catalog, block: Block, indexes: Indexes) -> Part | None:
    """Parse rows of one type, objects of property values; None when any of them is not surely right."""
    if not indexes or not all(_is_row(block.texts[index]) for index in indexes):
        return None
    example = block.texts[indexes[0]]
    names = [name if f'"{name}"'.encode() in example else other for name, other in _ENDS]
    ends = _list_ends(type_, catalog, example, names)
    rows = _parse_json(block, indexes, _row_of(ends, _list_properties(type_)))
    if rows is None:
        return None
    members = {name: column(rows, name) for name in rows.column_names}
    return _make_part(type_, block, indexes, members, [members[name] for name, _ in ends])


def _is_row(text: bytes) -> bool:
    return text.lstrip().startswith(b"{") and _is_whole(text) and len(text) <= JSONL_LINE_BYTES_MAX


def _parse_json(block: Block, indexes: Indexes, schema: pa.Schema) -> pa.Table | None:
    """Let Arrow parse lines; None when a line does not have exactly the members of the schema."""
    text = b"\n".join([block.texts[index] for index in indexes])
    try:
        text.decode()
        rows = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="error"
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return rows if rows.num_rows == len(indexes) else None


def _make_part(
    type_: TableType,
    block: Block,
    indexes: Indexes,
    members: Mapping[str, pa.Array],
    ends: Sequence[pa.Array],
) -> Part | None:
    columns = _columns(type_, members, ends)
    if columns is None:
        return None
    numbers = np.array(indexes, dtype=np.int64) + block.first
    ids = columns.pop("id")
    return Part(columns=columns, explicit_ids=ids, origins=Origins(numbers, (block.file,)))


def _columns(
    type_: TableType, members: Mapping[str, pa.Array], ends: Sequence[pa.Array]
) -> dict[str, pa.Array] | None:
    columns = {"id": members["id"]}
    if isinstance(type_, EdgeType):
        # An integer key is its own canonical text.
        columns |= {name: ids.cast(pa.string()) for (_, name), ids in zip(_ENDS, ends, strict=True)}
        if columns["src"].null_count or columns["dst"].null_count:
            return None
    for name in sorted(type_.properties):
        shaped = shape_arrow(members[name], type_.properties[name].type)
        if shaped is None:
            return None
        columns[name] = shaped
    return columns


Ends = tuple[tuple[str, pa.DataType], ...]
"""The ends of an edge type with the types that Arrow reads; none for a node type."""

Properties = tuple[tuple[str, PropertyType], ...]


@lru_cache(maxsize=1024)
def _envelope_of(ends: Ends, properties: Properties) -> pa.Schema:
    """Return the members of a record."""
    data = pa.field("data", pa.struct(_list_members(properties)))
    if not ends:
        return pa.schema([pa.field("type", pa.string()), data])
    return pa.schema([pa.field("edge", pa.string()), *(pa.field(*end) for end in ends), data])


@lru_cache(maxsize=1024)
def _row_of(ends: Ends, properties: Properties) -> pa.Schema:
    """Return the members of a row."""
    return pa.schema([*(pa.field(*end) for end in ends), *_list_members(properties)])


def _list_members(properties: Properties) -> "list[pa.Field[Any]]":
    return [pa.field("id", pa.string()), *(pa.field(n, json_type(t)) for n, t in properties)]


def _list_properties(type_: TableType) -> Properties:
    return tuple((name, type_.properties[name].type) for name in sorted(type_.properties))


def _list_ends(type_: TableType, catalog: Catalog, example: bytes, names: Sequence[str]) -> Ends:
    """List the ends under some names; they are integers where the first line has them so."""
    if not isinstance(type_, EdgeType):
        return ()
    numbers = {end.decode() for end in _NUMBERED.findall(example)}
    keys = [catalog.end_key_type(type_, side) for _, side in _ENDS]
    return tuple(
        (end, key.arrow if key and key.scalar in INTEGERS and end in numbers else pa.string())
        for end, key in zip(names, keys, strict=True)
    )


# ---- one line at a time


class _Duplicate(ValueError):
    """A JSON object names a member twice."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Duplicate(next(name for name in names if names.count(name) > 1))
    return members


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_no_constant)


def _read_one_by_one(
    block: Block, indexes: Iterable[int], intake: Intake, type_: TableType | None = None
) -> None:
    lines = (index for index in indexes if block.texts[index].strip())
    while line_indexes := list(islice(lines, RECORDS_TYPED)):
        batch = Batch(intake.catalog, block.file, room=intake.room)
        decoded = [_decode_line(block.texts[i], block.first + i, batch) for i in line_indexes]
        records = [record for record in decoded if record is not None]
        if type_ is not None:
            rows = [record for record in records if not _is_heading(record.record, type_)]
            records = [
                NumberedRecord(record.number, as_record(type_, record.record)) for record in rows
            ]
        batch.read(records, intake)


def _is_heading(row: Any, type_: TableType) -> bool:
    """Whether a line is the heading of a query's result, which names the query and counts the rows below."""
    return (
        isinstance(row, dict)
        and row.keys() == _HEADING
        and row["kind"] == "metadata"
        and not type_.properties.keys() & (_HEADING - {"kind"})
    )


def _decode_line(line: bytes, number: int, batch: Batch) -> NumberedRecord | None:
    """Decode one line; None, after adding a problem, when it is no JSON value."""
    if len(line) > JSONL_LINE_BYTES_MAX:
        message = f"the line has {len(line)} bytes, at most {JSONL_LINE_BYTES_MAX} are read"
        batch.refuse(number, lambda: Fault("J01", message))
        return None
    try:
        return NumberedRecord(number, _DECODER.decode(line.decode().strip()))
    except (ValueError, RecursionError) as error:
        batch.refuse(number, partial(_describe_no_json, error))
    return None


def _describe_no_json(error: Exception) -> Fault:
    match error:
        case _Duplicate():
            return Fault("J06", f"member '{shorten(str(error))}' is given twice")
        case UnicodeDecodeError():
            return Fault("J01", f"not UTF-8 text ({error.reason} at byte {error.start})")
        case json.JSONDecodeError():
            text = shorten(error.doc, RECORD_SHOWN_CHARS_MAX)
            message = f"not JSON at column {error.colno} ({error.msg}): {text}"
            return Fault("J01", message, value=text)
        case _:
            return Fault("J01", f"not JSON ({shorten(str(error))})")
