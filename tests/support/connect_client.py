"""A program that knows a Spark Connect server and nothing else of Spark: it does everything once and says what came of it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omnigraphdb
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"


def main(address: str, home: Path) -> dict[str, Any]:
    """Do everything; an error of ours is an answer, any other one ends the program."""
    from omnigraphdb.spark import register, session

    spark = session(address)
    register(spark)
    with omnigraphdb.init(home / "graph", SCHEMA) as graph:
        work = Work(spark, graph, home)
        steps: list[Callable[[], Any]] = [
            work.load_frames, work.load_records, work.load_file, work.refuse, work.read, work.write,
            work.transact, work.empty, work.query, work.export, work.batches, work.stream, work.feed,
        ]  # fmt: skip
        return {step.__name__: report(step) for step in steps}


def report(step: Callable[[], Any]) -> Any:
    """What a step answers."""
    try:
        return step()
    except OmniError as error:
        return {"error": type(error).__name__, "message": str(error)}


class Work:
    """One session and one graph."""

    def __init__(self, spark: Any, graph: omnigraphdb.Graph, home: Path) -> None:
        self.spark, self.graph, self.home = spark, graph, home

    def people(self, *names: str) -> Any:
        return self.spark.createDataFrame([(name, 1) for name in names], "name string, age int")

    def names(self) -> list[str]:
        return sorted(self.graph.table("Person")["name"].to_pylist())

    # ---- steps

    def load_frames(self) -> Any:
        edges = self.spark.createDataFrame([("a", "b")], "src string, dst string")
        done = self.graph.load({"Person": self.people("a", "b"), "Knows": edges}, mode="append")
        return [done.engine, done.tables]

    def load_records(self) -> Any:
        record = {"type": "Person", "data": {"name": "c"}}
        return self.graph.load([record], mode="append", spark=self.spark).engine

    def load_file(self) -> Any:
        path = self.home / "more.jsonl"
        path.write_text('{"type": "Person", "data": {"name": "d"}}\n')
        return [self.graph.load(path, mode="merge", spark=self.spark).engine, self.names()]

    def refuse(self) -> Any:
        wrong = [{"edge": "Knows", "from": "a", "to": "nobody", "data": {}}]
        return self.graph.load(wrong, mode="append", spark=self.spark).engine

    def read(self) -> Any:
        reader = self.spark.read.format("omnigraph").option("type", "Person")
        return sorted(
            row.name for row in reader.option("columns", "name").load(self.graph.uri).collect()
        )

    def write(self) -> Any:
        writer = self.people("e").write.format("omnigraph").mode("append")
        writer.option("type", "Person").save(self.graph.uri)
        return self.names()

    def transact(self) -> Any:
        from omnigraphdb.spark import Transaction

        with Transaction(self.graph, self.spark) as transaction:
            transaction.append("Person", self.people("f"))
            transaction.append("Person", self.people("g"))
        assert transaction.commit is not None
        return [list(transaction.commit.tables), self.names()]

    def empty(self) -> Any:
        none = self.spark.createDataFrame([], "src string, dst string")
        self.graph.load({"Knows": none}, mode="overwrite")
        return self.graph.table("Knows").num_rows

    def query(self) -> Any:
        text = "query q() { match { $p: Person } return { count($p) as n } }"
        return self.graph.query(text, spark=self.spark).rows

    def export(self) -> Any:
        report = self.graph.export_files(self.home / "out", spark=self.spark)
        return [report.engine, sum(one.rows for one in report.parts)]

    def batches(self) -> Any:
        from omnigraphdb.spark import each_batch

        write = each_batch(self.graph, lambda tx, batch: tx.merge("Person", batch), stream="s")
        query = self._run(self._arriving("h").writeStream.foreachBatch(write), "batches")
        commits = self.graph._engine.view(MAIN).lineage.commits
        return [self.names(), f"s@{query.id}#0" in {commit.batch_id for commit in commits}]

    def stream(self) -> Any:
        writer = self._arriving("i").writeStream.format("omnigraph").option("path", self.graph.uri)
        self._run(writer.option("type", "Person").option("load_mode", "merge"), "stream")
        return self.names()

    def feed(self) -> Any:
        changes = self.spark.readStream.format("omnigraph-changes").option("types", "Person")
        writer = changes.load(self.graph.uri).writeStream.format("memory").queryName("seen")
        writer.trigger(availableNow=True).start().awaitTermination()
        return self.spark.sql("select count(*) as n from seen where op = 'insert'").first().n

    def _arriving(self, name: str) -> Any:
        folder = self.home / f"in-{name}"
        folder.mkdir()
        (folder / "1.json").write_text(json.dumps({"name": name, "age": 5}))
        return self.spark.readStream.schema("name string, age int").json(str(folder))

    def _run(self, writer: Any, name: str) -> Any:
        place = writer.option("checkpointLocation", str(self.home / f"at-{name}"))
        query = place.trigger(availableNow=True).start()
        query.awaitTermination()
        return query


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]))) + "\n")
