"""Resolving a schema: what the catalog holds, what is inherited, what stored schemas may do."""

import pickle
import time

import pyarrow as pa
import pytest

from omnigraphdb.catalog.model import (
    Annotation,
    Cardinality,
    Check,
    Columns,
    Embed,
    Level,
    Range,
)
from omnigraphdb.catalog.resolve.schema import compile_schema, resolve
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.errors import ResourceLimit
from omnigraphdb.language.schema.parse import parse_schema_text
from omnigraphdb.language.source import Source
from tests.support.schemas import codes, compiled, fixture, refusal

A = "node A { k: String @key } "

# ---- what the catalog holds


def test_the_worked_example_compiles_to_the_catalog_it_describes() -> None:
    catalog = compiled(fixture("fleet.pg"))
    assert list(catalog.interfaces) == ["Coded"]
    assert list(catalog.nodes) == ["Company", "Port", "Vessel"]
    assert list(catalog.edges) == ["CallsAt", "Feeds", "OwnedBy"]
    port, vessel = catalog.nodes["Port"], catalog.nodes["Vessel"]
    assert port.implements == ("Coded",)
    assert port.key == Columns(("code",), Level.PROPERTY)
    assert port.properties["code"].inherited_from == ("Coded",)
    assert port.ranges == (Range(property="lat", low=-90, high=90),)
    assert list(vessel.properties) == ["blurb", "built", "imo", "kind", "name", "sig", "tags"]
    assert vessel.instruction == "look up by imo"
    assert vessel.properties["kind"].type.display == "enum(bulk, roro, tanker)"
    assert vessel.properties["sig"].embed == Embed(source="blurb", model="acme/e1")
    assert vessel.checks == (Check(property="imo", pattern="^[0-9]{7}$"),)
    assert vessel.unique == (Columns(("built", "name"), Level.BODY),)
    assert vessel.indices == tuple(Columns((c,), Level.PROPERTY) for c in ("imo", "name", "sig"))
    assert catalog.edges["OwnedBy"].cardinality == Cardinality(low=1, high=1)
    assert catalog.edges["CallsAt"].cardinality.is_free
    assert catalog.edges["Feeds"].unique == (Columns(("dst", "src"), Level.BODY),)
    assert vessel.type_id is None


def test_the_arrow_schema_has_the_id_and_then_properties_by_name() -> None:
    catalog = compiled(fixture("fleet.pg"))
    assert catalog.nodes["Port"].schema == pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("code", pa.string(), nullable=False),
            pa.field("lat", pa.float64()),
            pa.field("name", pa.string(), nullable=False),
        ]
    )
    assert catalog.edges["Feeds"].schema.names == ["id", "src", "dst", "weight"]


def test_a_catalog_survives_the_trip_to_another_process() -> None:
    catalog = compiled(
        fixture("fleet.pg") + "node Bare {} edge Loop: Bare -> Bare interface None_ {}"
    )
    assert list(catalog.tables)
    assert pickle.loads(pickle.dumps(catalog)) == catalog


def test_every_type_of_the_language_is_resolved() -> None:
    scalars = " ".join(f"p{i}: {s}" for i, s in enumerate(Scalar))
    node = compiled(f"node A {{ {scalars} v: Vector(3)? l: [Date]? e: enum(b, a)? }}").nodes["A"]
    assert [node.properties[f"p{i}"].type for i, _ in enumerate(Scalar)] == [
        PropertyType(scalar=scalar) for scalar in Scalar
    ]
    assert node.properties["v"].type == PropertyType(scalar=Scalar.F32, nullable=True, dimension=3)
    assert node.properties["l"].type == PropertyType(
        scalar=Scalar.DATE, nullable=True, is_list=True
    )
    assert node.properties["e"].type == PropertyType(
        scalar=Scalar.STRING, nullable=True, enum_values=("a", "b")
    )


def test_declarations_may_refer_forward_and_share_names_across_kinds() -> None:
    catalog = compiled("edge Feed: Feed -> Feed node Feed implements Feed {} interface Feed {}")
    assert catalog.nodes["Feed"].implements == ("Feed",)


def test_two_spellings_of_one_constraint_differ_only_in_level() -> None:
    marked = compiled("node A { p: String @unique }").nodes["A"].unique
    written = compiled("node A { p: String @unique(p) }").nodes["A"].unique
    assert marked == (Columns(("p",), Level.PROPERTY),)
    assert written == (Columns(("p",), Level.BODY),)


