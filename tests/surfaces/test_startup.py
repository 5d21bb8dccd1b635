"""What a command loads: a verb pays for what it needs, whatever else is installed."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import omnigraphdb

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
ASK = 'query q() { match { $p: Person { name: "Ada" } } return { $p.age } }\n'
PROGRAM = """
import json, sys
from omnigraphdb.__main__ import run
sys.argv = ["omnigraphdb", *sys.argv[1:]]
try:
    run()
except SystemExit as end:
    assert not end.code, end.code
sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""
WITHOUT_PANDAS = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoPandas())
"""
NEVER = (
    "pandas",
    "pydantic",
    "pyspark",
    "structlog",
    "torch",
    "polars",
    "rich",
    "ulid",
    "numpy.ma",
    "importlib.metadata",
    "omnigraphdb.spark",
    "omnigraphdb.spark_jobs",
)
NO_GRAPH = (
    *NEVER,
    "pyarrow",
    "lance",
    "numpy",
    "obstore",
    "omnigraphdb.engine",
    "omnigraphdb.storage",
)
FOREIGN_VERBS = tuple(
    f"omnigraphdb.engine.{name}" for name in ("merge", "history", "schema", "analytics", "diff")
)
READ = (*NEVER, *FOREIGN_VERBS, "omnigraphdb.engine.maintenance", "omnigraphdb.engine.write")
WRITE = (*NEVER, *FOREIGN_VERBS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, its schema and a query."""
    made = tmp_path_factory.mktemp("startup")
    (made / "people.pg").write_text(SCHEMA)
    (made / "people.gq").write_text(ASK)
    with omnigraphdb.init(made / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "Ada", "age": 36}}], mode="append")
    return made


def loaded(
    folder: Path, *typed: str, program: str = PROGRAM, environment: Mapping[str, str] = {}
) -> set[str]:
    """The modules that a command of its own process ends with."""
    done = subprocess.run(
        [sys.executable, "-c", program, *typed],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


COMMANDS = {
    "help": (("--help",), NO_GRAPH, 62),
    "version": (("version",), NO_GRAPH, 51),
    "lint": (("lint", "--schema", "people.pg", "--query", "people.gq"), NO_GRAPH, 108),
    "fmt": (("fmt", "people.gq"), NO_GRAPH, 108),
    "plan of files": (
        ("schema", "plan", "--from", "people.pg", "--to", "people.pg"),
        NO_GRAPH,
        108,
    ),
    "query": (("query", "--store", "g", "--query", "people.gq"), READ, 344),
    "commit list": (("commit", "list", "g", "--limit", "1"), ("pandas", *FOREIGN_VERBS), 339),
    "insert": (
        ("mutate", "--store", "g", "-e", 'query a() { insert Person { name: "Bo" } }'),
        WRITE,
        383,
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_what_it_needs(folder: Path, name: str) -> None:
    typed, foreign, most = COMMANDS[name]
    found = loaded(folder, *typed)
    wrong = sorted(
        module for module in found if module in foreign or module.startswith(_below(foreign))
    )
    assert wrong == []
    assert len([module for module in found if module.partition(".")[0] == "omnigraphdb"]) <= most


def _below(packages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{package}." for package in packages)


def test_branches_are_completed_without_lance(folder: Path) -> None:
    typed = "omnigraphdb query --store g --branch ma"
    asked = {"_OMNIGRAPHDB_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": "5"}
    found = loaded(folder, environment=asked)
    heavy = {"lance", "pyarrow", "numpy", "obstore", "pandas", "pydantic", "omnigraphdb.engine"}
    assert sorted(found & heavy) == []


@pytest.mark.parametrize("name", ["query", "insert"])
def test_a_command_loads_the_same_where_pandas_is_not_installed(folder: Path, name: str) -> None:
    typed = COMMANDS[name][0]
    without = loaded(folder, *typed, program=WITHOUT_PANDAS + PROGRAM)
    assert loaded(folder, *typed) == without


def test_pandas_is_there_for_who_asks_for_spark() -> None:
    program = (
        "from omnigraphdb.surfaces.cli.process import begin\nbegin()\n"
        "import pyarrow as pa\n"
        "assert not pa.lib._pandas_api.have_pandas\n"
        "import pyspark, pandas\n"
        "assert pa.array([1]).to_pandas().tolist() == [1]\n"
        "assert pa.array(pandas.Series([1.0, None])).null_count == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
