"""The reading verbs: run, stream or explain a query on a view, look up one entity."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa

from omnigraphdb.catalog.mixed import is_mixed
from omnigraphdb.catalog.model import order_columns
from omnigraphdb.catalog.types import PropertyType, stored_type
from omnigraphdb.catalog.values import json_column
from omnigraphdb.compile.checked import Bm25, Nearest, Ranking, Rrf
from omnigraphdb.compile.params import bind_arguments
from omnigraphdb.compile.plan.explain import render_operator
from omnigraphdb.compile.plan.operators import (
    Anti,
    Argument,
    Attach,
    Expand,
    Filter,
    FindPaths,
    Group,
    Operator,
    OptionalJoin,
    Product,
    Project,
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
    Stage,
    Union,
)
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.compile.plan.visit import list_inputs
from omnigraphdb.engine.read.lookup import PreparedLookup, prepare_lookup
from omnigraphdb.engine.read.operators.expand import hop_note
from omnigraphdb.engine.read.operators.expand_mixed import list_steps
from omnigraphdb.engine.read.operators.scan import access_of, split_scan
from omnigraphdb.engine.read.past_schema import Compiled, compile_as_of, find_shown_schema
from omnigraphdb.engine.read.profile import Profile, Step, steps_of
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.engine.read.run import run, run_batches
from omnigraphdb.engine.read.snapshot_tables import SnapshotTables, open_snapshot
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.ids import TableKey
from omnigraphdb.language.source import Source
from omnigraphdb.later import Later
from omnigraphdb.manifest.view import View
from omnigraphdb.runtime import datetime_of
from omnigraphdb.storage.values import IndexKind
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.engine.read.operators import paths
else:
    # Most queries bind no path.
    paths = Later("omnigraphdb.engine.read.operators.paths")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a query and the types of its columns."""

    query_name: str
    rows: pa.Table | pa.RecordBatch
    types: tuple[PropertyType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A plan, and each of its operators with its access path or its measurements."""

    plan: Plan
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The rows of a query, computed as they are consumed, and the types of its columns."""

    query_name: str
    batches: pa.RecordBatchReader
    types: tuple[PropertyType, ...]


def query(
    engine: Engine, view: View, source: Source, name: str | None, params: Mapping[str, Any] | None
) -> Answer:
    """Run a read on one view; a lookup is prepared for the next time."""
    compiled = compile_as_of(engine.plans, view, source, name)
    values = bind_arguments(compiled.checked, params)
    prepared = _prepare(engine, view, compiled, _name_lookup(view, source.text, name))
    rows = None if prepared is None else prepared.answer(values)
    if rows is None:
        rows = run(_reader(engine, compiled, values))
    return Answer(query_name=compiled.checked.name, rows=rows, types=compiled.plan.types)


def find_prepared(engine: Engine, view: View, text: str, name: str | None) -> PreparedLookup | None:
    """Find the lookup that an earlier query with this text prepared, if everything that it needs is still cached."""
    lookup: PreparedLookup | None = engine.cache.derived(_name_lookup(view, text, name))
    return lookup


def _name_lookup(view: View, text: str, name: str | None) -> Hashable:
    # A prepared lookup refers to both objects, so that no other object gets their addresses.
    return "lookup", id(view.accepted), id(view.snapshot), text, name


def _prepare(
    engine: Engine, view: View, compiled: Compiled, key: Hashable
) -> PreparedLookup | None:
    """Prepare a plan that is a lookup; a view of a past schema is not prepared, because its names differ."""
    if compiled.plan.lookup is None or view.past is not None:
        return None
    snapshot = _open_for(engine, compiled)
    return engine.cache.derive(
        key, lambda: prepare_lookup(compiled.checked, compiled.plan, snapshot, view.accepted)
    )


def stream(
    engine: Engine, view: View, source: Source, name: str | None, params: Mapping[str, Any] | None
) -> Streamed:
    """Run a read on one view as its rows are consumed."""
    compiled = compile_as_of(engine.plans, view, source, name)
    reader = _reader(engine, compiled, bind_arguments(compiled.checked, params))
    return Streamed(
        query_name=compiled.checked.name, batches=run_batches(reader), types=compiled.plan.types
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
    """Describe the steps of a read; with `profile` run it and measure its steps.

    Nothing is bound to a parameter that was not given, unless the read is run.
    """
    compiled = compile_as_of(engine.plans, view, source, name)
    values = bind_arguments(compiled.checked, params) if profile or params else {}
    reader = _reader(engine, compiled, values)
    if not profile:
        return Explained(plan=compiled.plan, steps=explain_steps(reader))
    profiled = replace(reader, profile=Profile(engine.runtime.monotonic))
    for _ in run_batches(profiled):
        pass
    return Explained(plan=compiled.plan, steps=measure_steps(profiled))


def _open_for(engine: Engine, compiled: Compiled) -> SnapshotTables:
    tables, cache = engine.store.tables, engine.cache
    opened = open_snapshot(compiled.catalog, compiled.snapshot, compiled.names, tables, cache)
    if engine.store.root.is_distant:
        opened.open_ahead(compiled.plan)
    return opened


def _reader(engine: Engine, compiled: Compiled, values: Mapping[str, object]) -> Reader:
    return Reader(
        plan=compiled.plan,
        snapshot=_open_for(engine, compiled),
        params=values,
        embedder=engine.embedder,
        traversal=engine.traversal,
        now=datetime_of(engine.runtime.now_us() // 1000 * 1000),
    )


def entity(engine: Engine, view: View, key: TableKey, identity: str) -> dict[str, Any] | None:
    """Look up one entity with every property of the view, written as in query results; None if it does not exist."""
    return entities(engine, view, key, [identity]).get(identity)


def entities(
    engine: Engine, view: View, key: TableKey, identities: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Look up entities by id, each with every property of the view; missing entities are left out."""
    schema = find_shown_schema(engine.plans, view)
    entry = schema.snapshot.entries.get(key)
    if entry is None:
        return {}
    table = engine.store.tables.open(entry.at)
    names = [
        name
        for name in order_columns(schema.contract.catalog.tables.get(key), table.schema.names)
        if not pa.types.is_large_binary(table.schema.field(name).type)
    ]
    rows = table.lookup("id", pa.array(identities, pa.string()), names)
    # The stored types decide: the present schema may have dropped a property, or given its name to another one.
    columns = {name: json_column(rows[name], stored_type(rows[name].type)) for name in names}
    return {
        identity: {name: column[at] for name, column in columns.items()}
        for at, identity in enumerate(rows["id"].to_pylist())
    }


# ---- explaining


def explain_steps(reader: Reader) -> tuple[Step, ...]:
    """List the operators of a plan from the result down, each with its access path; nothing runs."""
    return tuple(_explain_operator(reader.plan.root, reader, 0))


def measure_steps(reader: Reader) -> tuple[Step, ...]:
    """List the operators of a plan that ran with a profile, each with its measurements."""
    assert reader.profile is not None, "only a run with a profile is measured"
    return steps_of(reader.plan.root, reader.profile)


def _explain_operator(operator: Operator, reader: Reader, depth: int) -> Iterator[Step]:
    yield Step(
        operator=render_operator(operator), depth=depth, notes=tuple(_notes(operator, reader))
    )
    for below in list_inputs(operator):
        yield from _explain_operator(below, reader, depth + 1)


def _notes(operator: Operator, reader: Reader) -> Iterator[str]:
    match operator:
        case Scan(type_name=type_name) if is_mixed(type_name):
            for part in split_scan(operator):
                yield f"{part.type_name}: {access_of(part, reader, explain_only=True).note}"
        case Scan(search=search):
            yield access_of(operator, reader, explain_only=True).note
            for test in search:
                yield f"terms of {test.field.property}"
        case Expand(any_edge=True):
            yield from (
                f"{step.edge}: {hop_note(step, reader)}" for step in list_steps(operator, reader)
            )
        case FindPaths():
            yield paths.name_algorithm(operator)
            yield hop_note(operator, reader)
        case Expand():
            yield hop_note(operator, reader)
        case Rank(ranking=ranking):
            yield from _ranking_notes(ranking, reader)
        case (
            Argument() | Filter() | Product() | Anti() | Semi() | Attach() | OptionalJoin()
            | Group() | Sort() | Slice() | Project() | Stage() | Union()
        ):  # fmt: skip
            return
        case _:
            assert_never(operator)


def _ranking_notes(ranking: Ranking, reader: Reader) -> Iterator[str]:
    match ranking:
        case Bm25(field=field):
            yield f"terms of {field.property} in memory"
        case Nearest(field=field):
            covered = reader.nodes(field.variable).covered(field.property, IndexKind.VECTOR)
            way = "vector index on" if covered else "vectors compared one by one:"
            yield f"{way} {field.property}"
        case Rrf(first=first, second=second):
            yield from _ranking_notes(first, reader)
            yield from _ranking_notes(second, reader)
