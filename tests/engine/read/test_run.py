"""Running plans: typed results, streams, early ends, bounds, and what a profile tells."""

import pyarrow as pa
import pytest

from omnigraphdb.compile.plan.operators import Expand, Scan
from omnigraphdb.engine.cached.traversal import Mode, Traversal, traversal_of
from omnigraphdb.engine.read.operators import expand, join
from omnigraphdb.engine.read.profile import Profile, render
from omnigraphdb.engine.read.run import run, run_batches
from omnigraphdb.engine.read.verbs import explain_steps, measure_steps
from omnigraphdb.errors import ConfigError, ResourceLimit
from omnigraphdb.runtime import SYSTEM
from tests.engine.read.conftest import FEEDERS
from tests.support.read_world import World, table_rows


def test_an_empty_result_keeps_its_declared_types(harbour: World) -> None:
    table = harbour.table(
        "query q() { match { $v: Vessel } return { $v, $v.built, $v.seen, $v.serial, $v.draft, $v.tags } }"
    )
    assert table.num_rows == 0
    assert table.schema == pa.schema(
        {
            "v": pa.string(),
            "v.built": pa.date32(),
            "v.seen": pa.date64(),
            "v.serial": pa.uint64(),
            "v.draft": pa.float32(),
            "v.tags": pa.list_(pa.string()),
        }
    )


def test_groups_of_nothing_are_typed_too(harbour: World) -> None:
    table = harbour.table(
        "query q() { match { $v: Vessel } return { max($v.name) as m, sum($v.dwt) as s, min($v.draft) as d } }"
    )
    assert table.schema.types == [pa.string(), pa.int64(), pa.float32()]
    assert table_rows(table) == [(None, None, None)]


def test_large_integers_stay_exact(harbour: World) -> None:
    big, most = 2**53 + 1, 2**64 - 1
    rows = [
        {"id": f"v{n}", "imo": f"v{n}", "name": "n", "dwt": big + n, "serial": most - n}
        for n in range(3)
    ]
    harbour.append("Vessel", rows)
    query = "query q() { match { $v: Vessel } return { max($v.dwt) as a, min($v.serial) as b } }"
    assert harbour.rows(query) == [(big + 2, most - 2)]
    later = "query q() { match { $v: Vessel  $w: Vessel  $v.dwt < $w.serial } return { count($v) as n } }"
    assert harbour.rows(later) == [(9,)]
    ordered = (
        "query q() { match { $v: Vessel } return { $v.serial } order { $v.serial desc } limit 1 }"
    )
    assert harbour.rows(ordered) == [(most,)]


def test_sums_of_integers_do_not_round_before_the_end(harbour: World) -> None:
    values = [2**53, 1, 1, 1, 1]
    rows = [
        {"id": f"v{n}", "imo": f"v{n}", "name": "n", "dwt": value} for n, value in enumerate(values)
    ]
    harbour.append("Vessel", rows)
    query = "query q() { match { $v: Vessel } return { sum($v.dwt) as s } }"
    assert harbour.rows(query) == [(float(sum(values)),)]


def test_lists_are_group_keys_by_their_items_and_in_their_order(harbour: World) -> None:
    lists = [["b"], None, [], ["a", "b"], ["a"], ["b"], None, ["ab"]]
    rows = [
        {"id": f"v{n}", "imo": f"v{n}", "name": "n", "tags": tags} for n, tags in enumerate(lists)
    ]
    harbour.append("Vessel", rows)
    query = "query q() { match { $v: Vessel } return { $v.tags, count($v) as n } }"
    assert harbour.rows(query) == [
        (None, 2),
        ((), 1),
        (("a",), 1),
        (("a", "b"), 1),
        (("ab",), 1),
        (("b",), 2),
    ]


def test_items_of_a_given_list_take_the_precision_of_the_column(harbour: World) -> None:
    rows = [
        {"id": f"v{n}", "imo": f"v{n}", "name": "n", "draft": draft}
        for n, draft in enumerate([0.1, 0.2, None])
    ]
    harbour.append("Vessel", rows)
    query = "query q($l: [F64]?) { match { $v: Vessel  %s } return { $v } }"
    assert harbour.rows(query % "[0.1, 7] contains $v.draft") == [("v0",)]
    assert harbour.rows(query % "$l contains $v.draft", {"l": [0.2]}) == [("v1",)]
    assert harbour.rows(query % "$l contains $v.draft", {}) == []


def test_a_stream_gives_the_same_rows_in_small_batches(harbour: World) -> None:
    stream = run_batches(harbour.reader(harbour.plan(FEEDERS)), 2)
    batches = list(stream)
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert table_rows(pa.Table.from_batches(batches)) == harbour.rows(FEEDERS)


