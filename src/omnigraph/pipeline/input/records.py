"""The record format of a load: one JSON object per node or edge, in any order, checked one by one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, TableType
from omnigraph.commit.origins import Origins
from omnigraph.errors import Problem, did_you_mean, shorten, suggestion
from omnigraph.ids import TableKey
from omnigraph.limits import RECORD_SHOWN_CHARS_MAX, RECORDS_TYPED
from omnigraph.pipeline.input.columns import is_storable, shape
from omnigraph.pipeline.input.intake import Intake, Part
from omnigraph.values import dataclass

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


@dataclass(frozen=True, slots=True)
class Given:
    """One record as it was given: the line or number it has, and what it says."""

    number: int
    record: Any


def take_records(source: Iterable[Any], intake: Intake, first: int = 1) -> None:
    """Take in mappings from memory; no more than one batch of them is held at a time."""
    numbered = (Given(number, record) for number, record in enumerate(source, first))
    while batch := list(islice(numbered, RECORDS_TYPED)):
        Batch(intake.catalog).take(batch, intake)


def as_record(type_: TableType, row: Any) -> Any:
    """A row of one type as the record that says the same."""
    if not isinstance(row, Mapping):
        return row
    if not isinstance(type_, EdgeType):
        return {"type": type_.name, "data": row}
    ends = {"from": row.get("from", row.get("src")), "to": row.get("to", row.get("dst"))}
    data = {name: value for name, value in row.items() if name not in _ENDS}
    given = {end: id_ for end, id_ in ends.items() if id_ is not None}
    return {"edge": type_.name, "data": data} | given


@dataclass(slots=True)
class Gathered:
    """Records of one table: parallel lists, one entry per record."""

    type: TableType
    data: list[Mapping[str, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Batch:
    """Some records on their way into tables: sorted by type, then typed column by column."""

    catalog: Catalog
    file: str | None = None
    tables: dict[TableKey, Gathered] = field(default_factory=dict)
    problems: list[tuple[int, Problem]] = field(default_factory=list)

    def take(self, batch: Sequence[Given], intake: Intake) -> None:
        """Take in records, or note what is wrong with them in the order they came."""
        for given in batch:
            self._gather(given)
        parts = {key: self._to_columns(gathered) for key, gathered in self.tables.items()}
        for key, part in parts.items():
            intake.add(self.tables[key].type, part)
        self.problems.sort(key=lambda noted: noted[0])
        intake.refuse(problem for _, problem in self.problems)

    def refuse(
        self,
        number: int,
        rule: str,
        message: str,
        table: TableKey | None = None,
        property: str | None = None,
    ) -> None:
        """Note what is wrong with a record."""
        origin = Origins(np.array([number]), (self.file,)).of(0)
        self.problems.append(
            (number, origin.problem(rule, message, table_key=table, property=property))
        )

    # ---- envelopes

    def _gather(self, given: Given) -> None:
        number, record = given.number, given.record
        if not isinstance(record, Mapping):
            shown = shorten(record, RECORD_SHOWN_CHARS_MAX)
            self.refuse(number, "J02", f"a record is a JSON object, got: {shown}")
            return
        if ("type" in record) == ("edge" in record):
            found = "both" if "type" in record else "neither"
            shown = shorten(record, RECORD_SHOWN_CHARS_MAX)
            self.refuse(number, "J02", f"a record has 'type' or 'edge', this has {found}: {shown}")
            return
        type_ = self._type_of(record, number)
        if type_ is None or not self._is_sound(record, type_, number):
            return
        gathered = self.tables.setdefault(type_.table_key, Gathered(type_))
        gathered.data.append(record.get("data") or {})
        gathered.numbers.append(number)
        if isinstance(type_, EdgeType):
            gathered.sources.append(record["from"])
            gathered.targets.append(record["to"])

    def _type_of(self, record: Mapping[str, Any], number: int) -> TableType | None:
        is_node = "type" in record
        name = record["type" if is_node else "edge"]
        found: TableType | None = None
        if isinstance(name, str):
            found = self.catalog.nodes.get(name) if is_node else self.catalog.edge(name)
        if found is None:
            near = did_you_mean(str(name), self.catalog.nodes if is_node else self.catalog.edges)
            word = "node" if is_node else "edge"
            message = f"unknown {word} type '{shorten(name)}'{suggestion(near)}"
            self.refuse(number, "J03", message)
        return found

    def _is_sound(self, record: Mapping[str, Any], type_: TableType, number: int) -> bool:
        """Whether the envelope is right; what is wrong is noted."""
        return (
            self._only_known_members(record, type_, number)
            and self._has_ends(record, type_, number)
            and self._has_known_properties(record.get("data"), type_, number)
        )

    def _only_known_members(self, record: Mapping[str, Any], type_: TableType, number: int) -> bool:
        allowed = _EDGE_KEYS if isinstance(type_, EdgeType) else _NODE_KEYS
        unknown = next((name for name in record if name not in allowed), None)
        if unknown is None:
            return True
        near = suggestion(did_you_mean(str(unknown), allowed))
        message = f"unknown member '{shorten(unknown)}' of a record{near}"
        self.refuse(number, "J08" if unknown in RESERVED else "J05", message, type_.table_key)
        return False

    def _has_ends(self, record: Mapping[str, Any], type_: TableType, number: int) -> bool:
        if not isinstance(type_, EdgeType):
            return True
        wrong = next((end for end in ("from", "to") if not isinstance(record.get(end), str)), None)
        if wrong is None:
            return True
        shown = f"got '{shorten(record[wrong])}'" if wrong in record else "it is missing"
        message = f"'{wrong}' of an edge is the id of a node as text, {shown}"
        self.refuse(number, "J04", message, type_.table_key, wrong)
        return False

    def _has_known_properties(self, data: Any, type_: TableType, number: int) -> bool:
        if data is None:
            return True
        if not isinstance(data, Mapping):
            message = f"'data' is a JSON object, got '{shorten(data)}'"
            self.refuse(number, "J02", message, type_.table_key)
            return False
        known = type_.properties
        unknown = next((name for name in data if name != "id" and name not in known), None)
        if unknown is None:
            return True
        reserved = unknown in RESERVED or (isinstance(type_, EdgeType) and unknown in _ENDS)
        message = (
            f"'{unknown}' is reserved and cannot be given in the data of {type_.name}"
            if reserved
            else f"unknown property '{shorten(unknown)}' of {type_.name}"
            + suggestion(did_you_mean(str(unknown), known))
        )
        rule = "J08" if reserved else "J05"
        self.refuse(number, rule, message, type_.table_key, str(unknown))
        return False

    # ---- values

    def _to_columns(self, gathered: Gathered) -> Part:
        type_ = gathered.type
        columns: dict[str, pa.Array] = {}
        if isinstance(type_, EdgeType):
            columns = {"src": self._ends(gathered, "from"), "dst": self._ends(gathered, "to")}
        for name in sorted(type_.properties):
            shaped = shape([data.get(name) for data in gathered.data], type_.properties[name].type)
            columns[name] = shaped.values
            for wrong in shaped.misplaced:
                label = _label(type_, gathered.data[wrong.index])
                missing = " is missing" if wrong.rule == "J14" else ""
                message = f"property '{name}' of {label}{missing}: {wrong.reason}"
                number = gathered.numbers[wrong.index]
                self.refuse(number, wrong.rule, message, type_.table_key, name)
        return Part(
            columns=columns,
            given=self._read_given_ids(gathered),
            origins=Origins(np.asarray(gathered.numbers, dtype=np.int64), (self.file,)),
        )

    def _ends(self, gathered: Gathered, end: str) -> pa.Array:
        given = gathered.sources if end == "from" else gathered.targets
        return self._texts(gathered, given, "J04", end, "an end")

    def _read_given_ids(self, gathered: Gathered) -> pa.Array:
        given = [data.get("id") for data in gathered.data]
        return self._texts(gathered, given, "J09", "id", "the id")

    def _texts(
        self, gathered: Gathered, given: Sequence[Any], rule: str, name: str, what: str
    ) -> pa.Array:
        """Ids as a column; what is no text that can be stored is refused."""
        if set(map(type, given)) <= {str, type(None)}:
            try:
                return pa.array(given, pa.string())
            except UnicodeEncodeError:
                pass
        kept: list[str | None] = []
        for number, one in zip(gathered.numbers, given, strict=True):
            fits = one is None or (isinstance(one, str) and is_storable(one))
            kept.append(one if fits else None)
            if not fits:
                message = f"{what} of {gathered.type.name} is text, got '{shorten(one)}'"
                self.refuse(number, rule, message, gathered.type.table_key, name)
        return pa.array(kept, pa.string())


def _label(type_: TableType, data: Mapping[str, Any]) -> str:
    """The type and, where a record has one, its key or id."""
    names: Sequence[str] = type_.key_columns if isinstance(type_, NodeType) else ()
    found = [data[name] for name in (names or ("id",)) if data.get(name) is not None]
    return (
        f"{type_.name} '{shorten(found[0] if len(found) == 1 else found)}'" if found else type_.name
    )
