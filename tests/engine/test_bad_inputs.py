"""Every bad input of a write is refused in words that name it, alike in Python and on the command line, and changes
nothing."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.surfaces.cli.main import main
from omnigraphdb.surfaces.cli.output import exit_code
from omnigraphdb.surfaces.cli.wording import word_body, word_text
from tests.support.bad_inputs import LOADS, MUTATIONS, RECORDS, SCHEMA, BadLoad, BadMutation
from tests.support.settled import assert_settled, digest

NOTHING = ("no changes were made", "nothing was written")
MODES = ("append", "merge", "overwrite")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bad") / "g"
    with omnigraphdb.init(root, SCHEMA) as graph:
        graph.load(RECORDS, mode="append")
        graph.branch_create("side")
    return root


@pytest.fixture(scope="module")
def graph(place: Path) -> Graph:
    return omnigraphdb.open(place)


def state(graph: Graph) -> Any:
    """Everything a write could have moved."""
    return (
        {b.name: graph.snapshot(branch=b.name).to_dict() for b in graph.branches()},
        [commit.id for commit in graph.commits()],
        graph.pending_recoveries(),
    )


def refused(graph: Graph, work: Callable[[], object]) -> OmniError:
    before = state(graph)
    with pytest.raises(OmniError) as caught:
        work()
    assert state(graph) == before
    assert graph.doctor() == []
    return caught.value


def assert_told(error: OmniError, kind: str, code: str | None, facts: tuple[str, ...]) -> None:
    text = f"{error} {error.hint or ''}"
    assert error.kind == kind, text
    assert (error.code or "").startswith(code or ""), text
    missing = [fact for fact in facts if fact not in text]
    assert not missing, f"{missing} not in: {text}"
    assert "Traceback" not in text
    assert len(text) < 8_000


def command(arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> Any:
    monkeypatch.setattr("sys.argv", ["omnigraphdb", *arguments])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def drop_row_ids(body: dict[str, Any]) -> dict[str, Any]:
    """A refusal without the ids that were made up for rows that had none."""
    for problem in body.get("data_errors", ()):
        problem.pop("row_id", None)
    return body


def written(bad: BadLoad, folder: Path) -> Path:
    path = folder / "bad.jsonl"
    lines = [line if isinstance(line, bytes) else line.encode() for line in bad.lines]
    path.write_bytes(b"\n".join(lines))
    return path


@pytest.mark.parametrize("bad", LOADS, ids=lambda bad: bad.name)
def test_a_bad_load_is_told_and_changes_nothing(
    bad: BadLoad,
    graph: Graph,
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = written(bad, tmp_path)
    error = refused(graph, lambda: graph.load(path, mode=bad.mode, **bad.options))
    assert_told(error, bad.kind, bad.code, bad.facts)
    if error.kind != "not_found":
        assert any(words in str(error) for words in NOTHING)
    assert_structured(error)

    options = {"branch": "--branch", "from_branch": "--from"}
    flags = [part for name, value in bad.options.items() for part in (options[name], value)]
    arguments = ["load", str(place), "--data", str(path), "--mode", bad.mode, *flags, "--json"]
    code, out, err = command(arguments, capsys, monkeypatch)
    if bad.mode not in MODES:
        # A flag that takes one of a few words is a matter of usage, before anything is opened.
        assert (code, json.loads(out)["kind"]) == (2, "usage")
        assert f"--mode: it takes append, merge or overwrite, not '{bad.mode}'" in err
        return
    assert code == exit_code(error)
    assert drop_row_ids(json.loads(out)) == drop_row_ids(json.loads(json.dumps(word_body(error))))
    assert word_text(str(error)).splitlines()[0] in err


def assert_structured(error: OmniError) -> None:
    """What is in the words is in the fields: lines, properties, tables, a total."""
    body = error.to_dict()
    if "data_errors" not in body:
        return
    assert len(body["data_errors"]) == min(20, body["total"])
    for problem in body["data_errors"]:
        assert problem["rule"] in str(error)
        assert ("line" in problem) == (f"line {problem.get('line')}" in str(error))


@pytest.mark.parametrize("bad", MUTATIONS, ids=lambda bad: bad.name)
def test_a_bad_mutation_is_told_and_changes_nothing(
    bad: BadMutation,
    graph: Graph,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = refused(graph, lambda: graph.mutate(bad.query, dict(bad.params), **bad.options))
    assert_told(error, bad.kind, bad.code, bad.facts)

    options = {"branch": "--branch", "if_commit": "--if-commit"}
    flags = [part for name, value in bad.options.items() for part in (options[name], value)]
    params = ["--params", json.dumps(bad.params)] if bad.params else []
    arguments = ["mutate", "--store", str(place), "-e", bad.query, *params, *flags, "--json"]
    code, out, err = command(arguments, capsys, monkeypatch)
    assert code == exit_code(error)
    assert drop_row_ids(json.loads(out)) == drop_row_ids(json.loads(json.dumps(word_body(error))))
    assert word_text(str(error)).splitlines()[0] in err


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert len(LOADS) + len(MUTATIONS) >= 80
    names = [bad.name for bad in LOADS]
    assert len(set(names)) == len(names)
    rules = {bad.code for bad in LOADS if bad.code}
    assert {f"J{n:02}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14)} <= rules
    assert {"W10", "W11", "W12", "W13", "W14", "W15", "W16", "W20", "W22", "W24"} <= rules


# ---- frames, files and handles


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        (lambda folder: folder / "absent.jsonl", ["absent.jsonl", "No such file"]),
        (lambda folder: folder, ["no record file", ".jsonl"]),
        (lambda folder: 5, ["int", "path"]),
        (lambda folder: b"{}", ["bytes"]),
        (lambda folder: "s3://bucket/x.jsonl", ["s3://bucket/x.jsonl", "local"]),
        (lambda folder: {"Prot": [{"code": "A"}]}, ["Prot", "Port"]),
        (lambda folder: {"Port": 5}, ["Port", "int", "Parquet"]),
        (lambda folder: {"Port": folder / "x.xlsx"}, ["x.xlsx", ".parquet"]),
        (lambda folder: {"Port": folder / "absent.parquet"}, ["absent.parquet"]),
        (lambda folder: {"Port": [{"code": "ZZ", "nmae": "x"}]}, ["record 1", "J05", "nmae", "name"]),
        (lambda folder: {"Feeds": [{"src": "AA"}]}, ["record 1", "J04", "'to'"]),
        (lambda folder: [{"type": "Note", "data": {"text": "t"}}, 5], ["record 2", "J02"]),
        (lambda folder: [{"edge": "Feeds", "from": "AA", "to": "QQ"}], ["record 1", "W15", "QQ"]),
    ],
    ids=["absent", "no files", "a number", "bytes", "remote", "type", "frame", "suffix", "absent frame", "property",
         "end", "record", "endpoint"],
)  # fmt: skip
def test_a_source_that_cannot_be_loaded_is_named(
    graph: Graph, tmp_path: Path, source: Callable[[Path], Any], facts: list[str]
) -> None:
    error = refused(graph, lambda: graph.load(source(tmp_path), mode="append"))
    text = f"{error} {error.hint or ''}"
    assert all(fact in text for fact in facts), text


def test_a_file_without_records_is_a_note_and_no_commit(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("\n\n")
    before = state(graph)
    for mode in ("append", "merge"):
        result = graph.load(path, mode=mode)
        assert result.commit is None
        assert "0 records" in result.notes[0]
        assert str(path) in result.notes[0]
    assert graph.load(path, mode="overwrite", allow_empty=True).commit is None
    assert state(graph) == before


def test_positions_in_a_folder_name_the_file_and_the_line(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type": "Note", "data": {"id": "x", "text": "a"}}\n')
    (tmp_path / "b.ndjson").write_text('\n{"type": "Note", "data": {"id": "x", "text": "b"}}\n')
    (tmp_path / "read.me").write_text("not read")
    error = refused(graph, lambda: graph.load(tmp_path, mode="append"))
    assert f"{tmp_path / 'a.jsonl'}, line 1" in str(error)
    assert f"{tmp_path / 'b.ndjson'}, line 2" in str(error)
    assert error.details["data_errors"][0]["file"] == str(tmp_path / "b.ndjson")


def test_a_mutation_that_would_hold_too_much_says_how_much(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraphdb.commit.delta.MUTATION_BYTES_MAX", 100)
    query = "query q($t: String) { insert Note { text: $t } }"
    error = refused(graph, lambda: graph.mutate(query, {"t": "x" * 200}))
    assert (error.kind, error.code) == ("resource_limit", "W21")
    limit = error.details["resource_limit"]
    assert limit["limit"] == 100 < limit["actual"]
    assert "load" in str(error.hint)
    widely = 'query q() { update Port set { name: "same" } where code != "" }'
    assert refused(graph, lambda: graph.mutate(widely)).kind == "resource_limit"


def test_a_read_only_handle_refuses_every_writer(place: Path) -> None:
    with omnigraphdb.open(place, read_only=True) as graph:
        for work in (
            lambda: graph.mutate('query q() { insert Note { text: "a" } }'),
            lambda: graph.load([], mode="append"),
            lambda: graph.branch_create("x"),
            lambda: graph.branch_delete("side"),
        ):
            assert refused(graph, work).kind == "read_only"


# ---- branches and commits


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a b", "' '"),
        ("a..b", "'..'"),
        ("-x", "'-'"),
        ("/x", "slash"),
        ("x/", "slash"),
        ("a//b", "slash"),
        ("a.lock", ".lock"),
        ("ü", "'ü'"),
        ("main", "main"),
        ("__schema_apply_lock__", "reserved"),
        ("x" * 256, "255 bytes"),
    ],
)
def test_a_branch_name_that_breaks_a_rule_is_told_which(graph: Graph, name: str, rule: str) -> None:
    error = refused(graph, lambda: graph.branch_create(name))
    assert rule in str(error)
    assert "no changes were made" in str(error)


@pytest.mark.parametrize(
    ("work", "kind", "facts"),
    [
        (lambda g: g.branch_create("side"), "branch_exists", ["'side'", "exists"]),
        (lambda g: g.branch_create("side/deeper"), "branch_exists", ["'side/deeper'", "'side'"]),
        (lambda g: g.branch_create("x", from_branch="sied"), "not_found", ["branch 'sied'", "'side'"]),
        (lambda g: g.branch_delete("sied"), "not_found", ["branch 'sied'", "'side'"]),
        (lambda g: g.branch_delete("main"), "user_input", ["'main'", "cannot be deleted"]),
        (lambda g: g.on("side").branch_delete("side"), "branch_in_use", ["'side'", "stands"]),
        (lambda g: g.commit("01ARZ3NDEKTSV4RRFFQ69G5FAV"), "not_found", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "8"]),
        (lambda g: g.commit("zzz"), "not_found", ["zzz", "full id"]),
        (lambda g: g.query("query q() { match { $p: Port } return { $p.code } }", at=99), "not_found", ["99", "1 to"]),
        (lambda g: g.query("query q() { match { $p: Port } return { $p.code } }", at="01ARZ3NDEK"), "not_found", ["01ARZ3NDEK"]),
        (lambda g: g.query("query q() { match { $p: Port } return { $p.code } }", branch="sied"), "not_found", ["'sied'", "'side'"]),
        (lambda g: list(g.export(types=["Prot"])), "not_found", ["'Prot'", "'Port'"]),
        (lambda g: g.entity("Prot", "AA"), "not_found", ["'Prot'", "'Port'"]),
        (lambda g: g.commits(since="01ARZ3NDEKTSV4RRFFQ69G5FAV"), "not_found", ["01ARZ3NDEKTSV4RRFFQ69G5FAV"]),
        (lambda g: g.query("query q() { match { $p: Port } return { $p.code } }", at=1.5), "user_input", ["float"]),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named_with_what_is(
    graph: Graph, work: Callable[[Graph], object], kind: str, facts: list[str]
) -> None:
    error = refused(graph, lambda: work(graph))
    text = f"{error} {error.hint or ''}"
    assert error.kind == kind, text
    assert all(fact in text for fact in facts), text


def test_a_graph_that_is_not_there_is_named_with_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(omnigraphdb.NotFound) as caught:
        omnigraphdb.open(tmp_path / "nothing")
    assert str(tmp_path / "nothing") in str(caught.value)
    assert "__manifest" in str(caught.value.hint)


def test_a_refused_write_leaves_no_file_but_what_cleanup_takes(graph: Graph, place: Path) -> None:
    before = digest(place)
    query = 'query q() { insert Note { text: "a" } insert Feeds { from: "AA", to: "QQ" } }'
    refused(graph, lambda: graph.mutate(query))
    # The rules are checked before anything is staged.
    assert digest(place) == before


def test_messages_hold_no_path_of_the_package(graph: Graph) -> None:
    source = str(Path(omnigraphdb.__file__).parent)
    for bad in MUTATIONS:
        error = refused(
            graph,
            lambda bad=bad: graph.mutate(bad.query, dict(bad.params), **bad.options),  # type: ignore[misc]
        )
        assert source not in str(error)
        assert not re.search(r"<.* object at 0x", str(error))


def test_after_all_of_this_the_graph_is_settled_and_writable(graph: Graph) -> None:
    assert_settled(graph)
    graph.mutate('query q() { insert Note { text: "still here" } }')
    assert_settled(graph)


def test_a_schema_file_that_is_no_text_is_a_schema_error_at_its_byte(
    graph: Graph, tmp_path: Path
) -> None:
    file = tmp_path / "bytes.pg"
    file.write_bytes(b"node V {}\n// \xff")
    for work in (graph.schema_plan, graph.schema_apply, omnigraphdb.parse_schema):
        error = refused(graph, partial(work, file))
        assert_told(error, "schema_error", "S001", ("bytes.pg:2:4", "UTF-8"))
