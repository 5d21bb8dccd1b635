"""Streams into a graph: every micro-batch one transaction, written once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from omnigraph.engine.session.engine import Engine
from omnigraph.errors import UserInputError
from omnigraph.ids import MAIN
from omnigraph.pipeline.location import StoreLocation
from omnigraph.spark.batches import Batch, query_of
from omnigraph.spark.places import absolute, engine_at
from omnigraph.spark.transaction import Transaction
from omnigraph.spark.writes import Handle
from omnigraph.values import dataclass

Fill = Callable[[Transaction, DataFrame], None]


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A graph that another process opens; only the way to it travels."""

    home: StoreLocation
    starter: Any = None
    """The session that started the stream; the session of a batch is a copy that knows no streams."""

    @property
    def _engine(self) -> Engine:
        return engine_at(self.home, read_only=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EachBatch:
    """Writes one micro-batch after the other; under Spark Connect the server does it, and opens the graph itself."""

    graph: Handle
    fill: Fill
    stream: str
    branch: str
    actor: str | None

    def __call__(self, frame: DataFrame, number: int) -> None:
        starter = self.graph.starter if isinstance(self.graph, _Elsewhere) else None
        query = query_of(frame.sparkSession, starter, self.stream)
        # Whoever calls this without a query numbers batches alone.
        name = self.stream if query is None else f"{self.stream}@{query}"
        batch = Batch(stream=name, number=number, former=self.stream if query else None)
        transaction = Transaction(
            self.graph,
            frame.sparkSession,
            branch=self.branch,
            actor=self.actor,
            batch_id=batch.id,
        )
        try:
            if not transaction.holds(batch):
                with transaction:
                    self.fill(transaction, frame)
        finally:
            if isinstance(self.graph, _Elsewhere):
                transaction.release()

    def __reduce__(self) -> tuple[object, ...]:
        graph = self.graph
        home = graph.home if isinstance(graph, _Elsewhere) else graph._engine.home
        # A relative path means another place in another process.
        there = replace(home, uri=absolute(home.uri))
        return _make_batch_writer, (there, self.fill, self.stream, self.branch, self.actor)


def _make_batch_writer(
    home: StoreLocation, fill: Fill, stream: str, branch: str, actor: str | None
) -> EachBatch:
    starter = SparkSession.getActiveSession()
    return EachBatch(
        graph=_Elsewhere(home, starter), fill=fill, stream=stream, branch=branch, actor=actor
    )


def each_batch(
    graph: Handle,
    fill: Fill,
    *,
    stream: str,
    branch: str = MAIN,
    actor: str | None = None,
) -> EachBatch:
    """Make a function for `foreachBatch`: `fill` puts what a batch brings into a transaction.

    A batch is known by `stream`, by the query whose id the checkpoint holds, and by its number; one that was written
    before is not written again. A stream that begins with a new checkpoint writes all of its batches.
    """
    if not stream:
        raise UserInputError(
            "a stream into a graph needs a name that it keeps; nothing was written"
        )
    return EachBatch(graph=graph, fill=fill, stream=stream, branch=branch, actor=actor)
