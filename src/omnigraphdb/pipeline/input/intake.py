"""The typed input of a load: rows by table in input order, their ids, and every problem."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, NodeType, TableType
from omnigraphdb.catalog.values import composite_id, key_texts
from omnigraphdb.commit.delta import DeltaKind, Deltas, TableDelta, deltas_of, last_of_each_id
from omnigraphdb.commit.origins import Origin, Origins, join_origins
from omnigraphdb.errors import Problem, shorten
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import PROBLEMS_HELD_MAX, PROBLEMS_SHOWN_MAX
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.arrow import column
from omnigraphdb.values import dataclass

_W = TypeVar("_W")

_EXPLICIT = "explicit id"
"""The column of explicit ids; no property can have this name."""

_CROCKFORD = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
_COUNTED_CHARS = 10
"""Characters of a ULID that count up; the others (its time and some random bits) are shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one table that were read together: every column but `id`, the explicit ids, and their origins."""

    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    explicit_ids: pa.Array
    origins: Origins

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.explicit_ids)


@dataclass(slots=True)
class Intake:
    """Collects the rows and problems of everything that is read."""

    catalog: Catalog
    parts: dict[TableKey, list[Part]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    total: int = 0
    shown_max: int = PROBLEMS_SHOWN_MAX
    """Problems that are described; the others are counted."""

    spill: Callable[[Sequence[Problem]], None] | None = None
    """Takes the problems away when they are many; without it every described problem stays here."""
    spilled: int = 0

    @property
    def room(self) -> int:
        """The number of problems that can still be described; further problems are only counted."""
        return max(0, self.shown_max - self.spilled - len(self.problems))

    def add(self, type_: TableType, part: Part) -> None:
        """Add rows of a table."""
        self.parts.setdefault(type_.table_key, []).append(part)

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Add problems in their order."""
        for problem in problems:
            self.total += 1
            if self.room:
                self.problems.append(problem)
            if self.spill is not None and len(self.problems) >= PROBLEMS_HELD_MAX:
                self.spill(self.problems)
                self.spilled += len(self.problems)
                self.problems = []

    def refuse_each(self, wrong: Sequence[_W], describe: Callable[[_W], Problem]) -> None:
        """Describe problems in their order while there is room, and count the others."""
        described_max = self.room
        self.refuse(map(describe, wrong[:described_max]))
        self.count(max(0, len(wrong) - described_max))

    def join(self, other: "Intake") -> None:
        """Add the rows of another intake; its problems are reported apart, so they are only counted here."""
        for key, parts in other.parts.items():
            self.parts.setdefault(key, []).extend(parts)
        self.count(other.total)

    def count(self, problems: int) -> None:
        """Count problems without describing them."""
        self.total += problems

    @property
    def records(self) -> dict[TableKey, int]:
        """The number of incoming records of each table."""
        return {key: sum(part.rows for part in self.parts[key]) for key in sorted(self.parts)}

    def deltas(self, kind: DeltaKind, runtime: Runtime) -> Deltas:
        """Make the delta of every table, without rows that lack a key or repeat an id."""
        was_read = not self.total
        deltas: dict[TableKey, TableDelta] = {}
        for key in sorted(self.parts):
            deltas[key] = self._make_delta(self.catalog.tables[key], kind, runtime, was_read)
        return deltas_of(deltas)

    def _make_delta(
        self, type_: TableType, kind: DeltaKind, runtime: Runtime, was_read: bool
    ) -> TableDelta:
        part = join_parts(type_, self.parts[type_.table_key])
        ids = derive_ids(type_, part)
        before = self.total
        for rule, wrong in find_wrong_ids(type_, part, ids, was_read=was_read):
            self.refuse_each(wrong, partial(_describe_id, rule, type_, part, ids))
        rows, origins = pending_rows(type_, part, ids), part.origins
        if ids.null_count and is_keyed(type_):
            keyed_rows = pc.indices_nonzero(ids.is_valid())
            rows, origins = rows.take(keyed_rows), origins.take(keyed_rows.to_numpy())
        elif ids.null_count:
            filled = pc.coalesce(ids, fresh_ids(runtime.new_id(), len(ids)))
            rows = rows.set_column(rows.schema.get_field_index("id"), "id", filled)
        rows = pa.Table.from_arrays(rows.columns, schema=type_.schema)
        delta = self._resolve_duplicates(
            type_, rows, origins, kind, trusts_ids=self.total == before
        )
        return replace(delta, nulls_reported=True, shown_max=self.shown_max)

    # ---- duplicate ids

    def _resolve_duplicates(
        self,
        type_: TableType,
        rows: pa.Table,
        origins: Origins,
        kind: DeltaKind,
        *,
        trusts_ids: bool,
    ) -> TableDelta:
        """Resolve duplicate ids: a merge without key keeps the last row, any other load refuses all but the first.

        Wrong ids may differ once they are corrected, so that their duplicates are not reported.
        """
        if has_duplicates(column(rows, "id")):
            if keep_last(type_, kind):
                # In input order, so that a rule names the same row here as in a load in steps.
                remaining_rows = last_of_each_id(rows).sort()
            else:
                remaining_rows = first_of_each_id(column(rows, "id"))
                if trusts_ids:
                    self._refuse_duplicates(type_, column(rows, "id"), origins)
            rows, origins = rows.take(remaining_rows), origins.take(remaining_rows.to_numpy())
        return TableDelta(type=type_, kind=kind, rows=rows, origins=origins)

    def _refuse_duplicates(self, type_: TableType, ids: pa.Array, origins: Origins) -> None:
        duplicates = find_duplicates(ids, pa.array(np.arange(len(ids)), pa.int64()))
        identities = duplicates["id"].combine_chunks()

        def describe(row: int) -> Problem:
            first, second = (
                origins.of(duplicates[side][row].as_py()) for side in ("first", "second")
            )
            return make_duplicate_problem(type_, identities[row].as_py(), first, second)

        self.refuse_each(range(duplicates.num_rows), describe)


