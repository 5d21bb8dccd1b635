"""Two releases of three dozen packages, a review of the first, and the merge of both with a report of every conflict.

python examples/packages/run.py [folder]
"""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omnigraphdb
from omnigraphdb import Graph, MergeConflicts

HERE = Path(__file__).parent
QUERIES = (HERE / "review.gq").read_text(encoding="utf-8")

REVIEW: Sequence[tuple[str, Mapping[str, str]]] = (
    ("note", {"name": "requests", "note": "in use in nine services"}),
    ("note", {"name": "urllib3", "note": "comes with requests"}),
    ("note", {"name": "pydantic", "note": "models are not ready for 2"}),
    ("license", {"name": "flask", "license": "BSD-3-Clause"}),
    ("license", {"name": "typing-extensions", "license": "PSF-2.0"}),
    ("license", {"name": "packaging", "license": "Apache-2.0"}),
    ("summary", {"name": "anyio", "summary": "Structured concurrency on asyncio and trio"}),
    ("remove", {"name": "python-dotenv"}),
    ("add", {"name": "acme-config", "version": "1.4.0"}),
    ("require", {"from": "acme-config", "to": "toml", "range": ">=0.10"}),
)
"""What the reviewer did; `toml` is about to go, `packaging` gets another license, `python-dotenv` lives on."""

DECISIONS: Mapping[str, str] = {
    "packaging": "source",
    "anyio": "target",
    "python-dotenv": "target",
}
"""Whose value stands where both sides changed it: the reviewer's (source) or the release's (target)."""

COLUMNS = {"from": "src", "to": "dst"}
"""The ends of an edge, as its row calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened, for the reader and for the test."""

    by_row: tuple[Any, ...]
    by_property: tuple[Any, ...]
    by_rule: tuple[Any, ...]
    report: str
    outcome: str
    commits: int


def run_example(folder: Path) -> Story:
    """Build the graph in an empty folder, review, merge, and report the conflicts."""
    with omnigraphdb.init(folder, (HERE / "schema.pg").read_text(encoding="utf-8")) as graph:
        graph.load(HERE / "data" / "older.jsonl", mode="append", actor="import")
        graph.branch_create("newer")
        graph.branch_create("review")
        graph.load(HERE / "data" / "newer.jsonl", mode="overwrite", branch="newer", actor="import")
        for name, params in REVIEW:
            graph.mutate(QUERIES, name, params, branch="review", actor="ana")
        graph.merge("newer", actor="import")
        by_row = graph.merge("review", dry_run=True).conflicts
        by_property = graph.merge("review", granularity="property", dry_run=True).conflicts
        apply_decisions(graph, by_property)
        by_rule = list_rule_conflicts(graph)
        graph.mutate(QUERIES, "release", {"to": "toml"}, branch="review", actor="ana")
        again = {"from": "acme-config", "to": "tomli", "range": ">=2"}
        graph.mutate(QUERIES, "require", again, branch="review", actor="ana")
        merged = graph.merge("review", granularity="property", actor="ana")
        return Story(
            by_row=by_row,
            by_property=by_property,
            by_rule=by_rule,
            report=draw_report({"By row": by_row, "By property": by_property, "By rule": by_rule}),
            outcome=str(merged.outcome),
            commits=len(graph.commits()),
        )


def list_rule_conflicts(graph: Graph) -> tuple[Any, ...]:
    """Try the merge and give what it was refused for; nothing is written then."""
    try:
        graph.merge("review", granularity="property")
    except MergeConflicts as error:
        return error.conflicts
    return ()


# ---- deciding


def apply_decisions(graph: Graph, conflicts: Sequence[Any]) -> None:
    """Let both sides of every conflict agree on what was decided: then the merge has nothing to ask."""
    for conflict in conflicts:
        if DECISIONS.get(package_of(conflict), "target") == "source":
            branch, row, decided = "main", conflict.target, conflict.source
        else:
            branch, row, decided = "review", conflict.source, conflict.target
        kept = {name: decided[name] for name in conflict.properties} if row else decided
        changed = record(conflict.table_key, {**(row or {}), **kept})
        graph.load([changed], mode="merge", branch=branch, actor="ana")


def package_of(conflict: Any) -> str:
    """The package a conflict is about."""
    row = conflict.target or conflict.source or conflict.base
    return str(row.get("src", row["id"]))


def record(table_key: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a conflict in the form that is loaded."""
    kind, _, type_name = table_key.partition(":")
    if kind == "node":
        return {"type": type_name, "data": {k: v for k, v in row.items() if k != "id"}}
    data = {name: value for name, value in row.items() if name not in ("src", "dst")}
    return {"edge": type_name, "from": row["src"], "to": row["dst"], "data": data}


# ---- telling


def draw_report(groups: Mapping[str, Sequence[Any]]) -> str:
    """Every conflict as a table people can go through."""
    return "\n".join(line for name, found in groups.items() for line in _section(name, found))


def _section(name: str, conflicts: Sequence[Any]) -> Iterator[str]:
    counts = Counter(str(conflict.kind) for conflict in conflicts)
    yield f"## {name}: {len(conflicts)} conflicts"
    yield ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())) or "none"
    yield ""
    yield "| table | id | kind | property | base | review | newer |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for conflict in conflicts:
        for property_name in conflict.properties or ("",):
            sides = (conflict.base, conflict.source, conflict.target)
            cells = " | ".join(_cell(side, property_name) for side in sides)
            yield (
                f"| {conflict.table_key} | {conflict.row_id} | {conflict.kind} "
                f"| {property_name} | {cells} |"
            )
    yield ""


def _cell(row: Mapping[str, Any] | None, name: str) -> str:
    if row is None:
        return "(no row)"
    value = row.get(COLUMNS.get(name, name)) if name else "(there)"
    return "" if value is None else str(value).replace("|", "\\|")


def main() -> None:
    """Run the story and print its report."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "packages"
    story = run_example(folder)
    print(story.report)
    print(f"Then {story.outcome}, after {story.commits} commits, in {folder}")
    if len(sys.argv) < 2:
        shutil.rmtree(folder.parent)


if __name__ == "__main__":
    main()
