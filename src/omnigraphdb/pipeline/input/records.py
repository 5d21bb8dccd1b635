"""The record format: one JSON object per node or edge, in any order, checked one by one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType, TableType
from omnigraphdb.catalog.names import SYSTEM_COLUMNS
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.catalog.values import Misfit
from omnigraphdb.commit.origins import Origins, rows_in
from omnigraphdb.errors import Problem, did_you_mean, shorten, suggestion
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX, RECORD_SHOWN_CHARS_MAX, RECORDS_TYPED
from omnigraphdb.pipeline.input.columns import ColumnMisfit, json_fit, shape, shape_ids
from omnigraphdb.pipeline.input.intake import Intake, Part
from omnigraphdb.values import dataclass

RESERVED = frozenset({*SYSTEM_COLUMNS, "_tombstone"})
_NODE_KEYS = frozenset({"type", "data"})
_EDGE_KEYS = frozenset({"edge", "from", "to", "data"})
_COLUMNS = {"from": "src", "to": "dst"}
_ENVELOPE = frozenset({"type", "data"})
_WITHIN = "; a record that names its type is loaded without type="
_ENDPOINTS = frozenset({"src", "dst", "from", "to"})


@dataclass(frozen=True, slots=True)
class NumberedRecord:
    """One record and its line or record number."""

    number: int
    record: Any


def take_records(
    source: Iterable[Any], intake: Intake, first: int = 1, *, file: str | None = None
) -> None:
    """Read records from memory, or of the array of a file, into an intake, batch by batch."""
    numbered = (NumberedRecord(number, record) for number, record in enumerate(source, first))
    while batch := list(islice(numbered, RECORDS_TYPED)):
        Batch(intake.catalog, file, counts_lines=False, room=intake.room).read(batch, intake)


def as_record(type_: TableType, row: Any) -> Any:
    """Turn a row of one type into a record."""
    if not isinstance(row, Mapping):
        return row
    if not isinstance(type_, EdgeType):
        return {"type": type_.name, "data": row}
    ids = {"from": row.get("from", row.get("src")), "to": row.get("to", row.get("dst"))}
    data = {name: value for name, value in row.items() if name not in _ENDPOINTS}
    endpoints = {name: id_ for name, id_ in ids.items() if id_ is not None}
    return {"edge": type_.name, "data": data} | endpoints


@dataclass(slots=True)
class TableRecords:
    """The records of one table as parallel lists, one entry per record."""

    type: TableType
    data: list[Mapping[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    sources: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem of a record."""

    rule: str
    message: str
    table: TableKey | None = None
    property: str | None = None
    value: str | None = None


