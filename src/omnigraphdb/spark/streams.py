"""Streams into a graph: every micro-batch is one commit, and a batch that Spark runs again is not written again."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit
from omnigraphdb.errors import ConfigError, NotFound, UserInputError, warn_caller
from omnigraphdb.ids import MAIN
from omnigraphdb.logs import get_logger
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.runtime import us_of
from omnigraphdb.spark.options import make_absolute, open_at
from omnigraphdb.spark.transaction import Transaction
from omnigraphdb.spark_jobs.session import is_connect
from omnigraphdb.values import dataclass

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property that holds the id of the running query, which Spark keeps in the checkpoint."""

Fill = Callable[[Transaction, DataFrame], None]

_log = get_logger(__name__)


# ---- which batch it is


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One micro-batch: its stream, its number, and the name that earlier versions gave the stream."""

    stream: str
    """Holds the id of the query, so that a stream with a new checkpoint is another stream."""
    number: int
    former: str | None = None
    planned_at: int | None = None
    """When Spark planned the batch, in microseconds; None where the checkpoint cannot be read."""

    @property
    def id(self) -> str:
        """The batch id that the commit keeps."""
        return f"{self.stream}#{self.number}"

    def was_written_by_name(self, graph: Graph, branch: str) -> bool:
        """Whether an earlier version wrote this batch: its commits name the stream, not the query."""
        if self.former is None:
            return False
        commits = _list_commits(graph, branch)
        former_id = f"{self.former}#{self.number}"
        commit = next((candidate for candidate in commits if candidate.batch_id == former_id), None)
        if commit is None or not self._is_batch_of(commit, commits):
            return False
        _log.warning("batch.skipped", batch_id=self.id, commit=commit.id)
        warn_caller(
            f"batch '{self.id}' was loaded before, in commit {commit.id}; nothing was written"
        )
        return True

    def _is_batch_of(self, commit: Commit, commits: Sequence[Commit]) -> bool:
        """Whether a commit of the same name and number holds this batch, not a batch of a deleted checkpoint."""
        if self.planned_at is not None:
            return self.planned_at <= us_of(commit.created_at)
        if any(_parse_number(candidate, self.stream) is not None for candidate in commits):
            return False
        # Spark runs only its last batch again.
        if self.number != max(
            _parse_number(candidate, str(self.former)) or 0 for candidate in commits
        ):
            return False
        if self.number == 0:
            raise UserInputError(
                f"stream '{self.former}' has a first batch in commit {commit.id}, and its checkpoint does not tell "
                "whether this is the same one; nothing was written",
                hint="give the stream another name to write the batch; where it merges, that changes nothing twice",
            )
        return True


def _list_commits(graph: Graph, branch: str) -> Sequence[Commit]:
    try:
        return graph.commits(branch=branch)
    except NotFound:
        # The first batch of a stream may create its branch.
        return ()


def _parse_number(commit: Commit, stream: str) -> int | None:
    """Parse the batch number of a commit; None when the commit does not belong to the stream."""
    name, _, number = (commit.batch_id or "").rpartition("#")
    return int(number) if name == stream and number.isdigit() else None


def read_planned_at(checkpoint: str | None, number: int) -> int | None:
    """Return the time in microseconds when Spark planned a batch; None where this machine has no such checkpoint directory."""
    if checkpoint is None:
        return None
    path = Path(checkpoint.removeprefix("file://").removeprefix("file:")) / "offsets" / str(number)
    try:
        facts = json.loads(path.read_text().splitlines()[1])
        return int(facts["batchTimestampMs"]) * 1000
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _find_query(session: Any, starter: Any, stream: str) -> str | None:
    """Find the id of the query that runs the batch; None when no query runs it.

    Under Connect a batch does not name its query: it is the only query of the session that started the stream, or
    the one with the name of the stream.
    """
    if not is_connect(session):
        query: str | None = session.sparkContext.getLocalProperty(QUERY_ID)
        return query
    active = [] if starter is None else list(starter.streams.active)
    if len(active) > 1:
        active = [query for query in active if query.name == stream]
        if not active:
            raise ConfigError(
                f"several streams run in this session, and none has the name '{stream}'; nothing was written",
                hint=f"start the stream with .queryName('{stream}')",
            )
    return str(active[0].id) if active else None


# ---- the function for foreachBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTarget:
    """The target of a stream: the function by which a batch fills a transaction, and the names that it commits under."""

    fill: Fill
    stream: str
    branch: str
    actor: str | None

    def write(self, graph: Graph, frame: DataFrame, number: int, starter: Any = None) -> None:
        """Write one micro-batch, unless it was written before; `starter` is the session that started the stream."""
        query = _find_query(frame.sparkSession, starter, self.stream)
        # A caller without a query gives numbers of its own.
        name = self.stream if query is None else f"{self.stream}@{query}"
        batch = MicroBatch(stream=name, number=number, former=self.stream if query else None)
        transaction = Transaction(
            graph, frame.sparkSession, branch=self.branch, actor=self.actor, batch_id=batch.id
        )
        if not batch.was_written_by_name(graph, self.branch):
            with transaction:
                self.fill(transaction, frame)


@dataclass(frozen=True, slots=True)
class EachBatch:
    """Writes one micro-batch after another into an open graph; only the location of the graph is pickled."""

    graph: Graph
    target: StreamTarget

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.target.write(self.graph, frame, number)

    def __reduce__(self) -> tuple[object, ...]:
        location = self.graph.location
        # Another process has another working directory.
        location = replace(location, uri=make_absolute(location.uri))
        return _make_remote, (location, self.target)


@dataclass(frozen=True, slots=True)
class RemoteEachBatch:
    """Writes micro-batches in another process, as under Spark Connect: it opens the graph for every batch."""

    location: StoreLocation
    target: StreamTarget
    starter: Any
    """The session that started the stream; the session of a batch is a copy that lists no streams."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        with open_at(self.location, read_only=False) as graph:
            self.target.write(graph, frame, number, self.starter)

    def __reduce__(self) -> tuple[object, ...]:
        return _make_remote, (self.location, self.target)


def _make_remote(location: StoreLocation, target: StreamTarget) -> RemoteEachBatch:
    return RemoteEachBatch(location, target, SparkSession.getActiveSession())


def each_batch(
    graph: Graph,
    fill: Fill,
    *,
    stream: str,
    branch: str = MAIN,
    actor: str | None = None,
) -> EachBatch:
    """Make a function for `foreachBatch`: `fill` puts the rows of a batch into a transaction.

    The batch id consists of `stream`, the id of the query (which the checkpoint holds) and the batch number; a batch
    that was written before is not written again. A stream with a new checkpoint writes all of its batches.
    """
    if not stream:
        raise UserInputError(
            "a stream into a graph needs a name that it keeps; nothing was written"
        )
    return EachBatch(graph, StreamTarget(fill=fill, stream=stream, branch=branch, actor=actor))
