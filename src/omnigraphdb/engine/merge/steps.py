"""A merge by steps: workers compare, check and write; this process holds counts, receipts and the first conflicts, and commits."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from omnigraphdb.commit.delta import DeltaKind, TableDelta, UnwrittenRows, WrittenRows
from omnigraphdb.commit.plan import Header, WritePlan, plan_of
from omnigraphdb.commit.stage import stage_write
from omnigraphdb.engine.diff.digest import make_seed
from omnigraphdb.engine.diff.row_cache import RowCache
from omnigraphdb.engine.diff.sides import SideSplit, cut_sides
from omnigraphdb.engine.merge.buckets import (
    BucketFacts,
    BucketMerge,
    ConflictsFound,
    compare_step,
    pair_table,
)
from omnigraphdb.engine.merge.conflicts import Conflict, ConflictSink, in_order, pack_conflicts
from omnigraphdb.engine.merge.incoming import (
    IncomingSplit,
    cut_incoming,
    gather_step,
    list_fragment_splits,
    write_step,
)
from omnigraphdb.engine.merge.prepare import (
    Counts,
    DecidedMerge,
    complete_plan,
    describe_problems,
    list_key_columns,
)
from omnigraphdb.engine.merge.relate import MergeStrategy, Relation, TableRelation, relate_tables
from omnigraphdb.engine.merge_base import Base
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.errors import InternalError, MergeConflicts
from omnigraphdb.ids import Granularity, TableKey
from omnigraphdb.limits import AGREED_ROWS_MAX, CONFLICTS_SHOWN_MAX
from omnigraphdb.manifest.records import Agreed, lance_branch
from omnigraphdb.pipeline.checks import LoadSpec
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.pipeline.input.splits import Split, TypedRows
from omnigraphdb.pipeline.keys.decide import decide_step
from omnigraphdb.pipeline.keys.extract import RemovedSplit, cut_committed
from omnigraphdb.pipeline.keys.plan import KeyPlan
from omnigraphdb.pipeline.messages import (
    Finding,
    MarkedRows,
    ScratchSlice,
    ScratchSlices,
    SliceKind,
    SplitCount,
    WroteFragments,
    collect_marks,
    count_rows,
    decode,
    group_slices,
    require_all,
    select,
    unpack_problems,
)
from omnigraphdb.pipeline.runner import Runner
from omnigraphdb.pipeline.stage import mark_splits
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt, Written
from omnigraphdb.values import dataclass


def measure_merge(tables: Tables, related: Iterable[TableRelation]) -> Size:
    """Measure the rows and bytes that a merge reads to compare: the fragments in which the sides differ."""
    rows, size = 0, 0
    for table in related:
        for pair in pair_table(tables, table, RowCache(), 0):
            for split in cut_sides(tables, pair):
                rows, size = rows + split.rows, size + split.bytes
    return Size(bytes=size, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome:
    """The decisions of the buckets of one table."""

    relation: TableRelation
    slices: tuple[ScratchSlice, ...]
    properties: tuple[str, ...]
    agreed: tuple[str, ...] | None

    def count(self, kind: SliceKind) -> int:
        """Count the rows of a kind."""
        return sum(
            scratch_slice.rows for scratch_slice in self.slices if scratch_slice.kind is kind
        )

    @property
    def counts(self) -> Counts:
        """Inserts, updates, deletes."""
        updates = self.count(SliceKind.CHANGED) + self.count(SliceKind.MIXED)
        return self.count(SliceKind.NEW), updates, self.count(SliceKind.REMOVED)

    @property
    def is_empty(self) -> bool:
        """Whether the target stays as it is."""
        return not any(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedMerge:
    """A merge that workers decided: rows in scratch files, nothing written to a table."""

    decided: DecidedMerge
    tables: Mapping[TableKey, TableOutcome] = field(default_factory=dict)
    incoming: tuple[IncomingSplit, ...] = ()
    agreed: Agreed | None = None

    def slices(self, kind: SliceKind) -> ScratchSlices:
        """Group the slices of one kind of all tables."""
        return group_slices((s for table in self.tables.values() for s in table.slices), kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkMerge:
    """One merge over all its attempts."""

    engine: Engine
    spec: LoadSpec
    runner: Runner
    granularity: Granularity
    conflicts: ConflictSink | None = None
    """The destination of all conflicts."""

    @property
    def _tables(self) -> Tables:
        return self.engine.store.tables

    # ---- deciding

    def resolve(self, relation: Relation) -> SteppedMerge:
        """Decide rows first, then, when no row is in conflict, the rules over the merged graph."""
        assert relation.base is not None, "a merge without a base has nothing to decide"
        related = relate_tables(relation.base, relation.source.snapshot, relation.target.snapshot)
        moving = [table for table in related if table.way is not MergeStrategy.SAME]
        implied = list_key_columns(relation, self.spec.catalog)
        messages = self._compare(moving, relation.base, implied)
        reports = select(messages, ConflictsFound)
        tables = _collect_outcomes(moving, messages)
        counts = {key: outcome.counts for key, outcome in tables.items() if not outcome.is_empty}
        read_set = {table.table_key: table.target.version for table in moving}
        decided = DecidedMerge(relation=relation, counts=counts, read_set=read_set)
        same_moves = [table.table_key for table in related if table.is_same_move]
        stepped = SteppedMerge(
            decided=decided, tables=tables, agreed=_list_agreed(relation, tables, same_moves)
        )
        if reports:
            return replace(stepped, decided=self._refuse(decided, reports))
        return self._check_rules(replace(stepped, incoming=tuple(_cut(tables))))

    def _compare(
        self, moving: Sequence[TableRelation], base: Base, implied: Mapping[str, tuple[str, ...]]
    ) -> Sequence[object]:
        """Compare all tables in one step."""
        row_cache, seed = RowCache(0, implied), make_seed(self.spec.seed)
        merges: list[BucketMerge] = []
        splits: list[SideSplit] = []
        for table in moving:
            pairs = pair_table(self._tables, table, row_cache, seed)
            splits += (split for pair in pairs for split in cut_sides(self._tables, pair))
            merge = BucketMerge(
                spec=self.spec,
                relation=table,
                node=base.node,
                granularity=self.granularity,
                pairs=pairs,
                implied=implied.get(table.target.at.path, ()),
                names_all=self.conflicts is not None,
            )
            merges.append(merge)
        return decode(self.runner.run(compare_step(merges, splits))) if splits else ()

    def _check_rules(self, stepped: SteppedMerge) -> SteppedMerge:
        findings, splits = self._gather(stepped)
        key_plan = self._make_key_plan(stepped)
        if key_plan.tables and key_plan.has_rules:
            removed = [
                RemovedSplit(side.table_key, _list_slices(stepped, side.table_key))
                for side in key_plan.removed_sides
            ]
            step = decide_step(key_plan, splits, cut_committed(key_plan), removed)
            findings += select(decode(self.runner.run(step)), Finding)
        target = stepped.decided.relation.target.snapshot
        consulted = {key: target.entry(key).version for key in key_plan.consulted}
        decided = replace(stepped.decided, read_set={**stepped.decided.read_set, **consulted})
        if findings:
            reports = list(self._describe_findings(stepped, findings))
            decided = self._refuse(decided, reports)
        return replace(stepped, decided=decided)

    def _gather(self, stepped: SteppedMerge) -> tuple[list[Finding], list[Split]]:
        if not stepped.incoming:
            return [], []
        messages = decode(self.runner.run(gather_step(self.spec, stepped.incoming)))
        counts = select(messages, SplitCount)
        require_all(
            [count.split for count in counts],
            [split.number for split in stepped.incoming],
            "gather",
        )
        splits = [
            Split(
                number=count.split,
                source=0,
                content=TypedRows(count.shaped or ""),
                table_key=count.table_key,
                rows=count.rows,
            )
            for count in sorted(counts, key=lambda count: count.split)
        ]
        return select(messages, Finding), splits

    def _make_key_plan(self, stepped: SteppedMerge) -> KeyPlan:
        entries = stepped.decided.relation.target.snapshot.entries
        counts = stepped.decided.counts
        return KeyPlan(
            load=self.spec,
            incoming_rows={key: inserts + updates for key, (inserts, updates, _) in counts.items()},
            pins={key: entry.at for key, entry in entries.items()},
            committed_rows={key: entry.row_count for key, entry in entries.items()},
            resolves_ids=False,
            checks_rules=True,
            replaced=stepped.slices(SliceKind.REPLACED),
            removed_rows={key: deletes for key, (_, _, deletes) in counts.items() if deletes},
        )

    # ---- conflicts

    def _describe_findings(
        self, stepped: SteppedMerge, findings: Iterable[Finding]
    ) -> Iterator[ConflictsFound]:
        relation = stepped.decided.relation
        committed = SnapshotRows(snapshot=relation.target.snapshot, tables=self._tables)
        related = [outcome.relation for outcome in stepped.tables.values()]
        for finding in findings:
            located = finding.problems
            if self.conflicts is not None and finding.rejects is not None:
                located = tuple(unpack_problems(self.engine.store.scratch.read(finding.rejects)))
            problems = [entry.problem for entry in located]
            conflicts = in_order(describe_problems(problems, related, committed, self._tables))
            path = None
            if self.conflicts is not None:
                path = self.spec.write_scratch(
                    self.engine.store, "conflicts", pack_conflicts(conflicts)
                )
            yield ConflictsFound(
                table_key=TableKey(""),
                conflicts=conflicts[:CONFLICTS_SHOWN_MAX],
                total=finding.total,
                path=path,
            )

    def _refuse(self, decided: DecidedMerge, reports: Sequence[ConflictsFound]) -> DecidedMerge:
        """Store the first conflicts, count all, and write all to the destination of the caller."""
        first: tuple[Conflict, ...] = in_order(c for report in reports for c in report.conflicts)
        total = sum(report.total for report in reports)
        if self.conflicts is not None:
            paths = [report.path for report in reports if report.path is not None]
            self.conflicts.write(self.engine.store.scratch.read, paths)
        return replace(decided, conflicts=first[:CONFLICTS_SHOWN_MAX], conflicts_total=total)

    # ---- writing

    def plan(self, stepped: SteppedMerge, header: Header) -> WritePlan:
        """Stage a decided merge; conflicts are raised."""
        decided = stepped.decided
        if decided.conflicts:
            raise MergeConflicts(decided.conflicts, total=decided.conflicts_total)
        branch = decided.relation.target.branch
        moving = [outcome for outcome in stepped.tables.values() if not outcome.is_empty]
        staged = [
            outcome.relation
            for outcome in moving
            if outcome.relation.way is not MergeStrategy.POINT
        ]
        own = lance_branch(branch)
        sites = {
            table.table_key: table.target.at for table in staged if table.target.at.branch == own
        }
        rows = self._write_rows(stepped, sites)
        writes = [
            stage_write(
                self._tables,
                table.target,
                branch,
                self._delta(table.table_key, rows.get(table.table_key) or UnwrittenRows(stepped)),
                strict=True,
            )
            for table in staged
        ]
        plan = plan_of(
            header,
            decided.relation.target.snapshot,
            [write for write in writes if write is not None],
            decided.read_set,
        )
        points = [
            outcome.relation.source
            for outcome in moving
            if outcome.relation.way is MergeStrategy.POINT
        ]
        return complete_plan(plan, decided.relation, points, stepped.agreed)

    def _delta(self, table: TableKey, rows: WrittenRows | UnwrittenRows) -> TableDelta:
        type_ = self.spec.type(table)
        return TableDelta(
            type=type_, kind=DeltaKind.MERGE, rows=type_.schema.empty_table(), source=rows
        )

    def write(self, delta: TableDelta, at: TableAt) -> WrittenRows:
        """Write the rows of a table that had to be forked first."""
        table = delta.type.table_key
        match delta.source:
            case UnwrittenRows(outcome=SteppedMerge() as stepped):
                return self._write_rows(stepped, {table: at})[table]
            case _:
                raise InternalError(f"the rows of {table} are not those of this merge")

    def _write_rows(
        self, stepped: SteppedMerge, sites: Mapping[TableKey, TableAt]
    ) -> dict[TableKey, WrittenRows]:
        """Let workers write the rows of some tables as fragments and mark the rows that go."""
        replaced = stepped.slices(SliceKind.REPLACED)
        site_slices = {key: pieces for key, pieces in replaced.items() if key[0] in sites}
        taking_over = [
            key for key in sites if self._tables.takes_over(count_rows(site_slices, key))
        ]
        writes = list_fragment_splits(stepped.incoming, sites, taking_over)
        marks = mark_splits(sites, site_slices, self.runner.workers)
        messages: Sequence[object] = ()
        if writes or marks:
            messages = decode(self.runner.run(write_step(self.spec, writes, marks)))
        reports = select(messages, WroteFragments)
        require_all([report.number for report in reports], range(len(writes)), "stage")
        marked = collect_marks(select(messages, MarkedRows), len(marks))
        written: dict[TableKey, list[Written]] = {table: [] for table in sites}
        for report in sorted(reports, key=lambda report: report.number):
            written[report.table_key] += report.written
        rows_by_table = {
            table: WrittenRows(tuple(written[table]), tuple(marked.get(table, ())))
            for table in sites
        }
        for table, rows in rows_by_table.items():
            _require_counts(stepped.tables[table], rows, count_rows(site_slices, table))
        return rows_by_table


def _collect_outcomes(
    moving: Iterable[TableRelation], messages: Sequence[object]
) -> dict[TableKey, TableOutcome]:
    """Put the decisions of the buckets together by table."""
    facts: defaultdict[TableKey, list[BucketFacts]] = defaultdict(list)
    slices: defaultdict[TableKey, list[ScratchSlice]] = defaultdict(list)
    for fact in select(messages, BucketFacts):
        facts[fact.table_key].append(fact)
    for part in select(messages, ScratchSlice):
        slices[part.table_key].append(part)
    return {
        table.table_key: _make_outcome(table, slices[table.table_key], facts[table.table_key])
        for table in moving
    }


def _make_outcome(
    relation: TableRelation, slices: Iterable[ScratchSlice], facts: Sequence[BucketFacts]
) -> TableOutcome:
    return TableOutcome(
        relation=relation,
        slices=tuple(slices),
        properties=next((fact.properties for fact in facts if fact.properties), ()),
        agreed=_join_agreed(facts),
    )


def _join_agreed(facts: Iterable[BucketFacts]) -> tuple[str, ...] | None:
    ids: list[str] = []
    for fact in facts:
        if fact.agreed is None:
            return None
        ids += fact.agreed
    return tuple(sorted(ids)) if len(ids) <= AGREED_ROWS_MAX else None


def _list_agreed(
    relation: Relation, tables: Mapping[TableKey, TableOutcome], same_moves: Sequence[TableKey]
) -> Agreed | None:
    if not relation.is_exact:
        return None
    ids_by_table = {
        key: outcome.agreed
        for key, outcome in tables.items()
        if outcome.agreed is None or outcome.agreed
    }
    return tuple(sorted((ids_by_table | dict.fromkeys(same_moves)).items()))


def _cut(tables: Mapping[TableKey, TableOutcome]) -> Iterator[IncomingSplit]:
    """Cut the rows that come, table by table; the numbers of the splits go on."""
    number = 0
    for key, outcome in sorted(tables.items()):
        kinds = (SliceKind.NEW, SliceKind.CHANGED, SliceKind.MIXED)
        new, changed, mixed = (group_slices(outcome.slices, kind) for kind in kinds)
        relation = outcome.relation
        source, target = relation.source.at, relation.target.at
        splits = cut_incoming(key, source, target, new, changed, mixed, outcome.properties, number)
        number += len(splits)
        yield from splits


def _list_slices(stepped: SteppedMerge, table: TableKey) -> tuple[ScratchSlice, ...]:
    slices = stepped.tables[table].slices
    return tuple(
        scratch_slice for scratch_slice in slices if scratch_slice.kind is SliceKind.REMOVED
    )


def _require_counts(outcome: TableOutcome, rows: WrittenRows, replaced: int) -> None:
    """Check that every row that comes was written once and every row that goes marked once; else nothing is committed."""
    inserts, updates, deletes = outcome.counts
    written, marked = sum(w.rows for w in rows.written), sum(m.rows for m in rows.marked)
    if (written, marked) != (inserts + updates, updates + deletes) or marked != replaced:
        raise InternalError(
            f"{outcome.relation.table_key} was to get {inserts + updates} rows and lose {updates + deletes}; tasks "
            f"wrote {written} and marked {marked}; nothing was committed"
        )
