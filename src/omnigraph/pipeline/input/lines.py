"""Files of records: blocks of lines, read by Arrow where every line is plainly right, else one by one."""

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from omnigraph.catalog.model import Catalog, EdgeType, TableType
from omnigraph.catalog.types import PropertyType
from omnigraph.commit.origins import Origins
from omnigraph.errors import UserInputError, shorten
from omnigraph.limits import BLOCK_BYTES, JSONL_LINE_BYTES_MAX, RECORD_SHOWN_CHARS_MAX
from omnigraph.pipeline.input.columns import json_type, shape_arrow
from omnigraph.pipeline.input.intake import Intake, Part
from omnigraph.pipeline.input.records import Batch, Given, as_record
from omnigraph.storage.arrow import column
from omnigraph.values import dataclass

_HEAD = re.compile(rb'\s*\{\s*"(type|edge)"\s*:\s*"([^"\\]*)"')
"""How a record begins that the fast way can sort without reading the rest of it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of a file that follow one another, and the number of the first."""

    texts: Sequence[bytes]
    first: int = 1
    file: str | None = None


def take_file(path: Path, intake: Intake) -> None:
    """Take in the records of a file; no more than one block of it is held at a time."""
    for block in _blocks(path):
        take_block(block, intake)


def take_row_file(path: Path, type_: TableType, intake: Intake) -> None:
    """Take in a file of rows of one type: objects of property values, without envelope."""
    for block in _blocks(path):
        take_row_block(block, type_, intake)


def take_row_block(block: Block, type_: TableType, intake: Intake) -> None:
    """Take in lines that are rows of one type."""
    _take_carefully(block, range(len(block.texts)), intake, type_)


Texts = list[bytes]
"""Lines that follow one another."""


def texts_of(stream: IO[Any]) -> Iterator[Texts]:
    """Lines of an open file, bytes or text, some at a time."""
    for block in _blocks_of(stream, None):
        yield list(block.texts)


def take_texts(texts: Iterable[Texts], name: str, intake: Intake) -> None:
    """Take in records from lines that come some at a time."""
    first = 1
    for lines in texts:
        take_block(Block(lines, first, name), intake)
        first += len(lines)


def blocks_in(text: bytes) -> Iterator[Block]:
    """Lines of a text, some at a time, numbered from 1."""
    yield from _blocks_of(io.BytesIO(text), None, opens=False)


def _blocks(path: Path) -> Iterator[Block]:
    """Some lines of a file at a time; unpacked when it is compressed."""
    with open_lines(path) as lines:
        yield from _blocks_of(lines, str(path))


def read_blocks(path: Path, start: int, end: int | None) -> Iterator[Block]:
    """Lines that begin in a range of bytes, some at a time, numbered from 1 within the range."""
    with open_lines(path) as lines:
        if start:
            # A line belongs to the range it begins in: the rest of one that began before is passed over.
            lines.seek(start - 1)
            lines.readline()
        yield from _blocks_of(_Until(lines, end) if end is not None else lines, None, not start)


@dataclass(slots=True)
class _Until:
    """Lines of a file up to those that begin at or after a byte."""

    lines: IO[bytes]
    end: int

    def readlines(self, hint: int) -> list[bytes]:
        """Some whole lines of about that many bytes together; none at the end."""
        rest = self.end - self.lines.tell()
        if rest <= 0:
            return []
        # Reading stops once there are more bytes than asked for, and does not when none are.
        wanted = min(hint, rest) - 1
        return self.lines.readlines(wanted) if wanted else [self.lines.readline()]


