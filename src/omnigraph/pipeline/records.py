"""The record format of a load: one JSON object per node or edge, in any order, into columns per table."""

import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.catalog.model import Catalog, EdgeType, TableType
from omnigraph.errors import Problem, did_you_mean, shorten, suggestion
from omnigraph.ids import TableKey
from omnigraph.limits import JSONL_LINE_BYTES_MAX, PROBLEMS_SHOWN_MAX, RECORD_SHOWN_CHARS_MAX

RESERVED = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
        "_tombstone",
    }
)
_NODE_KEYS = frozenset({"type", "data"})
_EDGE_KEYS = frozenset({"edge", "from", "to", "data"})
_ENDS = frozenset({"src", "dst", "from", "to"})


@dataclass(slots=True)
class Problems:
    """Problems while they are collected: the first few kept, all counted."""

    kept: list[Problem] = field(default_factory=list)
    total: int = 0

    def add(self, problem: Problem) -> None:
        """Note one."""
        self.total += 1
        if len(self.kept) < PROBLEMS_SHOWN_MAX:
            self.kept.append(problem)


@dataclass(slots=True)
class Gathered:
    """Records of one table: parallel lists, one entry per record."""

    type: TableType
    data: list[Mapping[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Records:
    """Everything a source of records held, by table, and what was wrong with it."""

    tables: dict[TableKey, Gathered] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
    file: str | None = None

    def refuse(
        self,
        number: int,
        rule: str,
        message: str,
        *,
        table: TableKey | None = None,
        property: str | None = None,
    ) -> None:
        """Note what is wrong with a record: by line in a file, by number in memory."""
        self.problems.add(
            Problem(
                rule=rule,
                message=message,
                file=self.file,
                line=number if self.file is not None else None,
                record=number if self.file is None else None,
                table_key=table,
                property=property,
            )
        )


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


def read_lines(lines: Iterable[bytes], catalog: Catalog, file: str | None = None) -> Records:
    """Gather records from JSON lines; blank lines are allowed, comments are not."""
    records = Records(file=file)
    for number, raw in enumerate(lines, 1):
        if raw.strip():
            record = _decode(raw, number, records)
            if record is not None:
                _gather(record, number, catalog, records)
    return records


def _decode(raw: bytes, number: int, records: Records) -> Any | None:
    """Read one line; None, with the reason noted, when it is no JSON value."""
    if len(raw) > JSONL_LINE_BYTES_MAX:
        message = f"the line has {len(raw)} bytes, at most {JSONL_LINE_BYTES_MAX} are read"
        records.refuse(number, "J01", message)
        return None
    try:
        return _DECODER.decode(raw.decode("utf-8-sig" if number == 1 else "utf-8").strip())
    except _Duplicate as error:
        records.refuse(number, "J06", f"member '{error}' is given twice")
    except UnicodeDecodeError as error:
        records.refuse(number, "J01", f"not UTF-8 text ({error.reason} at byte {error.start})")
    except json.JSONDecodeError as error:
        shown = shorten(error.doc, RECORD_SHOWN_CHARS_MAX)
        records.refuse(number, "J01", f"not JSON at column {error.colno} ({error.msg}): {shown}")
    except (ValueError, RecursionError) as error:
        records.refuse(number, "J01", f"not JSON ({error})")
    return None


def read_records(source: Iterable[Any], catalog: Catalog) -> Records:
    """Gather records from mappings in memory."""
    records = Records()
    for number, record in enumerate(source, 1):
        _gather(record, number, catalog, records)
    return records


def _gather(record: Any, number: int, catalog: Catalog, records: Records) -> None:
    if not isinstance(record, Mapping):
        shown = shorten(record, RECORD_SHOWN_CHARS_MAX)
        records.refuse(number, "J02", f"a record is a JSON object, got: {shown}")
        return
    if ("type" in record) == ("edge" in record):
        found = "both" if "type" in record else "neither"
        shown = shorten(record, RECORD_SHOWN_CHARS_MAX)
        records.refuse(number, "J02", f"a record has 'type' or 'edge', this has {found}: {shown}")
        return
    type_ = _type_of(record, number, catalog, records)
    if type_ is not None and _is_sound(record, type_, number, records):
        gathered = records.tables.setdefault(type_.table_key, Gathered(type_))
        gathered.data.append(record.get("data") or {})
        gathered.lines.append(number)
        if isinstance(type_, EdgeType):
            gathered.sources.append(record["from"])
            gathered.targets.append(record["to"])


def _type_of(
    record: Mapping[str, Any], number: int, catalog: Catalog, records: Records
) -> TableType | None:
    is_node = "type" in record
    name = record["type" if is_node else "edge"]
    found: TableType | None = None
    if isinstance(name, str):
        found = catalog.nodes.get(name) if is_node else catalog.edge(name)
    if found is None:
        near = did_you_mean(str(name), catalog.nodes if is_node else catalog.edges)
        word = "node" if is_node else "edge"
        message = f"unknown {word} type '{shorten(name)}'{suggestion(near)}"
        records.refuse(number, "J03", message)
    return found


def _is_sound(record: Mapping[str, Any], type_: TableType, number: int, records: Records) -> bool:
    """Whether the envelope is right; what is wrong is noted."""
    return (
        _only_known_members(record, type_, number, records)
        and _has_ends(record, type_, number, records)
        and _has_known_properties(record.get("data"), type_, number, records)
    )


def _only_known_members(
    record: Mapping[str, Any], type_: TableType, number: int, records: Records
) -> bool:
    allowed = _EDGE_KEYS if isinstance(type_, EdgeType) else _NODE_KEYS
    unknown = next((name for name in record if name not in allowed), None)
    if unknown is None:
        return True
    near = suggestion(did_you_mean(str(unknown), allowed))
    message = f"unknown member '{shorten(unknown)}' of a record{near}"
    rule = "J08" if unknown in RESERVED else "J05"
    records.refuse(number, rule, message, table=type_.table_key)
    return False


def _has_ends(record: Mapping[str, Any], type_: TableType, number: int, records: Records) -> bool:
    if not isinstance(type_, EdgeType):
        return True
    wrong = next((end for end in ("from", "to") if not isinstance(record.get(end), str)), None)
    if wrong is None:
        return True
    shown = f"got '{shorten(record[wrong])}'" if wrong in record else "it is missing"
    message = f"'{wrong}' of an edge is the id of a node as text, {shown}"
    records.refuse(number, "J04", message, table=type_.table_key, property=wrong)
    return False


def _has_known_properties(data: Any, type_: TableType, number: int, records: Records) -> bool:
    if data is None:
        return True
    if not isinstance(data, Mapping):
        message = f"'data' is a JSON object, got '{shorten(data)}'"
        records.refuse(number, "J02", message, table=type_.table_key)
        return False
    unknown = next((name for name in data if name != "id" and name not in type_.properties), None)
    if unknown is None:
        return True
    reserved = unknown in RESERVED or (isinstance(type_, EdgeType) and unknown in _ENDS)
    near = suggestion(did_you_mean(str(unknown), type_.properties))
    message = f"unknown property '{shorten(unknown)}' of {type_.name}{near}"
    if reserved:
        message = f"'{unknown}' is reserved and cannot be given in the data of {type_.name}"
    rule = "J08" if reserved else "J05"
    records.refuse(number, rule, message, table=type_.table_key, property=str(unknown))
    return False


def open_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked when it is compressed."""
    with open(path, "rb") as raw:
        stream: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        with io.BufferedReader(stream, 1 << 20) as lines:
            yield from lines
