"""Messages to people: each says what is wrong, what was done and what to do next, in the words of its surface."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.surfaces.cli.wording import word_text
from tests.support.commands import runner

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
QUERIES = """\
query all() { match { $p: Person } return { $p.name } }
query one($who: String, $age: I32) { match { $p: Person { name: $who } } return { $p.name } }
"""
SOURCE = Path(omnigraphdb.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("messages")
    (made / "people.pg").write_text(SCHEMA)
    (made / "people.gq").write_text(QUERIES)
    (made / "people.jsonl").write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    with omnigraphdb.init(made / "g", SCHEMA) as graph:
        graph.load(made / "people.jsonl", mode="append")
        graph.branch_create("review")
    return made


@pytest.fixture(scope="module")
def graph(folder: Path) -> Iterator[Graph]:
    with omnigraphdb.open(folder / "g") as graph:
        yield graph


Call = Callable[[Graph, Path], Any]
PYTHON: dict[str, tuple[Call, list[str]]] = {
    "a pandas frame without a type": (
        lambda g, _: g.load(pd.DataFrame({"name": ["x"]}), mode="append"),
        ["needs type=", "no changes were made", "type='Person'"],
    ),
    "an Arrow table without a type": (
        lambda g, _: g.load(pa.table({"name": ["x"]}), mode="append"),
        ["needs type=", "no changes were made"],
    ),
    "a single record": (
        lambda g, _: g.load({"type": "Person", "data": {"name": "x"}}, mode="append"),
        ["a single record goes in a list", "no changes were made"],
    ),
    "a missing parameter": (
        lambda g, _: g.query(QUERIES, "one", {"who": "Ada"}),
        ["parameter 'age' (I32) is missing", "Nothing was run", "$who: String, $age: I32"],
    ),
    "a missing and an unknown parameter": (
        lambda g, _: g.query(QUERIES, "one", {"wo": "Ada", "age": 1}),
        ["parameter 'who' (String) is missing", "no parameter 'wo'; did you mean 'who'?"],
    ),
    "several queries and no name": (
        lambda g, _: g.query(QUERIES),
        ["2 queries (all, one)", "nothing was run", "name='all'"],
    ),
    "a misspelt branch of a diff": (
        lambda g, _: g.diff("main", "reveiw"),
        ["'reveiw' not found", "did you mean 'review'?", "2026-11-15T16:07:00Z"],
    ),
    "a file name in place of a query": (
        lambda g, _: g.query("nofile.gq"),
        ["'nofile.gq' looks like a file name", "nothing was run", "pathlib.Path('nofile.gq')"],
    ),
    "a file name in place of a schema": (
        lambda _, home: omnigraphdb.init(home / "new", "people.pg"),
        ["'people.pg' looks like a file name", "pathlib.Path('people.pg')"],
    ),
    "a file in place of a new graph": (
        lambda _, home: omnigraphdb.init(home / "people.pg", SCHEMA),
        ["people.pg' is a file", "a graph is a folder", "nothing was created"],
    ),
    "a file in place of a graph": (
        lambda _, home: omnigraphdb.open(home / "people.pg"),
        ["people.pg' is a file", "a graph is a folder", "nothing was read"],
    ),
    "an append of what exists": (
        lambda g, home: g.load(home / "people.jsonl", mode="append"),
        ["people.jsonl, line 1", "'Ada' already exists", "no changes were made", "mode='merge'"],
    ),
    "a branch that is not there": (
        lambda g, home: g.load(home / "people.jsonl", mode="append", branch="nope"),
        ["branch 'nope' not found", "from_branch="],
    ),
    "records beside the name of a type": (
        lambda g, _: g.load(
            [{"type": "Person", "data": {"name": "x"}}], type="Person", mode="append"
        ),
        ["unknown property 'type'", "is loaded without type=", "no changes were made"],
    ),
    "a moment before the graph": (
        lambda g, _: g.snapshot(at="2020-01-01"),
        ["state at '2020-01-01", "did not exist yet"],
    ),
    "nothing in place of a branch": (
        lambda g, _: g.merge(cast("Any", None)),
        ["'source' is text, not NoneType", "no changes were made"],
    ),
    "nothing in place of a commit": (
        lambda g, _: g.commit(cast("Any", None)),
        ["'id' is text, not NoneType"],
    ),
    "a branch into itself": (
        lambda g, _: g.merge("main"),
        ["the same branch 'main'", "nothing was written", "into="],
    ),
    "an unknown change": (
        lambda g, _: g.changes(ops=cast("Any", ["upsert"])),
        [
            "'ops' takes insert, update, delete, not 'upsert'; did you mean 'insert'?",
            "nothing was read",
        ],
    ),
    "a misspelt column": (
        lambda g, _: g.snapshot().scan("Person", ["nme"]),
        ["column of Person 'nme' not found; did you mean 'name'?", "id, name, age"],
    ),
    "a misspelt column of a filter": (
        lambda g, _: g.snapshot().scan("Person", ["name"], "agee > 3").read_all(),
        ["'agee > 3' of Person cannot be evaluated", "agee", "nothing was read", "age > 30"],
    ),
    "an empty overwrite": (
        lambda g, _: g.load([], mode="overwrite"),
        ["0 records", "no changes were made", "allow_empty=True"],
    ),
}


@pytest.mark.parametrize("case", PYTHON)
def test_a_wrong_call_is_told_what_to_do(graph: Graph, folder: Path, case: str) -> None:
    call, facts = PYTHON[case]
    with pytest.raises(OmniError) as caught:
        call(graph, folder)
    told = f"{caught.value} {caught.value.hint or ''}"
    assert [fact for fact in facts if fact not in told] == []
    assert re.search(r"(?<!\w)--[a-z]", told) is None, "no flags in Python"


SHELL: dict[str, tuple[str, int, list[str]]] = {
    "several queries and no name": (
        "query --store g --query people.gq",
        1,
        ["2 queries (all, one)", "name one of them after the command: all"],
    ),
    "a missing and an unknown parameter": (
        "query --store g --query people.gq one --param wo=Ada --param age=1",
        1,
        ["'who' (String) is missing", "no parameter 'wo'; did you mean 'who'?"],
    ),
    "the graph as a word of query": (
        "query g all --query people.gq",
        2,
        ["query takes the graph as --store"],
    ),
    "the graph as the only word of query": (
        "query g --query people.gq",
        2,
        ["query takes the graph as --store: --store g"],
    ),
    "a file as a word of load": (
        "load g people.jsonl --mode append",
        2,
        ["'people.jsonl'", "give files with --data"],
    ),
    "a misspelt branch of a diff": (
        "diff main reveiw --uri g",
        1,
        ["'reveiw' not found", "did you mean 'review'?"],
    ),
    "an unknown format": (
        "query --store g --query people.gq all --format yaml",
        2,
        ["--format", "table", "not 'yaml'"],
    ),
    "a file in place of a new graph": (
        "init people.pg --schema people.pg",
        1,
        ["people.pg' is a file", "nothing was created"],
    ),
    "an append of what exists": (
        "load g --data people.jsonl --mode append",
        3,
        ["line 1", "'Ada' already exists", "--mode merge"],
    ),
    "a branch that is not there": (
        "load g --data people.jsonl --mode append --branch nope",
        1,
        ["branch 'nope' not found", "--from"],
    ),
    "a cluster": ("cluster plan", 2, ["cluster", "not in this release"]),
    "embedding files": ("embed --input x", 2, ["embed", "not in this release"]),
    "a flag of clusters": ("snapshot g --cluster x", 2, ["--cluster", "not in this release"]),
}


@pytest.mark.parametrize("case", SHELL)
def test_a_wrong_command_is_told_what_to_do(folder: Path, case: str) -> None:
    typed, code, facts = SHELL[case]
    done = subprocess.run(
        [sys.executable, "-m", "omnigraphdb", *typed.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert [fact for fact in facts if fact not in done.stderr] == []
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert re.search(r"\b(mode|name|from_branch|type)=", done.stderr) is None, "no keywords"


TYPED: dict[str, tuple[str, int, list[str]]] = {
    "a file in place of a graph": (
        "load people.jsonl --mode append",
        2,
        ["give --data people.jsonl and --mode append|merge|overwrite"],
    ),
    "a file in place of a query": (
        "query people.gq --store g",
        2,
        ["query takes a query file as --query: --query people.gq"],
    ),
    "an unknown kind of commits": (
        "commit list g --filter kind=laod",
        2,
        ["kind= takes linear, merge", "not 'laod'; did you mean 'load'?"],
    ),
    "a number that is too small": (
        "commit list g --limit 0",
        2,
        ["--limit: it is 1 or more, not 0"],
    ),
    "a number that is none": ("cleanup g --keep x", 2, ["--keep: it is a whole number, not 'x'"]),
    "an unknown kind of entities": (
        "diff main review --store g --kind nodes",
        2,
        ["--kind: it takes node or edge, not 'nodes'; did you mean 'node'?"],
    ),
    "an unknown granularity": (
        "branch merge review --store g --granularity cell",
        2,
        ["--granularity: it takes row or property, not 'cell'"],
    ),
    "a branch into itself": (
        "branch merge main --store g",
        1,
        ["nothing was written", "with --into"],
    ),
    "a moment before the graph": ("snapshot g --at 2020-01-01", 1, ["state at '2020-01-01T00:00"]),
    "files of rows for a shell": ("shell g --format parquet", 2, ["it takes table, kv, csv"]),
}


@pytest.mark.parametrize("case", TYPED)
def test_a_wrong_word_of_a_command_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    typed, code, facts = TYPED[case]
    monkeypatch.chdir(folder)
    done = runner(monkeypatch, capsys)(*typed.split())
    assert [fact for fact in facts if fact not in done.err] == []
    assert done.code == code


def test_a_row_that_is_not_there_is_told_with_how_many_there_are(graph: Graph) -> None:
    result = graph.query(QUERIES, "all")
    assert result[-1] == result[0]
    for wrong in (1, -2):
        with pytest.raises(IndexError, match=f"there is no row {wrong}: the result has 1 row"):
            result[wrong]


def test_an_update_that_matches_nothing_says_so(folder: Path) -> None:
    text = 'query u() { update Person set { age: 3 } where name = "Zed" }'
    done = subprocess.run(
        [sys.executable, "-m", "omnigraphdb", "mutate", "--store", "g", "-e", text],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "nothing matched; no commit" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("pass from_branch= to create it", "pass --from to create it"),
        ("use mode='merge' to update", "use --mode merge to update"),
        ("or pass allow_empty=True", "or pass --allow-empty"),
        ("rejects='problems.jsonl' writes", "--rejects problems.jsonl writes"),
        ("say who acts: actor=…", "say who acts: --as"),
        ("a name=value pair, and x.type=y", "a name=value pair, and x.type=y"),
    ],
)
def test_keyword_arguments_become_flags(said: str, told: str) -> None:
    assert word_text(said) == told


def test_only_the_command_line_speaks_of_flags() -> None:
    """Below the surfaces a text names keyword arguments, unless it shows a whole command."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.value[:60]!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ("surfaces", "policy", "spark_jobs")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search(r"(?<![\w-])(?<!var\()--[a-z]", node.value)
        and "omnigraphdb " not in node.value
    ]
    assert wrong == []


def test_another_key_that_is_set_suggests_its_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "OMNIGRAPH_EMBED_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OMNIGRAPH_EMBEDDINGS_MOCK", raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    ask = 'query q() { match { $d: D } return { $d.t } order { nearest($d.v, "x") } limit 1 }'
    schema = 'node D { t: String  v: Vector(2)? @embed("t") }'
    with omnigraphdb.init(tmp_path / "g", schema) as made, pytest.raises(OmniError) as caught:
        made.query(ask)
    assert "OMNIGRAPH_EMBED_PROVIDER=gemini" in str(caught.value.hint)
    assert "nothing was read" in str(caught.value)


def test_warnings_name_the_line_of_the_caller(graph: Graph) -> None:
    with pytest.warns(omnigraphdb.OmniWarning) as told:
        graph.refresh(settle=False)
    assert told[0].filename == __file__