@contextmanager
def open_lines(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of lines; what cannot be read is the user's to mend."""
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
    while given := lines.readlines(BLOCK_BYTES):
        texts = [text.encode() if isinstance(text, str) else text for text in given]
        if opens and first == 1:
            texts[0] = texts[0].removeprefix(codecs.BOM_UTF8)
        yield Block(texts, first, name)
        first += len(texts)


def take_block(block: Block, intake: Intake) -> None:
    """Take in lines: whole columns at once where Arrow reads exactly what we would, the rest with care."""
    tables, doubtful = _sort_by_type(block.texts, intake.catalog)
    for type_, places in tables:
        part = _read(type_, block, places)
        if part is None:
            doubtful += places
        else:
            intake.add(type_, part)
    if doubtful:
        _take_carefully(block, sorted(doubtful), intake)


# ---- the fast way

Places = list[int]
"""Lines of a block, counted from 0."""


def _sort_by_type(
    texts: Sequence[bytes], catalog: Catalog
) -> tuple[list[tuple[TableType, Places]], Places]:
    """Sort lines by type, as far as their beginnings tell it; the others are doubtful."""
    tables: dict[str, tuple[TableType, Places]] = {}
    doubtful: Places = []
    homes: dict[bytes, Places] = {}
    match = _HEAD.match
    for place, text in enumerate(texts):
        head = match(text)
        # A line that ends inside a record, or is too long, is for the careful way to refuse.
        if head is None or not _is_whole(text) or len(text) > JSONL_LINE_BYTES_MAX:
            doubtful.append(place)
            continue
        home = homes.get(head[0])
        if home is None:
            home = homes[head[0]] = _home(head, catalog, tables, doubtful)
        home.append(place)
    return list(tables.values()), doubtful


def _is_whole(text: bytes) -> bool:
    return text.endswith(b"}\n") or text.rstrip().endswith(b"}")


def _home(
    head: re.Match[bytes],
    catalog: Catalog,
    tables: dict[str, tuple[TableType, Places]],
    doubtful: Places,
) -> Places:
    name = head[2].decode(errors="replace")
    type_ = catalog.nodes.get(name) if head[1] == b"type" else catalog.edge(name)
    if type_ is None:
        return doubtful
    return tables.setdefault(type_.table_key, (type_, []))[1]


def _read(type_: TableType, block: Block, places: Places) -> Part | None:
    """Read lines of one type; None when anything about them is not plainly right."""
    text = b"\n".join([block.texts[place] for place in places])
    try:
        text.decode()
        rows = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=_envelope(type_), unexpected_field_behavior="error"
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    columns = _columns(type_, rows) if rows.num_rows == len(places) else None
    if columns is None:
        return None
    numbers = np.array(places, dtype=np.int64) + block.first
    given = columns.pop("id")
    return Part(columns=columns, given=given, origins=Origins(numbers, (block.file,)))


def _columns(type_: TableType, rows: pa.Table) -> dict[str, pa.Array] | None:
    data = column(rows, "data")
    members = dict(zip(data.type.names, data.flatten(), strict=True))
    found = {"id": members["id"]}
    if isinstance(type_, EdgeType):
        found |= {"src": column(rows, "from"), "dst": column(rows, "to")}
        if found["src"].null_count or found["dst"].null_count:
            return None
    for name in sorted(type_.properties):
        shaped = shape_arrow(members[name], type_.properties[name].type)
        if shaped is None:
            return None
        found[name] = shaped
    return found


@lru_cache(maxsize=1024)
def _envelope_of(kind: str, properties: tuple[tuple[str, PropertyType], ...]) -> pa.Schema:
    members = [pa.field("id", pa.string()), *(pa.field(n, json_type(t)) for n, t in properties)]
    data = pa.field("data", pa.struct(members))
    if kind == "type":
        return pa.schema([pa.field("type", pa.string()), data])
    return pa.schema([pa.field(name, pa.string()) for name in ("edge", "from", "to")] + [data])


def _envelope(type_: TableType) -> pa.Schema:
    properties = tuple((name, type_.properties[name].type) for name in sorted(type_.properties))
    return _envelope_of("edge" if isinstance(type_, EdgeType) else "type", properties)


# ---- the careful way


class _Duplicate(ValueError):
    """A JSON object names a member twice."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Duplicate(next(name for name in names if names.count(name) > 1))
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_no_constant)


def _take_carefully(
    block: Block, places: Iterable[int], intake: Intake, type_: TableType | None = None
) -> None:
    batch = Batch(intake.catalog, block.file)
    decoded = (
        _decode_line(block.texts[place], block.first + place, batch)
        for place in places
        if block.texts[place].strip()
    )
    given = [one for one in decoded if one is not None]
    if type_ is not None:
        given = [Given(one.number, as_record(type_, one.record)) for one in given]
    batch.take(given, intake)


def _decode_line(line: bytes, number: int, batch: Batch) -> Given | None:
    """Read one line; None, with the reason noted, when it is no JSON value."""
    if len(line) > JSONL_LINE_BYTES_MAX:
        message = f"the line has {len(line)} bytes, at most {JSONL_LINE_BYTES_MAX} are read"
        batch.refuse(number, "J01", message)
        return None
    try:
        return Given(number, _DECODER.decode(line.decode().strip()))
    except _Duplicate as error:
        batch.refuse(number, "J06", f"member '{shorten(str(error))}' is given twice")
    except UnicodeDecodeError as error:
        message = f"not UTF-8 text ({error.reason} at byte {error.start})"
        batch.refuse(number, "J01", message)
    except json.JSONDecodeError as error:
        shown = shorten(error.doc, RECORD_SHOWN_CHARS_MAX)
        message = f"not JSON at column {error.colno} ({error.msg}): {shown}"
        batch.refuse(number, "J01", message)
    except (ValueError, RecursionError) as error:
        batch.refuse(number, "J01", f"not JSON ({shorten(str(error))})")
    return None
