"""The command line as its users meet it: what it prints where, and with which exit code."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.surfaces.cli.main import main
from tests.support.commands import look
from tests.support.reference import commands
from tests.support.s3 import Bucket

SCHEMA = """\
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person
"""
QUERIES = """\
query friends($who: String) { match { $p: Person { name: $who }  $p knows $f } return { $f.name as friend, $f.age } }
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
"""
DATA = """\
{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bo"}}
{"edge": "Knows", "from": "Ada", "to": "Bo"}
"""


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run commands in a folder with a schema, queries and data."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("people.pg", SCHEMA), ("people.gq", QUERIES), ("people.jsonl", DATA)):
        (tmp_path / name).write_text(text)

    def invoke(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["omnigraphdb", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        return Outcome(int(str(stop.value.code or 0)), told.out, told.err)

    return invoke


@pytest.fixture
def people(run: Run) -> Run:
    """A graph that is loaded."""
    assert run("init", "g", "--schema", "people.pg").code == 0
    assert run("load", "g", "--data", "people.jsonl", "--mode", "append").code == 0
    return run


def test_three_commands_make_load_and_ask(run: Run) -> None:
    made = run("init", "g", "--schema", "people.pg")
    assert made.out.startswith("initialized ")
    loaded = run("load", "g", "--data", "people.jsonl", "--mode", "append")
    assert "2 nodes across 1 node type, 1 edge across 1 edge type" in loaded.out
    assert "direct, local" in loaded.err
    asked = run("query", "friends", "--store", "g", "--query", "people.gq", "--param", "who=Ada")
    assert asked.out.splitlines() == [
        "1 row from branch main via friends",
        "friend | f.age",
        "-------+------",
        "Bo     | null",
    ]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("csv", "friend,f.age\nBo,\n"),
        ("kv", "1 row from branch main via friends\n\nrow 1\nfriend: Bo\nf.age: null\n"),
        ("jsonl", None),
        ("json", None),
    ],
)
def test_rows_come_in_five_formats(people: Run, form: str, expected: str | None) -> None:
    asked = people(
        "query", "friends", "--store", "g", "--query", "people.gq", "--param", "who=Ada", "-f", form
    )
    if expected is not None:
        assert asked.out == expected
    elif form == "jsonl":
        head, row = map(json.loads, asked.out.splitlines())
        assert (head["row_count"], row) == (1, {"friend": "Bo", "f.age": None})
    else:
        assert asked.json["columns"] == ["friend", "f.age"]
        assert asked.json["graph_commit_id"]


def test_a_mutation_reports_what_it_changed(people: Run) -> None:
    done = people(
        "mutate", "add", "--store", "g", "--query", "people.gq", "--param", "name=Cy", "--as", "eve",
        "--json",
    )  # fmt: skip
    assert (done.json["affected_nodes"], done.json["commit"]["actor_id"]) == (1, "eve")
    listed = people("commit", "list", "g", "--filter", "actor=eve", "--json").json["commits"]
    assert [commit["graph_commit_id"] for commit in listed] == [
        done.json["commit"]["graph_commit_id"]
    ]
    shown = people("commit", "show", listed[0]["graph_commit_id"][:20], "--store", "g", "--json")
    assert shown.json["kind"] == "mutation"


def test_a_lost_compare_and_swap_exits_with_four(people: Run) -> None:
    head = people("commit", "list", "g", "-n", "1", "--json").json["commits"][0]["graph_commit_id"]
    arguments = ["mutate", "add", "--store", "g", "--query", "people.gq", "--if-commit", head]
    assert people(*arguments, "--param", "name=Cy").code == 0
    lost = people(*arguments, "--param", "name=Di", "--json")
    assert lost.code == 4
    assert lost.json["precondition_failure"]["expected"] == head


def test_branches_are_made_listed_and_deleted(people: Run) -> None:
    assert (
        people("branch", "create", "side", "--store", "g").out == "created branch side from main\n"
    )
    assert people("branch", "create", "side", "--store", "g").code == 3
    names = [line.split()[0] for line in people("branch", "list", "g").out.splitlines()]
    assert names == ["main", "side"]
    assert people("branch", "delete", "side", "--store", "g").code == 0
    assert people("branch", "delete", "main", "--store", "g").code == 1
    unknown = people("branch", "delete", "sid", "--store", "g", "--json")
    assert unknown.code == 1
    assert unknown.json["missing"]["name"] == "sid"


def test_an_export_loads_into_an_equal_graph(people: Run, tmp_path: Path) -> None:
    first = people("export", "g").out
    (tmp_path / "copy.jsonl").write_text(first)
    people("init", "copy", "--schema", "people.pg")
    assert people("load", "copy", "--data", "copy.jsonl", "--mode", "overwrite").code == 0
    assert people("export", "copy").out == first
    people("export", "g", "--out", "file.jsonl")
    assert (tmp_path / "file.jsonl").read_text() == first


def test_a_bad_line_is_named_and_nothing_changes(people: Run, tmp_path: Path) -> None:
    lines = [json.dumps({"type": "Person", "data": {"name": f"p{i}"}}) for i in range(99)]
    lines[57] = '{"type": "Person", "data": {"name": "p57", "age": 999}}'
    (tmp_path / "bad.jsonl").write_text("\n".join(lines))
    before = people("snapshot", "g", "--json").json
    refused = people("load", "g", "--data", "bad.jsonl", "--mode", "append")
    assert refused.code == 1
    assert all(
        word in refused.err for word in ["line 58", "W10", "Person.age", "999", "no changes"]
    )
    assert people("snapshot", "g", "--json").json == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["query", "--store", "g", "-e", "query q() { match { $p: Persn } return { $p.name } }"], 1, ["Person"]),
        (["query", "--store", "nowhere", "--query", "people.gq", "friends"], 1, ["nowhere", "__manifest"]),
        (["query", "--store", "g", "--query", "people.gq"], 1, ["friends", "add"]),
        (["query", "add", "--store", "g", "--query", "people.gq", "--param", "name=x"], 1, ["mutate"]),
        (["mutate", "friends", "--store", "g", "--query", "people.gq"], 1, ["query"]),
        (["query", "friends", "--store", "g", "--query", "people.gq"], 1, ["P06", "who"]),
        (["query", "friends", "--store", "g", "--query", "absent.gq"], 1, ["absent.gq"]),
        (["load", "g", "--data", "absent.jsonl", "--mode", "append"], 1, ["absent.jsonl"]),
        (["load", "g", "--data", "people.jsonl", "--mode", "upsert"], 2, ["append, merge or overwrite"]),
        (["export", "g", "--format", "xml"], 2, ["jsonl or parquet"]),
        (["changes", "poll", "g", "--store", "g"], 2, ["twice"]),
        (["load", "g", "--data", "people.jsonl", "--mode", "merge", "--branch", "typo"], 1, ["typo"]),
        (["load", "g", "--data", "people.jsonl", "--mode", "append"], 3, ["W20", "Ada", "merge"]),
        (["init", "g", "--schema", "people.pg"], 3, ["exists"]),
        (["load", "g"], 2, ["--data"]),
        (["query"], 2, ["--query"]),
        (["query", "--store", "g", "-e", "x", "--params", "[1]"], 2, ["object"]),
        (["mutate", "add", "--store", "g", "--query", "people.gq", "--as", "omnigraph:x"], 2, ["omnigraph:"]),
        (["frobnicate"], 2, ["frobnicate"]),
        (["export", "g", "--type", "Persn"], 1, ["Person"]),
        (["commit", "show", "01ZZZZZZZZZZ", "--store", "g"], 1, ["01ZZZZZZZZZZ"]),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_wrong_call_is_told_in_words(
    people: Run, arguments: list[str], code: int, words: list[str]
) -> None:
    told = people(*arguments)
    text = told.out + told.err
    assert told.code == code, text
    assert all(word in text for word in words), text
    assert "Traceback" not in text


def test_version_tells_the_storage_format_too(run: Run) -> None:
    lines = run("version").out.splitlines()
    assert lines[0].startswith("omnigraphdb ")
    assert lines[1].startswith("internal-schema ")
    assert run("-v").out == run("--version").out == run("version").out
    told = run("version", "--json").json
    assert told.keys() == {
        "version", "internal_schema_version", "python", "pylance", "pyarrow", "pyspark"
    }  # fmt: skip


def test_flags_may_stand_before_the_command(people: Run) -> None:
    after = people("branch", "list", "--store", "g", "--json")
    assert people("--store", "g", "--json", "branch", "list").out == after.out
    assert people("--store=g", "branch", "list").out.startswith("main ")


def test_a_write_says_what_it_writes_to_unless_it_is_quiet(people: Run) -> None:
    add = ("mutate", "add", "--store", "g", "--query", "people.gq", "--param", "name=Cy")
    assert "omnigraphdb mutate → " in people(*add).err
    assert "(direct, local)" in people(*add).err
    assert people(*add, "--quiet").err == ""
    assert "→" not in people("query", "-e", ALL, "--store", "g").err


ALL = "query all() { match { $p: Person } return { $p.name as name } order { $p.name } }"


def test_several_files_and_stdin_are_one_load_each(
    people: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cy", "di"):
        (tmp_path / f"{name}.jsonl").write_text(
            f'{{"type": "Person", "data": {{"name": "{name}"}}}}\n'
        )
    before = len(people("commit", "list", "g", "--json").json["commits"])
    done = people("load", "g", "-d", "cy.jsonl", "-d", "di.jsonl", "--mode", "append")
    assert "2 nodes across 1 node type" in done.out
    assert len(people("commit", "list", "g", "--json").json["commits"]) == before + 1
    text = b'{"type": "Person", "data": {"name": "ed"}}\n{"type": "Person", "data": {"nme": "x"}}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    refused = people("load", "g", "--data", "-", "--mode", "append")
    assert refused.code == 1
    assert "line 2" in refused.err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.splitlines()[0])))
    assert people("load", "g", "--data", "-", "--mode", "append").code == 0
    assert people("load", "g", "-d", "-", "-d", "cy.jsonl", "--mode", "append").code == 2


def test_a_check_of_a_load_finds_everything_and_writes_nothing(people: Run, tmp_path: Path) -> None:
    before = people("snapshot", "g", "--json").json
    (tmp_path / "more.jsonl").write_text('{"type": "Person", "data": {"name": "Cy"}}\n')
    fine = people("load", "g", "--data", "more.jsonl", "--mode", "append", "--check")
    assert (fine.code, "checked for" in fine.out) == (0, True)
    bad = people("load", "g", "--data", "people.jsonl", "--mode", "append", "--check", "--json")
    assert (bad.code, bad.json["kind"]) == (3, "key_conflict")
    fork = ("--branch", "new", "--from", "main")
    assert (
        people("load", "g", "--data", "more.jsonl", "--mode", "append", "--check", *fork).code == 0
    )
    assert people("snapshot", "g", "--json").json == before
    assert people("branch", "list", "g", "--json").json["branches"] == ["main"]


def test_a_load_creates_the_nodes_that_edges_name(people: Run, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("from,to\nAda,Zoe\nZoe,Zed\n")
    load = ("load", "g", "--data", "pairs.csv", "--type", "Knows", "--mode", "append")
    refused = people(*load)
    assert (refused.code, "not found" in refused.err) == (1, True)
    create = ("--create-missing", "Person")
    assert "2 nodes of Person to be created" in people(*load, *create, "--check").out
    done = people(*load, *create, "--json").json
    assert done["created"] == [{"table_key": "node:Person", "rows_created": 2}]


def test_a_plan_is_shown_instead_of_rows(people: Run) -> None:
    text = "query q($n: String) { match { $p: Person { name: $n } } return { $p } }"
    asked = ("query", "-e", text, "--store", "g", "--explain")
    assert "id lookup" in people(*asked, "--param", "n=007").out
    assert people(*asked).out.startswith("Project p")
    told = people(*asked, "--json").json
    assert [one["depth"] for one in told["operators"]] == [0, 1]
    assert told["profiled"] is False


def test_parameters_are_read_as_their_query_declares_them(people: Run) -> None:
    for name in ("007", "true", "null", '"quoted"'):
        people("mutate", "add", "--store", "g", "--query", "people.gq", "--param", f"name={name}")
    found = {
        row["name"] for row in people("query", "-e", ALL, "--store", "g", "--json").json["rows"]
    }
    assert found >= {"007", "true", "null", '"quoted"'}
    slip = people(
        "mutate", "add", "--store", "g", "--query", "people.gq", "--param", "name=x", "--param", "aeg=3", "--json"
    )  # fmt: skip
    assert (slip.code, slip.json["param"]["name"]) == (1, "aeg")
    assert "'age'" in slip.err


@pytest.mark.parametrize("flags", [["--json"], ["--format", "json"], ["-f", "jsonl"]])
def test_an_error_is_one_document_on_stdout_and_words_on_stderr(
    people: Run, flags: list[str]
) -> None:
    query = "query q() { match { $p: Persn } return { $p.name } }"
    told = people("query", "--store", "g", "-e", query, *flags)
    assert (told.code, told.json["kind"]) == (1, "query_error")
    assert told.json["diagnostic"]["code"] == "T1"
    assert "Persn" in told.err
    usage = people("query", *flags)
    assert (usage.code, usage.json["kind"]) == (2, "usage")


def test_former_words_still_work_and_say_the_new_one(people: Run, tmp_path: Path) -> None:
    told = people("read", "-e", ALL, "--store", "g", "--json")
    assert (told.code, told.json["row_count"]) == (0, 2)
    assert "omnigraphdb query" in told.err
    (tmp_path / "more.jsonl").write_text('{"type": "Person", "data": {"name": "Cy"}}\n')
    done = people("ingest", "g", "--data", "more.jsonl", "--json")
    assert (done.code, done.json["mode"], done.json["base_branch"]) == (0, "merge", "main")
    gone = people("run", "list")
    assert (gone.code, "commit list" in gone.err) == (2, True)


def test_commits_are_chosen_by_actor_kind_and_time(people: Run) -> None:
    add = ("mutate", "add", "--store", "g", "--query", "people.gq", "--param")
    people(*add, "name=Cy", "--as", "ada")
    people(*add, "name=Di", "--as", "bo")

    def actors(*filters: str) -> list[str | None]:
        flags = [part for one in filters for part in ("--filter", one)]
        return [
            c["actor_id"] for c in people("commit", "list", "g", "--json", *flags).json["commits"]
        ]

    assert actors() == ["bo", "ada", None, None]
    assert actors("actor=ada") == ["ada"]
    assert actors("kind=linear", "actor=bo") == ["bo"]
    assert actors("kind=load") == [None]
    assert actors("kind=merge") == actors("kind=recovery") == actors("until=2020-01-01") == []
    assert actors("actor=omnigraph:recovery") == []
    assert actors("since=2020-01-01T00:00:00", "until=2999-01-01") == actors()
    assert people("commit", "list", "g", "--filter", "until=soon").code == 2
    assert people("commit", "list", "g", "--filter", "colour=red").code == 2
    oldest = people("commit", "list", "g", "--reverse", "--limit", "1", "--json").json["commits"]
    assert len(oldest) == 1


@pytest.mark.s3
def test_what_is_destroyed_elsewhere_needs_consent(
    people: Run, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(bucket).items():
        monkeypatch.setenv(name, value)
    uri = f"{bucket.uri}/g"
    Path("more.pg").write_text(SCHEMA.replace("age: I32?", "age: I32?  note: String?"))
    assert people("init", uri, "--schema", "more.pg").code == 0
    assert (
        "(direct, remote)" in people("load", uri, "--data", "people.jsonl", "--mode", "append").err
    )
    for name in ("side", "other"):
        people("branch", "create", name, "--store", uri)
    for command in (
        ("load", uri, "--data", "people.jsonl", "--mode", "overwrite"),
        ("branch", "delete", "side", "--store", uri),
        ("branch", "merge", "other", "--delete-branch", "--store", uri),
        ("cleanup", uri, "--keep", "5", "--confirm"),
        ("schema", "apply", uri, "--schema", "people.pg", "--allow-data-loss"),
    ):
        before = people("commit", "list", uri, "--json").json, _list_branches(people, uri)
        for refused in (people(*command), people(*command, "--json")):
            assert refused.code == 1
            assert "destroys data on another machine; no changes were made" in refused.err
            assert "pass --yes to do it" in refused.err
        assert before == (people("commit", "list", uri, "--json").json, _list_branches(people, uri))
        done = people(*command, "--yes")
        assert done.code == 0, done.err
    assert _list_branches(people, uri) == ["main"]
    assert "note" not in people("schema", "show", uri).out


def _list_branches(people: Run, uri: str) -> Any:
    return people("branch", "list", uri, "--json").json["branches"]


@pytest.mark.s3
def test_what_is_destroyed_elsewhere_is_asked_about_on_a_terminal(
    people: Run, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment(bucket).items():
        monkeypatch.setenv(name, value)
    uri = f"{bucket.uri}/g"
    people("init", uri, "--schema", "people.pg")
    people("branch", "create", "side", "--store", uri)
    for answer, code, left in (("no", 1, ["main", "side"]), ("yes", 0, ["main"])):
        typed = ("branch", "delete", "side", "--store", uri)
        done = look(tmp_path, *typed, answer=answer)
        assert (done.code, _list_branches(people, uri)) == (code, left)
        assert "Type 'yes' to continue" in done.out
        assert ("was not confirmed; no changes were made" in done.out) is (answer == "no")


def environment(bucket: Bucket) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": bucket.server.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }


def test_lint_checks_every_query_and_fails_on_errors(run: Run, tmp_path: Path) -> None:
    fine = run("lint", "--schema", "people.pg", "--query", "people.gq")
    assert fine.code == 0
    assert "2 queries, ok" in fine.out
    (tmp_path / "bad.gq").write_text("query q() { match { $p: Person } return { $p.colour } }")
    bad = run("lint", "--schema", "people.pg", "--query", "bad.gq", "--json")
    assert bad.code == 1
    assert [finding["code"] for finding in bad.json["findings"]] == ["T6"]
    (tmp_path / "bad.pg").write_text("node A { k: String? @key }")
    assert run("lint", "--schema", "bad.pg").code == 1


def test_fmt_rewrites_files_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ugly.pg").write_text("node   A{k:String@key // kept\n}")
    assert run("fmt", "ugly.pg", "--check").code == 1
    assert run("fmt", "ugly.pg").code == 0
    assert "// kept" in (tmp_path / "ugly.pg").read_text()
    assert run("fmt", "ugly.pg", "--check").code == 0


def test_fmt_tells_what_it_changed_as_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ugly.gq").write_text("query q(){match{$p:Person}return{$p}}")
    assert run("fmt", "people.pg").code == 0
    planned = run("fmt", "ugly.gq", "people.pg", "--check", "--json")
    assert planned.code == 1
    assert planned.json == {"files": 2, "changed": ["ugly.gq"], "check": True}
    assert run("fmt", "ugly.gq", "--json").json["changed"] == ["ugly.gq"]
    assert run("fmt", "ugly.gq", "--json").json == {"files": 1, "changed": [], "check": False}


def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left(
    people: Run, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    for out in ("folder", "nowhere/people.jsonl"):
        failed = people("export", "g", "--out", out)
        assert failed.code == 1
        assert f"'{out}' cannot be written" in failed.err
    assert people("export", "g", "--out", "kept.jsonl").code == 0
    assert (tmp_path / "kept.jsonl").read_text() == people("export", "g").out
    assert (tmp_path / "kept.jsonl").stat().st_mode == (tmp_path / "people.jsonl").stat().st_mode
    assert not [one.name for one in tmp_path.rglob("*partial*")]


def test_fmt_keeps_the_mode_of_a_file_and_the_link_to_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ugly.pg").write_text("node   A{k:String@key}")
    (tmp_path / "ugly.pg").chmod(0o640)
    (tmp_path / "link.pg").symlink_to("ugly.pg")
    assert run("fmt", "link.pg").code == 0
    assert (tmp_path / "link.pg").is_symlink()
    assert (tmp_path / "ugly.pg").read_text().startswith("node A {")
    assert (tmp_path / "ugly.pg").stat().st_mode & 0o777 == 0o640
    assert not [one.name for one in tmp_path.rglob("*partial*")]


def test_the_demo_tells_its_steps_in_words_and_as_json(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    told = run("demo")
    assert told.code == 0
    assert [line[0] for line in told.out.splitlines() if line[:1].isdigit()] == list("123456789")
    assert "Aster Prime" in told.out
    steps = {step["step"]: step for step in run("demo", "kept", "--json").json["steps"]}
    assert list(steps) == [
        "init", "load", "load_on_spark", "query", "traverse", "branch", "history", "merge", "travel", "doctor",
    ]  # fmt: skip
    assert steps["merge"]["merged"]["outcome"] == "fast_forward"
    assert steps["query"]["results"][0]["rows"][0] == {"port": "Rotterdam", "vessels": 2}
    assert steps["doctor"]["issues"] == []
    assert (tmp_path / "kept" / "ports.omni").is_dir()


def test_every_command_but_those_that_print_scripts_and_streams_prints_json() -> None:
    silent = [
        words
        for words, command in commands().items()
        if not any("--json" in one.opts for one in command.params)
    ]
    assert sorted(silent) == ["blob get", "completion", "export", "mcp", "serve", "shell", "ui"]


def test_a_plan_shows_its_steps_and_refusals(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.pg").write_text(SCHEMA.replace("age: I32?", "age: I64?  nick: String?"))
    shown = run("schema", "plan", "--from", "people.pg", "--to", "new.pg")
    assert shown.code == 0
    assert "supported: no" in shown.out
    assert "OG-MF-106" in shown.out
    assert run("schema", "plan", "--from", "people.pg", "--to", "new.pg", "--check").code == 1


def test_doctor_finds_nothing_on_a_settled_graph(people: Run) -> None:
    assert people("doctor", "g", "--json").json == {"settled": True, "findings": []}


def test_schema_show_prints_the_schema_as_written(people: Run) -> None:
    assert people("schema", "show", "g").out == SCHEMA


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['omnigraphdb', '--help']\n"
        "from omnigraphdb.surfaces.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('lance', 'pyspark', 'pandas', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_a_closed_pipe_ends_quietly(people: Run, tmp_path: Path) -> None:
    command = f"{sys.executable} -m omnigraphdb export g | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path)
    assert "Traceback" not in done.stderr


def test_import_omnigraph_loads_no_lance() -> None:
    program = "import omnigraphdb, sys; sys.exit('lance' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


EMPTY = {
    "a file to load": ("load", "g", "--data", "", "--mode", "append"),
    "a file to load among others": ("load", "g", "-d", "people.jsonl", "-d", "", "-m", "append"),
    "a schema to begin with": ("init", "h", "--schema", ""),
    "a place to begin at": ("init", "", "--schema", "people.pg"),
    "a place": ("snapshot", ""),
    "a place beside another": ("snapshot", "g", "--store", ""),
    "a schema to plan": ("schema", "plan", "g", "--schema", ""),
    "a schema to plan from": ("schema", "plan", "--from", "", "--to", "people.pg"),
    "a schema to lint": ("lint", "--schema", ""),
    "a query to lint": ("lint", "--schema", "people.pg", "--query="),
    "a file to format": ("fmt", ""),
    "a query file": ("query", "--store", "g", "--query", ""),
    "a file of parameters": ("query", "friends", "--store", "g", "--params-file", ""),
    "a file to export to": ("export", "g", "--out", ""),
    "a file for a baseline": ("changes", "baseline", "g", "--out", ""),
    "a branch": ("export", "g", "--branch", ""),
}


@pytest.mark.parametrize("given", EMPTY.values(), ids=EMPTY.keys())
def test_an_empty_word_is_a_wrong_call(run: Run, given: tuple[str, ...]) -> None:
    refused = run(*given)
    assert (refused.code, refused.out) == (2, "")
    assert "it is empty" in refused.err


@pytest.mark.parametrize("count", ["-1", "0", "some"])
@pytest.mark.parametrize(
    "asked",
    [
        ("commit", "list", "g", "--limit"),
        ("commit", "changes", "01M7", "--store", "g", "--limit"),
        ("changes", "poll", "g", "--limit"),
        ("cleanup", "g", "--keep"),
    ],
    ids=" ".join,
)
def test_a_count_that_counts_nothing_is_a_wrong_call(
    run: Run, asked: tuple[str, ...], count: str
) -> None:
    refused = run(*asked, count)
    assert (refused.code, refused.out) == (2, "")
    assert asked[-1] in refused.err


def test_an_export_prints_and_writes_the_records_one_a_line(people: Run, tmp_path: Path) -> None:
    with omnigraphdb.open(tmp_path / "g", read_only=True) as graph:
        records = list(graph.export())
    lines = "".join(
        json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in records
    )
    assert people("export", "g").out == lines
    assert people("export", "g", "--out", "all.jsonl").code == 0
    assert (tmp_path / "all.jsonl").read_text(encoding="utf-8") == lines