def test_a_stream_that_is_dropped_walks_no_further(
    harbour: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "MORSEL_ROWS", 1)
    plan = harbour.plan("query q() { match { $p: Port  $p feeds $q } return { $q } }")
    profile = Profile(SYSTEM.monotonic)
    stream = run_batches(harbour.reader(plan, profile=profile), 1)
    next(stream)
    walked = next(one for one in plan.operators if isinstance(one, Expand))
    assert profile.of(walked).rows < 5


def test_a_limit_ends_the_walk_early(harbour: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand, "MORSEL_ROWS", 1)
    plan = harbour.plan("query q() { match { $p: Port  $p feeds $q } return { $q } limit 1 }")
    profile = Profile(SYSTEM.monotonic)
    assert run(harbour.reader(plan, profile=profile)).num_rows == 1
    walked = next(one for one in plan.operators if isinstance(one, Expand))
    assert profile.of(walked).rows < 5


def test_a_product_past_its_bound_says_what_to_do(
    harbour: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "query q() { match { $p: Port  $q: Port } return { $p, $q } }"
    assert len(harbour.rows(query)) == 16
    monkeypatch.setattr(join, "PRODUCT_ROWS_MAX", 15)
    with pytest.raises(ResourceLimit, match="16 is over the limit of 15") as caught:
        harbour.rows(query)
    assert caught.value.hint == "connect the two parts of the pattern by a traversal or an equality"


def test_a_profile_tells_rows_time_and_way_of_every_operator(harbour: World) -> None:
    plan = harbour.plan(
        'query q() { match { $p: Port { code: "NLRTM" }  $p feeds $q } return { $q.name } }'
    )
    reader = harbour.reader(plan, profile=Profile(SYSTEM.monotonic))
    run(reader)
    steps = measure_steps(reader)
    assert [(step.depth, step.rows) for step in steps] == [(0, 2), (1, 2), (2, 1)]
    assert all(step.milliseconds is not None and step.milliseconds >= 0 for step in steps)
    assert steps[1].notes == ("adjacency in memory",)
    assert steps[2].notes == ("id lookup",)
    text = render(steps)
    assert "2 rows" in text
    assert "id lookup" in text


def test_an_explanation_names_the_way_and_runs_nothing(harbour: World) -> None:
    plan = harbour.plan(
        "query q() { match { $p: Port  $p.depth > 3  $p feeds $q } return { $q.name } }"
    )
    reader = harbour.reader(plan)
    steps = explain_steps(reader)
    notes = {step.operator.split()[0]: step.notes for step in steps}
    assert notes["Scan"] == ("columns depth",)
    assert notes["Expand"] == ("adjacency, to be read",)
    assert all(step.rows is None for step in steps)
    run(reader)
    assert any("adjacency in memory" in step.notes for step in explain_steps(harbour.reader(plan)))


def test_both_ways_of_walking_give_the_same_rows(harbour: World) -> None:
    query = (
        "query q() { match { $p: Port  $p <feeds>{1,3} $q  $q $f:feeds $r } "
        "return { $p, $q, $r, $f.weight } order { $p.code, $q.code, $f.weight } }"
    )
    rows = [
        harbour.rows(query, traversal=Traversal(mode=mode)) for mode in (Mode.CSR, Mode.INDEXED)
    ]
    assert rows[0] == rows[1]
    assert rows[0]


def test_the_environment_chooses_the_way(harbour: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "indexed")
    profile = Profile(SYSTEM.monotonic)
    plan = harbour.plan(FEEDERS)
    run(harbour.reader(plan, profile=profile))
    walked = next(one for one in plan.operators if isinstance(one, Expand))
    assert list(profile.of(walked).notes) == ["index hops"]
    assert traversal_of({"OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS": "2"}).hops_max == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMNIGRAPH_TRAVERSAL_MODE", "fast"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "-1"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", "many"),
    ],
)
def test_a_wrong_knob_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is '{value}'"):
        traversal_of({name: value})


def test_scans_of_a_nested_block_run_once(harbour: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand, "MORSEL_ROWS", 1)
    query = (
        "query q() { match { $p: Port  $p feeds $q  "
        'not { $q feeds $r  $r: Port { code: "NLRTM" } } } return { $p, $q } }'
    )
    plan = harbour.plan(query)
    profile = Profile(SYSTEM.monotonic)
    rows = table_rows(run(harbour.reader(plan, profile=profile)))
    assert sorted(rows) == [("DEHAM", "NLRTM"), ("FRLEH", "FRLEH"), ("NLRTM", "BEANR")]
    inner = [one for one in plan.operators if isinstance(one, Scan) and one.variable == "r"]
    assert [profile.of(one).rows for one in inner] == [1]
