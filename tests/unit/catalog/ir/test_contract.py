"""Contracts: identities dealt once and kept, tables placed once, names with several lives."""

from typing import Any

import pytest

from omnigraphdb.catalog.diff.steps import TypeKind
from omnigraphdb.catalog.ir.contract import (
    Contract,
    advance,
    bind,
    create_contract,
    match,
    without_hints,
)
from omnigraphdb.catalog.ir.encode import shape_hash, shape_of
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.names import StoredTable, fnv1a_64, table_path
from omnigraphdb.errors import SchemaContractError, UnsupportedSchemaChange
from omnigraphdb.ids import TableKey, edge_key, node_key
from tests.support.schemas import compiled, fixture

DOMAIN = "01J8ZXVYQ0000000000000000A"

FIRST = """
interface Coded { code: String @key }
node Port implements Coded { name: String }
node Ship { imo: String @key  year: I32 }
edge CallsAt: Ship -> Port { eta: DateTime? }
"""


def created(text: str) -> Contract:
    return create_contract(compiled(text), DOMAIN)


def ids(catalog: Catalog) -> dict[str, int | None]:
    """Every identity of a catalog by a readable name."""
    found: dict[str, int | None] = {}
    types: list[Any] = [
        *catalog.interfaces.values(),
        *catalog.nodes.values(),
        *catalog.edges.values(),
    ]
    for one in types:
        kind = type(one).__name__.removesuffix("Type").lower()
        found[f"{kind} {one.name}"] = one.type_id
        found |= {f"{kind} {one.name}.{n}": p.property_id for n, p in one.properties.items()}
    found |= {f"table {t.name}": t.incarnation_id for t in catalog.tables.values()}
    return found


# ---- dealing


def test_identities_are_dealt_to_types_then_properties_then_tables() -> None:
    contract = created(FIRST)
    assert ids(contract.catalog) == {
        "interface Coded": 1,
        "node Port": 2,
        "node Ship": 3,
        "edge CallsAt": 4,
        "interface Coded.code": 5,
        "node Port.code": 6,
        "node Port.name": 7,
        "node Ship.imo": 8,
        "node Ship.year": 9,
        "edge CallsAt.eta": 10,
        "table Port": 11,
        "table Ship": 12,
        "table CallsAt": 13,
    }
    assert contract.next_identity_id == 14


def test_an_empty_schema_has_a_contract() -> None:
    contract = created("")
    assert contract.next_identity_id == 1
    assert Contract.from_json(contract.to_json()) == contract


def test_what_continues_keeps_its_identity_and_new_things_get_new_numbers() -> None:
    first = created(FIRST)
    second = advance(
        first,
        compiled(FIRST.replace("year: I32", "age: I32?  year: I32") + "node Dock { n: I32? }"),
    )
    old, new = ids(first.catalog), ids(second.catalog)
    assert {name: new[name] for name in old} == old
    assert {name: number for name, number in new.items() if name not in old} == {
        "node Dock": 14,
        "node Ship.age": 15,
        "node Dock.n": 16,
        "table Dock": 17,
    }
    assert second.next_identity_id == 18


def test_numbers_are_never_dealt_again() -> None:
    first = created(FIRST)
    dropped = advance(first, compiled("node Ship { imo: String @key year: I32 }"))
    again = advance(dropped, compiled(FIRST))
    used_before = set(ids(first.catalog).values())
    back = {name: number for name, number in ids(again.catalog).items() if "Ship" not in name}
    assert not used_before & set(back.values())
    assert dropped.next_identity_id == first.next_identity_id


def test_a_rename_keeps_every_identity() -> None:
    first = created(FIRST)
    second = advance(
        first,
        compiled(
            "interface Coded { code: String @key } "
            'node Terminal @rename_from("Port") implements Coded { label: String @rename_from("name") } '
            "node Ship { imo: String @key  year: I32 } "
            'edge Visits: Ship -> Terminal @rename_from("CallsAt") { eta: DateTime? }'
        ),
    )
    old, new = ids(first.catalog), ids(second.catalog)
    assert new["node Terminal"] == old["node Port"]
    assert new["node Terminal.label"] == old["node Port.name"]
    assert new["table Terminal"] == old["table Port"]
    assert new["edge Visits"] == old["edge CallsAt"]
    assert second.next_identity_id == first.next_identity_id