@dataclass(slots=True)
class Batch:
    """A batch of records: sorted by type, then typed column by column."""

    catalog: Catalog
    file: str | None = None
    counts_lines: bool = True
    room: int = PROBLEMS_SHOWN_MAX
    """Problems of the batch that are reported; the others are counted."""
    tables: dict[TableKey, TableRecords] = field(default_factory=dict)
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    total: int = 0
    described: int = 0
    """Problems that the present pass over the records described: more cannot be among the first of the batch."""

    def read(self, records: Sequence[NumberedRecord], intake: Intake) -> None:
        """Read records into an intake; report problems in the order of the records."""
        self._begin_pass()
        for record in records:
            self._sort(record)
        parts = {key: self._to_columns(table) for key, table in self.tables.items()}
        for key, part in parts.items():
            intake.add(self.tables[key].type, part)
        self.problems.sort(key=lambda pair: pair[0])
        intake.count(self.total - len(self.problems))
        intake.refuse(problem for _, problem in self.problems)

    def refuse(self, number: int, describe: Callable[[], Fault]) -> None:
        """Count a problem of a record, and describe it while there is room."""
        self.total += 1
        if self.described >= self.room:
            return
        self.described += 1
        origin, fault = self._locate([number]).of(0), describe()
        problem = origin.problem(
            fault.rule,
            fault.message,
            table_key=fault.table,
            property=fault.property,
            value=fault.value,
        )
        self.problems.append((number, problem))

    def _begin_pass(self) -> None:
        """Begin a pass over the records in their order: a column, or all of them."""
        self.described = 0

    def _locate(self, numbers: Sequence[int]) -> Origins:
        positions = np.asarray(numbers, dtype=np.int64)
        return (
            Origins(positions, (self.file,)) if self.counts_lines else rows_in(self.file, positions)
        )

    # ---- envelopes

    def _sort(self, numbered: NumberedRecord) -> None:
        """Check the envelope of a record and sort it to its table."""
        number, record = numbered.number, numbered.record
        if not isinstance(record, Mapping) or ("type" in record) == ("edge" in record):
            self.refuse(number, partial(_describe_no_record, record))
            return
        type_ = self._type_of(record, number)
        if type_ is None or not self._is_sound(record, type_, number):
            return
        table = self.tables.setdefault(type_.table_key, TableRecords(type_))
        table.data.append(record.get("data") or {})
        table.numbers.append(number)
        if isinstance(type_, EdgeType):
            table.sources.append(record["from"])
            table.targets.append(record["to"])

    def _type_of(self, record: Mapping[str, Any], number: int) -> TableType | None:
        is_node = "type" in record
        name = record["type" if is_node else "edge"]
        type_: TableType | None = None
        if isinstance(name, str):
            type_ = self.catalog.nodes.get(name) if is_node else self.catalog.edge(name)
        if type_ is None:
            self.refuse(number, partial(_describe_unknown_type, name, self.catalog, is_node))
        return type_

    def _is_sound(self, record: Mapping[str, Any], type_: TableType, number: int) -> bool:
        """Whether the record can be read on; unknown names are problems that leave the rest of it readable."""
        self._refuse_unknown_members(record, type_, number)
        has_endpoints = self._has_endpoints(record, type_, number)
        return self._has_data(record.get("data"), type_, number) and has_endpoints

    def _refuse_unknown_members(
        self, record: Mapping[str, Any], type_: TableType, number: int
    ) -> None:
        allowed = _EDGE_KEYS if isinstance(type_, EdgeType) else _NODE_KEYS
        unknown = next((name for name in record if name not in allowed), None)
        if unknown is None:
            return

        def describe() -> Fault:
            near = suggestion(did_you_mean(str(unknown), allowed))
            message = f"unknown member '{shorten(unknown)}' of a record{near}"
            rule = "J08" if unknown in RESERVED else "J05"
            return Fault(rule, message, type_.table_key, str(unknown), shorten(record[unknown]))

        self.refuse(number, describe)

    def _has_endpoints(self, record: Mapping[str, Any], type_: TableType, number: int) -> bool:
        if not isinstance(type_, EdgeType):
            return True
        keys = {end: self.catalog.end_key_type(type_, _COLUMNS[end]) for end in ("from", "to")}
        wrong = next((end for end in keys if not _is_id(record.get(end), keys[end])), None)
        if wrong is None:
            return True

        def describe() -> Fault:
            value = shorten(record[wrong]) if wrong in record else None
            actual = "it is missing" if value is None else f"got '{value}'"
            expected = _spell_id(keys[wrong])
            message = f"'{wrong}' of an edge is the id of a node as {expected}, {actual}"
            return Fault("J04", message, type_.table_key, wrong, value)

        self.refuse(number, describe)
        return False

    def _has_data(self, data: Any, type_: TableType, number: int) -> bool:
        if data is None:
            return True
        if not isinstance(data, Mapping):
            self.refuse(number, partial(_describe_no_data, type_, data))
            return False
        properties = type_.properties
        unknown = next((name for name in data if name != "id" and name not in properties), None)
        if unknown is not None:
            self.refuse(number, partial(_describe_unknown_property, type_, data, unknown))
        return True

    # ---- values

    def _to_columns(self, table: TableRecords) -> Part:
        type_ = table.type
        columns: dict[str, pa.Array] = {}
        if isinstance(type_, EdgeType):
            columns = {
                "src": self._read_endpoints(table, "from"),
                "dst": self._read_endpoints(table, "to"),
            }
        for name in sorted(type_.properties):
            shaped = shape([data.get(name) for data in table.data], type_.properties[name].type)
            columns[name] = shaped.values
            self._begin_pass()
            for wrong in shaped.misfits:
                data = table.data[wrong.index]
                describe = partial(_describe_misfit, type_, data, name, wrong)
                self.refuse(table.numbers[wrong.index], describe)
        return Part(
            columns=columns,
            explicit_ids=self._read_ids(table),
            origins=self._locate(table.numbers),
        )

    def _read_endpoints(self, table: TableRecords, name: str) -> pa.Array:
        assert isinstance(table.type, EdgeType), "only edges have ends"
        ids = table.sources if name == "from" else table.targets
        key = self.catalog.end_key_type(table.type, _COLUMNS[name])
        return self._read_texts(table, ids, key, "J04", name, "an end")

    def _read_ids(self, table: TableRecords) -> pa.Array:
        ids = [data.get("id") for data in table.data]
        key = table.type.key_type if isinstance(table.type, NodeType) else None
        return self._read_texts(table, ids, key, "J09", "id", "the id")

    def _read_texts(
        self,
        table: TableRecords,
        values: Sequence[Any],
        key: PropertyType | None,
        rule: str,
        name: str,
        label: str,
    ) -> pa.Array:
        """Make a column of ids; refuse values that are neither storable text nor of the type of the key."""
        if set(map(type, values)) <= {str, type(None)}:
            try:
                return pa.array(values, pa.string())
            except UnicodeEncodeError:
                pass
        shaped = shape_ids(values, key)

        def describe(wrong_value: Any) -> Fault:
            value = shorten(wrong_value)
            message = f"{label} of {table.type.name} is {_spell_id(key)}, got '{value}'"
            return Fault(rule, message, table.type.table_key, name, value)

        self._begin_pass()
        for wrong in shaped.misfits:
            self.refuse(table.numbers[wrong.index], partial(describe, values[wrong.index]))
        return shaped.values


