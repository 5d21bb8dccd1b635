"""Per-split checks: read a split, say everything that is wrong with it, keep what had to be parsed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, TableType
from omnigraph.commit.constraints.report import Violations
from omnigraph.commit.constraints.values import value_rules
from omnigraph.commit.delta import DeltaKind, TableDelta
from omnigraph.commit.origins import Origins
from omnigraph.errors import Problem
from omnigraph.ids import TableKey
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.pipeline.input.frames import list_columns
from omnigraph.pipeline.input.intake import (
    Intake,
    Part,
    ascends,
    derive_ids,
    find_misnamed_ids,
    id_problem,
    join_parts,
    pending_rows,
)
from omnigraph.pipeline.input.read import POSITION, split_rows, take, with_ids, without
from omnigraph.pipeline.input.splits import (
    Content,
    Loose,
    RowGroups,
    Several,
    Shaped,
    Split,
    TextTable,
)
from omnigraph.pipeline.location import StoreLocation
from omnigraph.pipeline.messages import (
    ANSWERS,
    CheckPassed,
    Counted,
    Found,
    Ids,
    Message,
    Phase,
    Piece,
    Placed,
    encode,
)
from omnigraph.pipeline.runner import Each
from omnigraph.runtime import SYSTEM
from omnigraph.storage.store import Store, open_store
from omnigraph.storage.tables import TableAt
from omnigraph.values import dataclass

_K = TypeVar("_K")

VALUES = 0
"""Where value rules stand among the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every task of one load knows: which graph, which types, how it writes, and where its scratch files go.

    `seed` is the operation: fresh ids are made of it, so that a task that runs twice makes the same.
    """

    home: StoreLocation
    here: "Here"
    catalog: Catalog
    kind: DeltaKind
    seed: str
    area: str
    strict: frozenset[TableKey] = frozenset()
    """Tables that a merge only adds to."""

    def store(self) -> Store:
        """The graph as this process reaches it."""
        return self.here.store or _reach_store(self.home, self.seed)

    def kept(self, name: str, at: TableAt | None, make: Callable[[], _K]) -> _K:
        """Something that several tasks of one process need: made by the first, and gone with the load.

        It is good for one version of a table: another attempt may see another one.
        """
        here = self.here if self.here.store is not None else _elsewhere(self.home, self.seed)
        return here.kept(name, at, make)

    def let_go(self) -> None:
        """Let go of what was kept: a process that works for Spark stays, and the next load may be long in coming."""
        here = self.here if self.here.store is not None else _elsewhere(self.home, self.seed)
        here.let_go()

    def kind_of(self, table: TableKey) -> DeltaKind:
        """How one table is written."""
        return DeltaKind.APPEND if table in self.strict else self.kind

    def type(self, table: TableKey) -> TableType:
        """The type of a table."""
        return self.catalog.tables[table]

    def rank(self, table: TableKey) -> int:
        """Where a table stands in reports."""
        return list(self.catalog.tables).index(table)

    def scratch_path(self, name: str) -> str:
        """A new scratch file: a task that runs twice writes two, and its answer names one."""
        return f"{self.area}/{name}-{SYSTEM.new_id()}.lance"

    def keep(self, store: Store, name: str, rows: pa.Table) -> str:
        """Write a scratch file and say where."""
        path = self.scratch_path(name)
        store.scratch.write(path, rows)
        return path


class Here:
    """The opened graph of the process that runs the load; it does not travel."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._lock = Lock()
        self._made: dict[str, tuple[TableAt | None, Any]] = {}

    def kept(self, name: str, at: TableAt | None, make: Callable[[], _K]) -> _K:
        """What was made under a name at a version; others wait for whoever makes it."""
        with self._lock:
            if name not in self._made or self._made[name][0] != at:
                self._made[name] = (at, make())
            found: _K = self._made[name][1]
            return found

    def let_go(self) -> None:
        """Forget what was made; what is in use stays with who uses it."""
        with self._lock:
            self._made.clear()

    def __reduce__(self) -> "tuple[type[Here], tuple[()]]":
        return (Here, ())


