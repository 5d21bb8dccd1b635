"""Streams into a graph: every micro-batch one transaction, written once."""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame

from omnigraph.engine.engine import Engine
from omnigraph.errors import UserInputError
from omnigraph.ids import MAIN
from omnigraph.pipeline.home import Home
from omnigraph.spark.places import absolute, engine_at
from omnigraph.spark.transaction import Transaction
from omnigraph.spark.writes import Handle
from omnigraph.values import dataclass

Fill = Callable[[Transaction, DataFrame], None]


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A graph that another process opens; only the way to it travels."""

    home: Home

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

    def __call__(self, batch: DataFrame, number: int) -> None:
        transaction = Transaction(
            self.graph,
            batch.sparkSession,
            branch=self.branch,
            actor=self.actor,
            batch_id=f"{self.stream}#{number}",
        )
        try:
            with transaction:
                self.fill(transaction, batch)
        finally:
            if isinstance(self.graph, _Elsewhere):
                transaction.release()

    def __reduce__(self) -> tuple[object, ...]:
        graph = self.graph
        home = graph.home if isinstance(graph, _Elsewhere) else graph._engine.home
        # A relative path means another place in another process.
        there = replace(home, uri=absolute(home.uri))
        return _arrived, (there, self.fill, self.stream, self.branch, self.actor)


def _arrived(home: Home, fill: Fill, stream: str, branch: str, actor: str | None) -> EachBatch:
    return EachBatch(graph=_Elsewhere(home), fill=fill, stream=stream, branch=branch, actor=actor)


def each_batch(
    graph: Handle,
    fill: Fill,
    *,
    stream: str,
    branch: str = MAIN,
    actor: str | None = None,
) -> EachBatch:
    """Make a function for `foreachBatch`: `fill` puts what a batch brings into a transaction.

    `stream` names the stream and must stay the same when it is started again: with it the batch is recognised, and a
    batch that was written before is not written again.
    """
    if not stream:
        raise UserInputError(
            "a stream into a graph needs a name that it keeps; nothing was written"
        )
    return EachBatch(graph=graph, fill=fill, stream=stream, branch=branch, actor=actor)
