"""Export: every entity of a snapshot in the load format, nodes before edges, by id, streaming."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.cancellation import check_between
from omnigraphdb.catalog.model import EdgeType, TableType, order_columns
from omnigraphdb.catalog.types import FLOATS, PropertyType, Scalar
from omnigraphdb.engine.history.by_id import scan_by_id
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import DataError, NotFound, Problem
from omnigraphdb.ids import TableKey, is_node
from omnigraphdb.limits import SPELLED_BYTES
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.input.columns import BLOB_PREFIX, relist
from omnigraphdb.pipeline.progress import Progress, Unit


def export(
    engine: Engine, view: View, types: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Export records one after the other; memory holds one batch of rows."""
    with engine.jobs.keep(JobKind.EXPORT, view.branch, None):
        for entry, type_ in list_tables(view, types):
            yield from _list_records(engine, entry, type_)


def list_tables(view: View, types: Sequence[str] | None) -> list[tuple[Entry, TableType]]:
    """List the tables of the named types, or all, nodes first, each with its type at the time of the view."""
    past_tables = _list_past_tables(view)
    selected_keys = (
        past_tables
        if types is None
        else {_find_past_key(view, past_tables, name): None for name in types}
    )
    keys = sorted(
        past_tables.keys() & selected_keys.keys(), key=lambda key: (not is_node(key), key)
    )
    return [past_tables[key] for key in keys]


def _list_past_tables(view: View) -> Mapping[TableKey, tuple[Entry, TableType]]:
    """List the tables of a view by the names of its time; by present names if no other schema is recorded."""
    snapshot = view.snapshot if view.past is None else view.state.snapshot
    catalog = view.catalog if view.past is None else view.past.catalog
    if view.past is not None:
        # A schema of the past is stored without the order of its text.
        catalog = catalog.in_order_of(view.catalog)
    return {
        key: (entry, catalog.tables[key])
        for key, entry in snapshot.entries.items()
        if key in catalog.tables
    }


def _find_past_key(
    view: View, past_tables: Mapping[TableKey, tuple[Entry, TableType]], name: str
) -> TableKey:
    """Find the table key of a type at the time of the view, by its present name, else by its name then."""
    try:
        current = view.catalog.table(name)
    except NotFound:
        if view.past is None:
            raise
        return view.past.catalog.table(name).table_key
    keys = (key for key, (_, type_) in past_tables.items() if type_.type_id == current.type_id)
    return next(keys, current.table_key)


def _list_records(engine: Engine, entry: Entry, type_: TableType) -> Iterator[dict[str, Any]]:
    table = engine.store.tables.open(entry.at)
    for batch in check_between(scan_by_id(table, entry.row_count)):
        yield from batch_records(batch, type_)


def batch_records(batch: pa.RecordBatch, type_: TableType) -> Iterator[dict[str, Any]]:
    """Convert rows to records of the load format."""
    names = list_shown(type_, batch.schema)
    columns = [to_load_values(batch[name], name, type_) for name in names]
    for values in zip(*columns, strict=True):
        yield _make_record(type_, dict(zip(names, values, strict=True)))


def list_shown(type_: TableType, stored: pa.Schema) -> list[str]:
    """List the columns of a type that stored rows have, in the order of the schema."""
    return order_columns(type_, set(type_.schema.names) & set(stored.names))


def _make_record(type_: TableType, row: dict[str, Any]) -> dict[str, Any]:
    if isinstance(type_, EdgeType):
        source, target = row.pop("src"), row.pop("dst")
        return {"edge": type_.name, "from": source, "to": target, "data": row}
    return {"type": type_.name, "data": row}


def to_load_values(values: pa.Array, name: str, type_: TableType) -> list[Any]:
    """Convert a column to the values of the load format."""
    if name not in type_.properties:
        return list(values.to_pylist())
    return list(to_load_format(values, name, type_).to_pylist())


def to_load_format(values: pa.Array, name: str, type_: TableType) -> pa.Array:
    """Convert a property to the load format: days, instants and blobs become text, other values stay."""
    declared = type_.properties[name].type
    _refuse_non_finite(values, declared, name, type_)
    if declared.is_blob:
        texts = (
            v if v is None else BLOB_PREFIX + base64.b64encode(v).decode()
            for v in values.to_pylist()
        )
        return pa.array(texts, pa.string())
    if declared.scalar is Scalar.DATE:
        return _write_days(values, declared)
    if declared.scalar is Scalar.DATETIME and declared.is_list:
        return relist(_write_instants(values.flatten()), values)
    return _write_instants(values) if declared.scalar is Scalar.DATETIME else values


def _write_days(values: pa.Array, declared: PropertyType) -> pa.Array:
    """Write days as YYYY-MM-DD."""
    if declared.is_list:
        return relist(values.flatten().cast(pa.string()), values)
    return values.cast(pa.string())


def _write_instants(values: pa.Array) -> pa.Array:
    """Write instants in RFC 3339 with `Z`; milliseconds only if they are not zero."""
    texts = pc.strftime(values.cast(pa.timestamp("ms")), format="%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise(
        pc.replace_substring_regex(texts, r"\.000$", ""), "Z", "", null_handling="emit_null"
    )