@pytest.mark.parametrize(
    "text", ["node A { p: I32 @index @index(p) }", "node A { p: I32 @index(p) @index(p, p) }"]
)
def test_doubled_groups_collapse(text: str) -> None:
    assert len(compiled(text).nodes["A"].indices) == 1


@pytest.mark.parametrize(
    "marks", ["@key", "@key @index", "@key @index(p)", "@key @key(p)", "@index @key @key(p, p)"]
)
def test_a_key_implies_its_index_and_is_one_however_often_it_is_said(marks: str) -> None:
    found = compiled(f"node A {{ p: I32 {marks} }}").nodes["A"]
    assert found.key == Columns(("p",), Level.PROPERTY)
    assert found.indices == (Columns(("p",), Level.PROPERTY),)


def test_a_composite_key_is_sorted_by_name() -> None:
    found = compiled("node A { year: I32 code: String @key(year, code) }").nodes["A"]
    assert found.key == Columns(("code", "year"), Level.BODY)
    assert found.key_columns == ("code", "year")
    assert found.indices == (Columns(("code", "year"), Level.BODY),)


def test_a_list_may_be_in_an_index_of_the_body() -> None:
    assert compiled("node A { t: [String] @index(t) }").nodes["A"].indices


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("0..30", 0, 30),
        ("-40.0..", -40, None),
        ("..120", None, 120),
        ("1.50..2.5", 1.5, 2.5),
        ("-0.0..0.0", 0, 0),
        ("5..5", 5, 5),
        ("-9223372036854775808..18446744073709551615", -(2**63), 2**64 - 1),
    ],
)
def test_the_bounds_of_a_range_are_read_as_numbers(
    written: str, low: float | None, high: float | None
) -> None:
    (found,) = compiled(f"node A {{ n: F64 @range(n, {written}) }}").nodes["A"].ranges
    assert (found.low, found.high) == (low, high)
    assert repr(found.low) == repr(low)


def test_opaque_annotations_are_kept_sorted_and_once() -> None:
    text = 'node A @z @a(1.50) @b(x, k="v", a=true) @a(1.50) @a { p: I32 @default(3) }'
    found = compiled(text).nodes["A"]
    assert found.annotations == (
        Annotation(name="a"),
        Annotation(name="a", value="1.50"),
        Annotation(name="b", value="x", keywords=(("a", "true"), ("k", "v"))),
        Annotation(name="z"),
    )
    assert found.properties["p"].annotations == (Annotation(name="default", value="3"),)


def test_words_for_people_and_hints_are_kept() -> None:
    text = (
        'node A @description("a thing") @instruction("look it up") @rename_from("B") '
        '{ p: I32 @description("its p") @rename_from(q) }'
    )
    found = compiled(text).nodes["A"]
    assert (found.description, found.instruction, found.rename_from) == (
        "a thing",
        "look it up",
        "B",
    )
    assert (found.properties["p"].description, found.properties["p"].rename_from) == ("its p", "q")


def test_near_misses_of_reserved_names_are_free() -> None:
    compiled(
        A + "node V { _row_id: I32 src: I32 from: I32 ids: I32 } edge E: A -> A { source: I32 }"
    )


@pytest.mark.parametrize("source", ["t", '"t"'])
def test_an_embedding_names_its_source_with_or_without_quotes(source: str) -> None:
    found = compiled(f"node A {{ t: String v: Vector(2)? @embed({source}) }}").nodes["A"]
    assert found.properties["v"].embed == Embed(source="t", model=None)


# ---- interfaces


def test_an_interface_gives_its_annotations_to_what_is_inherited() -> None:
    text = (
        'interface I { code: String @key @description("c") @owner("x") n: I32? @unique @index '
        "t: String v: Vector(2)? @embed(t) } node A implements I {}"
    )
    found = compiled(text).nodes["A"]
    assert found.key == Columns(("code",), Level.PROPERTY)
    assert found.unique == (Columns(("n",), Level.PROPERTY),)
    assert found.indices == (Columns(("code",), Level.PROPERTY), Columns(("n",), Level.PROPERTY))
    assert found.properties["code"].description == "c"
    assert found.properties["code"].annotations == (Annotation(name="owner", value="x"),)
    assert found.properties["v"].embed == Embed(source="t", model=None)
    assert all(p.inherited_from == ("I",) for p in found.properties.values())


