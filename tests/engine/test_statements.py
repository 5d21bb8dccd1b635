"""Statements that write by expression, by pattern and by list: what they change, return and refuse."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.compile.checked import CheckedUpdate
from omnigraphdb.engine.results import MutationResult
from omnigraphdb.language.source import Source
from tests.support.settled import assert_settled

SCHEMA = """
node Person { name: String @key  age: I32?  n: I64?  tags: [String]?  sig: Vector(2)?  scan: Blob? }
node Item { no: I64 @key  size: F32?  kind: enum(a, b)? }
node Note { text: String  at: DateTime? }
edge Knows: Person -> Person { since: I32?  w: F64? }
edge Owns: Person -> Item { n: I64? }
"""
DATA: list[dict[str, Any]] = [
    {"type": "Person", "data": {"name": "ada", "age": 36, "n": 1, "tags": ["x"], "sig": [1, 0]}},
    {"type": "Person", "data": {"name": "bo", "age": 41, "scan": "base64:AQID"}},
    {"type": "Person", "data": {"name": "cy"}},
    {"type": "Item", "data": {"no": 7, "size": 1.5}},
    {"edge": "Knows", "from": "ada", "to": "bo", "data": {"since": 3}},
    {"edge": "Knows", "from": "ada", "to": "cy"},
    {"edge": "Knows", "from": "bo", "to": "cy", "data": {"since": 5}},
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    graph = omnigraphdb.init(tmp_path_factory.mktemp("statements") / "g", SCHEMA)
    graph.load(DATA, mode="append")
    yield graph
    assert_settled(graph)
    graph.close()


@pytest.fixture
def graph(base: Graph, request: pytest.FixtureRequest) -> Graph:
    """Each test writes to a branch of its own."""
    name = str(request.node.name).split("[")[0]
    base.branch_create(name)
    return base.on(name)


def run(
    graph: Graph, text: str, params: dict[str, Any] | None = None, **rest: Any
) -> MutationResult:
    source = text if text.startswith("query") else f"query m() {{ {text} }}"
    return graph.mutate(source, None, params, **rest)


def rows(graph: Graph, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in graph.query(f"query q() {{ {text} }}").to_list()]


def head(graph: Graph) -> str | None:
    return graph.snapshot().commit


PEOPLE = "match { $p: Person } return { $p.name, $p.age, $p.n } order { $p.name }"


# ---- expressions


def test_an_update_computes_from_the_row_before(graph: Graph) -> None:
    done = run(
        graph,
        'update Person set { age: $.n, n: coalesce($.age, 0) * 2 } where age > 36 or name = "ada" or age is null',
    )
    assert (done.affected_nodes, done.affected_edges) == (3, 0)
    assert rows(graph, PEOPLE) == [("ada", 1, 72), ("bo", None, 82), ("cy", None, 0)]
    assert graph.table("Person").filter(pa.compute.equal(graph.table("Person")["name"], "bo"))["scan"][0].as_py()  # fmt: skip


def test_a_later_statement_sees_what_an_earlier_one_wrote(graph: Graph) -> None:
    done = run(
        graph,
        'insert Person { name: "dee", age: 1 }'
        " update Person set { age: $.age + 1 } where age < 10"
        ' update Person set { n: $.age } where age between 2 and 9 and name in ["dee", "ada"]',
    )
    assert done.affected_nodes == 3
    assert rows(graph, PEOPLE)[-1] == ("dee", 2, 2)


def test_edges_are_updated_and_deleted_by_conditions(graph: Graph) -> None:
    done = run(
        graph,
        'update Knows set { w: $.since / 2.0 } where since is not null and from = "ada" returning { from, to, w }',
    )
    assert done.affected_edges == 1
    assert list(done.rows) == [{"from": "ada", "to": "bo", "w": 1.5}]
    gone = run(
        graph, 'delete Knows where since > 3 or (w is null and to != "cy") returning { from }'
    )
    assert (gone.affected_edges, list(gone.rows)) == (1, [{"from": "bo"}])
    assert rows(
        graph, "match { $a $k:knows $b } return { from($k), to($k) as b, $k.w } order { b }"
    ) == [
        ("ada", "bo", 1.5),
        ("ada", "cy", None),
    ]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ('tags contains "x"', {"ada"}),
        ("length(name) = 2", {"bo", "cy"}),
        ('name matches "^[ab]"', {"ada", "bo"}),
        ("not age > 36", {"ada"}),
        ("age + coalesce(n, 0) > 36", {"ada", "bo"}),
        ('name = "ada" and age = 1', set()),
        ("n is null and 10 / (age - 36) > 0", {"bo"}),
        ("$.age = 41", {"bo"}),
        ("age != n", {"ada"}),
        ("true = (age > 36)", {"bo"}),
        ("false != (age > 36)", {"bo"}),
        ("not true = (age > 36) and false = (n is null)", {"ada"}),
    ],
)
def test_a_condition_is_any_expression(base: Graph, where: str, found: set[str]) -> None:
    done = run(base, f"delete Person where {where} returning {{ id }}", dry_run=True)
    assert {row["id"] for row in done.rows} == found


def test_values_are_held_to_their_properties(base: Graph) -> None:
    for value, code in (
        ("$.age * 100000000", "W02"),
        ("$.age / 7.0", "W03"),
        ("0.0 - 1e300", "W02"),
    ):
        with pytest.raises(omnigraphdb.DataError) as caught:
            run(base, f'update Person set {{ age: {value} }} where name = "ada"')
        assert caught.value.code == code
        assert "ada" in str(caught.value)
    with pytest.raises(omnigraphdb.ConstraintError) as wrong:
        run(base, 'update Item set { kind: concat("c", "") } where no = 7')
    assert wrong.value.code == "W12"


# ---- patterns


def test_a_match_updates_what_it_finds_with_blocks_and_stages(graph: Graph) -> None:
    done = run(
        graph, "match { $p: Person } update $p set { n: count { $p knows $_ } } returning { id, n }"
    )
    assert {row["id"]: row["n"] for row in done.rows} == {"ada": 2, "bo": 1, "cy": 0}
    top = run(
        graph,
        "match { $p: Person $p knows $q } with { $p, count($q) as friends } order { friends desc } limit 1"
        " update $p set { age: friends + $.age }",
    )
    assert top.affected_nodes == 1
    assert rows(graph, PEOPLE) == [("ada", 38, 2), ("bo", 41, 1), ("cy", None, 0)]


def test_the_plan_of_a_match_is_made_once(base: Graph) -> None:
    text = "query m() { match { $p: Person } update $p set { n: count { $p knows $_ } } }"
    plans, accepted = base._engine.plans, base._engine.contracts.current()
    run(base, text, dry_run=True)
    mutation = plans.mutation(accepted, Source(text), None)
    (statement,) = mutation.statements
    assert isinstance(statement, CheckedUpdate)
    assert statement.origin is not None
    known = set(plans._compiled)
    plan = plans.match(accepted, statement.origin)
    assert set(plans._compiled) == known
    run(base, text, dry_run=True)
    assert plans.match(accepted, statement.origin) is plan


def test_an_entity_matched_twice_is_written_once_or_refused(graph: Graph) -> None:
    same = run(graph, "match { $p: Person $p knows $q } update $p set { n: 9 }")
    assert same.affected_nodes == 2
    before = head(graph)
    with pytest.raises(omnigraphdb.DataError, match="'ada' is matched several times") as caught:
        run(graph, "match { $p: Person $p knows $q } update $p set { tags: $q.tags, n: $q.age }")
    assert caught.value.code == "W06"
    assert head(graph) == before


def test_a_match_inserts_edges_and_updates_and_deletes_them(graph: Graph) -> None:
    done = run(
        graph,
        'match { $p: Person $q: Person { name: "ada" } $p != $q } insert Knows { from: $p, to: $q, since: $p.age }'
        " returning { from, to, since }",
    )
    assert sorted(map(tuple, (row.values() for row in done.rows)), key=str) == [
        ("bo", "ada", 41),
        ("cy", "ada", None),
    ]
    changed = run(graph, "match { $p $k:knows $q $k.since = 41 } update $k set { w: $q.age * 1.0 }")
    assert changed.affected_edges == 1
    gone = run(graph, 'match { $p $k:knows $q $q.name = "ada" } delete $k')
    assert gone.affected_edges == 2
    nodes = run(graph, "match { $p: Person not { $p knows $_ } } delete $p returning { name }")
    assert (nodes.affected_nodes, nodes.affected_edges, list(nodes.rows)) == (
        1,
        2,
        [{"name": "cy"}],
    )


def test_a_match_that_binds_a_path_writes_what_it_finds(graph: Graph) -> None:
    longest = (
        "match { $a: Person { name: $who }  $a $w:knows{1,2} $p } update $p set { n: hops($w) }"
    )
    text = f"query q($who: String) {{ {longest} returning {{ name, n }} }}"
    dry = run(graph, text, {"who": "ada"}, dry_run=True)
    done = run(graph, text, {"who": "ada"})
    assert dry.rows == done.rows == [{"name": "bo", "n": 1}, {"name": "cy", "n": 1}]
    assert rows(graph, PEOPLE) == [("ada", 36, 1), ("bo", 41, 1), ("cy", None, 1)]


def test_an_optional_variable_that_is_missing_is_not_written(graph: Graph) -> None:
    done = run(
        graph, "match { $p: Person optional { $p knows $q $q.age > 40 } } update $q set { n: 1 }"
    )
    assert done.affected_nodes == 1


def test_a_match_reads_one_snapshot_and_conflicts_with_changes_of_what_it_read(
    graph: Graph,
) -> None:
    """The read set of a match: another writer that changes a matched row first makes this one prepare again."""
    before = head(graph)
    run(graph, 'update Person set { age: 50 } where name = "cy"')
    with pytest.raises(omnigraphdb.PreconditionFailed):
        run(graph, "match { $p: Person } insert Note { text: $p.name }", if_commit=before)
    done = run(
        graph,
        "match { $p: Person $p.age = 50 } insert Note { text: upper($p.name), at: now() } returning { text }",
    )
    assert list(done.rows) == [{"text": "CY"}]


# ---- if absent, upsert


def test_an_insert_if_absent_leaves_what_is_there(graph: Graph) -> None:
    text = 'insert Person { name: "ada", age: 1 } if absent returning { id, created, age }'
    done = run(graph, text)
    assert list(done.rows) == [{"id": "ada", "created": False, "age": 36}]
    assert (done.commit, done.affected_nodes) == (None, 0)
    new = run(graph, text.replace("ada", "eve"))
    assert list(new.rows) == [{"id": "eve", "created": True, "age": 1}]
    assert new.commit is not None


def test_an_edge_is_absent_where_none_is_between_its_ends(graph: Graph) -> None:
    text = "query m($a: String, $b: String) { insert Knows { from: $a, to: $b } if absent returning { id, created } }"
    first = run(graph, text, {"a": "cy", "b": "ada"})
    again = run(graph, text, {"a": "cy", "b": "ada"})
    assert (first.rows[0]["created"], again.rows[0]["created"]) == (True, False)
    assert first.rows[0]["id"] == again.rows[0]["id"]
    both = run(
        graph,
        'insert Knows { from: "cy", to: "bo" } if absent insert Knows { from: "cy", to: "bo" } if absent',
    )
    assert both.affected_edges == 1


def test_an_upsert_behind_a_match_reads_the_row_that_is_there(graph: Graph) -> None:
    text = (
        "match { $p: Person $p $k:knows $q } upsert Person { name: $q.name } "
        "set { n: coalesce($.n, 0) + count { $x knows $q }, age: coalesce($.age, 100) } returning { id, n, age, created }"
    )
    found = sorted(tuple(row.values()) for row in run(graph, text).rows)
    # Two edges end at cy: both give the same values, and the row is written once.
    assert found == [("bo", 1, 41, False), ("cy", 2, 100, False), ("cy", 2, 100, False)]
    run(
        graph,
        'match { $p: Person { name: "ada" } } upsert Person { name: concat($p.name, "2") } set { n: $.n, age: $p.age }',
    )
    new = 'match { $p: Person { name: "ada2" } } return { $p.n, $p.age, $p.tags }'
    assert rows(graph, new) == [(None, 36, None)]
    # The row of the statement is the one of that key, not the one that the match binds.
    run(
        graph,
        'match { $p: Person { name: "bo" } } upsert Person { name: "ada" } set { n: $.n + 1, age: $.age + $p.age }',
    )
    assert rows(graph, 'match { $p: Person { name: "ada" } } return { $p.n, $p.age, $p.tags }') == [
        (2, 77, ["x"])
    ]


def test_an_upsert_behind_a_match_that_gives_one_row_different_values_is_refused(
    graph: Graph,
) -> None:
    text = 'match { $p: Person $p $k:knows $q } upsert Person { name: "new" } set { n: coalesce($.n, 0) + coalesce($k.since, 0) }'
    with pytest.raises(omnigraphdb.DataError, match="W06"):
        run(graph, text)
    assert rows(graph, 'match { $p: Person { name: "new" } } return { $p }') == []


def test_a_block_cannot_use_the_row_of_an_upsert(graph: Graph) -> None:
    text = "match { $p: Person } upsert Person { name: $p.name } set { n: count { $p knows $q $q.n > $.n } }"
    with pytest.raises(omnigraphdb.QueryError, match=r"T73.*\$\."):
        run(graph, text)


def test_an_upsert_keeps_what_it_does_not_name(graph: Graph) -> None:
    text = "query m($n: String) { upsert Person { name: $n } set { n: coalesce($.n, 100) + 1 } returning { id, n, age, created } }"
    assert list(run(graph, text, {"n": "ada"}).rows) == [
        {"id": "ada", "n": 2, "age": 36, "created": False}
    ]
    assert list(run(graph, text, {"n": "zoe"}).rows) == [
        {"id": "zoe", "n": 101, "age": None, "created": True}
    ]
    twice = run(
        graph,
        'upsert Person { name: "zoe" } set { n: 1 } upsert Person { name: "zoe" } set { n: $.n + 1 }',
    )
    assert twice.affected_nodes == 2
    assert rows(graph, PEOPLE)[-1] == ("zoe", None, 2)
    matched = run(
        graph,
        "match { $p: Person $p.age > 40 } upsert Item { no: $p.age } set { size: 2.0 } returning { no, created }",
    )
    assert list(matched.rows) == [{"no": 41, "created": True}]
    kept = graph.entity("Person", "bo")
    assert kept is not None


# ---- unnest


RECORDS = "query m($rows: [{ no: I64, size: F64?, who: String? }]) "


def test_a_list_is_inserted_in_its_order(graph: Graph) -> None:
    given = [{"no": n, "size": n / 2} for n in range(100, 0, -1)]
    done = run(graph, RECORDS + "{ unnest $rows as $r insert Item { no: $r.no, size: $r.size } returning { id, no } }", {"rows": given})  # fmt: skip
    assert [row["no"] for row in done.rows] == [one["no"] for one in given]
    assert [row["id"] for row in done.rows] == [str(one["no"]) for one in given]
    assert done.affected_nodes == 100
    linked = run(
        graph,
        RECORDS
        + "{ unnest $rows as $r insert Owns { from: $r.who, to: $r.no, n: $r.no % 2 } returning { id, to } }",
        {"rows": [{"no": 3, "who": "ada"}, {"no": 1, "who": "bo"}]},
    )
    assert [row["to"] for row in linked.rows] == ["3", "1"]
    mixed = run(
        graph,
        RECORDS
        + "{ unnest $rows as $r upsert Item { no: $r.no } set { size: coalesce($.size, 0.0) + 1 } returning { no, size, created } }",
        {"rows": pa.Table.from_pylist([{"no": 2}, {"no": 1000}])},
    )
    assert [tuple(row.values()) for row in mixed.rows] == [(2, 2.0, False), (1000, 1.0, True)]
    texts = run(graph, "query m($t: [String]) { unnest $t as $t1 insert Note { text: lower($t1) } returning { id, text } }", {"t": ["B", "A"]})  # fmt: skip
    assert [row["text"] for row in texts.rows] == ["b", "a"]
    assert texts.rows[0]["id"] < texts.rows[1]["id"]
    absent = run(
        graph,
        RECORDS
        + "{ unnest $rows as $r insert Item { no: $r.no } if absent returning { no, created } }",
        {"rows": [{"no": 1}, {"no": 2000}, {"no": 2000}]},
    )
    assert [row["created"] for row in absent.rows] == [False, True, False]
    assert (
        run(
            graph, RECORDS + "{ unnest $rows as $r insert Item { no: $r.no } }", {"rows": []}
        ).commit
        is None
    )


def test_records_bring_values_of_every_type(graph: Graph) -> None:
    text = """query m($rows: [{ name: String, tags: [String]?, sig: Vector(2)?, scan: Blob?, at: DateTime? }]) {
        unnest $rows as $r insert Person { name: $r.name, tags: $r.tags, sig: $r.sig, scan: $r.scan }
        unnest $rows as $r insert Note { text: $r.name, at: $r.at } }"""
    given = [
        {
            "name": "x",
            "tags": ["a", "b"],
            "sig": [1, 2],
            "scan": "base64:AAE=",
            "at": "2026-01-02T03:04:05Z",
        },
        {"name": "y"},
    ]
    assert run(graph, text, {"rows": given}).affected_nodes == 4
    shown = rows(
        graph,
        'match { $p: Person $p.name in ["x", "y"] } return { $p.name, $p.tags, $p.sig } order { $p.name }',
    )
    assert shown == [("x", ["a", "b"], [1.0, 2.0]), ("y", None, None)]
    bad = [{"name": "z", "scan": "base64:?"}]
    with pytest.raises(omnigraphdb.DataError) as caught:
        run(graph, text, {"rows": bad})
    assert caught.value.code == "W24"


# ---- explaining


def test_a_mutation_is_explained_and_not_run(base: Graph) -> None:
    before = head(base)
    text = """query m($r: [String]) {
        match { $p: Person $p knows $q } update $p set { n: $q.age } returning { id }
        unnest $r as $x insert Note { text: $x } }"""
    steps = base.explain(text).steps
    assert [(one.depth, one.operator.split()[0]) for one in steps] == [
        (0, "Update"),
        (1, "Project"),
        (2, "Expand"),
        (3, "Scan"),
        (0, "Insert"),
    ]
    assert "one row for each item of $r" in steps[-1].notes
    assert head(base) == before
    with pytest.raises(omnigraphdb.QueryError, match="mutation"):
        base.explain(text, profile=True)


def test_a_stored_mutation_tells_what_it_takes_and_returns(base: Graph, tmp_path: Path) -> None:
    (tmp_path / "a.gq").write_text(
        "query put($rows: [{ no: I64, size: F64? }]) { unnest $rows as $r"
        " insert Item { no: $r.no, size: $r.size } if absent returning { id, created } }"
    )
    stored = base.stored_queries(tmp_path)["put"].to_dict()
    assert [one["kind"] for one in stored["returns"]] == ["string", "bool"]
    (taken,) = stored["params"]
    assert (taken["kind"], taken["item_kind"]) == ("list", "object")
    assert [one["name"] for one in taken["fields"]] == ["no", "size"]


# ---- keys, dry runs


def test_a_repeated_mutation_returns_the_same_ids(graph: Graph) -> None:
    text = 'insert Note { text: "once" } returning { id }'
    first = run(graph, text, idempotency_key="k1")
    again = run(graph, text, idempotency_key="k1")
    assert again.replayed
    assert list(again.rows) == list(first.rows)
    assert again.to_dict()["rows"] == first.to_dict()["rows"]
    many = (
        "query m($t: [String]) { unnest $t as $x insert Note { text: $x } returning { id, text } }"
    )
    before = head(graph)
    with pytest.raises(omnigraphdb.ResourceLimit, match="idempotency key"):
        run(graph, many, {"t": ["long text" * 10] * 1000}, idempotency_key="k2")
    assert head(graph) == before


def test_a_dry_run_returns_rows_and_writes_nothing(base: Graph) -> None:
    before = head(base)
    done = run(base, "match { $p: Person } update $p set { n: 5 } returning { n }", dry_run=True)
    assert [row["n"] for row in done.rows] == [5, 5, 5]
    assert head(base) == before


def test_counters_of_writers_at_once_lose_nothing(graph: Graph) -> None:
    """A writer whose match was overtaken is prepared again, or refused; it never writes what it read before."""

    def count(_: int) -> int:
        try:
            run(graph, 'match { $p: Person { name: "ada" } } update $p set { n: $p.n + 1 }')
        except omnigraphdb.ConflictError:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        done = sum(pool.map(count, range(12)))
    assert done > 0
    assert rows(graph, PEOPLE)[0] == ("ada", 36, 1 + done)
