"""Rows of a query: where they go, in which form, and where the query and its parameters come from."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraphdb
from omnigraphdb.surfaces.cli.formats import Layout, TableStyle, draw_table
from tests.support.commands import Run, runner

SCHEMA = "node Person { name: String @key  age: I32?  about: String? }\n"
QUERIES = """\
query all() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }
query older($than: I32) { match { $p: Person  $p.age > $than } return { $p.name as name } order { name } }
"""
ROWS = [{"name": "Ada", "age": 36}, {"name": "Bo", "age": None}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rows")
    (made / "people.gq").write_text(QUERIES)
    with omnigraphdb.init(made / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": row} for row in ROWS], mode="append")
    return made


@pytest.fixture
def run(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OMNIGRAPH_STORE", str(folder / "g"))
    (tmp_path / "people.gq").write_text(QUERIES)
    return runner(monkeypatch, capsys)


ALL = ("query", "all", "--query", "people.gq")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl", "json", "txt"])
def test_a_file_has_the_format_of_its_ending(run: Run, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"rows.{ending}"
    done = run(*ALL, "--out", str(out))
    assert (done.code, done.out) == (0, "")
    assert f"wrote 2 rows to {out}" in done.err
    match ending:
        case "parquet":
            found = pq.read_table(out).to_pylist()
        case "arrow":
            found = pa.ipc.open_file(out).read_all().to_pylist()
        case "json":
            found = json.loads(out.read_text())["rows"]
        case _:
            printed = run(*ALL, "--format", {"txt": "table"}.get(ending, ending)).out
            assert out.read_text() == printed
            return
    assert found == ROWS


WIDE = {"key": "wide", "n": -(2**63), "u": 2**64 - 1, "many": [1, 2**53 + 1]}
PLAIN = {"key": "plain", "n": 5, "u": None, "many": None}


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_rows_of_a_file_are_loaded_again(run: Run, tmp_path: Path, ending: str) -> None:
    schema = "node Thing { key: String @key  n: I64?  u: U64?  many: [I64]? }"
    with omnigraphdb.init(tmp_path / "things", schema) as graph:
        graph.load({"Thing": [WIDE, PLAIN]}, mode="append")
    omnigraphdb.init(tmp_path / "copy", schema).close()
    text = "query q() { match { $t: Thing } return { $t.key as key, $t.n as n, $t.u as u, $t.many as many } }"
    out = str(tmp_path / f"things.{ending}")
    assert run("query", "--store", "things", "-e", text, "--out", out).code == 0
    done = run("load", "copy", "--data", out, "--type", "Thing", "--mode", "append")
    assert (done.code, "2 nodes" in done.out) == (0, True), done.err
    with omnigraphdb.open(tmp_path / "copy") as graph:
        found = {row["key"]: row for row in graph.query(text).to_list()}
    assert found == {"wide": WIDE, "plain": PLAIN}


def test_a_document_in_the_place_of_records_is_one_problem(run: Run, tmp_path: Path) -> None:
    assert run(*ALL, "--out", str(tmp_path / "rows.json")).code == 0
    done = run("load", "--data", "rows.json", "--type", "Person", "--mode", "merge")
    assert done.code == 1
    assert "'rows.json' holds one JSON object over several lines; no changes were made" in done.err
    assert "one record a line" in done.err


def test_a_format_wins_over_the_ending_of_a_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    run(*ALL, "--out", str(out), "--format", "csv")
    assert out.read_text() == "name,age\nAda,36\nBo,\n"


def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left(
    run: Run, tmp_path: Path
) -> None:
    done = run(*ALL, "--out", "nowhere/rows.csv")
    assert done.code == 1
    assert "'nowhere/rows.csv' could not be written: No such file or directory" in done.err
    assert not (tmp_path / "nowhere").exists()


def test_two_forms_exclude_each_other(run: Run) -> None:
    done = run(*ALL, "--json", "--format", "csv")
    assert done.code == 2
    assert "--json and --format csv exclude each other" in done.err


def test_a_query_and_its_parameters_come_through_stdin(run: Run) -> None:
    read = run("query", "all", "--query", "-", "--format", "csv", stdin=QUERIES)
    assert read.out.splitlines() == ["name,age", "Ada,36", "Bo,"]
    asked = ("query", "older", "--query", "people.gq", "--params-file", "-", "--format", "csv")
    assert run(*asked, stdin='{"than": 30}').out.splitlines() == ["name", "Ada"]
    both = run("query", "older", "--query", "-", "--params-file", "-", stdin=QUERIES)
    assert both.code == 2
    assert "stdin cannot be both" in both.err
    wrong = run(*asked, stdin="[1]")
    assert (wrong.code, "--params-file: it is no JSON object" in wrong.err) == (2, True)


def test_the_configuration_chooses_the_form(run: Run, tmp_path: Path) -> None:
    (tmp_path / "omnigraph.yaml").write_text("defaults: { output: csv }\n")
    assert run(*ALL).out == "name,age\nAda,36\nBo,\n"
    assert run(*ALL, "--format", "kv").out.startswith("2 rows from branch main")
    (tmp_path / "omnigraph.yaml").write_text("defaults: { output: cvs }\n")
    wrong = run(*ALL)
    assert (wrong.code, "did you mean 'csv'" in wrong.err) == (2, True)


def test_wide_cells_are_cut_or_wrapped() -> None:
    rows = [("abcdefghij", None)]
    cut = draw_table(["a", "b"], rows, TableStyle(column_max=4))
    assert cut == ["a    | b", "-----+-----", "abc… | null"]
    wrapped = draw_table(["a", "b"], rows, TableStyle(column_max=4, layout=Layout.WRAP))
    assert wrapped[2:] == ["abcd | null", "efgh |", "ij   |"]
    fitted = draw_table(["a" * 60, "b"], [("x" * 60, "y" * 10)], TableStyle(total=40))
    assert max(map(len, fitted)) == 40


@pytest.fixture
def aliased(run: Run, tmp_path: Path, folder: Path) -> Run:
    (tmp_path / "omnigraph.yaml").write_text(
        "aliases:\n"
        "  older: { file: people.gq, query: older, args: [than], params: { than: 100 }, format: csv }\n"
        "  remote: { server: prod, query: all }\n"
        "  unnamed: { server: prod }\n"
        "  twice: { server: prod, store: people.omni, query: all }\n"
        "  lost: { graph: knowledge, file: people.gq }\n"
    )
    return run


def test_an_alias_runs_a_query_of_the_project(aliased: Run) -> None:
    assert aliased("alias", "older").out == "name\n"
    assert aliased("alias", "older", "30").out == "name\nAda\n"
    assert aliased("alias", "older", "30", "--params", '{"than": 99}').out == "name\n"
    assert aliased("alias", "older", "30", "--json").json["rows"] == [{"name": "Ada"}]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("alias", "oldr"), "unknown alias 'oldr'; did you mean 'older'?"),
        (("alias", "older", "1", "2"), "alias 'older' takes than; 2 were given"),
        (("alias", "remote"), "unknown server 'prod'"),
        (("alias", "unnamed"), "alias 'unnamed' names no stored query of its server"),
        (("alias", "twice"), "alias 'twice' names a server and a store; keep one"),
        (("alias", "lost"), "alias 'lost' names a graph of a server: add server: NAME"),
        (("alias", "older", "--server", "prod"), "an alias names its graph in the configuration"),
        (("query", "g"), "give either --query FILE or -e TEXT; neither was given"),
    ],
)
def test_a_wrong_alias_is_told(aliased: Run, typed: tuple[str, ...], said: str) -> None:
    done = aliased(*typed)
    assert (done.code, said in done.err) == (2, True), done.err