# ---- ids


def derive_ids(type_: TableType, part: Part) -> pa.Array:
    """Derive ids from keys, or take the explicit ids; NULL asks for a fresh id."""
    if not is_keyed(type_):
        return part.explicit_ids
    assert isinstance(type_, NodeType), "only nodes have keys"
    return key_ids(type_, pa.table({name: part.columns[name] for name in type_.key_columns}))


def find_wrong_ids(
    type_: TableType, part: Part, ids: pa.Array, *, was_read: bool
) -> Iterator[tuple[str, pa.Array]]:
    """Find rows without a key value or whose explicit id contradicts their key; yield them rule by rule.

    Unless all rows `was_read` without a problem, a missing key was reported with the value that does not fit.
    """
    if is_keyed(type_):
        yield "W04", pc.indices_nonzero(pc.is_null(ids)) if was_read else ids.slice(0, 0)
        yield "J10", pc.indices_nonzero(pc.fill_null(pc.not_equal(part.explicit_ids, ids), False))


def make_id_problem(rule: str, type_: TableType, part: Part, ids: pa.Array, row: int) -> Problem:
    """Describe the problem of the id of a row."""
    origin, table = part.origins.of(row), type_.table_key
    if rule == "W04":
        message = f"the key of {type_.name} has no finite value"
        return origin.problem(rule, message, table_key=table)
    explicit = part.explicit_ids[row].as_py()
    message = (
        f"id '{shorten(explicit)}' of {type_.name} contradicts its key, "
        f"whose id is '{shorten(ids[row].as_py())}'"
    )
    return origin.problem(
        rule, message, table_key=table, row_id=explicit, property="id", value=shorten(explicit)
    )


def _describe_id(rule: str, type_: TableType, part: Part, ids: pa.Array, row: pa.Scalar) -> Problem:
    return make_id_problem(rule, type_, part, ids, row.as_py())


def fresh_ids(seed: str, n: int) -> pa.Array:
    """Make n ascending ULIDs that share the beginning of a new one."""
    return fresh_ids_at(seed, np.arange(n, dtype=np.int64))


def fresh_ids_at(seed: str, positions: "np.ndarray[Any, np.dtype[np.int64]]") -> pa.Array:
    """Make the ULIDs of positions: the same in every task, in the order of the positions."""
    n = len(positions)
    prefix = np.frombuffer(seed[:-_COUNTED_CHARS].encode(), dtype=np.uint8)
    # Halving the start keeps the top bit of the counted part free, so that counting never overflows.
    start = _count_text(seed[-_COUNTED_CHARS:]) >> 1
    numbers = positions.astype(np.uint64) + np.uint64(start)
    shifts = np.arange(_COUNTED_CHARS - 1, -1, -1, dtype=np.uint64) * np.uint64(5)
    tail = _CROCKFORD[(numbers[:, None] >> shifts) & np.uint64(31)]
    texts = np.concatenate([np.broadcast_to(prefix, (n, len(prefix))), tail], axis=1)
    offsets = np.arange(n + 1, dtype=np.int32) * len(seed)
    return pa.StringArray.from_buffers(
        n, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts))
    )


def _count_text(text: str) -> int:
    value = 0
    for character in text.encode():
        value = value * 32 + int(np.flatnonzero(character == _CROCKFORD)[0])
    return value


