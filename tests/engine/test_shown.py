"""What people see of results: in a terminal, in a notebook, and as diagrams."""

from collections.abc import Iterator

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.results import Commits, LoadResult

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key  age: I32?  @range(age, 0..150) }
node Company { name: String @key  city: String? @index }
edge Knows: Person -> Person @card(0..9) { since: Date? }
edge WorksAt: Person -> Company
"""
ASK = "query adults() { match { $p: Person  $p.age > 18 } return { $p.name, $p.age } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """A graph with a branch that changed, inserted and deleted."""
    with omnigraphdb.init(tmp_path_factory.mktemp("shown") / "g", SCHEMA) as made:
        load(made)
        made.branch_create("other")
        made.branch_create("review")
        on = made.on("review")
        on.mutate('query m() { update Person set { age: 37 } where name = "Ada" }')
        on.mutate('query m() { insert Person { name: "Cy" } }')
        on.mutate('query m() { delete Person where name = "Bo" }')
        yield made


def load(graph: Graph) -> LoadResult:
    """Two people who know one another."""
    people = [{"type": "Person", "data": {"name": name, "age": 36}} for name in ("Ada", "Bo")]
    edge = {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": "2020-01-01"}}
    return graph.load([*people, edge], mode="merge", actor="ada")


def test_a_load_shows_its_tables_and_its_commit(graph: Graph) -> None:
    done = load(graph.on("other"))
    shown = str(done)
    assert shown.startswith("merge on other: 3 records\n")
    assert done.commit is not None
    assert done.commit.id in shown
    assert [line.split() for line in shown.splitlines()[-2:]] == [
        ["edge:Knows", "1"],
        ["node:Person", "2"],
    ]
    assert "<td>node:Person</td>" in done._repr_html_()


def test_commits_are_a_list_that_shows_a_table(graph: Graph) -> None:
    found = graph.commits(branch="review", limit=3)
    assert isinstance(found, list)
    assert type(found) is Commits
    lines = str(found).splitlines()
    assert lines[0] == "3 commits"
    assert [line.split()[0] for line in lines[3:]] == [commit.id for commit in found]
    assert lines[1].split() == ["commit", "created", "(UTC)", "kind", "branch", "tables"]
    assert repr(found[0]).startswith(f"<Commit {found[0].id} mutation on review, ")
    everything = str(graph.commits(branch="review"))
    assert "actor" in everything
    assert str(graph.commits(actor="nobody")) == "0 commits"


def test_a_diff_shows_counts_and_old_and_new_values(graph: Graph) -> None:
    found = graph.diff("main", "review", images=True)
    update = next(change for change in found if change.op == "update")
    assert update.values == {"age": (36, 37)}
    assert all(change.values == {} for change in found if change is not update)
    shown = str(found)
    assert "+1 ~1 -2" in shown.splitlines()[0]
    assert "age: 36 → 37" in shown
    assert ["node:Person", "1", "1", "1"] in [line.split() for line in shown.splitlines()]
    assert "Ada → Bo" in shown
    html = found._repr_html_()
    assert html.count('class="og-bad"') == 2
    assert "age: 36 → 37" in html


def test_a_diff_without_images_names_the_properties(graph: Graph) -> None:
    found = graph.diff("main", "review")
    assert next(change for change in found if change.op == "update").values == {}
    assert any(line.split() == ["~", "Person", "Ada", "age"] for line in str(found).splitlines())


def test_other_results_are_worth_reading(graph: Graph) -> None:
    tried = graph.merge("review", dry_run=True)
    assert "merge of review into main: " in str(tried)
    assert "<td>node:Person</td>" in tried._repr_html_()
    assert "index" in str(graph.index_status())
    assert str(graph.doctor()) == "no issues: every invariant holds"
    assert "would be removed" in str(graph.cleanup(keep=1))
    planned = graph.schema_plan(SCHEMA + "node City { name: String @key }")
    assert "add_type node City" in planned._repr_html_()
    assert "add_type node City" in repr(planned)


# ---- plans and schemas


def test_a_plan_is_drawn_with_rows_flowing_up(graph: Graph) -> None:
    plan = graph.explain(ASK)
    drawn = plan.to_mermaid().splitlines()
    assert drawn[0] == "flowchart BT"
    assert "  s1 --> s0" in drawn
    assert len([line for line in drawn if "[" in line]) == len(plan.steps)
    assert len([line for line in drawn if "-->" in line]) == len(plan.steps) - 1
    assert repr(plan) == plan.text
    assert "milliseconds" not in plan._repr_html_()
    ran = graph.explain(ASK, profile=True)._repr_html_()
    assert ">ms</th>" in ran
    assert "└─ Scan $p: Person" in ran


def test_a_schema_is_shown_and_drawn(graph: Graph) -> None:
    shown = str(graph.catalog)
    assert "edge Knows: Person → Person  @card(0..9)" in shown
    assert "node Person  implements Named" in shown
    assert "@range(0..150)" in shown
    drawn = graph.catalog.to_mermaid().splitlines()
    boxes = {
        line.split('"')[1]: line.split()[1].split("[")[0] for line in drawn if "class " in line
    }
    assert set(boxes) == {"Person", "Company"}
    assert f"  {boxes['Person']} --> {boxes['Company']} : WorksAt" in drawn
    assert f"  {boxes['Person']} --> {boxes['Person']} : Knows, since Date?" in drawn
    assert f"  {boxes['Person']} : age I32? @range‹0..150›" in drawn
    assert "<caption>node Company</caption>" in graph.catalog._repr_html_()
