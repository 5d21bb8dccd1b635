"""Rows as lines of the load format, spelled column by column: a batch becomes text without becoming objects first."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, TableType
from omnigraph.catalog.types import FLOATS, PropertyType, Scalar
from omnigraph.engine.history.export import list_tables, storable
from omnigraph.engine.session.engine import Engine
from omnigraph.limits import SPELLED_BYTES
from omnigraph.manifest.view import View
from omnigraph.pipeline.input.columns import relist
from omnigraph.storage.blobs import BlobForm

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
    found = storable(values, name, type_) if name in type_.properties else values
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
