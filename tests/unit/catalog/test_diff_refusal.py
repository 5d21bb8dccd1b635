"""What a refused plan says, and what the planner does with parts of a schema it does not know."""

import pickle

import pytest

from omnigraphdb.catalog.diff.codes import REGISTRY, Code, Family, Severity, Tier
from omnigraphdb.catalog.diff.steps import SchemaPlan, first_refusal
from omnigraphdb.catalog.diff.types import plan
from omnigraphdb.catalog.model import Catalog, Columns, Interface, Level, NodeType, Property
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.errors import InternalError, UnsupportedSchemaChange
from omnigraphdb.ids import TableKey
from omnigraphdb.values import dataclass


def text(name: str, *, nullable: bool = False) -> Property:
    return Property(name=name, type=PropertyType(scalar=Scalar.STRING, nullable=nullable))


def node(name: str, *properties: Property, rename_from: str | None = None) -> NodeType:
    return NodeType(name=name, properties={p.name: p for p in properties}, rename_from=rename_from)


def nodes(*types: NodeType) -> Catalog:
    return Catalog(nodes={t.name: t for t in types})


REFUSED = plan(
    nodes(node("Port", text("code"))),
    nodes(node("Quay", text("code"), text("flag"), text("name"), rename_from="Port")),
)


def test_a_refusal_says_what_where_why_what_state_is_left_and_what_to_do() -> None:
    error = first_refusal(REFUSED)
    assert isinstance(error, UnsupportedSchemaChange)
    assert str(error).startswith("[OG-MF-103] property 'Quay.flag' is new and required (String)")
    assert "no changes were made; 1 more refused in this plan" in str(error)
    assert "nullable" in str(error.hint)
    assert error.code == "OG-MF-103"


def test_a_refusal_carries_all_refusals_of_its_plan_in_their_wire_form() -> None:
    body = first_refusal(REFUSED).to_dict()
    assert body["kind"] == "unsupported_schema_change"
    assert [step["entity"] for step in body["unsupported_changes"]] == [
        "node:Quay.flag",
        "node:Quay.name",
    ]


@pytest.mark.parametrize(
    ("stored", "said"), [(0, "0 rows are"), (1, "1 row is"), (7, "7 rows are")]
)
def test_a_refusal_counts_the_rows_at_risk_in_the_accepted_table(stored: int, said: str) -> None:
    assert f"; {said} stored" in str(first_refusal(REFUSED, {TableKey("node:Port"): stored}))


def test_a_refusal_survives_pickling() -> None:
    error = first_refusal(REFUSED)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.to_dict()) == (str(error), error.to_dict())


def test_a_supported_plan_has_no_refusal_to_raise() -> None:
    with pytest.raises(InternalError):
        first_refusal(SchemaPlan())


@dataclass(frozen=True, kw_only=True)
class ShardedNode(NodeType):
    """A node type with a part that the planner has never heard of."""

    shards: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedProperty(Property):
    """A property with such a part."""

    mask: str | None = None


def test_a_part_of_a_type_the_planner_does_not_know_is_refused() -> None:
    found = plan(
        nodes(ShardedNode(name="Port", shards=1)), nodes(ShardedNode(name="Port", shards=4))
    )
    (step,) = found.steps
    assert (step.code, step.entity) == ("OG-BC-199", "node:Port")
    assert "shards" in str(step.reason)


def test_a_part_of_a_property_the_planner_does_not_know_is_refused() -> None:
    kind = PropertyType(scalar=Scalar.STRING)
    found = plan(
        nodes(node("Port", MaskedProperty(name="code", type=kind))),
        nodes(node("Port", MaskedProperty(name="code", type=kind, mask="x"))),
    )
    (step,) = found.steps
    assert (step.code, step.entity) == ("OG-BC-199", "node:Port.code")


def test_identities_of_a_bound_catalog_are_no_difference() -> None:
    bound = Property(name="code", type=text("code").type, property_id=7)
    accepted = NodeType(name="Port", properties={"code": bound}, type_id=3, incarnation_id=9)
    assert plan(nodes(accepted), nodes(node("Port", text("code")))).steps == ()


def interfaces(*names: str, property_id: int | None = None) -> Catalog:
    name = Property(name="name", type=text("name").type, property_id=property_id)
    return Catalog(interfaces={n: Interface(name=n, properties={"name": name}) for n in names})


def test_identities_do_not_hide_that_an_interface_was_renamed() -> None:
    found = plan(interfaces("Named", property_id=7), interfaces("Titled"))
    assert [step.code for step in found.steps] == ["OG-BC-101"]


def test_a_new_interface_is_the_new_name_of_one_old_interface_only() -> None:
    found = plan(interfaces("Labelled", "Named"), interfaces("Titled"))
    assert [(step.code, step.type_name) for step in found.steps] == [
        ("OG-BC-101", "Titled"),
        ("OG-BC-102", "Named"),
    ]


def test_the_index_a_key_implies_is_not_a_constraint_of_its_own() -> None:
    key = Columns(("code",), Level.PROPERTY)
    keyed = NodeType(name="Port", properties={"code": text("code")}, key=key, indices=(key,))
    plain = node("Port", text("code"))
    assert [s.code for s in plan(nodes(keyed), nodes(plain)).steps] == ["OG-CD-101"]
    assert [s.code for s in plan(nodes(plain), nodes(keyed)).steps] == ["OG-MF-107"]


def test_every_code_is_registered_under_its_family_with_a_meaning_and_a_way_out() -> None:
    assert set(REGISTRY) == set(Code)
    for code, entry in REGISTRY.items():
        assert entry.code is code
        assert f"OG-{entry.family}-" in code
        assert entry.meaning
        assert entry.instead


def test_destructive_codes_are_errors() -> None:
    destructive = [e for e in REGISTRY.values() if e.tier is Tier.DESTRUCTIVE]
    assert {e.family for e in destructive} >= {Family.DESTRUCTIVE}
    assert {e.severity for e in destructive} == {Severity.ERROR}


@pytest.mark.parametrize(
    ("code", "tier"),
    [
        ("OG-DS-101", "destructive"),
        ("OG-DS-102", "destructive"),
        ("OG-DS-103", "destructive"),
        ("OG-DS-104", "destructive"),
        ("OG-DS-105", "destructive"),
        ("OG-MF-103", "validated"),
        ("OG-MF-104", "validated"),
        ("OG-MF-106", "destructive"),
    ],
)
def test_published_codes_keep_their_tier(code: str, tier: str) -> None:
    assert REGISTRY[Code(code)].tier == tier
