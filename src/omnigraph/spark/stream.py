"""Streams into a graph from the driver's own process: every micro-batch one transaction, written once."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from omnigraph.errors import UserInputError
from omnigraph.ids import MAIN
from omnigraph.spark.transaction import Transaction
from omnigraph.spark.writes import Handle

EachBatch = Callable[[Transaction, DataFrame], None]


def each_batch(
    graph: Handle,
    fill: EachBatch,
    *,
    stream: str,
    branch: str = MAIN,
    actor: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Make a function for `foreachBatch`: `fill` puts what a batch brings into a transaction.

    `stream` names the stream and must stay the same when it is started again: with it the batch is recognised, and a
    batch that was written before is not written again.
    """
    if not stream:
        raise UserInputError(
            "a stream into a graph needs a name that it keeps; nothing was written"
        )

    def write(batch: DataFrame, number: int) -> None:
        with Transaction(
            graph, batch.sparkSession, branch=branch, actor=actor, batch_id=f"{stream}#{number}"
        ) as transaction:
            fill(transaction, batch)

    return write
