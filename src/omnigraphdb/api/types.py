"""Types of what callers pass: read by type checkers and editors, never loaded by a program."""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import IO, Any, Literal, Protocol, TypeAlias

import duckdb
import pandas
import polars
import pyarrow.dataset
import pyspark.sql

from omnigraphdb.compile.checked import Direction
from omnigraphdb.ids import EntityKind, Granularity, LoadMode, Op, PartFormat


class ArrowStream(Protocol):
    """Columns of any library that speaks Arrow: tables and readers of pyarrow, frames of polars, results of queries."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The columns as a capsule."""


EntityId: TypeAlias = str | int | float | date | Mapping[str, Any]
"""An id, the value of a key, or the values of a key of several properties."""

EdgeDirection: TypeAlias = Literal["out", "in", "both"] | Direction
"""Which edges of a node: those that leave it, those that reach it, or both."""

File: TypeAlias = str | os.PathLike[str]
Record: TypeAlias = Mapping[str, Any]
Frame: TypeAlias = (
    File
    | IO[bytes]
    | Iterable[File]
    | Iterable[Record]
    | ArrowStream
    | pyarrow.dataset.Dataset
    | pandas.DataFrame
    | polars.LazyFrame
    | duckdb.DuckDBPyRelation
    | pyspark.sql.DataFrame
)
"""Rows of one type."""

Source: TypeAlias = Frame | Mapping[str, Frame]
"""What a load reads: files or records of any types, or frames by type."""

Spark: TypeAlias = pyspark.sql.SparkSession | bool | None
FrameLibrary: TypeAlias = Literal["arrow", "polars", "pandas", "spark"]
AnyFrame: TypeAlias = Any
"""A frame of the library that the caller named: an Arrow table, or a DataFrame of polars, pandas or Spark."""

SparkChoice: TypeAlias = Spark | Literal["auto"]
SparkAsked: TypeAlias = pyspark.sql.SparkSession | Literal[True]
NoSparkAsked: TypeAlias = Literal[False, "auto"] | None

Mode: TypeAlias = Literal["append", "merge", "overwrite"] | LoadMode
"""What a load does with rows that are there."""

MergeGranularity: TypeAlias = Literal["row", "property"] | Granularity
"""What both sides of a merge may not both change."""

FileFormat: TypeAlias = Literal["jsonl", "parquet"] | PartFormat
Kinds: TypeAlias = Sequence[Literal["node", "edge"] | EntityKind]
Ops: TypeAlias = Sequence[Literal["insert", "update", "delete"] | Op]
