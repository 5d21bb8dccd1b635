"""Suites of Debian as branches: load, diff, merge, rank the packages of two commits, and draw what moved.

python examples/debian/run_suites.py [FOLDER] [--data FOLDER] [--spark]
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import omnigraphdb
from omnigraphdb import Graph

HERE = Path(__file__).parent
TYPES = {"Package": ("packages", "name"), "DependsOn": ("depends", "from")}
"""The files of a type, and the column that names the package which brings a row."""

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened, for the reader and for the test."""

    packages: int
    dependencies: int
    changes: Mapping[str, Mapping[str, int]]
    """For every suite that was merged: how many entities it inserted, updated and deleted."""
    conflicts: int
    engine: str
    top: Sequence[str]
    movers: Sequence[Mapping[str, Any]]
    communities: int
    pictures: Sequence[Path]


def run_example(folder: Path, data: Path = HERE / "data", spark: Any = None) -> Story:
    """Build the graph in an empty folder; pictures and the page go beside it."""
    names = list_suites(data)
    suites = {name: read_suite(data, name) for name in names}
    base = suites[names[0]]
    with omnigraphdb.init(
        folder / "debian.omni", (HERE / "schema.pg").read_text(encoding="utf-8")
    ) as graph:
        loaded = graph.load(base, mode="append", spark=spark, actor="import", message=names[0])
        assert loaded.commit is not None, "the base has packages"
        for name in names[1:]:
            graph.branch_create(name)
            renewed = renew(base, suites[name])
            graph.load(
                renewed, mode="overwrite", branch=name, spark=spark, actor="import", message=name
            )
        changes = {name: count_changes(graph, name, spark) for name in names[1:]}
        conflicts = sum(merge_suite(graph, name, spark) for name in names[1:])
        ranks = rank_packages(graph, loaded.commit.id)
        moved = omnigraphdb.compare(ranks["before"], ranks["after"])
        movers = moved.filter(pc.is_valid(moved["change"])).slice(0, 20).to_pylist()
        groups = graph.project(edges={"DependsOn": {"undirected": True}}).louvain(seed=7)
        ranks["after"].write("Package.rank", actor="nightly", message="ranks")
        groups.write("Package.community", actor="nightly", message="communities")
        top = [row["id"] for row in ranks["after"].top(20)]
        counts = graph.snapshot().tables()
        return Story(
            packages=counts["node:Package"],
            dependencies=counts["edge:DependsOn"],
            changes=changes,
            conflicts=conflicts,
            engine=loaded.engine,
            top=top,
            movers=movers,
            communities=len(pc.unique(groups.to_arrow()["value"])),
            pictures=draw_page(folder, ranks["after"].to_arrow(), movers, groups.to_arrow()),
        )


# ---- suites


def list_suites(data: Path) -> list[str]:
    """The suites of a folder, the one with most packages first."""
    files = {
        path.name.removesuffix("-packages.parquet"): path
        for path in data.glob("*-packages.parquet")
    }
    return sorted(files, key=lambda name: -pq.read_metadata(files[name]).num_rows)


def read_suite(data: Path, name: str) -> Tables:
    """Both tables of a suite."""
    return {
        type_: pq.read_table(data / f"{name}-{what}.parquet") for type_, (what, _) in TYPES.items()
    }


def renew(base: Tables, suite: Tables) -> Tables:
    """The base with the packages that a suite renews, and with their new dependencies."""
    renewed = suite["Package"]["name"]
    return {
        type_: pa.concat_tables(
            [
                base[type_].filter(pc.invert(pc.is_in(base[type_][owner], value_set=renewed))),
                suite[type_],
            ]
        )
        for type_, (_, owner) in TYPES.items()
    }


def count_changes(graph: Graph, branch: str, spark: Any) -> Mapping[str, int]:
    """How much a branch differs from main."""
    if spark is None:
        return Counter(graph.diff_frame("main", branch)["op"].to_pylist())
    rows = graph.diff_frame("main", branch, spark=spark).groupBy("op").count().collect()
    return {row["op"]: row["count"] for row in rows}


