"""A load in steps: its input is cut, checked, decided on and staged by many hands; only this process commits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

from omnigraph.commit.delta import DeltaKind
from omnigraph.commit.plan import Header, TableWrite, WritePlan, plan_of
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.write.prepare import is_batch_loaded
from omnigraph.errors import InternalError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import TableKey, Version
from omnigraph.limits import COMMITTED_SPLIT_ROWS
from omnigraph.manifest.records import lance_branch
from omnigraph.manifest.view import View
from omnigraph.pipeline.checks import (
    Job,
    are_distinct,
    check_step,
    list_shaped_splits,
    recheck_step,
)
from omnigraph.pipeline.findings import Places, error_of, places_of
from omnigraph.pipeline.input.splits import CommittedSplit, Split, cut_table
from omnigraph.pipeline.keys.decide import STRICT, decide_step
from omnigraph.pipeline.keys.local_endpoints import (
    choose_checked_while_reading,
    choose_local_endpoint_tables,
    local_endpoints_step,
)
from omnigraph.pipeline.keys.local_ids import choose_local_id_tables, local_ids_step
from omnigraph.pipeline.keys.plan import KeyPlan
from omnigraph.pipeline.messages import (
    CheckPassed,
    Counted,
    Discarded,
    Found,
    Message,
    Phase,
    Piece,
    PieceKind,
    Undecided,
    WroteFragments,
    decode,
)
from omnigraph.pipeline.runner import Runner, Step
from omnigraph.pipeline.stage import Pieces, mark_splits, stage_step, write_splits
from omnigraph.storage.tables import Marked, Staged, TableAt, Tables, Written
from omnigraph.values import dataclass

_A = TypeVar("_A", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An input that was read once. What is wrong with ids, and what value rules say, is told later, with more of it."""

    splits: Sequence[Split]
    records: Mapping[TableKey, int]
    distinct: frozenset[TableKey]
    sure: frozenset[TableKey]
    ids: Sequence[Found]
    values: Sequence[Found]
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOutcome:
    """What keys decided: rows that lose, rows that replace committed ones, where those are, and who was asked."""

    superseded: Pieces
    matched: Pieces
    replaced: Pieces
    consulted: frozenset[TableKey]


