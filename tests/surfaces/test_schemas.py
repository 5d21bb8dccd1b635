"""Nine graphs as people keep them: the same story by commands and from Python, with the same answers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb import Catalog, Graph
from omnigraphdb.catalog.model import EdgeType, NodeType
from tests.support.settled import assert_settled

FOLDER = Path(__file__).parents[2] / "examples" / "schemas"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/schema.pg"))
BY_COMMANDS = [
    # One of them runs every day; each is ten processes.
    pytest.param(name, marks=[] if name == "clinic" else [pytest.mark.soak])
    for name in NAMES
]


@pytest.mark.parametrize("name", BY_COMMANDS)
def test_commands_alone_bring_a_graph_through_its_life(name: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(FOLDER / "run.sh"), str(FOLDER / name), str(tmp_path)],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = (FOLDER / name / "answers.csv").read_text()
    assert (tmp_path / "answers.csv").read_text() == answers
    assert (tmp_path / "again.csv").read_text() == answers
    with omnigraphdb.open(tmp_path / "graph.omni") as graph:
        assert_settled(graph)


@pytest.mark.parametrize("name", NAMES)
def test_python_gives_the_answers_of_the_commands(name: str, tmp_path: Path) -> None:
    schema = FOLDER / name / "schema.pg"
    with omnigraphdb.init(tmp_path / "g", schema, actor="ada") as graph:
        graph.load(FOLDER / name / "data.jsonl", mode="append")
        graph.branch_create("review")
        apply_changes(graph, (FOLDER / name / "changes.txt").read_text())
        assert graph.diff("main", "review").changes
        assert graph.merge("review", granularity="property").outcome == "merged"
        assert ask(graph, name) == (FOLDER / name / "answers.csv").read_text()
        exported = list(graph.export())
        assert_settled(graph)
    with omnigraphdb.init(tmp_path / "copy", schema) as copy:
        copy.load(exported, mode="append")
        assert ask(copy, name) == (FOLDER / name / "answers.csv").read_text()
        assert list(copy.export()) == exported


def apply_changes(graph: Graph, text: str) -> None:
    """Run the statements of a file: a group is one commit, `.branch` names where."""
    for part in re.split(r"^(?=\.branch)", text, flags=re.M)[1:]:
        line, _, statements = part.partition("\n")
        for group in statements.strip().split("\n\n"):
            done = graph.mutate(f"query change() {{ {group} }}", branch=line.split()[1])
            assert done.commit is not None, group


def ask(graph: Graph, name: str) -> str:
    """The answers as the shell prints them."""
    questions = (FOLDER / name / "questions.txt").read_text().split(";\n")[:-1]
    return "".join(graph.query(f"query q() {{ {one} }}").to_csv() + "\n" for one in questions)


def test_together_they_use_every_type_and_constraint() -> None:
    catalogs = [omnigraphdb.parse_schema(FOLDER / name / "schema.pg") for name in NAMES]
    assert len(catalogs) == 9
    types = {re.sub(r"\(.*\)|\?", "", shown) for one in catalogs for shown in _types(one)}
    scalars = {"String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"}
    assert types == {*scalars, *(f"[{one}]" for one in scalars), "enum", "Vector", "Blob"}
    text = "".join((FOLDER / name / "schema.pg").read_text() for name in NAMES)
    rules = {"key", "unique", "index", "range", "check", "card", "embed", "description"}
    assert {*re.findall(r"@(\w+)", text)} == {*rules, "instruction", "severity"}
    assert "interface" in text


def _types(catalog: Catalog) -> list[str]:
    tables: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return [str(one.type) for table in tables for one in table.properties.values()]