def merge_suite(graph: Graph, branch: str, spark: Any) -> int:
    """Merge a suite into main; where main has renewed a package too, main stands. Gives the number of conflicts."""
    conflicts = graph.merge(branch, dry_run=True, spark=spark).conflicts
    decided = [_record(one.table_key, one.target) for one in conflicts if one.target is not None]
    if decided:
        graph.load(decided, mode="merge", branch=branch, actor="ana", message="main stands")
    graph.merge(branch, spark=spark, actor="import", message=f"merge {branch}")
    return len(conflicts)


def _record(table_key: str, row: Mapping[str, Any]) -> dict[str, Any]:
    kind, _, type_name = table_key.partition(":")
    if kind == "node":
        return {"type": type_name, "data": {name: v for name, v in row.items() if name != "id"}}
    data = {name: value for name, value in row.items() if name not in ("src", "dst")}
    return {"edge": type_name, "from": row["src"], "to": row["dst"], "data": data}


# ---- analysis


def rank_packages(graph: Graph, before: str) -> dict[str, Any]:
    """PageRank of the first suite and of everything merged; the second begins from the first."""
    first = graph.project(edges=["DependsOn"], at=before).pagerank()
    return {"before": first, "after": graph.project(edges=["DependsOn"]).pagerank(start=first)}


def draw_page(
    folder: Path, ranks: pa.Table, movers: Sequence[Mapping[str, Any]], groups: pa.Table
) -> list[Path]:
    """Draw three pictures and a page that shows them; without matplotlib there is no page."""
    if find_spec("matplotlib") is None:
        print("no pictures: pip install matplotlib")
        return []
    make_figure = import_module("matplotlib.figure").Figure
    best = ranks.sort_by([("value", "descending")]).slice(0, 20).to_pylist()
    sizes = sorted(
        (one["counts"] for one in groups["value"].value_counts().to_pylist()), reverse=True
    )
    bars = {
        "ranks": ("Packages that others depend on most", [(r["id"], r["value"]) for r in best]),
        "movers": ("Moved most between the suites", [(m["id"], m["change"]) for m in movers]),
        "communities": (
            "Packages in each of the largest communities",
            [(str(n), c) for n, c in enumerate(sizes[:20], 1)],
        ),
    }
    pictures = []
    for name, (title, values) in bars.items():
        figure = make_figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        axes.barh([label for label, _ in values][::-1], [value for _, value in values][::-1])
        axes.set_title(title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.3)
        axes.tick_params(labelsize=8)
        pictures.append(folder / f"{name}.svg")
        figure.savefig(pictures[-1], metadata={"Date": None})
    shown = "\n".join(
        f'<figure><img src="{path.name}" alt="{path.stem}"></figure>' for path in pictures
    )
    page = folder / "debian.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><title>Debian suites</title>\n{shown}\n",
        encoding="utf-8",
    )
    return [*pictures, page]


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="debian-"))
    folder.mkdir(parents=True, exist_ok=True)
    spark = None
    if given.spark:
        spark = import_module("omnigraphdb.spark").session()
    story = run_example(folder, given.data, spark)
    print(
        f"{story.packages} packages, {story.dependencies} dependencies (loaded by {story.engine})"
    )
    for suite, counts in story.changes.items():
        print(f"{suite}: {', '.join(f'{n} {op}s' for op, n in sorted(counts.items()))}")
    print(f"{story.conflicts} conflicts were decided for main, {story.communities} communities")
    print("highest ranks:", ", ".join(story.top[:10]))
    print("moved most:", ", ".join(str(row["id"]) for row in story.movers[:10]))
    if story.pictures:
        print(f"page: {story.pictures[-1]}")


if __name__ == "__main__":
    main()