@dataclass(slots=True)
class Bulk:
    """One load over all its attempts: what depends on the input alone is done once."""

    engine: Engine
    job: Job
    runner: Runner
    checked: Checked
    appended: dict[tuple[str, str | None], list[Written]] = field(default_factory=dict)
    """Fragments of an append: they stay good when the table moves on."""

    @property
    def records(self) -> Mapping[TableKey, int]:
        """How many records came for each table."""
        return self.checked.records

    # ---- deciding

    def settle(self, view: View) -> KeyOutcome:
        """Decide about every key, against what is committed; raise with every rule that is broken."""
        checked, merges = self.checked, self.job.kind is DeltaKind.MERGE
        sure = frozenset() if checked.ids else self._sure(view)
        judges = not merges and not checked.ids
        first = self._make_key_plan(view, identifies=True, judges=judges, sure=sure)
        answers = self._resolve_ids(first)
        found = _only(answers, Found)
        self._raise([*checked.ids, *found], Phase.IDS)
        pieces = _only(answers, Piece)
        superseded, replaced = (
            _by_part(pieces, PieceKind.SUPERSEDED),
            _by_part(pieces, PieceKind.REPLACED),
        )
        if merges or replaced:
            # Rows that lose, and committed ones that are replaced, are out of it when rules are asked.
            later = self._make_key_plan(view, superseded=superseded, replaced=replaced, sure=sure)
            strict = [one for one in found if one.order[0] == STRICT]
            found = [*strict, *_only(self._run_decide(later), Found)] if later.has_rules else strict
        self._raise([*self._values(superseded), *found], Phase.RULES)
        return KeyOutcome(
            superseded=superseded,
            matched=_by_part(pieces, PieceKind.MATCHED),
            replaced=replaced,
            consulted=first.consulted,
        )

    def _make_key_plan(
        self,
        view: View,
        *,
        identifies: bool = False,
        judges: bool = True,
        superseded: Pieces | None = None,
        replaced: Pieces | None = None,
        sure: frozenset[TableKey] = frozenset(),
    ) -> KeyPlan:
        entries = view.snapshot.entries
        wrong = {one.order[0] for one in self.checked.ids}
        rows = {
            table: count
            for table, count in self.checked.records.items()
            if (count or self.job.kind is DeltaKind.REPLACE) and self.job.rank(table) not in wrong
        }
        return KeyPlan(
            job=self.job,
            rows=rows,
            pins={key: entry.at for key, entry in entries.items()},
            held={key: entry.row_count for key, entry in entries.items()},
            identifies=identifies,
            judges=judges,
            superseded=superseded or {},
            replaced=replaced or {},
            sure=sure,
            distinct=self.checked.distinct,
        )

    def _sure(self, view: View) -> frozenset[TableKey]:
        """Tables of edges whose ends are all there, as far as that is cheaper seen where they are."""
        key_plan, sure = self._make_key_plan(view), self.checked.sure
        edges = [
            edge for edge in choose_local_endpoint_tables(key_plan) if edge.table_key not in sure
        ]
        if not edges:
            return sure
        step = local_endpoints_step(key_plan, self.checked.splits, edges)
        doubtful = {one.table_key for one in _only(_run(self.runner, step), Undecided)}
        return sure | frozenset(edge.table_key for edge in edges) - doubtful

    def _resolve_ids(self, key_plan: KeyPlan) -> Sequence[Message]:
        """Settle ids, where they are given as far as tasks can hold them."""
        tables = choose_local_id_tables(key_plan)
        if not tables:
            return self._run_decide(key_plan)
        met = _run(self.runner, local_ids_step(key_plan, self.checked.splits, tables))
        return [*met, *self._run_decide(replace(key_plan, met=frozenset(tables)))]

    def _run_decide(self, key_plan: KeyPlan) -> Sequence[Message]:
        tables = {side.table_key for side in key_plan.put}
        splits = [split for split in self.checked.splits if split.table_key in tables]
        held = self._cut_committed(key_plan)
        return _run(self.runner, decide_step(key_plan, splits, held)) if splits or held else ()

    def _cut_committed(self, key_plan: KeyPlan) -> list[CommittedSplit]:
        tables = self.engine.store.tables
        found: list[CommittedSplit] = []
        for table in sorted({side.table_key for side in key_plan.gathered}):
            at = key_plan.pins[table]
            found += cut_table(table, at, tables.open(at).fragments(), COMMITTED_SPLIT_ROWS)
        return found

    def _values(self, superseded: Pieces) -> Sequence[Found]:
        if not self.checked.values or not superseded:
            return self.checked.values
        # Some of the rows that break rules may have lost; only the others count.
        return _only(
            _run(self.runner, recheck_step(self.job, self.checked.splits, superseded)), Found
        )

    def _raise(self, found: Iterable[Found], phase: Phase) -> None:
        error = error_of(found, phase, self.checked.places, self.job.catalog)
        if error is not None:
            raise error

    # ---- writing

    def prepare(self, view: View, header: Header) -> WritePlan | None:
        """Decide, stage every table and plan the commit; None when there is nothing to write."""
        if is_batch_loaded(view, header.batch_id):
            return None
        settled = self.settle(view)
        tables = self._make_key_plan(view).tables
        if not tables:
            return None
        branch = lance_branch(view.branch)
        sites = {table: view.snapshot.entry(table).at for table in tables}
        own = {table: at for table, at in sites.items() if at.branch == branch}
        staged = self._stage_tables(own, settled)
        fail(Failpoint.PREPARED)
        writes = [
            self._table_write(table, at, branch, staged.get(table), settled)
            for table, at in sites.items()
        ]
        return plan_of(header, view.branch, writes, _read_set(view, settled.consulted))

    def _table_write(
        self,
        table: TableKey,
        at: TableAt,
        branch: str | None,
        staged: Staged | None,
        settled: KeyOutcome,
    ) -> TableWrite:
        strict = self.job.kind.is_strict
        if staged is not None:
            return TableWrite(table_key=table, base=at, strict=strict, staged=staged)
        # Fragments lie beside the branch they belong to, so that they are written once it is there.
        step = partial(self._stage_on_fork, table, settled)
        return TableWrite(table_key=table, base=at, strict=strict, steps=(step,), fork=branch)

    def _stage_on_fork(
        self, table: TableKey, settled: KeyOutcome, tables: Tables, at: TableAt
    ) -> Staged:
        return self._stage_tables({table: at}, settled)[table]

    def _stage_tables(
        self, sites: Mapping[TableKey, TableAt], settled: KeyOutcome
    ) -> dict[TableKey, Staged]:
        """Write everything that goes to these versions, and describe it."""
        found = self._find_kept_fragments(sites)
        rest = {table: at for table, at in sites.items() if table not in found}
        splits = [split for split in self.checked.splits if split.table_key in rest]
        writes = write_splits(splits, rest, settled.superseded, settled.matched, self._share)
        replaced = {key: pieces for key, pieces in settled.replaced.items() if key[0] in sites}
        marks = mark_splits(sites, replaced, self._share)
        answers = _run(self.runner, stage_step(self.job, writes, marks)) if writes or marks else ()
        found |= self._collect_fragments(rest, _only(answers, WroteFragments), len(writes))
        marked = _collect_marks(_only(answers, Discarded), len(marks))
        return {
            table: self._describe_staged(table, at, found[table], marked[table], settled)
            for table, at in sites.items()
        }

    def _find_kept_fragments(
        self, sites: Mapping[TableKey, TableAt]
    ) -> dict[TableKey, list[Written]]:
        """Fragments that an earlier attempt wrote."""
        return {
            table: self.appended[at.path, at.branch]
            for table, at in sites.items()
            if (at.path, at.branch) in self.appended
        }

    def _collect_fragments(
        self, sites: Mapping[TableKey, TableAt], wrote: Sequence[WroteFragments], tasks: int
    ) -> dict[TableKey, list[Written]]:
        """Fragments by table, in the order of the input; those of an append are kept for another attempt."""
        _require_all([one.number for one in wrote], range(tasks), "stage")
        found: dict[TableKey, list[Written]] = {table: [] for table in sites}
        for one in sorted(wrote, key=lambda one: one.number):
            found[one.table_key] += one.written
        if self.job.kind is DeltaKind.APPEND:
            self.appended |= {(at.path, at.branch): found[table] for table, at in sites.items()}
        return found

    @property
    def _share(self) -> int | None:
        """Into how many parts the splits of a table are put together; every one by itself when there are other hands."""
        return self.engine.settings.load_concurrency if self.runner.engine == "local" else None

    def _describe_staged(
        self,
        table: TableKey,
        at: TableAt,
        written: Sequence[Written],
        marked: Sequence[Marked],
        settled: KeyOutcome,
    ) -> Staged:
        self._require_counts(table, written, marked, settled)
        tables = self.engine.store.tables
        if marked:
            return tables.stage_marked(at, written, marked)
        return tables.stage_written(at, written, overwrite=self.job.kind is DeltaKind.REPLACE)

    def _require_counts(
        self,
        table: TableKey,
        written: Sequence[Written],
        marked: Sequence[Marked],
        settled: KeyOutcome,
    ) -> None:
        """Every row that counts was written once, every replaced one marked once; else nothing is committed."""
        expected = self.records[table] - _rows(settled.superseded, table)
        actual = sum(one.rows for one in written)
        gone, replaced = sum(one.rows for one in marked), _rows(settled.replaced, table)
        if actual != expected or gone != replaced:
            raise InternalError(
                f"{table} was to get {expected} rows and lose {replaced}; tasks wrote {actual} and marked "
                f"{gone}; nothing was committed"
            )


