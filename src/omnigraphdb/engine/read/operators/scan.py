"""The operator Scan: binds a variable to the nodes of a type that pass its tests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from omnigraphdb.catalog.mixed import is_mixed, split_types
from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import (
    AllOf,
    AnyOf,
    Compare,
    Const,
    EntityRef,
    InList,
    ParamRef,
    PropertyRef,
)
from omnigraphdb.compile.coerce import Exact, coerce
from omnigraphdb.compile.plan.algebra import (
    FLIPPED,
    Always,
    Test,
    is_fixed,
    list_operands,
    split_conjunction,
)
from omnigraphdb.compile.plan.operators import Scan
from omnigraphdb.compile.plan.visit import Change, change_part
from omnigraphdb.engine.read import costs
from omnigraphdb.engine.read.bindings import Bindings, concat
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.mixed_entities import tag
from omnigraphdb.engine.read.columns.row_ids import ABSENT, RowIds, no_row_ids
from omnigraphdb.engine.read.columns.value_index import can_index_values
from omnigraphdb.engine.read.operators.filter import keep_all
from omnigraphdb.engine.read.operators.pushdown import column_name, render_filter
from omnigraphdb.engine.read.operators.search import matching
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.limits import MORSEL_ROWS
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.values import IndexKind
from omnigraphdb.values import dataclass

_FIRST_PART = 4
"""A scan that may stop early begins with this many times the needed rows, and multiplies by it from table to table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The access path of a scan: by `ids`, from a value index (`matched`), by a `filter` in storage, or by columns."""

    ids: tuple[str, ...] | None = None
    matched: RowIds | None = None
    filter: str | None = None
    rest: tuple[Test, ...] = ()
    note: str = "every row"


def scan(operator: Scan, reader: Reader, rows_needed: int | None = None) -> Iterator[Bindings]:
    """Bind the variable; with `rows_needed`, so many rows may be enough, and the first table is small."""
    matches = _find_matching(operator, reader)
    first = (
        MORSEL_ROWS if rows_needed is None else min(max(rows_needed * _FIRST_PART, 64), MORSEL_ROWS)
    )
    start, size = 0, first
    while start < matches.rows or start == 0:
        yield matches if size >= matches.rows and start == 0 else matches.slice(start, start + size)
        start, size = start + size, min(size * _FIRST_PART, MORSEL_ROWS)


def _find_matching(operator: Scan, reader: Reader) -> Bindings:
    if not is_mixed(operator.type_name):
        return _find_of_type(operator, reader)
    return concat([_find_of_type(part, reader) for part in split_scan(operator)])


def split_scan(operator: Scan) -> list[Scan]:
    """List one scan for each type of the variable."""
    return [replace(operator, type_name=name) for name in split_types(operator.type_name)]


def _find_of_type(operator: Scan, reader: Reader) -> Bindings:
    nodes = reader.snapshot.nodes(operator.type_name)
    if not len(nodes):
        return Bindings({operator.variable: no_row_ids()}, 0)
    access = access_of(operator, reader)
    reader.note(access.note)
    search = operator.search
    if search and access.ids is None and access.matched is None and access.filter is None:
        # The text index lists the matching rows; the others are not read.
        row_ids, search = np.sort(matching(search[0], reader)), search[1:]
    else:
        row_ids = _find_start(access, nodes)
    if reader.is_mixed(operator.variable):
        row_ids = tag(row_ids, reader.number_of_node(operator.type_name))
    rows = Bindings({operator.variable: row_ids}, len(row_ids))
    return keep_all((*access.rest, *search), rows, reader)


def _find_start(access: Access, nodes: Entities) -> RowIds:
    if access.ids is not None and len(access.ids) == 1:
        row_id = nodes.row_id_of(access.ids[0])
        return no_row_ids() if row_id == ABSENT else np.array([row_id], dtype=np.int64)
    if access.ids is not None:
        row_ids = nodes.row_ids_of(pa.array(access.ids, pa.string()))
        return np.asarray(row_ids[row_ids != ABSENT])
    if access.matched is not None:
        return access.matched
    if access.filter is not None:
        rows = nodes.table.read((), access.filter, row_id=True)
        return np.asarray(column(rows, ROW_ID).to_numpy(zero_copy_only=False), dtype=np.int64)
    return nodes.all


def access_of(operator: Scan, reader: Reader, *, explain_only: bool = False) -> Access:
    """Choose the access path of a scan; with `explain_only` the choice does not count as a use."""
    tests, nodes = operator.filter, reader.snapshot.nodes(operator.type_name)
    if any(test == Always(False) for test in tests):
        return Access(ids=(), note="nothing can match")
    for test in tests:
        ids = _find_ids(test, reader)
        if ids is not None:
            rest = tuple(other for other in tests if other is not test)
            return Access(ids=ids, rest=rest, note="id lookup")
    for test in tests:
        matched = _find_by_value(test, nodes, reader, explain_only)
        if matched is not None:
            rest = tuple(other for other in tests if other is not test)
            return Access(matched=matched, rest=rest, note=f"values of {_render_tests([test])}")
    spent = 0.0 if explain_only else costs.LOOKUP
    return _access_by_index(tests, nodes, spent, reader) or _access_by_column(tests, nodes, reader)


def _find_ids(test: Test, reader: Reader) -> tuple[str, ...] | None:
    match test:
        case Compare(left=EntityRef(), op="=", right=Const() | ParamRef() as fixed):
            text = reader.value(fixed)
            return (text,) if isinstance(text, str) else ()
        case InList(operand=EntityRef(), choices=choices):
            values = reader.value(choices)
            texts = values if isinstance(values, list | tuple) else ()
            return tuple(dict.fromkeys(text for text in texts if isinstance(text, str)))
        case _:
            return None


# ---- value indexes


def _find_by_value(
    test: Test, nodes: Entities, reader: Reader, explain_only: bool
) -> RowIds | None:
    """Find the entities with the required value of a property, if there is a value index."""
    match test:
        case Compare(left=PropertyRef() as reference, op="=", right=Const() | ParamRef() as fixed):
            pass
        case Compare(left=Const() | ParamRef() as fixed, op="=", right=PropertyRef() as reference):
            pass
        case _:
            return None
    index = (
        nodes.value_index(reference.property, explain_only=explain_only)
        if can_index_values(reference.type)
        else None
    )
    if index is None:
        return None
    exact = coerce("=", reader.value(fixed), reference.type)
    return index.of(exact.value) if isinstance(exact, Exact) else None


# ---- indexes of the table


def _access_by_index(
    tests: Sequence[Test], nodes: Entities, spent: float, reader: Reader
) -> Access | None:
    """Use an index that finds few entities instead of reading its column."""
    served_tests = [test for test in tests if _is_served_by_index(test, tests, nodes)]
    if not served_tests:
        return None
    names = sorted(_column_names(served_tests))
    needed = sum(nodes.read_cost(name) for name in names)
    if nodes.cache.spend((nodes.layout, "filter", *names), spent) + costs.LOOKUP >= needed:
        return None
    pairs = [(test, _render_pushdown(test, nodes, reader)) for test in served_tests]
    rendered = [(test, text) for test, text in pairs if text is not None]
    if not rendered:
        return None
    texts = [text for _, text in rendered]
    done = {id(test) for test, _ in rendered}
    rest = tuple(test for test in tests if id(test) not in done)
    return Access(
        filter=" and ".join(texts),
        rest=rest,
        note=f"index on {_render_tests([test for test, _ in rendered])}",
    )


def _render_pushdown(test: Test, nodes: Entities, reader: Reader) -> str | None:
    """Write a test as a filter with stored column names; None if it must be evaluated in memory."""
    if not _column_names([test]) <= nodes.table.field_ids.keys():
        return None
    if nodes.names is None or isinstance(test, Always):
        return render_filter(test, reader.value)
    return render_filter(change_part(test, Change(reference=nodes.stored)), reader.value)


def _render_tests(tests: Sequence[Test]) -> str:
    return ", ".join(sorted(_column_names(tests)))


def _is_served_by_index(test: Test, tests: Sequence[Test], nodes: Entities) -> bool:
    """Whether indexes cover the columns of a test that few entities may pass, and the columns are not cached."""
    names = _find_served_columns(test, tests)
    return bool(names) and all(
        not nodes.has_cached(name) and nodes.covered(name, IndexKind.BTREE) for name in names
    )


def _find_served_columns(test: Test, tests: Sequence[Test]) -> frozenset[str]:
    """List the columns whose indexes answer a test, given all tests; no column if the test may keep most entities.

    Equality, `in` and `starts_with` keep few entities; a bound keeps few if another test bounds the other side. An
    `or` keeps few if each of its alternatives does.
    """
    match test:
        case AnyOf(parts=parts):
            columns = [_find_served_columns(part, split_conjunction(part)) for part in parts]
            return frozenset().union(*columns) if all(columns) else frozenset()
        case AllOf(parts=parts):
            return frozenset().union(*(_find_served_columns(part, parts) for part in parts))
        case InList(operand=(PropertyRef() | EntityRef()) as reference):
            return frozenset({column_name(reference)})
        case Compare():
            return _find_compared_column(test, tests)
        case _:
            return frozenset()


def _find_compared_column(test: Compare, tests: Sequence[Test]) -> frozenset[str]:
    bound = _find_bound(test)
    if bound is None or not _is_narrow(bound[0].type):
        return frozenset()
    column, op = bound
    if op in _OPPOSED:
        others = (_find_bound(sibling) for sibling in tests if isinstance(sibling, Compare))
        sides = (other[1] for other in others if other is not None and other[0] == column)
        if not any(side in _OPPOSED[op] for side in sides):
            return frozenset()
    elif op not in ("=", "starts_with"):
        return frozenset()
    return frozenset({column_name(column)})


_OPPOSED: Mapping[str, tuple[str, ...]] = {
    "<": (">", ">="), "<=": (">", ">="), ">": ("<", "<="), ">=": ("<", "<="),
}  # fmt: skip


def _find_bound(test: Compare) -> tuple[PropertyRef | EntityRef, str] | None:
    """Find the column that a test compares with a value, and the comparison with the column on the left."""
    match test:
        case Compare(left=(PropertyRef() | EntityRef()) as one, op=op, right=right) if is_fixed(
            right
        ):
            return one, op
        case Compare(left=left, op=op, right=(PropertyRef() | EntityRef()) as one) if (
            is_fixed(left) and op in FLIPPED
        ):
            return one, FLIPPED[op]
        case _:
            return None


def _is_narrow(type_: PropertyType) -> bool:
    """Whether a value may be rare: a boolean is not, every other plain type may be."""
    return type_.is_plain and type_.scalar is not Scalar.BOOL


def _column_names(tests: Sequence[Test]) -> set[str]:
    return {
        column_name(operand)
        for test in tests
        if not isinstance(test, Always)
        for operand in list_operands(test)
        if isinstance(operand, PropertyRef | EntityRef)
    }


# ---- columns


def _access_by_column(tests: Sequence[Test], nodes: Entities, reader: Reader) -> Access:
    """Read the tested columns, or filter in storage if they would not fit in memory."""
    large = [
        name for name in _column_names(tests) if not nodes.has_cached(name) and not nodes.fits(name)
    ]
    if large:
        pairs = [(test, _render_pushdown(test, nodes, reader)) for test in tests]
        texts = [text for _, text in pairs if text is not None]
        if texts:
            rest = tuple(test for test, text in pairs if text is None)
            return Access(filter=" and ".join(texts), rest=rest, note="filter in storage")
    note = f"columns {_render_tests(tests)}" if tests else "every row"
    return Access(rest=tuple(tests), note=note)
