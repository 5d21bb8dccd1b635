"""The five records of docs/internals/loading.md take the steps and have the outcome that the page describes."""

import re
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.errors import ReferentialError
from omnigraphdb.pipeline.progress import Progress
from tests.support.settled import assert_settled

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "loading.md"
IN_STEPS = {"small_work_bytes": 0, "small_work_rows": 0}


def test_the_five_records_of_the_page_are_loaded_as_it_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    found = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert found is not None
    lines = found[1]
    schema = "node Person { age: I32? }\nedge Knows: Person -> Person"
    file = tmp_path / "five.jsonl"
    file.write_text(lines)
    with omnigraphdb.init(tmp_path / "g", schema, config=IN_STEPS) as graph:
        graph.load([{"type": "Person", "data": {"id": "bo", "age": 39}}], mode="append")
        steps: list[Progress] = []
        with pytest.raises(ReferentialError) as caught:
            graph.load(file, mode="merge", spark=False, progress=steps.append)
        assert str(caught.value).partition("five.jsonl")[2] in page
        phases = [one.phase for one in steps if not one.done]
        assert phases == ["check", "ends", "meet", "decide", "decide"]
        steps.clear()
        file.write_text(lines.replace('"to": "cy"', '"to": "ada"'))
        graph.load(file, mode="merge", spark=False, progress=steps.append)
        assert [one.phase for one in steps if not one.done] == [
            "check",
            "ends",
            "meet",
            "stage",
            "commit",
        ]
        people = {row["id"]: row["age"] for row in graph.table("Person").to_pylist()}
        assert (people, graph.table("Knows").num_rows) == ({"bo": 40, "ada": 37}, 2)
        assert_settled(graph)
