"""A driver program that runs one verb after another on a cluster, as a test orders them line by line."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

import omnigraphdb
from omnigraphdb.errors import OmniError
from omnigraphdb.pipeline.progress import Progress
from tests.support.replacing import two_commits

SCHEMA = """
node Person { name: String @key  age: I32? @index }
edge Knows: Person -> Person { since: I32? }
"""
CONFIG = {"split_bytes": 1 << 14, "small_work_bytes": 0, "small_work_rows": 0}
COLUMNS = "name string, age int"
OWN_FILE = 900
"""A file number that no other process uses."""


def run_verb(order: dict[str, Any], spark: Any) -> None:
    """Run the verb of an order; `spark` is False for this process alone."""
    home, uri, options = Path(order["home"]), order["uri"], order["options"]
    if order["verb"] == "stream":
        run_stream(uri, options, home, spark)
        return
    if order["verb"] in ("read", "write"):
        run_source(order["verb"], uri, options, spark, home)
        return
    with omnigraphdb.open(uri, storage_options=options, config=CONFIG) as graph:
        match order["verb"]:
            case "load":
                files = {name: str(home / f"{name}.parquet") for name in ("Person", "Knows")}
                graph.load(files, mode="append", spark=spark, progress=say_phase)
            case "replace":
                graph.load(
                    {"Person": str(home / "Former.parquet")},
                    mode="merge",
                    spark=spark,
                    progress=say_phase,
                )
            case "merge":
                graph.merge("draft", spark=spark, progress=say_phase)
            case "export":
                out = home / order["out"]
                graph.export_files(out, format="parquet", spark=spark or None, progress=say_phase)
            case "index":
                graph.ensure_indices(spark=spark or None, progress=say_phase)
            case "unreachable":
                with open_own(home / "Person.parquet", home / "own.parquet"):
                    graph.load({"Person": str(home / "own.parquet")}, mode="append", spark=spark)


@contextmanager
def open_own(file: Path, link: Path) -> Iterator[None]:
    """Open a file under a name that only this process can read."""
    number = os.open(file, os.O_RDONLY)
    os.dup2(number, OWN_FILE)
    link.symlink_to(f"/proc/self/fd/{OWN_FILE}")
    try:
        yield
    finally:
        os.close(OWN_FILE)
        os.close(number)


def say_phase(progress: Progress) -> None:
    """Say that a phase begins."""
    if progress.done == 0:
        say({"phase": progress.phase})


def run_source(verb: str, uri: str, options: dict[str, str], spark: Any, home: Path) -> None:
    """Read or append the rows of a type by `format("omnigraph")`."""
    register_sources(spark)
    stored = {f"store.{name}": value for name, value in options.items()} | {"type": "Person"}
    if verb == "read":
        spark.read.format("omnigraph").options(**stored).load(uri).toArrow()
        return
    rows = spark.read.parquet(str(home / "Person.parquet"))
    rows.write.format("omnigraph").mode("append").options(**stored).save(uri)


def run_stream(uri: str, options: dict[str, str], home: Path, spark: Any) -> None:
    """Append the files that arrived, one micro-batch each, up to the last of them."""
    register_sources(spark)
    arriving = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    writer = (
        arriving.json(str(home / "in")).writeStream.format("omnigraph").option("type", "Person")
    )
    for name, value in options.items():
        writer = writer.option(f"store.{name}", value)
    writer = writer.option("checkpointLocation", str(home / "at")).trigger(availableNow=True)
    writer.start(uri).awaitTermination()


def register_sources(spark: Any) -> None:
    """Register the data sources, which refuses executors with other versions."""
    from omnigraphdb.spark import register

    register(spark)


def answer(order: dict[str, Any], spark: Any) -> dict[str, Any]:
    """Run an order and say what came of it."""
    try:
        run_verb(order, spark)
    except OmniError as error:
        return {"error": str(error), "kind": error.kind, "hint": error.hint}
    except PySparkException as error:
        # Streams belong to Spark, and so do their errors.
        return {"error": str(error), "kind": "spark", "hint": None}
    return {"error": None}


def main(master: str, conf: dict[str, str]) -> None:
    """Answer orders until there are no more."""
    from omnigraphdb.spark import session

    spark = session(master, memory="1g", quick=True, **conf)
    say({"ready": True})
    # Whatever dies may die between the two commits that replace many rows.
    with two_commits():
        for line in sys.stdin:
            say(answer(json.loads(line), spark))
    spark.stop()


def say(what: dict[str, Any]) -> None:
    """Write one line that the test reads; other lines are Spark's."""
    print("answer " + json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
