"""The examples run, offline, and come out as their texts say."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import omnigraphdb
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
    with omnigraphdb.open(tmp_path / "g") as graph:
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


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ModuleType]:
    return tmp_path_factory.mktemp("debian"), module_of(EXAMPLES / "debian" / "run_suites.py")


def test_suites_of_debian_are_branches_that_merge_and_are_ranked(
    debian: tuple[Path, ModuleType],
) -> None:
    folder, example = debian
    story = example.run_example(folder)
    assert (story.packages, story.engine) == (5000, "local")
    assert story.changes["bookworm-updates"] == {"update": 78}
    assert story.conflicts == 19
    assert story.top[0] == "libc6"
    assert all(row["change"] for row in story.movers)
    assert [path.name for path in story.pictures] == [
        "ranks.svg",
        "movers.svg",
        "communities.svg",
        "debian.html",
    ]
    with omnigraphdb.open(folder / "debian.omni") as graph:
        # Every package of the suites is there at its newest version, and the merges left nothing behind.
        renewed = example.read_suite(EXAMPLES / "debian" / "data", "bookworm-updates")["Package"]
        versions = dict(
            zip(*(graph.table("Package")[c].to_pylist() for c in ("name", "version")), strict=True)
        )
        wrong = [
            row["name"] for row in renewed.to_pylist() if versions[row["name"]] < row["version"]
        ]
        assert wrong == []
        ranks = graph.table("Package")["rank"]
        assert ranks.null_count == 0
        assert_settled(graph)


def test_the_index_of_a_suite_is_read_field_by_field() -> None:
    collect = module_of(EXAMPLES / "debian" / "collect_suites.py")
    text = (
        "Package: a\nVersion: 1\nDepends: b (>= 2) | c, d:any\nRecommends: b\nInstalled-Size: 7\n"
        "Description: first\n second line\n\nPackage: b\nVersion: 2\n"
    )
    stanzas = {one["Package"]: one for one in collect.parse_stanzas(text)}
    suite = collect.Suite("s", stanzas)
    assert suite.packages.to_pylist()[0]["size_kb"] == 7
    rows = suite.list_dependencies({"b", "d"}).to_pylist()
    assert [(r["to"], r["kind"], r["range"], r["alternative"]) for r in rows] == [
        ("b", "depends", ">= 2", True),
        ("d", "depends", None, False),
    ]
