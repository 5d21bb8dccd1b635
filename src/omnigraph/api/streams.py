"""Results that are larger than memory should be: rows of a query, made as they are asked for."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import pyarrow as pa

from omnigraph.catalog.types import PropertyType
from omnigraph.catalog.values import json_column
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStream:
    """Rows of a query, once: each batch is made when it is asked for and forgotten when it is let go."""

    query_name: str
    branch: str
    snapshot: str | None
    commit: str | None
    reader: pa.RecordBatchReader = field(repr=False)
    types: tuple[PropertyType, ...] = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the query."""
        return list(self.reader.schema.names)

    @property
    def schema(self) -> pa.Schema:
        """The declared types of the columns."""
        return self.reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self.reader

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows as JSON-shaped values, a batch at a time."""
        names = self.columns
        for batch in self.reader:
            shown = [
                json_column(pa.chunked_array([column]), type_)
                for column, type_ in zip(batch.columns, self.types, strict=True)
            ]
            yield from (dict(zip(names, row, strict=True)) for row in zip(*shown, strict=True))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)
