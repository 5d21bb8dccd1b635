"""A plan is a lookup when it finds one node by id and shows it, its neighbours or how many walks start there."""

import pytest

from omnigraphdb.compile.plan.lookup import Lookup
from tests.support.plan_fixtures import checked_read, harbour
from tests.support.read_world import plan_of


def lookup(body: str, params: str = "$id: String") -> Lookup | None:
    return plan_of(checked_read(f"query q({params}) {{ {body} }}"), harbour()).lookup


def test_a_node_by_its_key_is_a_lookup() -> None:
    found = lookup("match { $p: Port { code: $id } } return { $p.name, $p }")
    assert found is not None
    assert (found.type_name, found.shown_type, found.hops) == ("Port", "Port", ())
    assert found.columns == ("name", "id")


def test_its_neighbours_are_a_lookup_in_either_direction() -> None:
    there = lookup("match { $v: Vessel { imo: $id }  $v callsAt $p } return { $p.name }")
    back = lookup("match { $p: Port { code: $id }  $v callsAt $p } return { $v.imo }")
    assert there is not None
    assert back is not None
    assert (there.type_name, there.shown_type) == ("Vessel", "Port")
    assert (back.type_name, back.shown_type) == ("Port", "Vessel")


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_number_of_walks_is_a_lookup(hops: int) -> None:
    walk = "  ".join(f"$p{n} feeds $p{n + 1}" for n in range(hops))
    found = lookup(
        f"match {{ $p0: Port {{ code: $id }}  {walk} }} return {{ count($p{hops}) as n }}"
    )
    assert found is not None
    assert (len(found.hops), found.columns) == (hops, ())


def test_a_key_that_is_written_out_will_do() -> None:
    assert lookup('match { $p: Port { code: "NLRTM" } } return { $p.name }') is not None


@pytest.mark.parametrize(
    "body",
    [
        "match { $p: Port } return { $p.name }",
        "match { $p: Port { name: $id } } return { $p.name }",
        "match { $p: Port { code: $id, depth: 3 } } return { $p.name }",
        "match { $p: Port { code: $id } } return { count($p) as n }",
        "match { $p: Port { code: $id } } return { $p.name } limit 1",
        "match { $p: Port { code: $id } } return { $p.name } order { $p.name }",
        "match { $p: Port { code: $id }  $p feeds $q } return { $p.name, $q.name }",
        "match { $p: Port { code: $id }  $p feeds{1,2} $q } return { $q.name }",
        "match { $p: Port { code: $id }  $p feeds $q  $q.depth > 3 } return { $q.name }",
        "match { $p: Port { code: $id }  $p feeds $p } return { $p.name }",
        "match { $p: Port { code: $id }  $p feeds $q  $q feeds $r } return { $r.name }",
        "match { $p: Port { code: $id }  $p feeds $q  $p feeds $r } return { count($r) as n }",
        "match { $p: Port { code: $id }  $p feeds $q } return { count($q) + 1 as n }",
        "match { $p: Port { code: $id }  $p feeds $q } return { count($q) as n, max($q.depth) as d }",
        "match { $p: Port { code: $id }  $p feeds $q } return { $q.name, count($q) as n }",
    ],
)
def test_anything_more_is_none(body: str) -> None:
    assert lookup(body) is None
