"""Damaged files: every verb answers in our words or does its work, and nothing more is lost than was damaged."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance.issues import Examination
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN, TableKey

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
ALL = "query q() { match { $p: Person } return { $p.name, $p.age } }"
HOP = 'query q() { match { $p: Person { name: "p1" }  $p knows $f } return { $f } }'
VERBS: dict[str, Callable[[Graph], object]] = {
    "query": lambda graph: graph.query(ALL).rows,
    "hop": lambda graph: graph.query(HOP).rows,
    "branch": lambda graph: graph.query(ALL, branch="side").rows,
    "export": lambda graph: list(graph.export()),
    "history": lambda graph: (graph.commits(), graph.branches()),
    "doctor": lambda graph: graph.doctor(),
    "insert": lambda graph: graph.mutate('query q() { insert Person { name: "new" } }'),
    "update": lambda graph: graph.mutate(
        "query q() { update Person set { age: 9 } where age > 1 }"
    ),
    "merge": lambda graph: graph.merge("side"),
    "optimize": lambda graph: graph.optimize(),
    "cleanup": lambda graph: graph.cleanup(keep=1, confirm=True),
}
ANSWERS = {name: VERBS[name] for name in ("query", "hop", "branch", "export")}
"""What a damaged graph must not answer differently."""
HOW: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "noise": lambda content: b"?" * len(content),
}
WHERE = {
    "manifest": "__manifest/_versions/*.manifest",
    "rows of the manifest": "__manifest/data/*",
    "deletions of the manifest": "__manifest/_deletions/*",
    "a branch": "__manifest/_refs/branches/*",
    "a table": "{person}/_versions/*.manifest",
    "rows of a table": "{person}/data/*",
    "deletions of a table": "{person}/_deletions/*",
    "a fork": "{person}/_refs/branches/*",
    "schema text": "_schema.pg",
    "contract": "_schema.ir.json",
    "seal": "__schema_state.json",
}


HARMLESS = {("a fork", "gone")}
"""The manifest knows where a fork lies; its ref is for those who clean up."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A graph with a branch, and a copy of it to be put back."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        people = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(9)]
        graph.load([*people, {"edge": "Knows", "from": "p1", "to": "p2"}], mode="append")
        graph.branch_create("side")
        graph.mutate('query q() { insert Person { name: "s" } }', branch="side")
        graph.mutate('query q() { update Person set { age: 3 } where name = "p3" }')
    shutil.copytree(tmp_path / "g", tmp_path / "whole")
    yield tmp_path / "g"
    put_back(tmp_path / "g")
    with omnigraphdb.open(tmp_path / "g") as graph:
        assert (graph.table("Person").num_rows, graph.doctor()) == (9, [])


def put_back(home: Path) -> None:
    shutil.rmtree(home)
    shutil.copytree(home.with_name("whole"), home)


def damage(home: Path, where: str, how: Callable[[bytes], bytes] | None) -> None:
    with omnigraphdb.open(home, read_only=True) as graph:
        person = graph._engine.view(MAIN).snapshot.entries[TableKey("node:Person")].at.path
    files = sorted(home.glob(WHERE[where].format(person=person)))
    assert files
    for file in files:
        if how is None:
            os.remove(file)
        else:
            file.write_bytes(how(file.read_bytes()))


@pytest.mark.parametrize("how", ["half", "noise", "gone"])
@pytest.mark.parametrize("where", WHERE)
def test_what_is_damaged_is_told_in_our_words(home: Path, where: str, how: str) -> None:
    told: list[str] = []
    for verb in VERBS:
        with omnigraphdb.open(home) as graph:
            right = ANSWERS[verb](graph) if verb in ANSWERS else None
        damage(home, where, HOW.get(how))
        try:
            with omnigraphdb.open(home) as graph:
                answer = VERBS[verb](graph)
        except OmniError as error:
            told.append(str(error))
        else:
            # What can still be answered is answered as if nothing was damaged.
            assert right is None or answer == right, verb
            if isinstance(answer, Examination):
                told += [issue.message for issue in answer]
        put_back(home)
    assert told or (where, how) in HARMLESS
    assert not [
        one for one in told if re.search(r"\.rs:\d|Please file|Traceback|0x[0-9a-f]{6}", one)
    ]


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_table_says_what_can_be_done_and_spares_the_others(home: Path, how: str) -> None:
    damage(home, "rows of a table", HOW[how])
    with omnigraphdb.open(home) as graph:
        with pytest.raises(omnigraphdb.StorageError, match="a file of it is damaged") as caught:
            graph.query(ALL)
        assert "copy of the graph" in str(caught.value.hint)
        assert graph.table("Knows").num_rows == 1


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"parentBranch": null}', b'"x"'])
def test_a_damaged_branch_is_named_and_spares_main(home: Path, text: bytes) -> None:
    (home / "__manifest" / "_refs" / "branches" / "side.json").write_bytes(text)
    with omnigraphdb.open(home, read_only=True) as graph:
        with pytest.raises(omnigraphdb.StorageError, match="'side'"):
            graph.query(ALL, branch="side")
        assert graph.table("Person").num_rows == 9
