"""What properties were called at another time is told by identity, for the tables where it matters."""

from omnigraphdb.catalog.ir.contract import Contract, advance, create_contract
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.engine.read.past_schema import map_past_names
from omnigraphdb.ids import TableKey

DOMAIN = "01J0000000000000000000TEST"
FIRST = "node A { key: String @key  x: I32?  y: I32? }  node B { key: String @key }"


def after(contract: Contract, text: str) -> Contract:
    return advance(contract, compile_schema(text))


def begun() -> Contract:
    return create_contract(compile_schema(FIRST), DOMAIN)


def test_nothing_is_said_of_tables_whose_names_mean_the_same() -> None:
    then = begun()
    now = after(then, FIRST.replace("y: I32?", "y: I32?  z: I32?"))
    assert map_past_names(now, then) == {}
    assert map_past_names(then, then) == {}


def test_a_renamed_property_is_found_and_an_added_one_is_not_there() -> None:
    then = begun()
    now = after(then, FIRST.replace("x: I32?", 'w: I32? @rename_from("x")  z: I32?'))
    assert map_past_names(now, then) == {TableKey("node:A"): {"key": "key", "w": "x", "y": "y"}}


def test_a_name_that_went_and_came_back_shows_what_was_stored_then() -> None:
    then = begun()
    without = after(then, FIRST.replace("x: I32?", ""))
    assert map_past_names(after(without, FIRST), then) == {}
    other = after(without, FIRST.replace("x: I32?", "x: String?"))
    assert map_past_names(other, then) == {TableKey("node:A"): {"key": "key", "y": "y"}}


def test_a_name_that_came_back_is_not_taken_for_one_that_was_renamed() -> None:
    then = begun()
    renamed = after(then, FIRST.replace("x: I32?", 'w: I32? @rename_from("x")'))
    now = after(renamed, FIRST.replace("x: I32?", "w: I32?  x: I32?"))
    assert map_past_names(now, then) == {TableKey("node:A"): {"key": "key", "w": "x", "y": "y"}}


def test_a_name_that_passed_to_another_property_is_followed() -> None:
    then = begun()
    first = after(then, FIRST.replace("x: I32?", 'p: I32? @rename_from("x")'))
    now = after(first, FIRST.replace("x: I32?  y: I32?", 'p: I32?  x: I32? @rename_from("y")'))
    assert map_past_names(now, then)[TableKey("node:A")] == {"key": "key", "p": "x", "x": "y"}


def test_a_renamed_type_is_the_same_table_and_a_new_one_of_its_name_is_not() -> None:
    then = begun()
    renamed = after(then, FIRST.replace("node A {", 'node C @rename_from("A") {'))
    now = after(
        renamed,
        FIRST.replace(
            "node A {", 'node C { key: String @key  v: I32? @rename_from("x")  y: I32? } node A {'
        ).replace("node B { key: String @key }", ""),
    )
    assert set(map_past_names(now, then)) == {TableKey("node:C")}