@lru_cache(maxsize=2)
def _reach_store(home: StoreLocation, seed: str) -> Store:
    # Opened anew for every load: what another process holds open may be of a graph that was here before.
    return open_store(home.uri, dict(home.options), fsync=home.fsync)


@lru_cache(maxsize=1)
def _elsewhere(home: StoreLocation, seed: str) -> Here:
    # A process that works for one load after the other keeps nothing of the one before.
    return Here()


# ---- the first look


Glance = Callable[[EdgeType, pa.Table, Store], bool]
"""Whether the ends of edges are all there, as far as that is seen in passing."""


def check_step(job: Job, splits: Sequence[Split], glance: Glance | None = None) -> Each:
    """Read every split once: what is wrong, what it holds."""
    return Each(
        name="check",
        splits=splits,
        run=Check(job, glance),
        out=ANSWERS,
        weigh=attrgetter("bytes"),
    )


@dataclass(frozen=True, slots=True)
class Check:
    """Reads one split for the first time."""

    job: Job
    glance: Glance | None = None

    def __call__(self, split: Split) -> Iterator[pa.Table]:
        store = self.job.store()
        whole, lines = Intake(self.job.catalog), list[int]()
        answers: list[Message] = []
        for one in split.inputs:
            intake, count = take(one, self.job.catalog, store, split.first + sum(lines))
            lines.append(count)
            answers += _read_problems(one, intake, self.job)
            whole.join(intake)
        answers.append(CheckPassed(split.number, tuple(lines)))
        for key in sorted(whole.parts):
            answers += self._table(split, whole, self.job.type(key), store)
        yield encode(answers)

    def _table(
        self, split: Split, intake: Intake, type_: TableType, store: Store
    ) -> Iterator[Message]:
        part = join_parts(type_, intake.parts[type_.table_key])
        ids = derive_ids(type_, part)
        wrong = list(_id_problems(self.job.rank(type_.table_key), type_, part, ids))
        yield from wrong
        kept, sure = None, False
        if not wrong and not intake.total:
            rows = pending_rows(type_, part, ids).append_column(
                POSITION, pa.array(part.origins.numbers, pa.int64())
            )
            yield from value_problems(self.job, type_, rows)
            if is_costly(split.content):
                kept = self.job.keep(store, f"{type_.name}-{split.number}", rows)
            if self.glance is not None and isinstance(type_, EdgeType):
                sure = self.glance(type_, rows, store)
        yield Counted(
            split=split.number,
            table_key=type_.table_key,
            rows=part.rows,
            ids=_encode_ids(ids),
            shaped=kept,
            sure=sure,
        )


def is_costly(content: Content) -> bool:
    """Whether what was read is kept: it had to be parsed, or searched for in many files or among many rows."""
    if isinstance(content, RowGroups):
        return content.is_sliced
    return isinstance(content, Loose | TextTable | Several)


def _encode_ids(ids: pa.Array) -> Ids:
    named = ids.drop_null()
    if not len(named) or not ascends(named):
        return Ids(len(named))
    return Ids(len(named), (named[0].as_py(), named[-1].as_py()))


def are_distinct(counted: Iterable[Counted]) -> bool:
    """Whether no id can be in two splits, nor twice in one: they ascend, from one split to another."""
    named = [one.ids for one in counted if one.ids.count]
    spans = sorted(one.span for one in named if one.span is not None)
    return len(spans) == len(named) and all(a[1] < b[0] for a, b in pairwise(spans))


def _read_problems(split: Split, intake: Intake, job: Job) -> Iterator[Found]:
    """What reading refused: of lines in their order, of frames column by column."""
    placed: dict[int, list[Placed]] = {}
    for problem in intake.problems:
        rank = -1 if problem.record is None else _column_rank(split, problem, job)
        placed.setdefault(rank, []).append(_locate_problem(problem))
    if split.part and -1 in placed:
        # Every part of a frame has the same columns; the first speaks for all.
        return
    for rank, problems in placed.items():
        yield Found(
            phase=Phase.READ,
            order=(split.source, rank),
            problems=tuple(problems),
            total=len(problems),
        )
    rest = intake.total - len(intake.problems)
    if rest:
        yield Found(phase=Phase.READ, order=(split.source,), problems=(), total=rest)


