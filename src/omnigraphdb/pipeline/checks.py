"""Per-split checks: a task reads a split, reports every problem in it, and stores the rows that were costly to parse."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraphdb.catalog.model import Catalog, EdgeType, TableType
from omnigraphdb.commit.constraints.report import Violations
from omnigraphdb.commit.constraints.values import value_rules
from omnigraphdb.commit.delta import DeltaKind, TableDelta
from omnigraphdb.commit.origins import Origins
from omnigraphdb.errors import Problem
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import CACHED_IDS_ROWS, PROBLEMS_HELD_MAX, PROBLEMS_SHOWN_MAX
from omnigraphdb.pipeline.input.frames import list_columns, take_frame
from omnigraphdb.pipeline.input.intake import (
    Intake,
    Part,
    ascends,
    derive_ids,
    find_wrong_ids,
    join_parts,
    make_id_problem,
    pending_rows,
)
from omnigraphdb.pipeline.input.read import POSITION, drop_rows, read_inputs, split_rows, with_ids
from omnigraphdb.pipeline.input.splits import (
    CheckedRows,
    Content,
    Loose,
    RowGroups,
    SmallFiles,
    Split,
    TextTable,
    TypedRows,
    splits_of,
)
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.messages import (
    MESSAGES,
    Finding,
    IdRange,
    LocatedProblem,
    Message,
    Phase,
    ScratchSlice,
    ScratchSlices,
    SliceKind,
    SplitCount,
    SplitLines,
    encode,
    order_problem,
    pack_problems,
)
from omnigraphdb.pipeline.runner import Each
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

_K = TypeVar("_K")

EVERY_PROBLEM = 2**62
"""No bound on how many problems are described."""

VALUES = 0
"""The order of value rules in reports: before all other rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """The settings that every task of one load gets: the graph, its types, the write mode and the scratch area.

    `seed` is the operation id: fresh ids are made from it, so that a task that runs twice makes the same ids.
    """

    location: StoreLocation
    process: "LoadProcess"
    catalog: Catalog
    kind: DeltaKind
    seed: str
    area: str
    append_only: frozenset[TableKey] = frozenset()
    """Tables that a merge only adds rows to."""
    creates: frozenset[TableKey] = frozenset()
    """Node tables that get a row for every id that edges name and no input brings."""
    held_ids_max: int = CACHED_IDS_ROWS
    """The most ids that one task holds in memory; more go through the shuffle."""
    one_task_ids_max: int = CACHED_IDS_ROWS
    """The most unordered incoming ids that one task resolves alone; more are hashed over all workers."""
    keeps_rejects: bool = False
    """True if every problem is described, not only the first of each kind."""
    problems_max: int = PROBLEMS_SHOWN_MAX
    """The most problems of one kind that a task sends."""

    def store(self) -> Store:
        """Return the store of the graph, as this process opened it."""
        return self.process.store or _open_remote(self.location, self.seed)

    def cached(self, name: str, at: TableAt | None, make: Callable[[], _K]) -> _K:
        """Make a value that several tasks of one process need once; it is cached until the load stages its rows.

        The value belongs to one version of a table: another attempt may see another version.
        """
        return self._find_process().cached(name, at, make)

    def clear_cache(self) -> None:
        """Drop the cached values: a Spark worker lives on after the load."""
        self._find_process().clear_cache()

    def _find_process(self) -> "LoadProcess":
        return (
            self.process
            if self.process.store is not None
            else _find_remote(self.location, self.seed)
        )

    @property
    def shown_max(self) -> int:
        """The most problems of one kind that a task describes."""
        return EVERY_PROBLEM if self.keeps_rejects else self.problems_max

    def kind_of(self, table: TableKey) -> DeltaKind:
        """Return the kind of delta that is written to a table."""
        return DeltaKind.APPEND if table in self.append_only else self.kind

    def type(self, table: TableKey) -> TableType:
        """Return the type of a table."""
        return self.catalog.tables[table]

    def rank(self, table: TableKey) -> int:
        """Return the number of a table in the order of reports."""
        return list(self.catalog.tables).index(table)

    def scratch_path(self, name: str) -> str:
        """Name a new scratch file: a task that runs twice writes two files, and its message names one."""
        return f"{self.area}/{name}-{SYSTEM.new_id()}.lance"

    def write_scratch(self, store: Store, name: str, rows: pa.Table) -> str:
        """Write rows to a new scratch file and return its path."""
        path = self.scratch_path(name)
        store.scratch.write(path, rows)
        return path


