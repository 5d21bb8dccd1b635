"""Schemas for tests: random trees that parse, random schemas that hold, and small helpers."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.errors import SchemaError
from omnigraphdb.language.diagnostics import diagnostics_of
from omnigraphdb.language.schema.tree import (
    Annotation,
    Argument,
    Card,
    Constraint,
    EdgeDecl,
    InterfaceDecl,
    Name,
    NodeDecl,
    Number,
    Property,
    SchemaTree,
    TypeExpr,
)
from omnigraphdb.language.source import NOWHERE, Source

FIXTURES = Path(__file__).parent.parent / "fixtures" / "schema"
SCALARS = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
KEYABLE = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
NUMBERS = ("I32", "I64", "U32", "U64", "F32", "F64")

# ---- helpers


def fixture(name: str) -> str:
    """The text of a fixture file."""
    return (FIXTURES / name).read_text("utf-8")


def refusal(work: Callable[[], object]) -> SchemaError:
    """The error that refuses a schema."""
    with pytest.raises(SchemaError) as caught:
        work()
    return caught.value


def refused(text: str) -> list[dict[str, Any]]:
    """The problems of a schema, in the order they are reported."""
    return diagnostics_of(refusal(lambda: compile_schema(Source(text, "fleet.pg"))))


def codes(text: str) -> list[str]:
    """The codes of the problems of a schema, in the order they are reported."""
    return [finding["code"] for finding in refused(text)]


def without_places(tree: SchemaTree) -> SchemaTree:
    """The same tree as if nobody knew where it was written; comments keep their texts only."""
    plain: SchemaTree = _stripped(replace(tree, gaps=frozenset()))
    return replace(plain, comments=tuple(replace(c, own_line=True) for c in plain.comments))


def _stripped(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_stripped(one) for one in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    kept = {one.name: _stripped(getattr(value, one.name)) for one in fields(value)}
    return replace(value, **(kept | ({"span": NOWHERE} if "span" in kept else {})))


# ---- any tree the grammar can produce, sensible or not

_WORDS = (
    "node",
    "edge",
    "interface",
    "implements",
    "enum",
    "true",
    "src",
    "a",
    "_x",
    "code",
    "nameX",
)
identifiers = st.one_of(
    st.sampled_from(_WORDS), st.from_regex(r"[a-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
)
type_names = st.one_of(
    st.sampled_from(("Port", "Vessel", "String", "Vector")),
    st.from_regex(r"[A-Z][A-Za-z0-9_]{0,5}", fullmatch=True),
)
texts = st.text(
    st.one_of(
        st.sampled_from('"\\\n\r\t/*{}@, '),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)
_labels = identifiers.filter(
    lambda name: name not in ("key", "unique", "index", "range", "check", "card")
)


def names(words: st.SearchStrategy[str]) -> st.SearchStrategy[Name]:
    """Words without a place."""
    return words.map(Name)


def _argument(form: Any, words: st.SearchStrategy[str]) -> st.SearchStrategy[Argument]:
    return words.map(lambda text: Argument(text=text, form=form))


_digits = st.from_regex(r"[0-9]{1,4}", fullmatch=True)
_decimals = st.from_regex(r"[0-9]{1,3}\.[0-9]{1,3}", fullmatch=True)
literals = st.one_of(
    _argument("string", texts),
    _argument("int", _digits),
    _argument("float", _decimals),
    _argument("bool", st.sampled_from(("true", "false"))),
)
arguments = st.one_of(
    literals, _argument("ident", identifiers.filter(lambda word: word not in ("true", "false")))
)


@st.composite
def annotations(draw: st.DrawFn) -> Annotation:
    """Any annotation that the grammar keeps on a head or a property."""
    value = draw(st.none() | arguments)
    keyword = identifiers.filter(lambda word: word not in ("true", "false"))
    pairs = st.lists(st.tuples(names(keyword), literals), max_size=2)
    return Annotation(name=draw(_labels), value=value, keywords=tuple(draw(pairs)) if value else ())


annotation_lists = st.lists(annotations(), max_size=2).map(tuple)
type_expressions = st.one_of(
    st.builds(
        TypeExpr, scalar=st.sampled_from(SCALARS), is_list=st.booleans(), nullable=st.booleans()
    ),
    st.builds(
        TypeExpr,
        enum_values=st.lists(
            names(st.from_regex(r"[A-Za-z0-9_-]{1,5}", fullmatch=True)), min_size=1, max_size=3
        ).map(tuple),
        nullable=st.booleans(),
    ),
    st.builds(TypeExpr, dimension=st.integers(0, 2**40), nullable=st.booleans()),
)
properties = st.builds(
    Property, name=names(identifiers), type=type_expressions, annotations=annotation_lists
)
_bound = st.from_regex(r"-?[0-9]{1,3}(\.[0-9]{1,2})?", fullmatch=True).map(lambda t: Number(text=t))
_columns = st.lists(names(identifiers), min_size=1, max_size=3).map(tuple)
_column = names(identifiers).map(lambda name: (name,))
constraints = st.one_of(
    st.builds(Constraint, kind=st.sampled_from(("key", "unique", "index")), columns=_columns),
    st.builds(
        Constraint, kind=st.just("range"), columns=_column, low=_bound, high=st.none() | _bound
    ),
    st.builds(Constraint, kind=st.just("range"), columns=_column, high=_bound),
    st.builds(
        Constraint, kind=st.just("check"), columns=_column, pattern=_argument("string", texts)
    ),
)
members = st.lists(st.one_of(properties, constraints), max_size=4).map(tuple)


@st.composite
def edges(draw: st.DrawFn) -> EdgeDecl:
    """Any edge declaration; one without a body has no members."""
    has_body = draw(st.booleans())
    return EdgeDecl(
        name=draw(names(type_names)),
        source=draw(names(type_names)),
        target=draw(names(type_names)),
        card=draw(
            st.none() | st.builds(Card, low=st.integers(0, 9), high=st.none() | st.integers(0, 9))
        ),
        annotations=draw(annotation_lists),
        members=draw(members) if has_body else (),
        has_body=has_body,
    )


declarations = st.one_of(
    st.builds(
        InterfaceDecl,
        name=names(type_names),
        properties=st.lists(properties, max_size=3).map(tuple),
    ),
    st.builds(
        NodeDecl,
        name=names(type_names),
        annotations=annotation_lists,
        implements=st.lists(names(type_names), max_size=2).map(tuple),
        members=members,
    ),
    edges(),
)
trees = st.lists(declarations, max_size=4).map(lambda found: SchemaTree(tuple(found)))

# ---- schemas that hold together


def _text(text: str) -> Argument:
    return Argument(text=text, form="string")


_opaque = st.sampled_from(
    (
        Annotation(name="owner", value=_text("ops")),
        Annotation(name="pinned", value=Argument(text="true", form="bool")),
        Annotation(name="note", value=_text("x"), keywords=((Name("k"), _text("v")),)),
    )
)
_described = st.lists(
    st.one_of(_opaque, st.just(Annotation(name="description", value=_text("some words")))),
    max_size=2,
    unique_by=lambda annotation: annotation.name,
).map(tuple)


@st.composite
def _valid_property(draw: st.DrawFn, name: str, unique: bool) -> Property:
    type_ = draw(type_expressions.filter(_sound))
    marks = list(draw(_described))
    plain = type_.dimension is None and not type_.is_list and type_.scalar != "Blob"
    if plain and unique and draw(st.booleans()):
        marks.append(Annotation(name="unique"))
    if plain and draw(st.booleans()):
        marks.append(Annotation(name="index"))
    return Property(name=Name(name), type=type_, annotations=tuple(marks))


def _sound(type_: TypeExpr) -> bool:
    values = [value.text for value in type_.enum_values]
    in_bounds = type_.dimension is None or 1 <= type_.dimension < 2**31
    return (
        in_bounds
        and len(set(values)) == len(values)
        and not (type_.is_list and type_.scalar == "Blob")
    )


@st.composite
def _valid_body(draw: st.DrawFn, prefix: str, *, node: bool) -> tuple[Property | Constraint, ...]:
    count = draw(st.integers(0, 4))
    body: list[Property | Constraint] = [
        draw(_valid_property(f"{prefix}{index}", unique=True)) for index in range(count)
    ]
    owned = [one for one in body if isinstance(one, Property)]
    plain = [p for p in owned if _is_plain(p.type)]
    if len(plain) > 1 and draw(st.booleans()):
        kind: Any = draw(st.sampled_from(("unique", "index")))
        body.append(Constraint(kind=kind, columns=(plain[1].name, plain[0].name)))
    if node:
        body += [
            Constraint(
                kind="range", columns=(p.name,), low=Number(text="-1.50"), high=Number(text="7")
            )
            for p in owned
            if p.type.scalar in NUMBERS and not p.type.is_list and draw(st.booleans())
        ]
        required = [p for p in plain if not p.type.nullable]
        if len(required) > 0 and draw(st.booleans()):
            body.append(Constraint(kind="key", columns=tuple(p.name for p in required[:2])))
    return tuple(draw(st.permutations(body)))


def _is_plain(type_: TypeExpr) -> bool:
    return type_.dimension is None and not type_.is_list and type_.scalar != "Blob"


@st.composite
def valid_trees(draw: st.DrawFn) -> SchemaTree:
    """A schema that compiles: interfaces, nodes that implement some, edges between the nodes."""
    interfaces = [
        InterfaceDecl(
            name=Name(f"Face{index}"),
            properties=tuple(
                draw(_valid_property(f"face{index}_{n}", unique=False))
                for n in range(draw(st.integers(0, 2)))
            ),
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    nodes = [
        NodeDecl(
            name=Name(f"Node{index}"),
            annotations=draw(_described),
            implements=tuple(Name(face.name.text) for face in interfaces if draw(st.booleans())),
            members=draw(_valid_body("own", node=True)),
        )
        for index in range(draw(st.integers(1, 3)))
    ]
    ends = st.sampled_from([node.name.text for node in nodes]).map(Name)
    links = [
        EdgeDecl(
            name=Name(f"Edge{index}"),
            source=draw(ends),
            target=draw(ends),
            card=draw(st.none() | st.just(Card(low=0, high=3))),
            annotations=draw(_described),
            members=draw(_valid_body("own", node=False)),
            has_body=True,
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    everything: Sequence[Any] = [*interfaces, *nodes, *links]
    return SchemaTree(tuple(draw(st.permutations(everything))))


def compiled(text: str) -> Catalog:
    """The catalog of a schema text."""
    return compile_schema(Source(text, "fleet.pg"))