def check(engine: Engine, job: Job, runner: Runner, splits: Sequence[Split]) -> Bulk:
    """Read an input for the first time; raise with everything that is wrong with its records."""
    look = choose_checked_while_reading(job, splits)
    answers = _run(runner, check_step(job, splits, None if look is None else look.passing))
    passed = _only(answers, CheckPassed)
    _require_all([one.split for one in passed], [split.number for split in splits], "check")
    places, found = places_of(splits, passed), _only(answers, Found)
    error = error_of(found, Phase.READ, places, job.catalog)
    if error is not None:
        raise error
    counted = _only(answers, Counted)
    of_tables: defaultdict[TableKey, list[Counted]] = defaultdict(list)
    for one in counted:
        of_tables[one.table_key].append(one)
    checked = Checked(
        splits=list_shaped_splits(splits, counted),
        records={key: sum(one.rows for one in of_tables[key]) for key in sorted(of_tables)},
        distinct=frozenset(key for key, parts in of_tables.items() if are_distinct(parts)),
        sure=frozenset(key for key, parts in of_tables.items() if all(one.sure for one in parts)),
        ids=[one for one in found if one.phase is Phase.IDS],
        values=[one for one in found if one.phase is Phase.RULES],
        places=places,
    )
    return Bulk(engine, job, runner, checked)


# ---- answers


def _run(runner: Runner, step: Step) -> Sequence[Message]:
    return decode(runner.run(step))


def _only(answers: Iterable[Message], kind: type[_A]) -> list[_A]:
    return [answer for answer in answers if isinstance(answer, kind)]


def _require_all(actual: Sequence[int], expected: Sequence[int], step: str) -> None:
    if sorted(actual) != sorted(expected):
        raise InternalError(
            f"step '{step}' has {len(expected)} splits, {len(actual)} answers came of {len(set(actual))} of "
            "them; nothing was committed"
        )


def _collect_marks(answers: Sequence[Discarded], tasks: int) -> Mapping[TableKey, list[Marked]]:
    _require_all([one.number for one in answers], range(tasks), "stage")
    found: defaultdict[TableKey, list[Marked]] = defaultdict(list)
    for one in answers:
        found[one.table_key] += one.marked
    return found


def _by_part(pieces: Iterable[Piece], kind: PieceKind) -> Pieces:
    found: defaultdict[tuple[TableKey, int], list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece.kind is kind:
            found[piece.table_key, piece.part].append(piece)
    return {key: tuple(of_part) for key, of_part in found.items()}


def _rows(pieces: Pieces, table: TableKey) -> int:
    return sum(
        piece.rows for (key, _), of_part in pieces.items() if key == table for piece in of_part
    )


def _read_set(view: View, tables: Iterable[TableKey]) -> dict[TableKey, Version]:
    return {table: view.snapshot.entry(table).version for table in sorted(tables)}
