"""The tasks and the commit of a Spark writer, called as Spark calls them, in one process."""

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from omnigraphdb.api.graph import Graph
from omnigraphdb.spark import GraphSource
from omnigraphdb.spark.sink import BatchWriter, TaskMessage


def make_writer(
    graph: Graph, type_name: str, *, overwrite: bool = False, **options: str
) -> BatchWriter:
    """Make the writer of a frame; it pins what it writes for."""
    source = GraphSource({"path": graph.uri, "type": type_name, **options})
    return source.writer(StructType([]), overwrite)


def run_tasks(writer: BatchWriter, parts: Sequence[pa.Table]) -> list[TaskMessage]:
    """Run one task for each part; writer and messages are pickled on their way, as between processes."""
    messages: list[TaskMessage] = []
    for number, rows in enumerate(parts):
        sent: Any = pickle.loads(cloudpickle.dumps(writer))
        message = sent.write(iter(rows.to_batches()))
        task = pickle.loads(cloudpickle.dumps(message))
        task.task = type(task.task)(
            partition=number, operation=task.task.operation, portions=task.task.portions
        )
        messages.append(task)
    return messages


def cut(rows: pa.Table, parts: int) -> list[pa.Table]:
    """Cut rows into parts of about the same size."""
    step = -(-rows.num_rows // parts) or 1
    return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]


def write_frame(
    graph: Graph, type_name: str, rows: pa.Table, *, parts: int = 2, **given: Any
) -> list[TaskMessage]:
    """Write a frame whole: its tasks, then its commit."""
    writer = make_writer(graph, type_name, **given)
    messages = run_tasks(writer, cut(rows, parts))
    writer.commit([*messages])
    return messages