def test_the_order_of_a_composite_key_survives_renames_that_swap_the_alphabet() -> None:
    first = created("node A { alpha: I32 beta: I32 @key(alpha, beta) }")
    second = advance(
        first,
        compiled(
            'node A { zeta: I32 @rename_from("alpha") gamma: I32 @rename_from("beta") @key(zeta, gamma) }'
        ),
    )
    assert first.catalog.nodes["A"].key_columns == ("alpha", "beta")
    assert second.catalog.nodes["A"].key_columns == ("zeta", "gamma")


def test_accepting_the_same_schema_changes_nothing() -> None:
    first = created(FIRST)
    assert advance(first, compiled(FIRST)) == first


def test_hints_are_not_part_of_a_contract() -> None:
    hinted = FIRST.replace("node Ship", 'node Ship @rename_from("Boat")')
    assert created(hinted) == created(FIRST)
    assert without_hints(compiled(hinted)) == compiled(FIRST)


def test_an_unusable_hint_is_found_by_matching_and_refused_by_accepting() -> None:
    first = created(FIRST)
    desired = compiled(FIRST + 'node Dock @rename_from("Quay") {}')
    assert list(match(first, desired).types[TypeKind.NODE].refused) == ["Dock"]
    with pytest.raises(UnsupportedSchemaChange, match="node:Dock") as caught:
        advance(first, desired)
    assert caught.value.code == "OG-BC-105"


# ---- binding


def test_binding_gives_a_catalog_the_identities_of_its_contract() -> None:
    contract = created(FIRST)
    assert bind(compiled(FIRST), contract) == contract.catalog


def test_binding_keeps_the_hints_of_the_text() -> None:
    first = created(FIRST)
    text = FIRST.replace("node Ship {", 'node Boat @rename_from("Ship") {').replace(
        "Ship ->", "Boat ->"
    )
    contract = advance(first, compiled(text))
    bound = bind(compiled(text), contract)
    assert bound.nodes["Boat"].rename_from == "Ship"
    assert bound.nodes["Boat"].type_id == first.catalog.nodes["Ship"].type_id


def test_binding_another_schema_is_refused() -> None:
    with pytest.raises(SchemaContractError, match="not the one that was accepted"):
        bind(compiled("node Ship {}"), created(FIRST))


# ---- places


def test_the_hash_of_a_name_is_fnv_1a_of_64_bits() -> None:
    assert fnv1a_64("") == 0xCBF29CE484222325
    assert fnv1a_64("a") == 0xAF63DC4C8601EC8C
    assert fnv1a_64("foobar") == 0x85944171F73967E8


def test_a_table_is_placed_by_the_hash_of_its_name() -> None:
    contract = created(FIRST)
    assert contract.stored_tables[node_key("Port")] == StoredTable(
        f"nodes/{fnv1a_64('Port'):016x}", 1
    )
    assert contract.stored_tables[edge_key("CallsAt")].path == table_path(edge_key("CallsAt"), 1)
    assert contract.stored_tables[edge_key("CallsAt")].path.startswith("edges/")


def test_a_name_that_comes_back_gets_another_place_each_time() -> None:
    contract = created("node A {} node B {}")
    seen = [contract.stored_tables[node_key("A")]]
    for _ in range(2):
        contract = advance(contract, compiled("node B {}"))
        assert node_key("A") not in contract.stored_tables
        contract = advance(contract, compiled("node A {} node B {}"))
        seen.append(contract.stored_tables[node_key("A")])
    stem = f"nodes/{fnv1a_64('A'):016x}"
    assert seen == [StoredTable(stem, 1), StoredTable(f"{stem}-2", 2), StoredTable(f"{stem}-3", 3)]
    assert contract.stored_tables[node_key("B")].incarnation == 1


def test_the_lives_of_a_dropped_name_are_stored() -> None:
    contract = advance(created("node A {} node B {}"), compiled("node B {}"))
    assert contract.retired == {TableKey("node:A"): 1}
    again = advance(Contract.from_json(contract.to_json()), compiled("node A {} node B {}"))
    assert again.stored_tables[node_key("A")].incarnation == 2
    assert again.retired == {}


