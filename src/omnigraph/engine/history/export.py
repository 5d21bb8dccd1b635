"""Export: every entity of a snapshot in the load format, nodes before edges, by id, streaming."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, TableType
from omnigraph.catalog.types import FLOATS, PropertyType, Scalar
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import DataError, NotFound, Problem
from omnigraph.ids import TableKey, is_node
from omnigraph.limits import SPELLED_BYTES
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.pipeline.input.columns import BLOB_PREFIX, relist
from omnigraph.storage.blobs import BlobForm


def export(
    engine: Engine, view: View, types: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Give one record after the other; only one batch of rows is held."""
    for entry, type_ in list_tables(view, types):
        yield from _records(engine, entry, type_)


def list_tables(view: View, types: Sequence[str] | None) -> list[tuple[Entry, TableType]]:
    """The tables of the types named, or of all, nodes first, each with its type as it was at the time of the view."""
    then = _as_of_then(view)
    chosen = then if types is None else {_find_past_key(view, then, name): None for name in types}
    keys = sorted(then.keys() & chosen.keys(), key=lambda key: (not is_node(key), key))
    return [then[key] for key in keys]


def _as_of_then(view: View) -> Mapping[TableKey, tuple[Entry, TableType]]:
    """What a view shows, by the names it had then; by those of now when nothing is known of another schema."""
    shown = view.snapshot if view.past is None else view.state.snapshot
    catalog = view.catalog if view.past is None else view.past.catalog
    return {
        key: (entry, catalog.tables[key])
        for key, entry in shown.entries.items()
        if key in catalog.tables
    }


def _find_past_key(
    view: View, then: Mapping[TableKey, tuple[Entry, TableType]], name: str
) -> TableKey:
    """The table key that a type had then, by the name it has now, else by the one it had."""
    try:
        now = view.catalog.table(name)
    except NotFound:
        if view.past is None:
            raise
        return view.past.catalog.table(name).table_key
    same = (key for key, (_, type_) in then.items() if type_.type_id == now.type_id)
    return next(same, now.table_key)


def _records(engine: Engine, entry: Entry, type_: TableType) -> Iterator[dict[str, Any]]:
    table = engine.store.tables.open(entry.at)
    for batch in table.scan(order_by_id=True, blobs=BlobForm.BYTES):
        yield from batch_records(batch, type_)


def batch_records(batch: pa.RecordBatch, type_: TableType) -> Iterator[dict[str, Any]]:
    """Rows as records of the load format."""
    names = [name for name in type_.schema.names if name in batch.schema.names]
    columns = [to_load_values(batch[name], name, type_) for name in names]
    for values in zip(*columns, strict=True):
        yield _record(type_, dict(zip(names, values, strict=True)))


def _record(type_: TableType, row: dict[str, Any]) -> dict[str, Any]:
    if isinstance(type_, EdgeType):
        source, target = row.pop("src"), row.pop("dst")
        return {"edge": type_.name, "from": source, "to": target, "data": row}
    return {"type": type_.name, "data": row}


def to_load_values(values: pa.Array, name: str, type_: TableType) -> list[Any]:
    """A column in the spelling of the load format."""
    if name not in type_.properties:
        return list(values.to_pylist())
    return list(to_load_format(values, name, type_).to_pylist())


def to_load_format(values: pa.Array, name: str, type_: TableType) -> pa.Array:
    """A property as the load format has it: days as numbers, instants and blobs as text, everything else as it is."""
    declared = type_.properties[name].type
    _refuse_non_finite(values, declared, name, type_)
    if declared.is_blob:
        texts = (
            v if v is None else BLOB_PREFIX + base64.b64encode(v).decode()
            for v in values.to_pylist()
        )
        return pa.array(texts, pa.string())
    if declared.scalar is Scalar.DATE:
        return values.cast(pa.list_(pa.int32())) if declared.is_list else values.cast(pa.int32())
    if declared.scalar is Scalar.DATETIME and declared.is_list:
        return relist(_instants(values.flatten()), values)
    return _instants(values) if declared.scalar is Scalar.DATETIME else values


def _instants(values: pa.Array) -> pa.Array:
    """RFC 3339 with `Z`; milliseconds only when they are not zero."""
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
"""What JSON escapes in a text."""