def _describe_no_record(record: Any) -> Fault:
    text = shorten(record, RECORD_SHOWN_CHARS_MAX)
    if not isinstance(record, Mapping):
        return Fault("J02", f"a record is a JSON object, got: {text}", value=text)
    count = "both" if "type" in record else "neither"
    return Fault("J02", f"a record has 'type' or 'edge', this has {count}: {text}", value=text)


def _describe_unknown_type(name: Any, catalog: Catalog, is_node: bool) -> Fault:
    near = did_you_mean(str(name), catalog.nodes if is_node else catalog.edges)
    word = "node" if is_node else "edge"
    message = f"unknown {word} type '{shorten(name)}'{suggestion(near)}"
    return Fault("J03", message, value=shorten(name))


def _describe_no_data(type_: TableType, data: Any) -> Fault:
    value = shorten(data)
    return Fault("J02", f"'data' is a JSON object, got '{value}'", type_.table_key, "data", value)


def _describe_unknown_property(type_: TableType, data: Mapping[str, Any], unknown: str) -> Fault:
    reserved = unknown in RESERVED or (isinstance(type_, EdgeType) and unknown in _ENDPOINTS)
    message = (
        f"'{unknown}' is reserved and cannot be given in the data of {type_.name}"
        if reserved
        else f"unknown property '{shorten(unknown)}' of {type_.name}"
        + suggestion(did_you_mean(str(unknown), type_.properties))
        + (_WITHIN if data.keys() & _ENVELOPE == _ENVELOPE else "")
    )
    rule = "J08" if reserved else "J05"
    return Fault(rule, message, type_.table_key, str(unknown), shorten(data[unknown]))


def _describe_misfit(
    type_: TableType, data: Mapping[str, Any], name: str, wrong: ColumnMisfit
) -> Fault:
    missing = " is missing" if wrong.rule == "J14" else ""
    message = f"property '{name}' of {_label(type_, data)}{missing}: {wrong.reason}"
    raw_value = data.get(name)
    value = None if raw_value is None else shorten(raw_value)
    return Fault(wrong.rule, message, type_.table_key, name, value)


def _is_id(value: Any, key: PropertyType | None) -> bool:
    """Whether a value names a node: a text, or a value of the type of its key."""
    if isinstance(value, str) or value is None or key is None:
        return isinstance(value, str)
    return not isinstance(json_fit(value, key), Misfit)


def _spell_id(key: PropertyType | None) -> str:
    return "text" if key is None or key.is_text else f"text or {key}"


def _label(type_: TableType, data: Mapping[str, Any]) -> str:
    """Return the type and, where a record has one, its key or id."""
    names: Sequence[str] = type_.key_columns if isinstance(type_, NodeType) else ()
    key_values = [data[name] for name in (names or ("id",)) if data.get(name) is not None]
    return (
        f"{type_.name} '{shorten(key_values[0] if len(key_values) == 1 else key_values)}'"
        if key_values
        else type_.name
    )
