"""A load in steps: workers check the input, join its keys with committed ones and write fragments; this process commits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from omnigraphdb.commit.delta import DeltaKind, TableDelta, UnwrittenRows, WrittenRows
from omnigraphdb.commit.plan import Header, plan_of
from omnigraphdb.commit.stage import stage_write
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.batches import find_loaded_batch
from omnigraphdb.engine.writer import Prepared
from omnigraphdb.errors import InternalError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.checks import (
    LoadSpec,
    are_distinct,
    check_step,
    list_shaped_splits,
    recheck_step,
)
from omnigraphdb.pipeline.findings import InputMap, make_error, map_inputs
from omnigraphdb.pipeline.input.splits import CheckedRows, Shaped, Split
from omnigraphdb.pipeline.keys.decide import STRICT, decide_step
from omnigraphdb.pipeline.keys.extract import cut_committed
from omnigraphdb.pipeline.keys.local import local_endpoints_step, local_ids_step, make_reading_check
from omnigraphdb.pipeline.keys.plan import KeyPlan, Where
from omnigraphdb.pipeline.messages import (
    CreatedNodes,
    EndpointsMissing,
    Finding,
    MarkedRows,
    Message,
    Phase,
    ScratchSlice,
    ScratchSlices,
    SliceKind,
    SplitCount,
    SplitLines,
    WroteFragments,
    collect_marks,
    count_rows,
    decode,
    group_slices,
    require_all,
    select,
)
from omnigraphdb.pipeline.rejects import Rejects
from omnigraphdb.pipeline.runner import Runner, Step
from omnigraphdb.pipeline.stage import make_stage_step, mark_splits, write_splits
from omnigraphdb.storage.values import TableAt, Written
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An input that was read once. Its problems are reported later, together with those of keys and rules."""

    splits: Sequence[Split]
    records: Mapping[TableKey, int]
    distinct_ids: frozenset[TableKey]
    endpoints_found: frozenset[TableKey]
    reads: Sequence[Finding]
    ids: Sequence[Finding]
    values: Sequence[Finding]
    inputs: InputMap


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOutcome:
    """The outcome of the key join: superseded rows, rows that match committed ones, where those are, and the read set.

    `created` are rows of nodes that the load makes because its edges name them.
    """

    superseded: ScratchSlices
    matched: ScratchSlices
    replaced: ScratchSlices
    consulted: frozenset[TableKey]
    created: tuple[CreatedNodes, ...] = ()

    def count_created(self) -> dict[TableKey, int]:
        """How many nodes of each type the load makes."""
        tables = sorted({one.table_key for one in self.created})
        return {
            table: sum(one.rows for one in self.created if one.table_key == table)
            for table in tables
        }