def _refuse_non_finite(
    values: pa.Array, declared: PropertyType, name: str, type_: TableType
) -> None:
    if declared.scalar not in FLOATS:
        return
    flat = values.flatten() if declared.is_list or declared.is_vector else values
    if not pc.all(pc.is_finite(flat), min_count=0).as_py():
        message = f"column '{name}' of {type_.name} holds a number that is not finite and cannot be exported"
        raise DataError(
            [Problem(rule="W02", message=message, table_key=type_.table_key, property=name)]
        )


# ---- lines


_ESCAPED: Final = r'["\\\x00-\x1f]'
"""The characters that JSON escapes in a text."""

_DUMP: Final = json.JSONEncoder(ensure_ascii=False).encode
_TEXT: Final = PropertyType(scalar=Scalar.STRING)

_WHOLE_MAX, _POINT_MIN = 1e10, 1e-4
"""Between these bounds Arrow writes a float as Python does; outside, Python writes it."""


def export_lines(
    engine: Engine, view: View, types: Sequence[str] | None = None
) -> Iterator[pa.Buffer]:
    """Export records as JSON lines, some lines at a time; memory holds one batch of rows."""
    with engine.jobs.keep(JobKind.EXPORT, view.branch, None) as report:
        tables, done = list_tables(view, types), 0
        total = sum(entry.row_count for entry, _ in tables)
        for entry, type_ in tables:
            table = engine.store.tables.open(entry.at)
            for batch in check_between(scan_by_id(table, entry.row_count)):
                yield from lines(batch, type_)
                done += batch.num_rows
                report(Progress("export", done, total, Unit.ROWS, done))


def lines(batch: pa.RecordBatch, type_: TableType) -> Iterator[pa.Buffer]:
    """Write the records of a batch as JSON lines, some lines at a time, column by column without Python objects."""
    per_row = max(1, batch.nbytes // max(1, batch.num_rows))
    step = max(1, SPELLED_BYTES // per_row)
    for start in range(0, batch.num_rows, step):
        yield _join_texts(_write_lines(batch.slice(start, step), type_))


def _join_texts(texts: pa.Array) -> pa.Buffer:
    """Join an array of texts: the buffer of its characters, without a copy."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("q")
    first, last = ends[texts.offset], ends[texts.offset + len(texts)]
    return data.slice(first, last - first)


def _write_lines(batch: pa.RecordBatch, type_: TableType) -> pa.Array:
    names = list_shown(type_, batch.schema)
    written = {name: _write_column(batch[name], name, type_) for name in names}
    parts: list[pa.Array | pa.Scalar] = []
    if isinstance(type_, EdgeType):
        parts += [_literal(f'{{"edge":{_DUMP(type_.name)},"from":'), written.pop("src")]
        parts += [_literal(',"to":'), written.pop("dst"), _literal(',"data":{')]
    else:
        parts += [_literal(f'{{"type":{_DUMP(type_.name)},"data":{{')]
    for number, (name, texts) in enumerate(written.items()):
        parts += [_literal(f"{',' if number else ''}{_DUMP(name)}:"), texts]
    return pc.binary_join_element_wise(*parts, _literal("}}\n"), _literal(""))


def _literal(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _write_column(values: pa.Array, name: str, type_: TableType) -> pa.Array:
    """Write a column as JSON; NULL becomes `null`."""
    declared = type_.properties[name].type if name in type_.properties else _TEXT
    formatted = to_load_format(values, name, type_) if name in type_.properties else values
    if declared.is_list or declared.is_vector:
        texts = _write_lists(formatted, declared)
    else:
        texts = _write_items(formatted, declared)
    return pc.fill_null(texts.cast(pa.large_string()), "null")


def _write_lists(values: pa.Array, declared: PropertyType) -> pa.Array:
    texts = _write_items(values.flatten(), declared).cast(pa.string())
    return pc.binary_join_element_wise("[", pc.binary_join(relist(texts, values), ","), "]", "")


def _write_items(values: pa.Array, declared: PropertyType) -> pa.Array:
    if declared.scalar in FLOATS or declared.is_vector:
        return _write_floats(values)
    texts = values.cast(pa.string())
    # The load format has days, instants and blobs as texts without escapes.
    if declared.scalar in (Scalar.STRING, Scalar.DATE, Scalar.DATETIME, Scalar.BLOB):
        return _quote_texts(texts)
    return texts


def _write_floats(values: pa.Array) -> pa.Array:
    """Write floats so that they are read back unchanged; whole numbers keep a point and stay floats."""
    numbers = values.cast(pa.float64())
    plain = pc.replace_substring_regex(numbers.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    size = pc.abs(numbers)
    small = pc.and_(pc.less(size, _POINT_MIN), pc.greater(size, 0.0))
    odd = pc.fill_null(pc.or_(pc.greater_equal(size, _WHOLE_MAX), small), False)
    if not pc.any(odd, min_count=0).as_py():
        return plain
    written = [repr(number) for number in numbers.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(written, pa.string()))


def _quote_texts(texts: pa.Array) -> pa.Array:
    """Quote texts; the few with characters that JSON escapes are written one by one."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    odd = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not pc.any(odd, min_count=0).as_py():
        return plain
    written = [_DUMP(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(written, pa.string()))