def key_ids(type_: NodeType, rows: pa.Table) -> pa.Array:
    """Make the ids of a keyed type: canonical key texts; NULL where a key value is missing."""
    texts = [
        key_texts(column(rows, name), type_.properties[name].type) for name in type_.key_columns
    ]
    if len(texts) == 1:
        return texts[0]
    joined = [
        None if None in parts else composite_id(parts)
        for parts in zip(*(text.to_pylist() for text in texts), strict=True)
    ]
    return pa.array(joined, pa.string())


# ---- duplicate ids


def keep_last(type_: TableType, kind: DeltaKind) -> bool:
    """Whether the last of several rows with the same id is kept, instead of refusing them."""
    return kind is DeltaKind.MERGE and not is_keyed(type_)


def first_of_each_id(ids: pa.Array) -> pa.Array:
    """Return the rows that have their id first, in input order."""
    rows = pa.table({"id": ids, "row": pa.array(np.arange(len(ids)), pa.int64())})
    first = rows.group_by("id", use_threads=False).aggregate([("row", "min")])
    return column(first.sort_by("row_min"), "row_min")


def has_duplicates(ids: pa.Array) -> bool:
    """Whether an id occurs twice; ascending ids, such as exported ones, need no hash table."""
    return not ascends(ids) and bool(pc.count_distinct(ids).as_py() != len(ids))


def ascends(ids: pa.Array) -> bool:
    """Whether every id is greater than the id before it."""
    before, after = ids.slice(0, max(0, len(ids) - 1)), ids.slice(1)
    return bool(pc.all(pc.less(before, after), min_count=0).as_py())


def find_duplicates(ids: pa.Array, positions: pa.Array) -> pa.Table:
    """Find ids that occur twice, in order of their first position: `id`, `first` and `second` position."""
    order = pc.sort_indices(positions)
    rows = pa.table({"id": ids.take(order), "position": positions.take(order)})
    grouped = rows.group_by("id", use_threads=False).aggregate(
        [("position", "min"), ("position", "list"), ("position", "count")]
    )
    duplicates = grouped.filter(pc.greater(grouped["position_count"], 1)).sort_by("position_min")
    firsts = duplicates["position_min"]
    seconds = pc.list_element(column(duplicates, "position_list"), 1)
    return pa.table({"id": duplicates["id"], "first": firsts, "second": seconds})


def make_duplicate_problem(
    type_: TableType, identity: str, first: Origin, second: Origin
) -> Problem:
    """Describe a duplicate id with the origins of both rows."""
    key = type_.key if isinstance(type_, NodeType) else None
    rule, what = "W20", f"the same id twice in {type_.name}"
    if key is not None:
        rule, what = "W13", f"@unique violation on {type_.name}.{key.display}"
    message = f"{what}: '{shorten(identity)}' is in {first} and in {second}"
    return second.problem(
        rule,
        message,
        table_key=type_.table_key,
        row_id=identity,
        property=None if key is None else ", ".join(key.columns),
        value=shorten(identity),
    )


# ---- rows


def is_keyed(type_: TableType) -> bool:
    """Whether the ids of a type come from its key."""
    return isinstance(type_, NodeType) and type_.key is not None


def join_parts(type_: TableType, parts: Sequence[Part]) -> Part:
    """Join the parts of a table in input order: rows that were read one by one are added later."""
    names = [name for name in type_.schema.names if name != "id"]
    schema = pa.schema([type_.schema.field(name).with_nullable(True) for name in names])
    tables = [
        pa.table({**{name: part.columns[name] for name in names}, _EXPLICIT: part.explicit_ids})
        for part in parts
    ]
    table = pa.concat_tables(tables).cast(schema.append(pa.field(_EXPLICIT, pa.string())))
    origins = join_origins([part.origins for part in parts])
    order = origins.order
    if order is not None:
        table, origins = table.take(pa.array(order)), origins.take(order)
    columns = {name: table[name] for name in names}
    return Part(columns=columns, explicit_ids=column(table, _EXPLICIT), origins=origins)


def pending_rows(type_: TableType, part: Part, ids: pa.Array) -> pa.Table:
    """Make rows of a table, some of which have no id yet."""
    schema = pa.schema([field.with_nullable(True) for field in type_.schema])
    return pa.Table.from_arrays(_columns_of(type_, part, ids), schema=schema)


def _columns_of(type_: TableType, part: Part, ids: pa.Array) -> list[pa.Array | pa.ChunkedArray]:
    return [ids if name == "id" else part.columns[name] for name in type_.schema.names]
