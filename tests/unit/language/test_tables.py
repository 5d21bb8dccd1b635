"""The tables of the grammars are kept beside the bytecode, and made anew when they are of no use."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.schema.parse import parse_schema_text
from omnigraphdb.language.source import Source
query = Source("query q($n: I32) { match { $p: Person { age: $n } } return { $p.name } }", "q")
schema = Source("node Person { name: String @key  age: I32? @range(age, 0..150) }", "s")
print(parse_queries(query), parse_schema_text(schema))
"""


def run(prefix: Path, **environment: str) -> str:
    known = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    known |= {"PYTHONPYCACHEPREFIX": str(prefix), **environment}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=known
    )
    assert done.stderr == ""
    return done.stdout


def test_kept_damaged_and_missing_tables_read_the_same_trees(tmp_path: Path) -> None:
    made = run(tmp_path)
    kept = sorted(tmp_path.rglob("*.lark.*"))
    assert len(kept) == 2
    before = [file.stat().st_mtime_ns for file in kept]
    assert run(tmp_path) == made
    assert [file.stat().st_mtime_ns for file in kept] == before
    for file in kept:
        file.write_bytes(file.read_bytes()[:100])
    assert run(tmp_path) == made
    assert all(file.stat().st_size > 1_000 for file in kept)


def test_no_tables_are_written_where_no_bytecode_is(tmp_path: Path) -> None:
    run(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert list(tmp_path.rglob("*.lark.*")) == []
