"""What a load in steps asks of the store: as many commits as tables, however many splits there are."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.engine.write.load import load
from omnigraphdb.engine.write.runner_choice import RunnerChoice
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.storage.counters import Cost, counting

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


def lines(count: int) -> str:
    people = ({"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(count))
    edges = ({"edge": "Knows", "from": f"p{n}", "to": f"p{n // 2}"} for n in range(count))
    return "".join(f"{json.dumps(one)}\n" for one in (*people, *edges))


def asked(home: Path, source: Path, *, split_bytes: int, mode: str) -> dict[str, int]:
    config: dict[str, Any] = {"split_bytes": split_bytes, "maintenance": "off"}
    with omnigraphdb.init(home, SCHEMA, config=config) as graph:
        if mode == "merge":
            graph.load(source, mode="append", spark=False)
        with counting() as costs:
            load(
                graph._engine,
                source,
                mode=mode,
                choose_runner=lambda _: RunnerChoice(LocalRunner(2), "a test"),
            )
        return costs.as_dict()


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_commits_and_small_objects_do_not_grow_with_the_splits(tmp_path: Path, mode: str) -> None:
    source = tmp_path / "some.jsonl"
    source.write_text(lines(400))
    few = asked(tmp_path / "few", source, split_bytes=20_000, mode=mode)
    many = asked(tmp_path / "many", source, split_bytes=1_000, mode=mode)
    assert few[Cost.TABLE_COMMITS] == many[Cost.TABLE_COMMITS] == 2
    for cost in (Cost.OBJECT_WRITES, Cost.OBJECT_READS, Cost.OBJECT_LISTS, Cost.MANIFEST_OPENS):
        assert many.get(cost, 0) == few.get(cost, 0), cost
    assert many.get(Cost.TABLE_OPENS, 0) <= few.get(Cost.TABLE_OPENS, 0)
