"""The reading verbs: run a query on a view, look up one entity, read a table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.catalog.types import PropertyType, stored_type
from omnigraph.catalog.values import json_column
from omnigraph.compile.arguments import bind_arguments
from omnigraph.compile.plan.plan import Plan
from omnigraph.engine.read.explain import explain_steps, measure_steps
from omnigraph.engine.read.lookup import answer_lookup
from omnigraph.engine.read.past import Compiled, compile_as_of
from omnigraph.engine.read.profile import Profile, Step
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.run import run, run_batches
from omnigraph.engine.read.snapshot_tables import SnapshotTables, open_snapshot
from omnigraph.engine.session.engine import Engine
from omnigraph.ids import TableKey
from omnigraph.language.source import Source
from omnigraph.manifest.view import View
from omnigraph.runtime import datetime_of
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a query and the types of its columns."""

    query_name: str
    rows: pa.Table | pa.RecordBatch
    types: tuple[PropertyType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A plan, and each of its operators with the way it would take, or with what it did."""

    plan: Plan
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The rows of a query, made as they are asked for, and the types of its columns."""

    query_name: str
    batches: pa.RecordBatchReader
    types: tuple[PropertyType, ...]


def query(
    engine: Engine, view: View, source: Source, name: str | None, params: Mapping[str, Any] | None
) -> Answer:
    """Run a read on one view."""
    found = compile_as_of(engine.plans, view, source, name)
    values = bind_arguments(found.checked, params)
    rows = answer_lookup(found.plan, _open_for(engine, found), values)
    if rows is None:
        rows = run(_reader(engine, found, values))
    return Answer(query_name=found.checked.name, rows=rows, types=found.plan.types)


def stream(
    engine: Engine, view: View, source: Source, name: str | None, params: Mapping[str, Any] | None
) -> Streamed:
    """Run a read on one view as its rows are asked for."""
    found = compile_as_of(engine.plans, view, source, name)
    reader = _reader(engine, found, bind_arguments(found.checked, params))
    return Streamed(
        query_name=found.checked.name, batches=run_batches(reader), types=found.plan.types
    )


def explain(
    engine: Engine,
    view: View,
    source: Source,
    name: str | None,
    params: Mapping[str, Any] | None,
    *,
    profile: bool = False,
) -> Explained:
    """Say how a read would go about its work; with `profile` run it and say what it did.

    Nothing is bound to a parameter that was not given, unless the read is run.
    """
    found = compile_as_of(engine.plans, view, source, name)
    values = bind_arguments(found.checked, params) if profile or params else {}
    reader = _reader(engine, found, values)
    if not profile:
        return Explained(plan=found.plan, steps=explain_steps(reader))
    watched = replace(reader, profile=Profile(engine.runtime.monotonic))
    for _ in run_batches(watched):
        pass
    return Explained(plan=found.plan, steps=measure_steps(watched))


def _open_for(engine: Engine, found: Compiled) -> SnapshotTables:
    tables, cache = engine.store.tables, engine.cache
    return open_snapshot(found.catalog, found.snapshot, found.names, tables, cache)


def _reader(engine: Engine, found: Compiled, values: Mapping[str, object]) -> Reader:
    return Reader(
        plan=found.plan,
        snapshot=_open_for(engine, found),
        params=values,
        embedder=engine.embedder,
        traversal=engine.traversal,
        now=datetime_of(engine.runtime.now_us() // 1000 * 1000),
    )


def entity(engine: Engine, view: View, key: TableKey, identity: str) -> dict[str, Any] | None:
    """One entity with every property it had then, spelled as in query results; None when it is not there."""
    entry = view.snapshot.entries.get(key)
    if entry is None:
        return None
    table = engine.store.tables.open(entry.at)
    shown = [
        name
        for name in table.schema.names
        if not pa.types.is_large_binary(table.schema.field(name).type)
    ]
    rows = table.lookup("id", pa.array([identity], pa.string()), shown)
    if not rows.num_rows:
        return None
    # By what is stored: the schema of now may have dropped a property, or given its name to another.
    return {name: json_column(rows[name], stored_type(rows[name].type))[0] for name in shown}
