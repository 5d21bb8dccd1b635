"""The reading verbs: run a query on a view, look up one entity, read a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import EdgeType, TableType
from omnigraph.catalog.types import PropertyType
from omnigraph.catalog.values import json_column
from omnigraph.compile.arguments import arguments
from omnigraph.compile.plan import Plan
from omnigraph.engine.engine import Engine
from omnigraph.engine.read.past import compiled
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.run import run
from omnigraph.ids import TableKey
from omnigraph.language.source import Source
from omnigraph.manifest.view import View
from omnigraph.runtime import datetime_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a query and the types of its columns."""

    query_name: str
    table: pa.Table
    types: tuple[PropertyType, ...]


def query(
    engine: Engine, view: View, source: Source, name: str | None, params: Mapping[str, Any] | None
) -> Answer:
    """Run a read on one view."""
    found = compiled(engine.plans, view, source, name)
    reader = Reader(
        plan=found.plan,
        catalog=found.catalog,
        snapshot=found.snapshot,
        names=found.names,
        tables=engine.store.tables,
        cache=engine.cache,
        params=arguments(found.checked, params),
        now=datetime_of(engine.runtime.now_us() // 1000 * 1000),
    )
    return Answer(
        query_name=found.checked.name,
        table=run(reader),
        types=tuple(column.type for column in found.plan.columns),
    )


def explain(engine: Engine, view: View, source: Source, name: str | None) -> Plan:
    """The plan of a read."""
    return compiled(engine.plans, view, source, name).plan


def entity(engine: Engine, view: View, key: TableKey, identity: str) -> dict[str, Any] | None:
    """One entity with every property it had then, spelled as in query results; None when it is not there."""
    type_ = view.catalog.tables.get(key)
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
    return {name: _spelled(rows, name, type_) for name in shown}


def _spelled(rows: pa.Table, name: str, type_: TableType | None) -> Any:
    if type_ is not None and name in type_.properties:
        return json_column(rows[name], type_.properties[name].type)[0]
    return rows[name][0].as_py()


def columns_of(type_: TableType, names: Sequence[str] | None) -> list[str]:
    """The columns a table read shows: ids, ends and properties."""
    ends = ["src", "dst"] if isinstance(type_, EdgeType) else []
    known = ["id", *ends, *sorted(type_.properties)]
    return known if names is None else list(names)
