"""Which graph a command works on when it names none: profile, environment, project file, user file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.errors import ConfigError
from omnigraphdb.surfaces.cli.config import choose_scope, load_config

SCHEMA = "node Person { name: String @key }\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with three graphs and an empty home."""
    for name in ("one", "two", "three"):
        omnigraphdb.init(tmp_path / name, SCHEMA).close()
    (tmp_path / "home").mkdir()
    return tmp_path


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a working directory, with its own home."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OMNIGRAPH_")}
    return subprocess.run(
        [sys.executable, "-m", "omnigraphdb", *words],
        cwd=folder,
        env={**kept, "OMNIGRAPH_HOME": str(folder / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_what_is_named_first_wins_and_nothing_is_mixed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "home/config.yaml", f"profiles:\n  dev: {{ store: {folder / 'two'} }}\n")
    write(folder / "omnigraph.yaml", "defaults: { store: one }\n")
    environment = {"OMNIGRAPH_HOME": str(folder / "home")}

    def chosen(**more: str) -> str | None:
        return choose_scope({**environment, **more})[0].store

    monkeypatch.chdir(folder)
    assert chosen() == str(folder / "one")
    assert chosen(OMNIGRAPH_STORE="three") == "three"
    assert chosen(OMNIGRAPH_STORE="three", OMNIGRAPH_PROFILE="dev") == str(folder / "two")


def test_a_project_file_is_found_above_and_laid_over_the_users(folder: Path) -> None:
    write(
        folder / "home/config.yaml",
        "operator: { actor: ada }\ndefaults: { server: prod, output: csv }\n",
    )
    write(folder / "omnigraph.yaml", "defaults: { store: ./one }\n")
    below = folder / "a/b"
    below.mkdir(parents=True)
    config = load_config({"OMNIGRAPH_HOME": str(folder / "home")}, below)
    assert config.section("operator")["actor"] == "ada"
    assert dict(config.section("defaults")) == {"output": "csv", "store": str(folder / "one")}


def test_commands_use_the_graph_that_is_configured(folder: Path) -> None:
    text = "defaults: { store: one }\nprofiles: { dev: { store: two } }\noperator: { actor: ada }\n"
    write(folder / "omnigraph.yaml", text)
    assert (
        run(folder, "mutate", "-e", 'query a() { insert Person { name: "Ada" } }').returncode == 0
    )
    ask = (
        "query",
        "-e",
        "query q() { match { $p: Person } return { $p.name } }",
        "--format",
        "csv",
    )
    assert run(folder, *ask).stdout == "p.name\nAda\n"
    with omnigraphdb.open(folder / "one", read_only=True) as graph:
        assert graph.commits()[0].actor == "ada"
    assert run(folder, *ask, "--profile", "dev").stdout == "p.name\n"
    assert run(folder, "--profile=dev", *ask).stdout == "p.name\n"
    assert run(folder, *ask, "--store", "two").stdout == "p.name\n"
    assert run(folder, *ask, OMNIGRAPH_STORE="three").stdout == "p.name\n"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("defaults: [", ["omnigraph.yaml", "line 1"]),
        ("- a\n", ["holds no mapping"]),
        ("defaults: 3\n", ["defaults holds no mapping"]),
        ("defaults: { store: a, server: b }\n", ["both a server and a store"]),
        ("defaults: { store: a, default_graph: b }\n", ["default_graph"]),
        ("defaults: { server: b }\n", ["unknown server 'b'"]),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(
    folder: Path, text: str, facts: list[str]
) -> None:
    write(folder / "omnigraph.yaml", text)
    done = run(folder, "branch", "list")
    assert done.returncode == 2
    assert all(fact in done.stderr for fact in facts), done.stderr
    assert "Traceback" not in done.stderr


def test_profiles_that_cannot_be_used_are_named(folder: Path) -> None:
    config = load_config(
        {"OMNIGRAPH_HOME": str(write(folder / "h/config.yaml", PROFILES).parent)}, folder / "home"
    )
    for name, fact in (("dve", "did you mean 'dev'"), ("none", "binds nothing"), ("both", "store")):
        with pytest.raises(ConfigError, match=fact):
            config.profile(name)


PROFILES = "profiles:\n  dev: { store: a }\n  none: {}\n  both: { store: a, server: b }\n"


def test_keys_that_mean_nothing_are_told_once(folder: Path) -> None:
    write(folder / "omnigraph.yaml", "defaults: { store: one, ouput: csv }\nother: 3\n")
    done = run(folder, "branch", "list")
    assert done.returncode == 0, done.stderr
    assert "defaults.ouput means nothing and is ignored; did you mean 'output'?" in done.stderr
    assert "the key other means nothing" in done.stderr


def test_a_command_without_any_graph_lists_the_ways_to_name_one(folder: Path) -> None:
    done = run(folder, "branch", "list")
    assert done.returncode == 2
    assert all(
        way in done.stderr for way in ("--store", "--profile", "OMNIGRAPH_STORE", "defaults")
    )


def test_a_profile_without_a_name_is_a_usage_error(folder: Path) -> None:
    done = run(folder, "branch", "list", "--profile")
    assert (done.returncode, "--profile takes a value" in done.stderr) == (2, True)
