"""A driver program in a process of its own, so that a test can limit and kill it: loads one source into one graph."""

import json
import os
import sys
from dataclasses import replace
from typing import Any

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.loading import make_runner_choice
from omnigraphdb.api.runners import workers_of
from omnigraphdb.engine.write.load import load
from omnigraphdb.engine.write.runner_choice import RunnerChoice
from omnigraphdb.errors import OmniError
from omnigraphdb.pipeline.input.cut import Size
from omnigraphdb.pipeline.progress import Progress
from tests.support.spark_cluster import peak_bytes


def main(order: dict[str, Any]) -> dict[str, Any]:
    """Load as ordered and say what came of it."""
    from omnigraphdb.spark import session

    spark = session(order["master"], memory=order.get("memory", "1g"), **order.get("conf", {}))
    try:
        with omnigraphdb.open(order["uri"], config=order.get("config")) as graph:
            try:
                return loaded(graph, order, spark)
            except OmniError as error:
                return {
                    "error": str(error),
                    "kind": error.kind,
                    "total": getattr(error, "total", None),
                }
    finally:
        spark.stop()


def loaded(graph: Graph, order: dict[str, Any], spark: Any) -> dict[str, Any]:
    """Load, and say how much memory this process needed: up to the commit, and with the indexes after it."""
    engine = graph._engine
    peaks: list[int] = []

    def choose_runner(size: Size) -> RunnerChoice:
        return replace(
            make_runner_choice(engine, spark)(size), index_workers=workers_of(engine, spark)
        )

    def note_peak(_: Progress) -> None:
        peaks.append(peak_bytes(os.getpid()))

    done = load(
        engine,
        order["source"],
        mode=order["mode"],
        choose_runner=choose_runner,
        on_progress=note_peak,
    )
    peak = peaks[0] if peaks else peak_bytes(os.getpid())
    return {
        "engine": done.engine,
        "tables": dict(done.tables),
        "commit": None if done.commit is None else done.commit.id,
        "peak": peak,
        "peak_indexed": peak_bytes(os.getpid()),
    }


if __name__ == "__main__":
    print("\n" + json.dumps(main(json.loads(sys.argv[1]))))
