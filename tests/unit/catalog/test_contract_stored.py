"""Stored contracts: what is written is read back, what was tampered with is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.ir.contract import Contract, create_contract
from omnigraphdb.catalog.ir.state import SchemaState, open_contract, seal
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.errors import SchemaContractError
from omnigraphdb.language.source import Source
from tests.support.schemas import compiled, fixture

DOMAIN = "01J8ZXVYQ0000000000000000A"
TEXT = fixture("museum.pg")
CONTRACT = create_contract(compiled(TEXT), DOMAIN)

Document = dict[str, Any]


def test_a_contract_is_read_back_as_it_was_written() -> None:
    again = Contract.from_json(CONTRACT.to_json())
    assert again == CONTRACT
    assert again.ir_hash == CONTRACT.ir_hash
    assert again.to_json() == CONTRACT.to_json()


def test_the_layout_of_the_file_does_not_matter() -> None:
    compact = json.dumps(json.loads(CONTRACT.to_json()), sort_keys=True)
    assert Contract.from_json(compact) == CONTRACT


def _set(*path: Any, to: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        target: Any = document
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = to

    return change


def _node(document: Document, name: str) -> Document:
    found: Document = next(node for node in document["nodes"] if node["name"] == name)
    return found


def _drop_link(document: Document) -> None:
    _node(document, "Room")["properties"] = [
        p for p in _node(document, "Room")["properties"] if p["name"] != "name"
    ]
    _node(document, "Room")["constraints"] = [
        c for c in _node(document, "Room")["constraints"] if c.get("columns") != ["name"]
    ]


def _reverse(*path: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        target: Any = document
        for step in path:
            target = target[step]
        target.reverse()

    return change


def _double(*path: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        target: Any = document
        for step in path:
            target = target[step]
        target.append(target[-1])

    return change


PIECE, ROOM = 0, 1
TAMPERED: list[tuple[str, Callable[[Document], None], str]] = [
    ("another version", _set("ir_version", to=3), "version 3"),
    ("a domain in lower case", _set("identity_domain", to=DOMAIN.lower()), "ULID"),
    ("a domain that is no ULID", _set("identity_domain", to="8" + "0" * 25), "ULID"),
    ("identity zero", _set("nodes", PIECE, "type_id", to=0), "not positive"),
    ("a negative identity", _set("nodes", PIECE, "properties", 0, "property_id", to=-1), "not positive"),
    ("a doubled type id", _set("nodes", PIECE, "type_id", to=1), "in use already"),
    ("a doubled property id", _set("nodes", PIECE, "properties", 0, "property_id", to=2), "in use already"),
    ("a doubled table id", _set("edges", 0, "incarnation_id", to=3), "in use already"),
    ("a next id in use", _set("next_identity_id", to=5), "would deal 5"),
    ("a missing table id", lambda d: d["nodes"][PIECE].pop("incarnation_id"), "incarnation_id"),
    ("a text for a number", _set("nodes", PIECE, "type_id", to="3"), "whole number"),
    ("a truth for a number", _set("nodes", PIECE, "type_id", to=True), "whole number"),
    ("nodes out of order", _reverse("nodes"), "sorted by name"),
    ("a doubled node", _double("nodes"), "sorted by name"),
    ("properties out of order", _reverse("nodes", PIECE, "properties"), "sorted by name"),
    ("constraints out of order", _reverse("nodes", PIECE, "constraints"), "canonical"),
    ("a doubled constraint", _double("nodes", PIECE, "constraints"), "canonical"),
    ("a doubled annotation", _double("nodes", PIECE, "annotations"), "canonical"),
    ("columns out of order", _set("nodes", PIECE, "constraints", 0, "columns", to=["name", "kind"]), "sorted"),
    ("an edge to nothing", _set("edges", 0, "to", to="Lost"), "'Lost'"),
    ("an edge to an interface", _set("edges", 0, "to", to="Named"), "'Named'"),
    ("an unknown interface", _set("nodes", PIECE, "implements", to=["Dated", "Lost"]), "'Lost'"),
    ("a missing link", _drop_link, "does not link"),
    ("a link of another type", _set("interfaces", 1, "properties", 0, "type", "scalar", to="I32"), "does not link"),
    ("inherited from nothing", _set("nodes", PIECE, "properties", 0, "inherited", to=True), "no interface"),
    ("a reserved column", _set("nodes", PIECE, "properties", 0, "name", to="_rowid"), "reserved"),
    ("an id column", _set("nodes", PIECE, "properties", 0, "name", to="an id"), "not a name"),
    ("a type name that is none", _set("nodes", PIECE, "name", to="../Piece"), "not a type name"),
    ("an unknown scalar", _set("nodes", PIECE, "properties", 0, "type", "scalar", to="Text"), "'Text'"),
    ("an unknown key", _set("nodes", PIECE, "colour", to="red"), "'colour'"),
    ("an unknown top-level key", _set("colour", to="red"), "'colour'"),
    ("a path out of the graph", _set("nodes", PIECE, "path", to="../../etc"), "not a table path"),
    ("a node among edges", _set("nodes", PIECE, "path", to="edges/" + "0" * 16), "not a table path"),
    ("two tables in one place", lambda d: _set("nodes", PIECE, "path", to=d["nodes"][ROOM]["path"])(d), "two tables"),
    ("life zero", _set("nodes", PIECE, "incarnation", to=0), "not positive"),
    ("a life of a living name", _set("retired", to={"node:Piece": 1}), "past lives"),
    ("a life of no name", _set("retired", to={"Piece": 1}), "past lives"),
    ("no past life", _set("retired", to={"node:Gone": 0}), "past lives"),
    ("a constraint of another kind", _set("nodes", PIECE, "constraints", 0, "kind", to="magic"), "'magic'"),
    ("a column of nobody", _set("nodes", ROOM, "constraints", 0, "columns", to=["zzz"]), "'zzz'"),
    ("a card without a low", _set("edges", 0, "card", to={}), "lacks 'low'"),
    ("no nodes at all", lambda d: d.pop("nodes"), ""),
    ("nodes that are no list", _set("nodes", to={}), "not a list"),
    ("a node that is no object", _set("nodes", PIECE, to=3), "not an object"),
    ("null", _set("nodes", PIECE, "description", to=None), "not a text"),
]  # fmt: skip


@pytest.mark.parametrize(("tamper", "says"), [pytest.param(t, s, id=n) for n, t, s in TAMPERED])
def test_a_contract_that_breaks_a_rule_is_refused(
    tamper: Callable[[Document], None], says: str
) -> None:
    document = json.loads(CONTRACT.to_json())
    tamper(document)
    with pytest.raises(SchemaContractError) as caught:
        Contract.from_json(json.dumps(document))
    assert says in str(caught.value)
    assert "nothing was changed" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "3", "NaN", "[" * 100_000, "9" * 5_000),
        *('{"ir_version": 2}', '{"ir_version": 2, "ir_version": 2}', '{"ir_version": NaN}'),
        '{"ir_version": 2, "identity_domain": "\\ud800"}',
    ],
)
def test_what_is_no_contract_is_refused(text: str) -> None:
    with pytest.raises(SchemaContractError):
        Contract.from_json(text)


@given(st.data())
def test_a_contract_with_any_value_replaced_is_refused_or_equal(data: st.DataObject) -> None:
    document = json.loads(CONTRACT.to_json())
    target, steps = document, data.draw(st.integers(1, 6))
    for _ in range(steps):
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(target[key], dict | list) or data.draw(st.booleans()):
            target[key] = data.draw(
                st.none() | st.booleans() | st.integers(-2, 90) | st.floats() | st.text(max_size=4)
                | st.just([]) | st.just({})
            )  # fmt: skip
            break
        target = target[key]
    text = json.dumps(document)
    try:
        again = Contract.from_json(text)
    except SchemaContractError:
        return
    assert json.loads(again.to_json()) == json.loads(text)


# ---- the state and the three files


def test_a_state_is_read_back_as_it_was_written() -> None:
    state = seal(CONTRACT)
    assert SchemaState.from_json(state.to_json()) == state
    assert json.loads(state.to_json()) == {
        "format_version": 1,
        "schema_ir_hash": CONTRACT.ir_hash,
        "schema_shape_hash": CONTRACT.shape_hash,
        "schema_identity_version": 1,
        "identity_domain": DOMAIN,
    }


def opened(text: str = TEXT, ir: str | None = "", state: str | None = "") -> Contract:
    return open_contract(
        Source(text, "_schema.pg"),
        CONTRACT.to_json() if ir == "" else ir,
        seal(CONTRACT).to_json() if state == "" else state,
    )


def test_three_files_that_agree_open() -> None:
    assert opened() == CONTRACT


def test_comments_and_order_of_the_stored_text_may_change() -> None:
    assert opened(text="// edited by hand\n" + TEXT + "\n") == CONTRACT


def _state(**change: Any) -> str:
    return json.dumps(json.loads(seal(CONTRACT).to_json()) | change)


OTHER = create_contract(compiled(TEXT), "01J8ZXVYQ0000000000000000B")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"text": TEXT.replace("price: F64?", "price: F32?")}, "'_schema.pg'"),
        ({"text": "node"}, "does not compile"),
        ({"ir": None}, "the schema contract is missing"),
        ({"state": None}, "the schema state is missing"),
        ({"ir": OTHER.to_json()}, "is not the one that was accepted"),
        ({"state": _state(identity_domain=OTHER.domain)}, "another identity domain"),
        ({"state": _state(schema_shape_hash="sha256:0")}, "shape"),
        ({"state": _state(format_version=2)}, "format_version 2"),
        ({"state": _state(schema_identity_version=7)}, "schema_identity_version 7"),
        ({"state": _state(extra=1)}, "'extra'"),
        ({"state": "{}"}, "lacks 'format_version'"),
    ],
)
def test_files_that_disagree_or_are_missing_are_refused(files: dict[str, Any], says: str) -> None:
    with pytest.raises(SchemaContractError) as caught:
        opened(**files)
    assert says in str(caught.value)


def test_a_stored_text_of_laxer_days_still_opens() -> None:
    text = "node A { t: [String]  @unique(t) }"
    contract = create_contract(compile_schema(text, stored=True), DOMAIN)
    found = open_contract(Source(text), contract.to_json(), seal(contract).to_json())
    assert found == contract