class LoadProcess:
    """The state of one process for a load: the open store and cached values. Pickling leaves both out."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._lock = Lock()
        self._cache: dict[str, tuple[TableAt | None, Any]] = {}

    def cached(self, name: str, at: TableAt | None, make: Callable[[], _K]) -> _K:
        """Return the value of a name at a version; other threads wait while one thread makes it."""
        with self._lock:
            if name not in self._cache or self._cache[name][0] != at:
                self._cache[name] = (at, make())
            value: _K = self._cache[name][1]
            return value

    def clear_cache(self) -> None:
        """Drop the cached values; tasks that use one keep their reference."""
        with self._lock:
            self._cache.clear()

    def __reduce__(self) -> "tuple[type[LoadProcess], tuple[()]]":
        return (LoadProcess, ())


@lru_cache(maxsize=2)
def _open_remote(location: StoreLocation, _seed: str) -> Store:
    # A worker opens the store once for every load: another graph may be at this location by then.
    return location.open()


@lru_cache(maxsize=1)
def _find_remote(_location: StoreLocation, _seed: str) -> LoadProcess:
    # A worker that runs tasks of one load after another drops the cache of the load before.
    return LoadProcess()


# ---- the first reading


EndpointCheck = Callable[[EdgeType, pa.Table, Store], bool]
"""A check of edges: True if all of their endpoints exist, as far as a task sees while it reads."""


def check_step(
    load: LoadSpec, splits: Sequence[Split], endpoints: EndpointCheck | None = None
) -> Each:
    """Make the step that reads every split once, reports its problems and counts its rows."""
    return Each(
        name="check",
        splits=splits,
        run=Check(load, endpoints),
        out=MESSAGES,
        weigh=attrgetter("bytes"),
    )


@dataclass(frozen=True, slots=True)
class Check:
    """Reads one split for the first time."""

    load: LoadSpec
    endpoints: EndpointCheck | None = None

    def __call__(self, split: Split) -> Iterator[pa.Table]:
        if isinstance(split.content, CheckedRows):
            yield encode(_count_checked(split, split.content))
            return
        store = self.load.store()
        split_intake, lines = Intake(self.load.catalog), list[int]()
        messages: list[Message] = []

        def report(input_split: Split, problems: Sequence[Problem]) -> None:
            findings = _list_read_problems(input_split, problems, self.load)
            messages.extend(spill_findings(self.load, store, findings))

        catalog, shown_max = self.load.catalog, self.load.shown_max
        for input_split, intake, count in read_inputs(split, catalog, store, shown_max, report):
            lines.append(count)
            report(input_split, intake.problems)
            messages += _count_other_problems(input_split, intake)
            split_intake.join(intake)
        messages.append(SplitLines(split.number, tuple(lines)))
        for key in sorted(split_intake.parts):
            findings = self._check_table(split, split_intake, self.load.type(key), store)
            messages += spill_findings(self.load, store, findings)
        yield encode(messages)

    def _check_table(
        self, split: Split, intake: Intake, type_: TableType, store: Store
    ) -> Iterator[Message]:
        part = join_parts(type_, intake.parts[type_.table_key])
        ids = derive_ids(type_, part)
        yield from _list_id_problems(self.load, type_, part, ids, was_read=not intake.total)
        shaped, endpoints_found = None, False
        rows = pending_rows(type_, part, ids).append_column(
            POSITION, pa.array(part.origins.numbers, pa.int64())
        )
        yield from check_values(self.load, type_, rows)
        if _is_costly(split.content):
            shaped = self.load.write_scratch(store, f"{type_.name}-{split.number}", rows)
        if self.endpoints is not None and isinstance(type_, EdgeType):
            endpoints_found = self.endpoints(type_, rows, store)
        yield SplitCount(
            split=split.number,
            table_key=type_.table_key,
            rows=part.rows,
            ids=make_id_range(ids),
            shaped=shaped,
            endpoints_found=endpoints_found,
        )


def _count_checked(split: Split, content: CheckedRows) -> Iterator[Message]:
    """Yield the counts of rows that were checked earlier."""
    assert split.table_key is not None, "checked rows have a type"
    assert split.rows is not None, "checked rows are counted"
    yield SplitLines(split.number, (split.rows,))
    yield SplitCount(
        split=split.number, table_key=split.table_key, rows=split.rows, ids=content.ids
    )


def check_frame(load: LoadSpec, type_: TableType, frame: pa.Table) -> pa.Table | None:
    """Type the rows of a frame, some of which have no id yet; None when anything is wrong with them."""
    intake = Intake(load.catalog)
    take_frame(type_, frame, intake)
    if intake.total:
        return None
    part = join_parts(type_, intake.parts[type_.table_key])
    ids = derive_ids(type_, part)
    rows = pending_rows(type_, part, ids)
    numbered = rows.append_column(POSITION, pa.array(part.origins.numbers, pa.int64()))
    wrong = [
        *_list_id_problems(load, type_, part, ids, was_read=True),
        *check_values(load, type_, numbered),
    ]
    return None if wrong else rows


def _is_costly(content: Content) -> bool:
    """Whether reading again costs more than a scratch file: lines, many small files, slices of row groups."""
    if isinstance(content, RowGroups):
        return content.is_sliced
    return isinstance(content, Loose | TextTable | SmallFiles)


def make_id_range(ids: pa.Array) -> IdRange:
    """Count the ids, and name the first and last when they ascend."""
    present = ids.drop_null()
    if not len(present) or not ascends(present):
        return IdRange(len(present))
    return IdRange(len(present), (present[0].as_py(), present[-1].as_py()))


def are_distinct(counts: Iterable[SplitCount]) -> bool:
    """Whether all ids differ: they ascend inside every split, and the ranges of the splits do not overlap."""
    ranges = [count.ids for count in counts if count.ids.count]
    spans = sorted(id_range.span for id_range in ranges if id_range.span is not None)
    return len(spans) == len(ranges) and all(a[1] < b[0] for a, b in pairwise(spans))


def _list_read_problems(
    split: Split, described: Sequence[Problem], load: LoadSpec
) -> Iterator[Finding]:
    """List the problems that reading found: of lines in their order, of frames column by column."""
    located: dict[int, list[LocatedProblem]] = {}
    for problem in described:
        if problem.record is None:
            # A problem with the columns of a frame has no position that would tell its file.
            file_problem = replace(problem, file=split.file)
            located.setdefault(-1, []).append(_locate_problem(file_problem))
        else:
            rank = _column_rank(split, problem, load)
            located.setdefault(rank, []).append(_locate_problem(problem))
    if _repeats_columns(split, described):
        return
    for rank, problems in located.items():
        yield Finding(
            phase=Phase.READ,
            order=(split.source, rank),
            problems=tuple(problems),
            total=len(problems),
        )


def _repeats_columns(split: Split, described: Sequence[Problem]) -> bool:
    """Whether the problems are those of the columns of a frame, which its first part reports."""
    return bool(split.part) and any(problem.record is None for problem in described)


def _count_other_problems(split: Split, intake: Intake) -> Iterator[Finding]:
    """Count the problems that are not described."""
    rest = intake.total - intake.spilled - len(intake.problems)
    if rest and not _repeats_columns(split, intake.problems):
        yield Finding(phase=Phase.READ, order=(split.source,), problems=(), total=rest)


def _column_rank(split: Split, problem: Problem, load: LoadSpec) -> int:
    if isinstance(split.content, Loose):
        return 0
    assert split.table_key is not None, "a frame has a type"
    names = [*list_columns(load.type(split.table_key)), "id"]
    return names.index(str(problem.property))


def _list_id_problems(
    load: LoadSpec, type_: TableType, part: Part, ids: pa.Array, *, was_read: bool
) -> Iterator[Finding]:
    rank = load.rank(type_.table_key)
    for index, (rule, wrong) in enumerate(find_wrong_ids(type_, part, ids, was_read=was_read)):
        described_count = min(load.shown_max, len(wrong))
        for start in range(0, described_count, PROBLEMS_HELD_MAX):
            rows = wrong.slice(start, min(PROBLEMS_HELD_MAX, described_count - start)).to_pylist()
            problems = (make_id_problem(rule, type_, part, ids, row) for row in rows)
            yield Finding(
                phase=Phase.IDS,
                order=(rank, index),
                problems=tuple(_locate_problem(problem) for problem in problems),
                total=len(rows) if start + len(rows) < described_count else len(wrong) - start,
            )


def _locate_problem(problem: Problem) -> LocatedProblem:
    return LocatedProblem(problem=problem, position=problem.record)


def spill_findings(load: LoadSpec, store: Store, messages: Iterable[Message]) -> list[Message]:
    """Write the problems of long findings to scratch files, so that the driver never holds all of them."""
    return [
        _spill_finding(load, store, message)
        if isinstance(message, Finding) and len(message.problems) > load.problems_max
        else message
        for message in messages
    ]


def _spill_finding(load: LoadSpec, store: Store, finding: Finding) -> Finding:
    path = load.write_scratch(store, "rejects", pack_problems(finding.problems))
    first = sorted(finding.problems, key=order_problem(finding.phase))[: load.problems_max]
    return replace(finding, problems=tuple(first), rejects=path)


# ---- rows that a task decides about


def write_slices(
    load: LoadSpec, store: Store, kind: SliceKind, table: TableKey, rows: pa.Table
) -> Iterator[ScratchSlice]:
    """Write rows to a scratch file, sorted by the split or fragment they belong to; yield one slice for each."""
    if not rows.num_rows:
        return
    name = rows.column_names[0]
    rows = rows.sort_by(name)
    numbers = rows[name].to_numpy()
    parts = splits_of(numbers) if kind.is_input else numbers >> np.uint64(32)
    path = load.write_scratch(store, f"{kind.name.lower()}-{load.rank(table)}", rows)
    present, starts, counts = np.unique(parts, return_index=True, return_counts=True)
    for part, start, count in zip(present.tolist(), starts.tolist(), counts.tolist(), strict=True):
        yield ScratchSlice(
            kind=kind, table_key=table, part=part, path=path, start=start, rows=count
        )


# ---- rules


def check_values(load: LoadSpec, type_: TableType, rows: pa.Table) -> Iterator[Finding]:
    """Apply the value rules to rows, property by property."""
    delta = delta_of(load, type_, rows)
    for index, name in enumerate(sorted(type_.properties)):
        for rule_index, rule in enumerate(value_rules(type_, type_.properties[name])):
            violations = rule(delta)
            if violations:
                # Problems name rows by id, so fresh ids are made only when there are problems.
                violations = rule(delta_of(load, type_, with_ids(rows, load.seed)))
                order = (VALUES, load.rank(type_.table_key), index, rule_index)
                yield make_finding(violations, order)


def delta_of(load: LoadSpec, type_: TableType, rows: pa.Table) -> TableDelta:
    """Make the delta of a table, or of some of its columns, from rows with positions."""
    numbers: Any = rows[POSITION].to_numpy()
    return TableDelta(
        type=type_,
        kind=load.kind_of(type_.table_key),
        rows=rows.drop([POSITION]),
        origins=Origins(numbers),
        shown_max=load.shown_max,
        nulls_reported=True,
    )


def make_finding(violations: Violations, order: tuple[int, ...]) -> Finding:
    """Make the finding of one rule."""
    return Finding(
        phase=Phase.RULES,
        order=order,
        problems=tuple(_locate_problem(problem) for problem in violations.problems),
        total=violations.total,
    )


# ---- the second reading, without superseded rows


def recheck_step(load: LoadSpec, splits: Sequence[Split], superseded: ScratchSlices) -> Each:
    """Apply the value rules again, without superseded rows."""
    return Each(name="recheck", splits=splits, run=Recheck(load, superseded), out=MESSAGES)


@dataclass(frozen=True, slots=True)
class Recheck:
    """Applies the value rules to the rows of a split that are not superseded."""

    load: LoadSpec
    superseded: ScratchSlices

    def __call__(self, split: Split) -> Iterator[pa.Table]:
        store = self.load.store()
        assert split.table_key is not None, "shaped splits have a type"
        type_ = self.load.type(split.table_key)
        names = [name for name in type_.schema.names if name != "id"]
        rows = split_rows(split, type_, names, self.load.catalog, store)
        slices = self.superseded.get((split.table_key, split.number), ())
        findings = check_values(self.load, type_, drop_rows(rows, slices, store))
        yield encode(spill_findings(self.load, store, findings))


def list_shaped_splits(splits: Sequence[Split], counts: Sequence[SplitCount]) -> list[Split]:
    """List the splits that later steps read: one per table, in its shaped form if it has one."""
    by_number = {split.number: split for split in splits}
    shaped = []
    for count in sorted(counts, key=lambda count: (count.table_key, count.split)):
        split = replace(by_number[count.split], table_key=count.table_key)
        if count.shaped is not None:
            shaped.append(replace(split, content=TypedRows(count.shaped)))
        elif not isinstance(split.content, Loose | TextTable | SmallFiles):
            shaped.append(split)
    return shaped
