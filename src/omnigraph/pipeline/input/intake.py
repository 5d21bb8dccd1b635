"""What a load takes in: typed parts per table in the order they came, and everything that is wrong with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, NodeType, TableType
from omnigraph.commit.delta import DeltaKind, Deltas, TableDelta, deltas_of, last_of_each_id
from omnigraph.commit.origins import Origin, Origins, join_origins
from omnigraph.errors import Problem, data_error, shorten
from omnigraph.ids import TableKey
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.pipeline.input.identity import fresh_ids, key_ids
from omnigraph.runtime import Runtime
from omnigraph.storage.arrow import column
from omnigraph.values import dataclass

_GIVEN = "given id"
"""Named as no property can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one table that came together: every column but `id`, the ids that were given, and from where."""

    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    given: pa.Array
    origins: Origins

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.given)


@dataclass(slots=True)
class Intake:
    """Everything a load has read so far."""

    catalog: Catalog
    parts: dict[TableKey, list[Part]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    total: int = 0

    @property
    def is_full(self) -> bool:
        """Whether enough problems are described; the rest is only counted."""
        return len(self.problems) >= PROBLEMS_SHOWN_MAX

    def add(self, type_: TableType, part: Part) -> None:
        """Take in rows of a table."""
        self.parts.setdefault(type_.table_key, []).append(part)

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Note what is wrong, in the order given."""
        for problem in problems:
            self.total += 1
            if not self.is_full:
                self.problems.append(problem)

    def join(self, other: "Intake") -> None:
        """Take in the rows that another one read; its problems are told apart, and only counted here."""
        for key, parts in other.parts.items():
            self.parts.setdefault(key, []).extend(parts)
        self.count(other.total)

    def count(self, problems: int) -> None:
        """Note that more is wrong than is described."""
        self.total += problems

    @property
    def records(self) -> dict[TableKey, int]:
        """How many records came for each table."""
        return {key: sum(part.rows for part in self.parts[key]) for key in sorted(self.parts)}

    def deltas(self, kind: DeltaKind, runtime: Runtime) -> Deltas:
        """The change of every table; raises with all that is wrong."""
        self._raise()
        found: dict[TableKey, TableDelta] = {}
        for key in sorted(self.parts):
            change = self._change(self.catalog.tables[key], kind, runtime)
            if change is not None:
                found[key] = change
        self._raise()
        return deltas_of(found)

    def _raise(self) -> None:
        if self.total:
            raise data_error(self.problems, total=self.total)

    def _change(self, type_: TableType, kind: DeltaKind, runtime: Runtime) -> TableDelta | None:
        part = join_parts(type_, self.parts[type_.table_key])
        ids = derive_ids(type_, part)
        before = self.total
        for rule, marked in find_misnamed_ids(type_, part, ids):
            for row in self._limit_shown(marked):
                self.refuse([id_problem(rule, type_, part, ids, row)])
        if self.total > before:
            return None
        if ids.null_count:
            ids = pc.coalesce(ids, fresh_ids(runtime.new_id(), len(ids)))
        return self._resolve_duplicates(type_, rows_of(type_, part, ids), part.origins, kind)

    def _limit_shown(self, marked: pa.Array) -> list[int]:
        """Numbers of the marked rows that still get a description; the others are counted."""
        room = PROBLEMS_SHOWN_MAX - len(self.problems)
        self.count(max(0, len(marked) - room))
        shown: list[int] = marked.slice(0, room).to_pylist()
        return shown

    # ---- one id twice

    def _resolve_duplicates(
        self, type_: TableType, rows: pa.Table, origins: Origins, kind: DeltaKind
    ) -> TableDelta | None:
        """Settle ids that occur twice: the last wins in a merge without key, else they are refused."""
        if has_duplicates(column(rows, "id")):
            if not keep_last(type_, kind):
                self._refuse_duplicates(type_, column(rows, "id"), origins)
                return None
            # By where they stand, so that a rule that names the last row names the same one however it is loaded.
            survivors = last_of_each_id(rows).sort()
            rows, origins = rows.take(survivors), origins.take(survivors.to_numpy())
        return TableDelta(type=type_, kind=kind, rows=rows, origins=origins)

    def _refuse_duplicates(self, type_: TableType, ids: pa.Array, origins: Origins) -> None:
        duplicates = find_duplicates(ids, pa.array(np.arange(len(ids)), pa.int64()))
        room = max(0, PROBLEMS_SHOWN_MAX - len(self.problems))
        self.count(max(0, duplicates.num_rows - room))
        for identity, first, second in zip(
            *duplicates.slice(0, room).to_pydict().values(), strict=True
        ):
            places = (origins.of(first), origins.of(second))
            self.refuse([make_duplicate_problem(type_, identity, *places)])


# ---- ids