def test_a_property_that_the_node_declares_itself_inherits_no_annotations() -> None:
    text = "interface I { code: String @key } node A implements I { code: String }"
    found = compiled(text).nodes["A"]
    assert found.key is None
    assert found.properties["code"].inherited_from == ()


def test_interfaces_that_agree_may_give_the_same_property() -> None:
    text = (
        "interface P { n: enum(a, b) @index } interface Q { n: enum(b, a) @index } "
        "node A implements Q, P, P {}"
    )
    found = compiled(text).nodes["A"]
    assert found.implements == ("P", "Q")
    assert found.properties["n"].inherited_from == ("P", "Q")
    assert found.indices == (Columns(("n",), Level.PROPERTY),)


def test_a_node_settles_a_conflict_by_declaring_the_property() -> None:
    text = "interface P { n: I32 @index } interface Q { n: I32 } node A implements P, Q { n: I32 }"
    assert compiled(text).nodes["A"].indices == ()


def test_constraints_of_a_node_may_name_what_it_inherits() -> None:
    text = "interface P { n: I32 } node A implements P { m: I32 @key(n, m) @range(n, 0..) }"
    found = compiled(text).nodes["A"]
    assert found.key == Columns(("m", "n"), Level.BODY)


def test_an_error_in_an_interface_is_told_once_not_per_node() -> None:
    text = "interface I { k: String? @key } node A implements I {} node B implements I {}"
    assert codes(text) == ["S052"]


def test_interfaces_that_multiply_without_measure_are_refused() -> None:
    text = f"interface I {{ {' '.join(f'p{i}: I32' for i in range(1_000))} }}"
    text += "".join(f"node N{i} implements I {{}}" for i in range(200))
    with pytest.raises(ResourceLimit, match="inherited properties"):
        compiled(text)


# ---- stored schemas

LAXER = [
    "node A { _rowid: I32 }",
    A + "edge E: A -> A { from: String }",
    "node A { b: Blob? @unique(b) }",
    "node A { t: [String] @unique(t) }",
    'node A { k: String @check(k, "([a-z") }',
    "node A { n: I32 @range(n, 5..1) }",
    "node A { n: [I32] @range(n, 0..1) }",
    'node A { n: [String] @check(n, "x") }',
    "node A @rename_from {}",
    "interface P { n: I32 } interface Q { n: I32 @index } node A implements P, Q {}",
]


@pytest.mark.parametrize("text", LAXER)
def test_a_stored_schema_need_not_obey_younger_rules(text: str) -> None:
    assert refusal(lambda: compile_schema(text))
    assert compile_schema(text, stored=True).nodes


@pytest.mark.parametrize(
    "text",
    [
        "node A { k: String? @key }",
        "node A { b: Blob? @unique }",
        "node A { a: I32 a: I32 }",
        "interface P { n: I32 } interface Q { n: I64 } node A implements P, Q {}",
        "node A { n: String @range(n, 0..1) }",
        A + "edge E: A -> Lost",
    ],
)
def test_a_stored_schema_obeys_the_old_rules(text: str) -> None:
    assert refusal(lambda: compile_schema(text, stored=True))


# ---- how long it takes


def test_a_schema_of_600_lines_compiles_in_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    compile_schema("node Warm { up: I32 }")
    lines = [
        f'node Type{i} @description("number {i}") {{\n'
        "  code: String @key\n"
        "  kind: enum(bulk, tanker, roro)\n"
        "  built: Date? @index\n"
        "  size: F64?\n"
        "  blurb: String?\n"
        '  sig: Vector(8)? @embed("blurb", model="acme/e1") @index\n'
        "  @range(size, 0..400.5)\n"
        '  @check(code, "^[0-9]{7}$")\n'
        "}\n"
        f"edge Feeds{i}: Type{i} -> Type{(i * 7) % 55}\n"
        for i in range(55)
    ]
    text = "".join(lines)
    assert text.count("\n") > 600
    # The time of this process alone: a busy machine makes everything late, not everything slow.
    start = time.process_time()
    compile_schema(text)
    taken = time.process_time() - start
    with capsys.disabled():
        print(f"\n  600 lines of schema: {taken * 1000:.0f} ms")
    assert taken < 2.0


def test_resolving_needs_no_places() -> None:
    text = "node A { k: I32 @key }"
    catalog = resolve(parse_schema_text(Source(text)), Source(text))
    assert catalog == compiled(text)
