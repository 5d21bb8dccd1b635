"""A package that is not installed: every call that needs it names the package and how to get it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from importlib.abc import MetaPathFinder

ABSENT = {"cedarpy", "duckdb", "networkx", "pandas", "polars", "pyspark", "scipy"}

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import omnigraphdb
from pathlib import Path

graph = omnigraphdb.init(sys.argv[1], "node Person { name: String @key } edge Knows: Person -> Person")
rows = graph.query("query q() { match { $p: Person } return { $p.name } }")
ABSENT.remove("scipy")
degrees = graph.project(nodes=["Person"], edges=["Knows"]).degrees()
ABSENT.add("scipy")
for name in [name for name in sys.modules if name.partition(".")[0] == "scipy" or "analytics" in name]:
    del sys.modules[name]
Path(sys.argv[2]).write_text("version: 1\\ngroups: {a: [b]}\\nrules:\\n- id: r\\n  allow: {actors: {group: a}, actions: [read], branch_scope: any}\\n")

CALLS = {
    "pandas": rows.to_pandas,
    "pandas of scores": degrees.to_pandas,
    "polars": rows.to_polars,
    "polars of scores": degrees.to_polars,
    "duckdb": lambda: graph.snapshot().duckdb(),
    "networkx": lambda: graph.snapshot().to_networkx(),
    "scipy": lambda: graph.project(nodes=["Person"], edges=["Knows"]),
    "pyspark of a query": lambda: graph.query("query q() { match { $p: Person } return { $p.name } }", spark=True),
    "pyspark of maintenance": lambda: graph.optimize(spark=True),
    "pyspark": lambda: __import__("omnigraphdb.spark"),
    "cedarpy": lambda: omnigraphdb.open(sys.argv[1], actor="b", policy=Path(sys.argv[2])).query("query q() { match { $p: Person } return { $p.name } }"),
}
found = {}
for name, call in CALLS.items():
    try:
        call()
    except omnigraphdb.errors.ConfigError as error:
        found[name] = [str(error), error.hint]
print(json.dumps(found))
"""

EXTRAS = {
    "cedarpy": "'omnigraphdb[policy]'",
    "pyspark": "'omnigraphdb[spark]'",
    "scipy": "'omnigraphdb[analytics]'",
}
CALLS = (
    "pandas", "pandas of scores", "polars", "polars of scores", "duckdb", "networkx", "scipy",
    "pyspark of a query", "pyspark of maintenance", "pyspark", "cedarpy",
)  # fmt: skip


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The message and the hint of each call in a process that has none of the packages."""
    place: Path = tmp_path_factory.mktemp("absent")
    argv = [sys.executable, "-c", PROGRAM, str(place / "g.omni"), str(place / "policy.yaml")]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, list[str]] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_package_is_named_with_the_way_to_install_it(
    refused: dict[str, list[str]], call: str
) -> None:
    name = call.partition(" ")[0]
    message, hint = refused[call]
    assert f"needs the package '{name}', which is not installed; " in message
    assert hint == f"pip install {EXTRAS.get(name, name)}"