@dataclass(slots=True)
class BulkLoad:
    """One load over all its attempts: what depends on the input alone is done once."""

    engine: Engine
    spec: LoadSpec
    runner: Runner
    checked: Checked
    rejects: Rejects | None = None
    appended: dict[tuple[str, str | None], list[Written]] = field(default_factory=dict)
    """Fragments of an append: they stay good when the table moves on."""

    @property
    def records(self) -> Mapping[TableKey, int]:
        """How many records came for each table."""
        return self.checked.records

    # ---- deciding

    def decide_keys(self, view: View) -> KeyOutcome:
        """Join incoming and committed keys, then check the rules; raise with every problem of every phase."""
        checked, merges = self.checked, self.spec.kind is DeltaKind.MERGE
        doubtful = bool(checked.reads or checked.ids)
        endpoints_found = frozenset() if doubtful else self._find_endpoints(view)
        first = self._make_key_plan(
            view,
            resolves_ids=True,
            checks_rules=not merges and not doubtful,
            endpoints_found=endpoints_found,
            compact_endpoints=True,
        )
        messages = self._resolve_ids(first)
        findings = select(messages, Finding)
        ids = [*checked.ids, *(one for one in findings if one.phase is Phase.IDS)]
        rules = [one for one in findings if one.phase is Phase.RULES]
        slices, created = select(messages, ScratchSlice), select(messages, CreatedNodes)
        superseded, replaced = (
            group_slices(slices, SliceKind.SUPERSEDED),
            group_slices(slices, SliceKind.REPLACED),
        )
        missing = bool(select(messages, EndpointsMissing))
        if merges or replaced or doubtful or ids or missing:
            # The rules see neither superseded rows nor the committed rows that the load replaces.
            later = self._make_key_plan(
                view,
                superseded=superseded,
                replaced=replaced,
                endpoints_found=endpoints_found,
                compact_endpoints=not missing,
            )
            strict = [one for one in rules if one.order[0] == STRICT]
            messages = self._check_rules(later)
            rules = [*strict, *select(messages, Finding)]
            created = select(messages, CreatedNodes)
        values = self._list_value_problems(superseded)
        self._raise([*checked.reads, *ids, *values, *rules])
        return KeyOutcome(
            superseded=superseded,
            matched=group_slices(slices, SliceKind.MATCHED),
            replaced=replaced,
            consulted=first.consulted,
            created=tuple(created),
        )

    def _make_key_plan(
        self,
        view: View,
        *,
        resolves_ids: bool = False,
        checks_rules: bool = True,
        superseded: ScratchSlices | None = None,
        replaced: ScratchSlices | None = None,
        endpoints_found: frozenset[TableKey] = frozenset(),
        compact_endpoints: bool = False,
    ) -> KeyPlan:
        entries = view.snapshot.entries
        rows = {
            table: count
            for table, count in self.checked.records.items()
            if count or self.spec.kind is DeltaKind.REPLACE
        }
        return KeyPlan(
            load=self.spec,
            incoming_rows=rows,
            pins={key: entry.at for key, entry in entries.items()},
            committed_rows={key: entry.row_count for key, entry in entries.items()},
            resolves_ids=resolves_ids,
            checks_rules=checks_rules,
            superseded=superseded or {},
            replaced=replaced or {},
            endpoints_found=endpoints_found,
            distinct_ids=self.checked.distinct_ids,
            compact_endpoints=compact_endpoints,
        )

    def _find_endpoints(self, view: View) -> frozenset[TableKey]:
        """Look for endpoints where that needs no shuffle; name the edge tables all of whose endpoints exist."""
        found = self.checked.endpoints_found
        key_plan = self._make_key_plan(view, endpoints_found=found)
        edges = [one for one in key_plan.edges() if key_plan.where_endpoints(one) is Where.TASK]
        if not edges:
            return found
        step = local_endpoints_step(key_plan, self.checked.splits, edges)
        missing = {one.table_key for one in select(_run(self.runner, step), EndpointsMissing)}
        return found | frozenset(edge.table_key for edge in edges) - missing

    def _resolve_ids(self, key_plan: KeyPlan) -> Sequence[Message]:
        """Resolve ids: in tasks where the key plan says so, the others in the shuffle."""
        tables = [one for one in key_plan.tables if key_plan.where_ids(one) is Where.TASK]
        if not tables:
            return self._run_decide(key_plan)
        resolved = _run(self.runner, local_ids_step(key_plan, self.checked.splits, tables))
        rest = replace(key_plan, resolved_ids=frozenset(tables))
        return [*resolved, *self._run_decide(rest)]

    def _check_rules(self, key_plan: KeyPlan) -> Sequence[Message]:
        """Check the rules; when an endpoint is missing, again with every edge, to name those that miss one."""
        if not key_plan.has_rules:
            return ()
        messages = self._run_decide(key_plan)
        if select(messages, EndpointsMissing):
            messages = self._run_decide(replace(key_plan, compact_endpoints=False))
        return messages

    def _run_decide(self, key_plan: KeyPlan) -> Sequence[Message]:
        tables = {side.table_key for side in key_plan.incoming_sides}
        splits = [split for split in self.checked.splits if split.table_key in tables]
        committed = cut_committed(key_plan)
        if not splits and not committed:
            return ()
        return _run(self.runner, decide_step(key_plan, splits, committed))

    def _list_value_problems(self, superseded: ScratchSlices) -> Sequence[Finding]:
        if not self.checked.values or not superseded:
            return self.checked.values
        # Superseded rows may break value rules; only the others count.
        return select(
            _run(self.runner, recheck_step(self.spec, self.checked.splits, superseded)), Finding
        )

    def _raise(self, findings: Iterable[Finding]) -> None:
        read = self.engine.store.scratch.read
        inputs, catalog = self.checked.inputs, self.spec.catalog
        error = make_error(findings, inputs, catalog, self.rejects, read)
        if error is not None:
            raise error

    # ---- writing

    def prepare(self, view: View, header: Header) -> Prepared[Mapping[TableKey, int]]:
        """Decide, stage every table and plan the commit; say how many nodes are created."""
        if find_loaded_batch(view, header.batch_id, header.batch_request):
            return Prepared(None, {})
        outcome = self.decide_keys(view)
        created = outcome.count_created()
        tables = sorted({*self._make_key_plan(view).tables, *created})
        if not tables:
            return Prepared(None, {})
        branch = lance_branch(view.branch)
        entries = {table: view.snapshot.entry(table) for table in tables}
        own = {table: one.at for table, one in entries.items() if one.at.branch == branch}
        rows = self._write_rows(own, outcome)
        writes = [
            stage_write(
                self.engine.store.tables,
                entry,
                view.branch,
                self._delta(table, rows.get(table) or UnwrittenRows(outcome)),
            )
            for table, entry in entries.items()
        ]
        fail(Failpoint.PREPARED)
        staged = [write for write in writes if write is not None]
        read_set = _list_read_set(view, outcome.consulted)
        return Prepared(plan_of(header, view.snapshot, staged, read_set), created)

    def _delta(self, table: TableKey, rows: WrittenRows | UnwrittenRows) -> TableDelta:
        type_ = self.spec.type(table)
        # Nodes that are created beside those of the graph are added, also by an overwrite of edges.
        kind = self.spec.kind if table in self.records else DeltaKind.APPEND
        return TableDelta(type=type_, kind=kind, rows=type_.schema.empty_table(), source=rows)

    def write(self, delta: TableDelta, at: TableAt) -> WrittenRows:
        """Write the rows of a table that had to be forked first."""
        table = delta.type.table_key
        match delta.source:
            case UnwrittenRows(outcome=KeyOutcome() as outcome):
                return self._write_rows({table: at}, outcome)[table]
            case _:
                raise InternalError(f"the rows of {table} are not those of this load")

    def _write_rows(
        self, sites: Mapping[TableKey, TableAt], outcome: KeyOutcome
    ) -> dict[TableKey, WrittenRows]:
        """Let workers write the rows of some tables as fragments and mark the rows that they replace."""
        written = self._find_kept_fragments(sites)
        rest = {table: at for table, at in sites.items() if table not in written}
        splits = [one for one in self._list_splits(outcome.created) if one.table_key in rest]
        ahead = _find_fragments_ahead(splits, rest, outcome)
        splits = [split for split in splits if split.number not in ahead]
        writes = write_splits(
            splits,
            rest,
            outcome.superseded,
            outcome.matched,
            self._share,
            [table for table in sites if self._takes_over(table, outcome)],
        )
        replaced = {key: pieces for key, pieces in outcome.replaced.items() if key[0] in sites}
        marks = mark_splits(sites, replaced, self._share)
        messages = (
            _run(self.runner, make_stage_step(self.spec, writes, marks)) if writes or marks else ()
        )
        written |= self._collect_fragments(
            rest, select(messages, WroteFragments), len(writes), ahead.values()
        )
        marked = collect_marks(select(messages, MarkedRows), len(marks))
        found = {table: WrittenRows(tuple(written[table]), tuple(marked[table])) for table in sites}
        for table, rows in found.items():
            self._require_counts(table, rows, outcome)
        return found

    def _takes_over(self, table: TableKey, outcome: KeyOutcome) -> bool:
        return self.engine.store.tables.takes_over(count_rows(outcome.replaced, table))

    def _list_splits(self, created: Sequence[CreatedNodes]) -> list[Split]:
        """The splits of the input and of created rows, those of one table together."""
        first = 1 + max((split.number for split in self.checked.splits), default=0)
        more = (
            Split(
                number=number,
                source=0,
                content=Shaped(one.path),
                table_key=one.table_key,
                rows=one.rows,
            )
            for number, one in enumerate(created, first)
        )
        return sorted((*self.checked.splits, *more), key=lambda one: (one.table_key, one.number))

    def _find_kept_fragments(
        self, sites: Mapping[TableKey, TableAt]
    ) -> dict[TableKey, list[Written]]:
        """Fragments that an earlier attempt wrote."""
        return {
            table: self.appended[at.path, at.branch]
            for table, at in sites.items()
            # What is created depends on the view; another attempt may need other nodes.
            if (at.path, at.branch) in self.appended and table not in self.spec.creates
        }

    def _collect_fragments(
        self,
        sites: Mapping[TableKey, TableAt],
        wrote: Sequence[WroteFragments],
        tasks: int,
        ahead: Iterable[tuple[TableKey, Written]],
    ) -> dict[TableKey, list[Written]]:
        """Fragments by table, in the order of the input; those of an append are kept for another attempt."""
        require_all([one.number for one in wrote], range(tasks), "stage")
        found: dict[TableKey, list[Written]] = {table: [] for table in sites}
        for table, written in ahead:
            found[table].append(written)
        for one in sorted(wrote, key=lambda one: one.number):
            found[one.table_key] += one.written
        if self.spec.kind is DeltaKind.APPEND:
            self.appended |= {(at.path, at.branch): found[table] for table, at in sites.items()}
        return found

    @property
    def _share(self) -> int | None:
        """Into how many parts the splits of a table are put together; None, one split each, when workers are elsewhere."""
        return self.engine.settings.load_concurrency if self.runner.engine == "local" else None

    def _require_counts(self, table: TableKey, rows: WrittenRows, outcome: KeyOutcome) -> None:
        """Every row that counts was written once, every replaced one marked once; else nothing is committed."""
        brought = self.records.get(table, 0) + outcome.count_created().get(table, 0)
        expected = brought - count_rows(outcome.superseded, table)
        actual = sum(one.rows for one in rows.written)
        marked, replaced = (
            sum(one.rows for one in rows.marked),
            count_rows(outcome.replaced, table),
        )
        if actual != expected or marked != replaced:
            raise InternalError(
                f"{table} was to get {expected} rows and lose {replaced}; tasks wrote {actual} and marked "
                f"{marked}; nothing was committed"
            )