def _column_rank(split: Split, problem: Problem, job: Job) -> int:
    if isinstance(split.content, Loose):
        return 0
    assert split.table_key is not None, "a frame has a type"
    names = [*list_columns(job.type(split.table_key)), "id"]
    return names.index(str(problem.property))


def _id_problems(rank: int, type_: TableType, part: Part, ids: pa.Array) -> Iterator[Found]:
    for place, (rule, marked) in enumerate(find_misnamed_ids(type_, part, ids)):
        if len(marked):
            shown = marked.slice(0, PROBLEMS_SHOWN_MAX).to_pylist()
            problems = (id_problem(rule, type_, part, ids, row) for row in shown)
            yield Found(
                phase=Phase.IDS,
                order=(rank, place),
                problems=tuple(_locate_problem(problem) for problem in problems),
                total=len(marked),
            )


def _locate_problem(problem: Problem) -> Placed:
    return Placed(problem=problem, position=problem.record)


# ---- rules


def value_problems(job: Job, type_: TableType, rows: pa.Table) -> Iterator[Found]:
    """What the value rules say of rows, by property."""
    change = change_of(job, type_, rows)
    for place, name in enumerate(sorted(type_.properties)):
        for rule_number, rule in enumerate(value_rules(type_, type_.properties[name])):
            found = rule(change)
            if found:
                # Problems are told by id, so that only now fresh ids are needed.
                found = rule(change_of(job, type_, with_ids(rows, job.seed)))
                yield make_finding(found, (VALUES, job.rank(type_.table_key), place, rule_number))


def change_of(job: Job, type_: TableType, rows: pa.Table) -> TableDelta:
    """Rows with positions as the change of a table, or of some of its columns."""
    numbers: Any = rows[POSITION].to_numpy()
    return TableDelta(
        type=type_,
        kind=job.kind_of(type_.table_key),
        rows=rows.drop([POSITION]),
        origins=Origins(numbers),
    )


def make_finding(found: Violations, order: tuple[int, ...]) -> Found:
    """Violations of one rule as an answer."""
    return Found(
        phase=Phase.RULES,
        order=order,
        problems=tuple(_locate_problem(problem) for problem in found.problems),
        total=found.total,
    )


# ---- a second look, at what is left


def recheck_step(
    job: Job, splits: Sequence[Split], superseded: Mapping[tuple[TableKey, int], tuple[Piece, ...]]
) -> Each:
    """Ask the value rules again, of every row but those that lost."""
    return Each(name="recheck", splits=splits, run=Recheck(job, superseded), out=ANSWERS)


@dataclass(frozen=True, slots=True)
class Recheck:
    """Asks the value rules of one table again, of the rows that count."""

    job: Job
    superseded: Mapping[tuple[TableKey, int], tuple[Piece, ...]]

    def __call__(self, split: Split) -> Iterator[pa.Table]:
        store = self.job.store()
        assert split.table_key is not None, "only shaped splits are looked at again"
        type_ = self.job.type(split.table_key)
        rows = split_rows(split, type_, [n for n in type_.schema.names if n != "id"], store)
        kept = without(rows, self.superseded.get((split.table_key, split.number), ()), store)
        yield encode(value_problems(self.job, type_, kept))


def list_shaped_splits(splits: Sequence[Split], counted: Sequence[Counted]) -> list[Split]:
    """The splits that later steps read: one per table, the shaped form where there is one."""
    from_number = {split.number: split for split in splits}
    found = []
    for one in sorted(counted, key=lambda one: (one.table_key, one.split)):
        split = replace(from_number[one.split], table_key=one.table_key)
        if one.shaped is not None:
            found.append(replace(split, content=Shaped(one.shaped)))
        elif not isinstance(split.content, Loose | TextTable | Several):
            found.append(split)
    return found
