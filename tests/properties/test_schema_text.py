"""Schema text: any tree survives its layout, any damage is answered with findings inside the text."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.catalog.ir.contract import Contract, bind, create_contract
from omnigraphdb.catalog.ir.encode import shape_hash
from omnigraphdb.catalog.resolve.schema import compile_schema, resolve
from omnigraphdb.errors import SchemaError
from omnigraphdb.language.diagnostics import diagnostics_of
from omnigraphdb.language.schema.format import format_schema
from omnigraphdb.language.schema.parse import parse_schema_text
from omnigraphdb.language.schema.tree import (
    Annotation,
    Argument,
    EdgeDecl,
    InterfaceDecl,
    NodeDecl,
    Property,
    SchemaTree,
)
from omnigraphdb.language.source import Source
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from tests.support.schemas import fixture, trees, valid_trees, without_places

DOMAIN = "01J8ZXVYQ0000000000000000A"
SEEDS = (fixture("fleet.pg"), fixture("messy.pg"), fixture("museum.pg"))


@given(trees)
def test_a_tree_survives_its_layout(tree: SchemaTree) -> None:
    text = format_schema(tree)
    again = parse_schema_text(Source(text))
    assert without_places(again) == tree
    assert format_schema(again) == text


_NOISE = st.sampled_from(
    ("", "", " // one\n", "/* two */", "\n\n\n", " /* 3\n lines */ // 4\n", "\r\n", "\t", "// \r\n")
)


@st.composite
def commented(draw: st.DrawFn) -> str:
    """The text of a tree with comments, blank lines and line ends thrown in between its words."""
    text = format_schema(draw(trees))
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[ \n]+|[{}():,]|[^ \n{}():,"]+', text)
    return "".join(
        piece + (draw(_NOISE) if re.fullmatch(r"[ \n{}():,]+", piece) else "") for piece in pieces
    )


@settings(max_examples=100)
@given(commented())
def test_comments_survive_the_layout_and_the_layout_is_stable(text: str) -> None:
    tree = parse_schema_text(Source(text))
    laid_out = format_schema(tree)
    again = parse_schema_text(Source(laid_out))
    assert without_places(again) == without_places(tree)
    assert format_schema(again) == laid_out


@given(valid_trees(), st.randoms(use_true_random=False))
def test_the_meaning_does_not_depend_on_order_comments_or_hints(
    tree: SchemaTree, chance: random.Random
) -> None:
    catalog = resolve(tree, Source(""))
    text = "// a comment\n" + format_schema(_hinted(_shuffled(tree, chance))) + "\n/* another */"
    assert shape_hash(compile_schema(text)) == shape_hash(catalog)


@given(valid_trees())
def test_the_meaning_survives_the_contract(tree: SchemaTree) -> None:
    catalog = compile_schema(format_schema(tree))
    contract = create_contract(catalog, DOMAIN)
    again = Contract.from_json(contract.to_json())
    assert again == contract
    assert again.shape_hash == shape_hash(catalog) == shape_hash(bind(catalog, contract))
    assert again.ir_hash == contract.ir_hash


def _shuffled(tree: SchemaTree, chance: random.Random) -> SchemaTree:
    found = [
        _with_members(one, lambda members: _mixed(members, chance)) for one in tree.declarations
    ]
    return SchemaTree(_mixed(found, chance))


def _mixed(items: Any, chance: random.Random) -> tuple[Any, ...]:
    return tuple(chance.sample(list(items), len(items)))


def _hinted(tree: SchemaTree) -> SchemaTree:
    hint = Annotation(name="rename_from", value=Argument(text="old", form="string"))

    def hinted(members: Any) -> tuple[Any, ...]:
        return tuple(
            Property(name=m.name, type=m.type, annotations=(*m.annotations, hint))
            if isinstance(m, Property)
            else m
            for m in members
        )

    return SchemaTree(tuple(_with_members(one, hinted) for one in tree.declarations))


def _with_members(declaration: Any, change: Any) -> Any:
    match declaration:
        case InterfaceDecl():
            return InterfaceDecl(name=declaration.name, properties=change(declaration.properties))
        case NodeDecl():
            return NodeDecl(
                name=declaration.name,
                annotations=declaration.annotations,
                implements=declaration.implements,
                members=change(declaration.members),
            )
        case EdgeDecl():
            return EdgeDecl(
                name=declaration.name,
                source=declaration.source,
                target=declaration.target,
                card=declaration.card,
                annotations=declaration.annotations,
                members=change(declaration.members),
                has_body=declaration.has_body,
            )


# ---- damage

_WORDS = (
    '{ } ( ) [ ] " @ , ; : ? .. -> = // /* */ node edge interface implements enum( Vector( @key @key( '
    "@card( @range( @check( @embed @rename_from @description String I32 0 -1 1.5 id src _rowid \\ é 😀"
)
_SPLINTERS = st.one_of(
    st.sampled_from([*_WORDS.split(), "node ", "9" * 30, "\n", "\r", "\0", "\ufeff", "\u2028"]),
    st.characters(),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A schema with pieces cut out, doubled, moved or put in."""
    text = draw(st.sampled_from(SEEDS) | valid_trees().map(format_schema))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        to = min(len(text), at + draw(st.integers(0, 30)))
        match draw(st.sampled_from(("cut", "put", "double", "swap", "end"))):
            case "cut":
                text = text[:at] + text[to:]
            case "put":
                text = text[:at] + draw(_SPLINTERS) + text[at:]
            case "double":
                text = text[:to] + text[at:to] + text[to:]
            case "swap":
                text = text[:at] + draw(_SPLINTERS) + text[to:]
            case "end":
                text = text[:to]
    return text


def _answer(text: str) -> None:
    """Compile, and require that a refusal is ours, bounded, and about places inside the text."""
    try:
        compile_schema(Source(text, "damaged.pg"))
    except SchemaError as error:
        findings = diagnostics_of(error)
        assert 1 <= len(findings) <= PROBLEMS_SHOWN_MAX
        for finding in findings:
            span, position = finding["span"], finding["position"]
            assert 0 <= span["start"] <= span["end"] <= len(text)
            assert 1 <= position["line"] <= text.count("\n") + 1
            assert position["column"] >= 1
            assert finding["code"].startswith("S")
            assert finding["message"]


@settings(max_examples=150)
@given(damaged())
def test_damaged_text_is_refused_inside_the_text_or_accepted(text: str) -> None:
    _answer(text)


@settings(max_examples=100)
@given(
    st.text(max_size=200) | st.text(st.sampled_from('nodeAB{}:@()",/*\\ \n01.?[]->'), max_size=80)
)
def test_any_text_is_refused_inside_the_text_or_accepted(text: str) -> None:
    _answer(text)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@settings(max_examples=20_000)
@given(damaged())
def test_much_damage_is_refused_inside_the_text_or_accepted(text: str) -> None:
    _answer(text)


@settings(max_examples=80)
@given(damaged())
def test_what_still_parses_after_damage_has_a_stable_layout(text: str) -> None:
    try:
        tree = parse_schema_text(Source(text))
    except SchemaError:
        return
    laid_out = format_schema(tree)
    again = parse_schema_text(Source(laid_out))
    assert without_places(again) == without_places(tree)
    assert format_schema(again) == laid_out
