"""Forms that stand for all types or properties mean those of the commit that is read, whatever was dropped since."""

from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import QueryError

SCHEMA = """
interface Named { name: String? }
node Person implements Named { key: String @key  zeal: I32?  mark: String?  name: String? }
node Team implements Named { key: String @key  name: String? }
node Tool { key: String @key }
edge Knows: Person -> Person { since: I32?  how: String? }
edge MemberOf: Person -> Team
edge Uses: Person -> Tool { often: I32? }
"""
RECORDS = [
    {"type": "Person", "data": {"key": "a", "zeal": 1, "mark": "m", "name": "Ann"}},
    {"type": "Person", "data": {"key": "b", "zeal": 2, "name": "Bea"}},
    {"type": "Team", "data": {"key": "t", "name": "Crew"}},
    {"type": "Tool", "data": {"key": "w"}},
    {"edge": "Knows", "from": "a", "to": "b", "data": {"since": 3, "how": "work"}},
    {"edge": "MemberOf", "from": "a", "to": "t"},
    {"edge": "Uses", "from": "a", "to": "w", "data": {"often": 5}},
]
FORMS = {
    "star": "match { $p: Person } return { $p.* } order { $p.key }",
    "star of an edge": "match { $p: Person  $p $k:knows $q } return { $k.* }",
    "star of an interface": "match { $x: Named } return { $x.*, type($x) as t } order { t, id($x) }",
    "entity": "match { $p: Person } return { entity($p) as e } order { $p.key }",
    "entity of an edge": "match { $p: Person  $p $k:knows $q } return { entity($k) as e }",
    "edges": "match { $p: Person  $p $w:knows{1,3} $q } return { edges($w) as e }",
    "edges of several types": "match { $p: Person  $p $w:knows|knows{1,3} $q } return { edges($w) as e }",
    "interface": "match { $x: Named } return { $x as x, $x.name as n, type($x) as t } order { t, x }",
    "interface inside a block": "match { $p: Person  exists { $x: Named  $x.name = $p.name } } return { $p as p } order { p }",
    "any edge": "match { $p: Person  $p $e:-- $x } return { $p as p, $x as x, type($e) as e, type($x) as t } "
    "order { p, x, e, t }",
    "any edge counted": "match { $p: Person } return { $p as p, count { $p -- $x } as n } order { p }",
    "any edge between anything": "match { $x -- $y } return { count($x) as n }",
    "type": "match { $p: Person  $p $k:knows $q } return { type($p) as t, type($k) as k }",
    "staged": "match { $p: Person } with { $p, $p.zeal as z } match { $p -- $x } return { $p.*, z, id($x) as x } "
    "order { z, x }",
    "union": "match { $p: Person { key: \"a\" } } return { $p.* } union all match { $p: Person { key: \"a\" } } return { $p.* }",
}  # fmt: skip
CHANGES = {
    "a property is dropped": SCHEMA.replace("mark: String?", ""),
    "a property of an edge is dropped": SCHEMA.replace("how: String?", ""),
    "a property is renamed": SCHEMA.replace("zeal: I32?", 'zest: I32? @rename_from("zeal")'),
    "a property is added": SCHEMA.replace("mark:", "more: I32?  mark:"),
    "a type is renamed": SCHEMA.replace("Team", "Crew").replace(
        "node Crew", 'node Crew @rename_from("Team")'
    ),
    "an edge is renamed": SCHEMA.replace(
        "edge Knows: Person -> Person", 'edge Meets: Person -> Person @rename_from("Knows")'
    ),
    "an edge is dropped": SCHEMA.replace("edge MemberOf: Person -> Team", ""),
    "a type is dropped": SCHEMA.replace("edge Uses: Person -> Tool { often: I32? }", "").replace(
        "node Tool { key: String @key }", ""
    ),
    "a type that implements is dropped": SCHEMA.replace(
        "edge MemberOf: Person -> Team", ""
    ).replace("node Team implements Named { key: String @key  name: String? }", ""),
    "a type is added": SCHEMA + "node Extra implements Named { key: String @key  name: String? }",
    "an edge is added": SCHEMA + "edge Likes: Person -> Tool",
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    graph.load(RECORDS, mode="append")
    return graph


def ask(graph: Graph, **at: Any) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """The columns and rows of every form."""
    found = {}
    for name, body in FORMS.items():
        answer = graph.query(f"query q() {{ {body} }}", **at)
        found[name] = (list(answer.columns), answer.rows)
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_an_open_form_at_an_earlier_commit_answers_as_it_did(graph: Graph, change: str) -> None:
    before, said = graph.commits(limit=1)[0], ask(graph)
    graph.schema_apply(CHANGES[change])
    _assert_as_before(ask(graph, at=before), said)
    if change == "a type is dropped":
        graph.optimize()
        with omnigraphdb.open(graph.uri, read_only=True) as cold:
            _assert_as_before(ask(cold, at=before), said)


def _assert_as_before(found: dict[str, Any], said: dict[str, Any]) -> None:
    for name, (columns, rows) in said.items():
        # What was dropped has no place in the present order of columns: it comes last.
        assert sorted(found[name][0]) == sorted(columns), name
        assert found[name][1] == rows, name


DROPPED_AND_RENAMED = """
interface Named { title: String? @rename_from("name") }
node Human @rename_from("Person") implements Named {
  key: String @key  zeal: I32?  title: String? @rename_from("name")
}
node Tool { key: String @key  mark: String? }
edge Meets: Human -> Human @rename_from("Knows") { since: I32? }
edge Uses: Human -> Tool { often: I32? }
"""


def test_an_open_form_in_present_words_shows_what_was_dropped_since(graph: Graph) -> None:
    before = graph.commits(limit=1)[0]
    graph.schema_apply(DROPPED_AND_RENAMED)

    def rows(body: str) -> list[dict[str, Any]]:
        return graph.query(f"query q() {{ {body} }}", at=before).rows

    assert rows('match { $h: Human { key: "a" } } return { $h.* }') == [
        {"h.key": "a", "h.zeal": 1, "h.title": "Ann", "h.mark": "m"}
    ]
    assert rows(
        'match { $h: Human { title: "Ann" }  $h $k:meets $o } return { entity($k) as e, $o.title }'
    ) == [{"e": _know(graph, before), "o.title": "Bea"}]
    assert rows(
        'match { $h: Human { key: "a" }  $h $e:-- $x } return { type($e) as e, type($x) as t } order { e }'
    ) == [{"e": "Meets", "t": "Human"}, {"e": "MemberOf", "t": "Team"}, {"e": "Uses", "t": "Tool"}]
    assert rows("match { $x: Named } return { $x.title as n, type($x) as t } order { n }") == [
        {"n": "Ann", "t": "Human"},
        {"n": "Bea", "t": "Human"},
        {"n": "Crew", "t": "Team"},
    ]


def _know(graph: Graph, at: Any) -> dict[str, Any]:
    """The one edge of that time, as it is stored."""
    row = graph.table("Meets", at=at).to_pylist()[0]
    return {"id": row["id"], "from": "a", "to": "b", "since": 3, "how": "work"}


def test_an_open_form_that_fits_neither_schema_is_refused_with_a_reason(graph: Graph) -> None:
    before = graph.commits(limit=1)[0]
    graph.schema_apply(SCHEMA.replace("mark: String?", "more: I32?"))
    text = "query q() { match { $p: Person } return { $p.*, $p.more as new } }"
    with pytest.raises(QueryError, match=r"'\$p\.\*' would leave out.*nothing was read"):
        graph.query(text, at=before)
    # Nothing was dropped since the next commit: what was added has no value there.
    between = graph.commits(limit=1)[0]
    graph.schema_apply(SCHEMA.replace("mark: String?", "more: I32?  most: I32?"))
    text = text.replace("$p.more", "$p.most")
    assert {row["new"] for row in graph.query(text, at=between).rows} == {None}


def test_neighbours_at_an_earlier_commit_are_those_of_then(graph: Graph) -> None:
    before, said = graph.commits(limit=1)[0], graph.neighbours("Person", "a")
    graph.schema_apply(DROPPED_AND_RENAMED)
    then = graph.neighbours("Human", "a", at=before)
    assert len(then.nodes) == len(said.nodes) == 4
    assert [one.edge.name for one in then.groups] == ["Meets", "MemberOf", "Uses"]


def test_a_path_at_an_earlier_commit_takes_the_edges_of_then(graph: Graph) -> None:
    before = graph.commits(limit=1)[0]
    graph.schema_apply(
        SCHEMA.replace("edge Knows: Person -> Person { since: I32?  how: String? }", "")
    )
    found = graph.path("Person", "a", "Person", "b", at=before)
    assert found is not None
    assert [one["how"] for one in found.edges] == ["work"]
