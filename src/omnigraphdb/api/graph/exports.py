"""A graph given away: exports, baselines, and what other tools compute with."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraphdb.api.arguments import Reference, names_of, path_of
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.api.verbs.handle import Handle
from omnigraphdb.engine.jobs import JobKind

if TYPE_CHECKING:
    import duckdb
    import networkx

    from omnigraphdb.api.comparisons import Baseline, BaselineStream
    from omnigraphdb.api.reports import ExportReport
    from omnigraphdb.api.types import FileFormat, Spark
    from omnigraphdb.pipeline.progress import OnProgress


class Exports(Handle):
    """A graph given away: exports, baselines, and what other tools compute with."""

    def export(
        self,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Every entity in the load format: nodes before edges, by id.

        Example:
            >>> for record in graph.export(types=["Knows"]):
            ...     record["edge"], record["from"], record["to"]
            ('Knows', 'Ada', 'Bo')
        """
        return self.snapshot(branch=branch, at=at).export(types)

    def export_lines(
        self,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[pa.Buffer]:
        """The records of `export` as UTF-8 JSON lines, many at a time: the fast way to a file or a socket.

        Example:
            >>> with open("friends.jsonl", "wb") as file:
            ...     file.writelines(graph.export_lines())
        """
        return self.snapshot(branch=branch, at=at).export_lines(types)

    def export_files(
        self,
        directory: str | os.PathLike[str],
        *,
        format: "FileFormat" = "jsonl",
        branch: str | None = None,
        at: Reference | None = None,
        types: Sequence[str] | None = None,
        spark: "Spark" = None,
        progress: "OnProgress | None" = None,
    ) -> "ExportReport":
        """Write part files, `jsonl` or `parquet`, into a new directory; several at a time, or by Spark's executors.

        `load` reads a directory of JSON lines back as it is, and Parquet files type by type.

        Example:
            >>> report = graph.export_files("friends-parquet", format="parquet")
            >>> sum(part.rows for part in report.parts)
            4
        """
        from omnigraphdb.api.runners import runner_of
        from omnigraphdb.engine.history.export_files import ExportReport

        snapshot = self.snapshot(branch=branch, at=at)
        place = path_of("directory", directory)
        with self._job(JobKind.EXPORT, snapshot.branch, self._actor, progress) as on_progress:
            runner = runner_of(self._engine, spark, on_progress)
            parts = snapshot.export_files(place, format, types, runner)
        return ExportReport(uri=self.uri, commit=snapshot.commit, engine=runner.engine, parts=parts)

    def baseline_stream(
        self, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> "BaselineStream":
        """Every entity in the load format as lines, and the cursor of the first change after it.

        Example:
            >>> start = graph.baseline_stream(types=["Knows"])
            >>> sum(text.to_pybytes().count(b"edge") for text in start.lines) > 0
            True
        """
        from omnigraphdb.engine.history.feed import stream_baseline

        target = self._target(branch, "baseline")
        return stream_baseline(self._engine, target, names_of("types", types))

    def baseline(
        self,
        out: str | Path,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
    ) -> "Baseline":
        """Write every entity to a file in the load format, and give the cursor of the first change after it.

        Example:
            >>> start = graph.baseline("everything.jsonl")
            >>> graph.changes(since=start.cursor).blocks
            ()
        """
        from omnigraphdb.engine.history.feed import baseline

        target = self._target(branch, "baseline")
        named = names_of("types", types)
        file = Path(path_of("out", out))
        return baseline(self._engine, target, file, named)

    def duckdb(
        self, *, branch: str | None = None, at: Reference | None = None
    ) -> "duckdb.DuckDBPyConnection":
        """Open a DuckDB connection with one view for each type: `node.Person`, `edge.Knows`, or `Person` and `Knows`.

        The views show the graph as it is now, or was at `at`, for as long as the connection is open; Lance reads the
        columns that a statement names and evaluates the filters that DuckDB passes on.

        Example:
            >>> with graph.duckdb() as connection:
            ...     connection.sql("select count(*) from Person where name = 'Ada'").fetchall()
            [(1,)]
        """
        return self._read(branch, at, Snapshot.duckdb)

    def to_networkx(
        self,
        types: Sequence[str] | None = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> "networkx.MultiDiGraph[tuple[str, str]]":
        """A networkx graph of all types, or of some: nodes are `(type, id)`, edges have their id as key.

        Attributes are `type`, `id` and the properties that are not NULL; blobs are left out. The ends of an edge are
        nodes even if their type is not among `types`.

        Example:
            >>> network = graph.to_networkx()
            >>> network.has_edge(("Person", "Ada"), ("Person", "Bo"))
            True
        """
        return self._read(branch, at, lambda seen: seen.to_networkx(types))
