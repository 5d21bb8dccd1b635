"""Option `filter`: conditions of the query language on the rows of one type, compiled for storage."""

from typing import Any, Final

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property, TableType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.check import check_read
from omnigraph.engine.read.operators.pushdown import render_filter
from omnigraph.errors import UserInputError, shorten
from omnigraph.language.source import Source

_TEXT: Final = PropertyType(scalar=Scalar.STRING)


def compile_filter(text: str, type_: TableType) -> str:
    """Compile conditions on `$row` into a storage filter; refuse what storage cannot evaluate exactly."""
    query = Source(
        f"query filter() {{ match {{ $row: Row\n{text}\n}} return {{ $row }} }}", "<filter>"
    )
    pattern = check_read(query, _catalog(type_)).pattern
    if pattern.hops or pattern.negations or pattern.optionals or len(pattern.binds) != 1:
        raise UserInputError(
            "a filter holds conditions on $row only; nothing was read",
            hint="use graph.query(..., spark=session) for patterns",
        )
    tests = (*pattern.binds[0].matches, *pattern.conditions)
    filters = [render_filter(test, _value) for test in tests]
    if any(filter is None for filter in filters):
        raise UserInputError(
            f"the filter '{shorten(text)}' holds a condition that storage cannot evaluate; nothing was read",
            hint="storage compares plain properties with values; filter the frame for the rest",
        )
    return " and ".join(f"({filter})" for filter in filters) or "true"


def _catalog(type_: TableType) -> Catalog:
    """A schema in which the type is a node and its id and endpoints are properties."""
    endpoints = ("src", "dst") if isinstance(type_, EdgeType) else ()
    more = {name: Property(name=name, type=_TEXT) for name in ("id", *endpoints)}
    return Catalog(nodes={"Row": NodeType(name="Row", properties={**type_.properties, **more})})


def _value(constant: Any) -> object:
    return constant.value