def derive_ids(type_: TableType, part: Part) -> pa.Array:
    """The ids that rows bring themselves, from their keys or as given; NULL asks for a fresh one."""
    if not is_keyed(type_):
        return part.given
    assert isinstance(type_, NodeType), "only nodes have keys"
    return key_ids(type_, pa.table({name: part.columns[name] for name in type_.key_columns}))


def find_misnamed_ids(
    type_: TableType, part: Part, ids: pa.Array
) -> Iterator[tuple[str, pa.Array]]:
    """Rows that cannot have the id they bring, by the rule they break."""
    if is_keyed(type_):
        yield "W04", pc.indices_nonzero(pc.is_null(ids))
        yield "J10", pc.indices_nonzero(pc.fill_null(pc.not_equal(part.given, ids), False))


def id_problem(rule: str, type_: TableType, part: Part, ids: pa.Array, row: int) -> Problem:
    """Say what is wrong with the id of a row."""
    origin, table = part.origins.of(row), type_.table_key
    if rule == "W04":
        message = f"the key of {type_.name} has no finite value"
        return origin.problem(rule, message, table_key=table)
    given = part.given[row].as_py()
    message = (
        f"id '{shorten(given)}' of {type_.name} contradicts its key, "
        f"whose id is '{shorten(ids[row].as_py())}'"
    )
    return origin.problem(rule, message, table_key=table, row_id=given)


# ---- one id twice


def keep_last(type_: TableType, kind: DeltaKind) -> bool:
    """Whether the last of several rows with one id counts, instead of none."""
    return kind is DeltaKind.MERGE and not is_keyed(type_)


def has_duplicates(ids: pa.Array) -> bool:
    """Whether an id occurs twice; ids that ascend, as exported ones do, are seen to be unique at a glance."""
    return not ascends(ids) and bool(pc.count_distinct(ids).as_py() != len(ids))


def ascends(ids: pa.Array) -> bool:
    """Whether every id is greater than the one before."""
    before, after = ids.slice(0, max(0, len(ids) - 1)), ids.slice(1)
    return bool(pc.all(pc.less(before, after), min_count=0).as_py())


def find_duplicates(ids: pa.Array, places: pa.Array) -> pa.Table:
    """Ids that occur twice, in order of their first places: `id`, `first` and `second` place."""
    order = pc.sort_indices(places)
    given = pa.table({"id": ids.take(order), "place": places.take(order)})
    grouped = given.group_by("id", use_threads=False).aggregate(
        [("place", "min"), ("place", "list"), ("place", "count")]
    )
    duplicates = grouped.filter(pc.greater(grouped["place_count"], 1)).sort_by("place_min")
    seconds = pc.list_element(column(duplicates, "place_list"), 1)
    return pa.table({"id": duplicates["id"], "first": duplicates["place_min"], "second": seconds})


def make_duplicate_problem(
    type_: TableType, identity: str, first: Origin, second: Origin
) -> Problem:
    """Say where an id stands twice."""
    key = type_.key if isinstance(type_, NodeType) else None
    rule, what = "W20", f"the same id twice in {type_.name}"
    if key is not None:
        rule, what = "W13", f"@unique violation on {type_.name}.{key.display}"
    message = f"{what}: '{shorten(identity)}' is in {first} and in {second}"
    return second.problem(rule, message, table_key=type_.table_key, row_id=identity)


# ---- rows


def is_keyed(type_: TableType) -> bool:
    """Whether ids come from a key."""
    return isinstance(type_, NodeType) and type_.key is not None


def join_parts(type_: TableType, parts: Sequence[Part]) -> Part:
    """All parts of a table as one, in the order rows were given: careful reading takes them in later."""
    names = [name for name in type_.schema.names if name != "id"]
    schema = pa.schema([type_.schema.field(name).with_nullable(True) for name in names])
    tables = [
        pa.table({**{name: part.columns[name] for name in names}, _GIVEN: part.given})
        for part in parts
    ]
    whole = pa.concat_tables(tables).cast(schema.append(pa.field(_GIVEN, pa.string())))
    origins = join_origins([part.origins for part in parts])
    order = origins.order
    if order is not None:
        whole, origins = whole.take(pa.array(order)), origins.take(order)
    columns = {name: whole[name] for name in names}
    return Part(columns=columns, given=column(whole, _GIVEN), origins=origins)


def rows_of(type_: TableType, part: Part, ids: pa.Array) -> pa.Table:
    """Whole rows of a table."""
    return pa.Table.from_arrays(_columns_of(type_, part, ids), schema=type_.schema)


def pending_rows(type_: TableType, part: Part, ids: pa.Array) -> pa.Table:
    """Rows of a table some of which have no id yet."""
    schema = pa.schema([field.with_nullable(True) for field in type_.schema])
    return pa.Table.from_arrays(_columns_of(type_, part, ids), schema=schema)


def _columns_of(type_: TableType, part: Part, ids: pa.Array) -> list[pa.Array | pa.ChunkedArray]:
    return [ids if name == "id" else part.columns[name] for name in type_.schema.names]
