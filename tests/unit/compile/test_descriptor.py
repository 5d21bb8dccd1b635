"""What clients are told about a query."""

from omnigraphdb.compile.descriptor import TypeUse, describe_operation, describe_value
from tests.support.compiling import checked, harbour, mutation, read


def test_parameters_are_described_in_the_words_of_clients() -> None:
    found = checked(
        "query find($s: String, $b: Bool?, $i: I32, $u: U32, $l: I64, $n: U64, $f: F32, $d: Date,"
        " $t: DateTime, $x: Blob, $v: Vector(4), $ls: [I64]?)"
        " { match { $p: Port } return { $p } }"
    )
    described = [describe_value(one.name, one.type).to_dict() for one in found.params.values()]
    assert described == [
        {"name": "s", "kind": "string", "nullable": False},
        {"name": "b", "kind": "bool", "nullable": True},
        {"name": "i", "kind": "int", "nullable": False},
        {"name": "u", "kind": "int", "nullable": False},
        {"name": "l", "kind": "bigint", "nullable": False},
        {"name": "n", "kind": "bigint", "nullable": False},
        {"name": "f", "kind": "float", "nullable": False},
        {"name": "d", "kind": "date", "nullable": False},
        {"name": "t", "kind": "datetime", "nullable": False},
        {"name": "x", "kind": "blob", "nullable": False},
        {"name": "v", "kind": "vector", "vector_dim": 4, "nullable": False},
        {"name": "ls", "kind": "list", "item_kind": "bigint", "nullable": True},
    ]


def test_the_result_is_what_running_it_gives() -> None:
    found = read("match { $v: Vessel } return { $v, $v.sig, $v.tags, $v.kind as k, $v.dwt }")
    operation = describe_operation(found, harbour())
    assert [c.name for c in operation.result] == [c.name for c in found.columns]
    assert [c.to_dict() for c in operation.result] == [
        {"name": "v", "kind": "string", "nullable": False},
        {"name": "v.sig", "kind": "vector", "vector_dim": 3, "nullable": True},
        {"name": "v.tags", "kind": "list", "item_kind": "string", "nullable": True},
        {"name": "k", "kind": "string", "nullable": True},
        {"name": "v.dwt", "kind": "bigint", "nullable": True},
    ]


def test_a_read_reads_bound_types_edges_and_their_ends_also_inside_blocks() -> None:
    found = read("match { $v: Vessel  $v callsAt $p  not { $v ownedBy $_ } } return { $p }")
    assert describe_operation(found, harbour()).reads == (
        TypeUse("edge", "CallsAt"),
        TypeUse("edge", "OwnedBy"),
        TypeUse("node", "Company"),
        TypeUse("node", "Port"),
        TypeUse("node", "Vessel"),
    )
    assert describe_operation(found, harbour()).writes == ()


def test_a_path_reads_its_edges() -> None:
    found = read("match { $a: Port  $a $w:feeds{1,3} $b } return { hops($w) as n }")
    assert describe_operation(found, harbour()).reads == (
        TypeUse("edge", "Feeds"),
        TypeUse("node", "Port"),
    )


def test_an_edge_insert_reads_both_ends_and_writes_the_edge() -> None:
    operation = describe_operation(mutation('insert CallsAt { from: "a", to: "b" }'), harbour())
    assert operation.reads == (
        TypeUse("edge", "CallsAt"),
        TypeUse("node", "Port"),
        TypeUse("node", "Vessel"),
    )
    assert operation.writes == (TypeUse("edge", "CallsAt"),)
    assert operation.result == ()


def test_a_node_delete_touches_every_edge_at_it() -> None:
    operation = describe_operation(mutation('delete Company where name = "x"'), harbour())
    expected = (TypeUse("edge", "OwnedBy"), TypeUse("edge", "Rated"), TypeUse("node", "Company"))
    assert operation.reads == operation.writes == expected


def test_an_update_reads_and_writes_its_type() -> None:
    operation = describe_operation(mutation('update Port set { lat: 1.0 } where code = "x"'), harbour())  # fmt: skip
    assert operation.to_dict() == {
        "result": [],
        "reads": [{"kind": "node", "type_name": "Port"}],
        "writes": [{"kind": "node", "type_name": "Port"}],
    }