_DUMP: Final = json.JSONEncoder(ensure_ascii=False).encode
_TEXT: Final = PropertyType(scalar=Scalar.STRING)

_WHOLE_MAX, _POINT_MIN = 1e10, 1e-4
"""Between these, Arrow spells a number as Python does; past them the spelling of the load format is Python's."""


def export_lines(
    engine: Engine, view: View, types: Sequence[str] | None = None
) -> Iterator[pa.Buffer]:
    """Give what `export` gives as JSON, one record a line, some of them at a time; only one batch of rows is held."""
    for entry, type_ in list_tables(view, types):
        table = engine.store.tables.open(entry.at)
        for batch in table.scan(order_by_id=True, blobs=BlobForm.BYTES):
            yield from lines(batch, type_)


def lines(batch: pa.RecordBatch, type_: TableType) -> Iterator[pa.Buffer]:
    """The records of a batch as JSON, one a line, some of them at a time."""
    per_row = max(1, batch.nbytes // max(1, batch.num_rows))
    step = max(1, SPELLED_BYTES // per_row)
    for start in range(0, batch.num_rows, step):
        yield _text(_lines(batch.slice(start, step), type_))


def _text(texts: pa.Array) -> pa.Buffer:
    """Everything that an array of texts says, one after the other."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("q")
    first, last = ends[texts.offset], ends[texts.offset + len(texts)]
    return data.slice(first, last - first)


def _lines(batch: pa.RecordBatch, type_: TableType) -> pa.Array:
    names = [name for name in type_.schema.names if name in batch.schema.names]
    spelled = {name: _column(batch[name], name, type_) for name in names}
    parts: list[pa.Array | pa.Scalar] = []
    if isinstance(type_, EdgeType):
        parts += [_literal(f'{{"edge":{_DUMP(type_.name)},"from":'), spelled.pop("src")]
        parts += [_literal(',"to":'), spelled.pop("dst"), _literal(',"data":{')]
    else:
        parts += [_literal(f'{{"type":{_DUMP(type_.name)},"data":{{')]
    for number, (name, texts) in enumerate(spelled.items()):
        parts += [_literal(f"{',' if number else ''}{_DUMP(name)}:"), texts]
    return pc.binary_join_element_wise(*parts, _literal("}}\n"), _literal(""))


def _literal(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _column(values: pa.Array, name: str, type_: TableType) -> pa.Array:
    """A column as JSON; `null` where there is nothing."""
    declared = type_.properties[name].type if name in type_.properties else _TEXT
    found = to_load_format(values, name, type_) if name in type_.properties else values
    if declared.is_list or declared.is_vector:
        texts = _lists(found, declared)
    else:
        texts = _items(found, declared)
    return pc.fill_null(texts.cast(pa.large_string()), "null")


def _lists(values: pa.Array, declared: PropertyType) -> pa.Array:
    texts = _items(values.flatten(), declared).cast(pa.string())
    return pc.binary_join_element_wise("[", pc.binary_join(relist(texts, values), ","), "]", "")


def _items(values: pa.Array, declared: PropertyType) -> pa.Array:
    if declared.scalar in FLOATS or declared.is_vector:
        return _floats(values)
    texts = values.cast(pa.string())
    # Days are numbers in the load format, instants and blobs are texts that need no escapes.
    if declared.scalar in (Scalar.STRING, Scalar.DATETIME, Scalar.BLOB):
        return _quote(texts)
    return texts


def _floats(values: pa.Array) -> pa.Array:
    """Numbers that are read back as they were; whole ones keep a point, so that they stay what they are."""
    numbers = values.cast(pa.float64())
    plain = pc.replace_substring_regex(numbers.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    size = pc.abs(numbers)
    small = pc.and_(pc.less(size, _POINT_MIN), pc.greater(size, 0.0))
    odd = pc.fill_null(pc.or_(pc.greater_equal(size, _WHOLE_MAX), small), False)
    if not pc.any(odd, min_count=0).as_py():
        return plain
    spelled = [repr(number) for number in numbers.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(spelled, pa.string()))


def _quote(texts: pa.Array) -> pa.Array:
    """Texts in quotes; the few that hold what JSON escapes are spelled one by one."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    odd = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not pc.any(odd, min_count=0).as_py():
        return plain
    spelled = [_DUMP(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(plain, odd, pa.array(spelled, pa.string()))
