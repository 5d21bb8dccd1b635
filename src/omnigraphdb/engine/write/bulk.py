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
from omnigraphdb.pipeline.input.splits import CheckedRows, Split, TypedRows
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
    """The outcome of the key join: superseded rows, rows that match committed rows, replaced rows, and the read set.

    `created` holds the rows of nodes that the load creates because its edges name them.
    """

    superseded: ScratchSlices
    matched: ScratchSlices
    replaced: ScratchSlices
    consulted: frozenset[TableKey]
    created: tuple[CreatedNodes, ...] = ()

    def count_created(self) -> dict[TableKey, int]:
        """Count the nodes of each type that the load creates."""
        tables = sorted({nodes.table_key for nodes in self.created})
        return {
            table: sum(nodes.rows for nodes in self.created if nodes.table_key == table)
            for table in tables
        }


@dataclass(slots=True)
class BulkLoad:
    """One load over all its attempts; work that depends on the input alone is done once."""

    engine: Engine
    spec: LoadSpec
    runner: Runner
    checked: Checked
    rejects: Rejects | None = None
    appended: dict[tuple[str, str | None], list[Written]] = field(default_factory=dict)
    """Fragments of an append: they stay valid when the table gets new versions."""

    @property
    def records(self) -> Mapping[TableKey, int]:
        """The number of records for each table."""
        return self.checked.records

    # ---- deciding

    def decide_keys(self, view: View) -> KeyOutcome:
        """Join incoming and committed keys, then check the rules; raise with every problem of every phase."""
        checked, merges = self.checked, self.spec.kind is DeltaKind.MERGE
        has_input_problems = bool(checked.reads or checked.ids)
        endpoints_found = frozenset() if has_input_problems else self._find_endpoints(view)
        first = self._make_key_plan(
            view,
            resolves_ids=True,
            checks_rules=not merges and not has_input_problems,
            endpoints_found=endpoints_found,
            compact_endpoints=True,
        )
        messages = self._resolve_ids(first)
        findings = select(messages, Finding)
        ids = [*checked.ids, *(finding for finding in findings if finding.phase is Phase.IDS)]
        rules = [finding for finding in findings if finding.phase is Phase.RULES]
        slices, created = select(messages, ScratchSlice), select(messages, CreatedNodes)
        superseded, replaced = (
            group_slices(slices, SliceKind.SUPERSEDED),
            group_slices(slices, SliceKind.REPLACED),
        )
        missing = bool(select(messages, EndpointsMissing))
        if merges or replaced or has_input_problems or ids or missing:
            # The rules see neither superseded rows nor the committed rows that the load replaces.
            later = self._make_key_plan(
                view,
                superseded=superseded,
                replaced=replaced,
                endpoints_found=endpoints_found,
                compact_endpoints=not missing,
            )
            strict = [finding for finding in rules if finding.order[0] == STRICT]
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
        """Look for endpoints where that needs no shuffle; return the edge tables all of whose endpoints exist."""
        endpoints_found = self.checked.endpoints_found
        key_plan = self._make_key_plan(view, endpoints_found=endpoints_found)
        edges = [edge for edge in key_plan.edges() if key_plan.where_endpoints(edge) is Where.TASK]
        if not edges:
            return endpoints_found
        step = local_endpoints_step(key_plan, self.checked.splits, edges)
        missing = {
            message.table_key for message in select(_run(self.runner, step), EndpointsMissing)
        }
        return endpoints_found | frozenset(edge.table_key for edge in edges) - missing

    def _resolve_ids(self, key_plan: KeyPlan) -> Sequence[Message]:
        """Resolve ids in tasks where the key plan says so, the other ids in the shuffle."""
        tables = [table for table in key_plan.tables if key_plan.where_ids(table) is Where.TASK]
        if not tables:
            return self._run_decide(key_plan)
        resolved = _run(self.runner, local_ids_step(key_plan, self.checked.splits, tables))
        rest = replace(key_plan, resolved_ids=frozenset(tables))
        return [*resolved, *self._run_decide(rest)]

    def _check_rules(self, key_plan: KeyPlan) -> Sequence[Message]:
        """Check the rules.

        When an endpoint is missing, check again with every edge, to name the edges without an endpoint.
        """
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
        """Decide the keys, stage every table and plan the commit; return the number of created nodes."""
        if find_loaded_batch(view, header.batch_id, header.batch_request):
            return Prepared(None, {})
        outcome = self.decide_keys(view)
        created = outcome.count_created()
        tables = sorted({*self._make_key_plan(view).tables, *created})
        if not tables:
            return Prepared(None, {})
        branch = lance_branch(view.branch)
        entries = {table: view.snapshot.entry(table) for table in tables}
        own_sites = {
            table: entry.at for table, entry in entries.items() if entry.at.branch == branch
        }
        rows = self._write_rows(own_sites, outcome)
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
        # Created nodes are added to the nodes of the graph, also by an overwrite of edges.
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
        splits = [split for split in self._list_splits(outcome.created) if split.table_key in rest]
        fragments_ahead = _find_fragments_ahead(splits, rest, outcome)
        splits = [split for split in splits if split.number not in fragments_ahead]
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
            rest, select(messages, WroteFragments), len(writes), fragments_ahead.values()
        )
        marked = collect_marks(select(messages, MarkedRows), len(marks))
        written_rows = {
            table: WrittenRows(tuple(written[table]), tuple(marked[table])) for table in sites
        }
        for table, rows in written_rows.items():
            self._require_counts(table, rows, outcome)
        return written_rows

    def _takes_over(self, table: TableKey, outcome: KeyOutcome) -> bool:
        return self.engine.store.tables.takes_over(count_rows(outcome.replaced, table))

    def _list_splits(self, created: Sequence[CreatedNodes]) -> list[Split]:
        """List the splits of the input and of created rows, ordered by table."""
        first = 1 + max((split.number for split in self.checked.splits), default=0)
        created_splits = (
            Split(
                number=number,
                source=0,
                content=TypedRows(nodes.path),
                table_key=nodes.table_key,
                rows=nodes.rows,
            )
            for number, nodes in enumerate(created, first)
        )
        return sorted(
            (*self.checked.splits, *created_splits),
            key=lambda split: (split.table_key, split.number),
        )

    def _find_kept_fragments(
        self, sites: Mapping[TableKey, TableAt]
    ) -> dict[TableKey, list[Written]]:
        """Return the fragments that an earlier attempt wrote."""
        return {
            table: self.appended[at.path, at.branch]
            for table, at in sites.items()
            # The created nodes depend on the view; another attempt may need other nodes.
            if (at.path, at.branch) in self.appended and table not in self.spec.creates
        }

    def _collect_fragments(
        self,
        sites: Mapping[TableKey, TableAt],
        messages: Sequence[WroteFragments],
        tasks: int,
        ahead: Iterable[tuple[TableKey, Written]],
    ) -> dict[TableKey, list[Written]]:
        """Collect fragments by table, in the order of the input; keep the fragments of an append for another attempt."""
        require_all([message.number for message in messages], range(tasks), "stage")
        fragments: dict[TableKey, list[Written]] = {table: [] for table in sites}
        for table, written in ahead:
            fragments[table].append(written)
        for message in sorted(messages, key=lambda message: message.number):
            fragments[message.table_key] += message.written
        if self.spec.kind is DeltaKind.APPEND:
            self.appended |= {(at.path, at.branch): fragments[table] for table, at in sites.items()}
        return fragments

    @property
    def _share(self) -> int | None:
        """The number of workers that share the splits of a table; None, a part for each split, on remote workers."""
        return self.engine.settings.load_concurrency if self.runner.engine == "local" else None

    def _require_counts(self, table: TableKey, rows: WrittenRows, outcome: KeyOutcome) -> None:
        """Refuse to commit unless every row that counts was written once, and every replaced row marked once."""
        incoming = self.records.get(table, 0) + outcome.count_created().get(table, 0)
        expected = incoming - count_rows(outcome.superseded, table)
        actual = sum(fragment.rows for fragment in rows.written)
        marked, replaced = (
            sum(marks.rows for marks in rows.marked),
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
    """Read an input for the first time.

    Its problems are raised later, together with the problems of its keys against a view.
    """
    endpoints = make_reading_check(job, splits)
    step = check_step(job, splits, None if endpoints is None else endpoints.check_reading)
    messages = _run(runner, step)
    lines = select(messages, SplitLines)
    require_all([message.split for message in lines], [split.number for split in splits], "check")
    inputs, findings = map_inputs(splits, lines), select(messages, Finding)
    counts = select(messages, SplitCount)
    by_table: defaultdict[TableKey, list[SplitCount]] = defaultdict(list)
    for count in counts:
        by_table[count.table_key].append(count)
    checked = Checked(
        splits=list_shaped_splits(splits, counts),
        records={key: sum(count.rows for count in by_table[key]) for key in sorted(by_table)},
        distinct_ids=frozenset(
            key for key, table_counts in by_table.items() if are_distinct(table_counts)
        ),
        endpoints_found=frozenset(
            key
            for key, table_counts in by_table.items()
            if all(count.endpoints_found for count in table_counts)
        ),
        reads=[finding for finding in findings if finding.phase is Phase.READ],
        ids=[finding for finding in findings if finding.phase is Phase.IDS],
        values=[finding for finding in findings if finding.phase is Phase.RULES],
        inputs=inputs,
    )
    return BulkLoad(engine, job, runner, checked, rejects)


def _find_fragments_ahead(
    splits: Sequence[Split], sites: Mapping[TableKey, TableAt], outcome: KeyOutcome
) -> dict[int, tuple[TableKey, Written]]:
    """Find, by split, the fragments that were written before the load began and stay as they are.

    All rows of such a fragment are new.
    """
    fragments: dict[int, tuple[TableKey, Written]] = {}
    for split in splits:
        content, table = split.content, split.table_key
        if table is None or not isinstance(content, CheckedRows) or content.written is None:
            continue
        key, at = (table, split.number), sites[table]
        is_same_site = (content.at.path, content.at.branch) == (at.path, at.branch)
        if is_same_site and key not in outcome.superseded and key not in outcome.matched:
            fragments[split.number] = (table, content.written)
    return fragments


# ---- messages


def _run(runner: Runner, step: Step) -> Sequence[Message]:
    return decode(runner.run(step))


def _list_read_set(view: View, tables: Iterable[TableKey]) -> dict[TableKey, Version]:
    return {table: view.snapshot.entry(table).version for table in sorted(tables)}