def check(
    engine: Engine,
    job: LoadSpec,
    runner: Runner,
    splits: Sequence[Split],
    rejects: Rejects | None = None,
) -> BulkLoad:
    """Read an input for the first time; its problems are raised with those of its keys, against a view."""
    endpoints = make_reading_check(job, splits)
    step = check_step(job, splits, None if endpoints is None else endpoints.check_reading)
    messages = _run(runner, step)
    lines = select(messages, SplitLines)
    require_all([one.split for one in lines], [split.number for split in splits], "check")
    inputs, findings = map_inputs(splits, lines), select(messages, Finding)
    counts = select(messages, SplitCount)
    by_table: defaultdict[TableKey, list[SplitCount]] = defaultdict(list)
    for one in counts:
        by_table[one.table_key].append(one)
    checked = Checked(
        splits=list_shaped_splits(splits, counts),
        records={key: sum(one.rows for one in by_table[key]) for key in sorted(by_table)},
        distinct_ids=frozenset(key for key, own in by_table.items() if are_distinct(own)),
        endpoints_found=frozenset(
            key for key, own in by_table.items() if all(one.endpoints_found for one in own)
        ),
        reads=[one for one in findings if one.phase is Phase.READ],
        ids=[one for one in findings if one.phase is Phase.IDS],
        values=[one for one in findings if one.phase is Phase.RULES],
        inputs=inputs,
    )
    return BulkLoad(engine, job, runner, checked, rejects)


def _find_fragments_ahead(
    splits: Sequence[Split], sites: Mapping[TableKey, TableAt], outcome: KeyOutcome
) -> dict[int, tuple[TableKey, Written]]:
    """Fragments that were written before the load began and stay as they are, by split: all of their rows are new."""
    found: dict[int, tuple[TableKey, Written]] = {}
    for split in splits:
        content, table = split.content, split.table_key
        if table is None or not isinstance(content, CheckedRows) or content.written is None:
            continue
        key, at = (table, split.number), sites[table]
        beside = (content.at.path, content.at.branch) == (at.path, at.branch)
        if beside and key not in outcome.superseded and key not in outcome.matched:
            found[split.number] = (table, content.written)
    return found


# ---- messages


def _run(runner: Runner, step: Step) -> Sequence[Message]:
    return decode(runner.run(step))


def _list_read_set(view: View, tables: Iterable[TableKey]) -> dict[TableKey, Version]:
    return {table: view.snapshot.entry(table).version for table in sorted(tables)}
