"""The examples run, offline, and come out as their texts say."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import omnigraph
from tests.support.settled import assert_settled

EXAMPLES = Path(__file__).parents[2] / "examples"


def module_of(path: Path) -> ModuleType:
    """Load a script without installing it."""
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def test_the_packages_merge_after_every_conflict_was_reported_and_decided(tmp_path: Path) -> None:
    story = module_of(EXAMPLES / "packages" / "run.py").run_example(tmp_path / "g")
    assert Counter(str(c.kind) for c in story.by_row) == {
        "divergent_update": 7,
        "delete_vs_update": 1,
    }
    assert {(c.row_id, c.properties) for c in story.by_property} == {
        ("anyio", ("summary",)),
        ("packaging", ("license",)),
        ("python-dotenv", ()),
    }
    assert [(str(c.kind), c.source["dst"]) for c in story.by_rule] == [("orphan_edge", "toml")]
    assert (
        "| node:Package | packaging | divergent_update | license | Apache Software" in story.report
    )
    assert story.outcome == "merged"
    with omnigraph.open(tmp_path / "g") as graph:
        packages = {row["id"]: row for row in graph.table("Package").to_pylist()}
        assert packages["packaging"]["license"] == "Apache-2.0"
        assert packages["packaging"]["version"] != "23.1"
        assert packages["requests"]["note"] == "in use in nine services"
        assert packages["python-dotenv"]["version"] != "1.0.0"
        assert "toml" not in packages
        last = graph.commits()[0]
        assert (last.kind, last.merged_parent is not None) == ("branch_merge", True)
        assert_settled(graph)


def test_the_data_of_the_packages_is_small_and_names_two_releases() -> None:
    folder = EXAMPLES / "packages" / "data"
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert set(sizes) == {"older.jsonl", "newer.jsonl"}
    assert max(sizes.values()) < 64 * 1024


@pytest.mark.parametrize(
    "readme", sorted(EXAMPLES.glob("packages/README.md")), ids=lambda p: p.parent.name
)
def test_every_file_an_example_speaks_of_is_there(readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    for name in ("run.py", "collect.py", "data/older.jsonl", "data/newer.jsonl"):
        assert name in text
        assert (readme.parent / name).exists()