def test_a_renamed_table_stays_where_it_is() -> None:
    first = created("node A {}")
    second = advance(first, compiled('node B @rename_from("A") {}'))
    assert second.stored_tables == {node_key("B"): first.stored_tables[node_key("A")]}
    assert second.retired == {node_key("A"): 1}


def test_a_new_type_with_the_old_name_of_a_renamed_one_does_not_share_its_place() -> None:
    renamed = advance(created("node A {}"), compiled('node B @rename_from("A") {}'))
    both = advance(renamed, compiled("node A {} node B {}"))
    assert both.stored_tables[node_key("B")].path == table_path(node_key("A"), 1)
    assert both.stored_tables[node_key("A")] == StoredTable(table_path(node_key("A"), 2), 2)


def test_renaming_to_a_name_that_was_dropped_begins_a_new_life_of_that_name() -> None:
    start = created("node A {} node B {}")
    dropped = advance(start, compiled("node A {}"))
    renamed = advance(dropped, compiled('node B @rename_from("A") {}'))
    assert renamed.stored_tables[node_key("B")] == StoredTable(
        start.stored_tables[node_key("A")].path, 2
    )


def test_places_stay_unique_through_any_chain_of_drops_and_renames() -> None:
    contract = created("node A {} node B {}")
    used: dict[str, int | None] = {}
    for text in (
        'node C @rename_from("A") {} node B {}',
        "node A {} node B {} node C {}",
        'node A {} node D @rename_from("C") {}',
        "node B {} node D {}",
        'node A @rename_from("D") {} node B {}',
        "node A {} node B {} node C {} node D {}",
    ):
        contract = advance(contract, compiled(text))
        for key, stored in contract.stored_tables.items():
            table = contract.catalog.tables[key].incarnation_id
            assert used.setdefault(stored.path, table) == table
    assert len({stored.path for stored in contract.stored_tables.values()}) == 4


# ---- the meaning


def test_the_shape_of_the_worked_example_is_pinned() -> None:
    contract = created(fixture("fleet.pg"))
    assert contract.to_json() == fixture("fleet.ir.json")
    assert shape_hash(compiled(fixture("fleet.pg"))) == contract.shape_hash


@pytest.mark.parametrize(
    "other",
    [
        "node A { b: enum(y, x) a: I32 @key @range(a, 1.0..) }",
        "// c\nnode A{a:I32/* k */@key b:enum(x,y)@range(a,1..)}",
        'node A @rename_from("Z") { b: enum(x, y) @rename_from("c") @range(a, 1..) a: I32 @index @key }',
    ],
)
def test_order_comments_hints_and_spelling_do_not_change_the_shape(other: str) -> None:
    text = "node A { a: I32 @key b: enum(x, y) @range(a, 1..) }"
    assert shape_of(compiled(other)) == shape_of(compiled(text))


@pytest.mark.parametrize(
    "other",
    [
        "node A { a: I64 }",
        "node A { a: I32? }",
        "node A { a: I32 @index }",
        "node A { a: I32 @index(a) }",
        "node A { a: I32 @unique }",
        'node A { a: I32 @description("x") }',
        "node A { a: I32 @owner }",
        'node A @description("x") { a: I32 }',
        'node A @instruction("x") { a: I32 }',
        "node A { a: I32 @range(a, 0..) }",
        "node A { b: I32 }",
        "node B { a: I32 }",
        "interface I { a: I32 } node A { a: I32 }",
        "interface I {} node A implements I { a: I32 }",
    ],
)
def test_whatever_means_something_changes_the_shape(other: str) -> None:
    assert shape_hash(compiled(other)) != shape_hash(compiled("node A { a: I32 }"))


def test_declared_and_inherited_are_different_shapes() -> None:
    declared = "interface I { a: I32 } node A implements I { a: I32 }"
    inherited = "interface I { a: I32 } node A implements I {}"
    assert shape_hash(compiled(declared)) != shape_hash(compiled(inherited))


def test_a_hash_names_its_function() -> None:
    assert created("").shape_hash.startswith("sha256:")
    assert len(created("").shape_hash) == len("sha256:") + 64
