"""What holds of every plan, over catalogs small enough to collide."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.diff.steps import StepKind
from omnigraphdb.catalog.diff.types import plan
from omnigraphdb.catalog.ir.encode import shape_hash
from omnigraphdb.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    Columns,
    EdgeType,
    Embed,
    Interface,
    Level,
    NodeType,
    Property,
    Range,
)
from omnigraphdb.catalog.types import PropertyType, Scalar

TYPE_NAMES = ("A", "B", "C")
PROPERTY_NAMES = ("a", "b", "c")

TYPES = st.sampled_from(
    [
        PropertyType(scalar=Scalar.STRING),
        PropertyType(scalar=Scalar.STRING, nullable=True),
        PropertyType(scalar=Scalar.STRING, enum_values=("p",)),
        PropertyType(scalar=Scalar.STRING, enum_values=("p", "q")),
        PropertyType(scalar=Scalar.I32, nullable=True),
        PropertyType(scalar=Scalar.F32, dimension=4, nullable=True),
    ]
)
NOTE = (Annotation(name="note"),)
PROPERTY_FACTS: list[dict[str, Any]] = [
    {},
    {"description": "one"},
    {"description": "two", "annotations": NOTE},
    {"embed": Embed(source="a")},
    {"embed": Embed(source="b", model="m")},
]
NODE_FACTS: list[dict[str, Any]] = [
    {},
    {"description": "one", "annotations": NOTE},
    {"instruction": "one", "checks": (Check(property="a", pattern="x"),)},
    {"ranges": (Range(property="c", low=0, high=1),)},
    {"ranges": (Range(property="c", low=0, high=2),)},
]
GROUPS = st.sampled_from(
    [
        (),
        (Columns(("a",), Level.PROPERTY),),
        (Columns(("a",), Level.BODY),),
        (Columns(("a", "b")), Columns(("c",), Level.PROPERTY)),
    ]
)
KEYS = st.sampled_from([None, Columns(("a",), Level.PROPERTY), Columns(("a", "b"))])


@st.composite
def properties(draw: st.DrawFn, types: Mapping[str, PropertyType]) -> dict[str, Property]:
    names = sorted(draw(st.sets(st.sampled_from(PROPERTY_NAMES))))
    facts = st.sampled_from(PROPERTY_FACTS)
    return {name: Property(name=name, type=types[name], **draw(facts)) for name in names}


@st.composite
def loose_catalogs(draw: st.DrawFn) -> Catalog:
    types = {name: draw(TYPES) for name in PROPERTY_NAMES}
    interfaces = {
        name: Interface(name=name, properties=draw(properties(types)), indices=draw(GROUPS))
        for name in sorted(draw(st.sets(st.sampled_from(TYPE_NAMES), max_size=2)))
    }
    nodes = {
        name: draw(node(name, types, interfaces))
        for name in sorted(draw(st.sets(st.sampled_from(TYPE_NAMES), min_size=1)))
    }
    ends = st.sampled_from(sorted(nodes))
    edges = {
        name: EdgeType(
            name=name,
            source=draw(ends),
            target=draw(ends),
            properties=draw(properties(types)),
            unique=draw(GROUPS),
            cardinality=Cardinality(high=draw(st.sampled_from([None, 1]))),
        )
        for name in sorted(draw(st.sets(st.sampled_from(TYPE_NAMES), max_size=2)))
    }
    return Catalog(interfaces=interfaces, nodes=nodes, edges=edges)


@st.composite
def node(
    draw: st.DrawFn,
    name: str,
    types: Mapping[str, PropertyType],
    interfaces: Mapping[str, Interface],
) -> NodeType:
    implements = draw(st.sets(st.sampled_from(sorted(interfaces)))) if interfaces else set()
    own = draw(properties(types))
    inherited = {
        each.name: replace(each, inherited_from=askers(each.name, implements, interfaces))
        for interface in sorted(implements)
        for each in interfaces[interface].properties.values()
        if each.name not in own
    }
    key = draw(KEYS)
    return NodeType(
        name=name,
        properties=own | inherited,
        implements=tuple(sorted(implements)),
        key=key,
        unique=draw(GROUPS),
        indices=draw(GROUPS) if key is None else (key,),
        **draw(st.sampled_from(NODE_FACTS)),
    )


def askers(name: str, implements: set[str], interfaces: Mapping[str, Interface]) -> tuple[str, ...]:
    return tuple(i for i in sorted(implements) if name in interfaces[i].properties)


def well_formed(catalog: Catalog) -> Catalog:
    """Without constraints and bindings on properties that a type does not have."""

    def known(declared: Any, found: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return tuple(g for g in found if set(g.columns) <= declared.properties.keys())

    def bound(declared: Any) -> dict[str, Property]:
        return {
            p.name: replace(
                p, embed=p.embed if p.embed and p.embed.source in declared.properties else None
            )
            for p in declared.properties.values()
        }

    def members(declared: Any) -> dict[str, Any]:
        return {
            "properties": bound(declared),
            "unique": known(declared, declared.unique),
            "indices": known(declared, declared.indices),
        }

    def node_parts(n: NodeType) -> dict[str, Any]:
        return {
            "key": n.key if n.key and set(n.key.columns) <= n.properties.keys() else None,
            "ranges": tuple(r for r in n.ranges if r.property in n.properties),
            "checks": tuple(c for c in n.checks if c.property in n.properties),
        }

    return Catalog(
        interfaces={k: replace(i, **members(i)) for k, i in catalog.interfaces.items()},
        nodes={k: replace(n, **members(n), **node_parts(n)) for k, n in catalog.nodes.items()},
        edges={k: replace(e, **members(e)) for k, e in catalog.edges.items()},
    )


def catalogs() -> st.SearchStrategy[Catalog]:
    return loose_catalogs().map(well_formed)


@given(catalogs())
def test_a_schema_planned_against_itself_is_empty(catalog: Catalog) -> None:
    assert plan(catalog, catalog).steps == ()


@given(catalogs(), catalogs())
def test_a_plan_is_empty_exactly_between_schemas_of_one_shape(old: Catalog, new: Catalog) -> None:
    assert (plan(old, new).steps == ()) is (shape_hash(old) == shape_hash(new))


@st.composite
def one_field_apart(draw: st.DrawFn) -> tuple[Catalog, Catalog]:
    """Two catalogs that differ in at most one field of one node type: the smallest changes there are."""
    old, other = draw(catalogs()), draw(catalogs())
    name = draw(st.sampled_from(sorted(old.nodes)))
    donor = draw(st.sampled_from(sorted(other.nodes)))
    part = draw(
        st.sampled_from(
            ["key", "unique", "ranges", "checks", "description", "instruction", "annotations"]
        )
    )
    changed = replace(old.nodes[name], **{part: getattr(other.nodes[donor], part)})
    if part == "key":
        changed = replace(changed, indices=(changed.key,) if changed.key else ())
    return old, well_formed(replace(old, nodes={**old.nodes, name: changed}))


@given(one_field_apart())
def test_the_smallest_difference_is_seen_and_only_there(pair: tuple[Catalog, Catalog]) -> None:
    old, new = pair
    steps = plan(old, new).steps
    assert (steps == ()) is (shape_hash(old) == shape_hash(new))
    touched = {name for name in new.nodes if new.nodes[name] != old.nodes[name]}
    assert {step.type_name for step in steps} == touched


def renamed(catalog: Catalog) -> Catalog:
    """The same schema with a new name for everything that can have one, and the hints that say so."""

    def group(columns: Columns) -> Columns:
        return replace(columns, columns=tuple(sorted(map(new_property, columns.columns))))

    def groups(found: tuple[Columns, ...]) -> tuple[Columns, ...]:
        return tuple(map(group, found))

    def members(declared: Any) -> dict[str, Any]:
        return {
            "properties": {new_property(p.name): moved(p) for p in declared.properties.values()},
            "unique": groups(declared.unique),
            "indices": groups(declared.indices),
        }

    def moved(old: Property) -> Property:
        embed = old.embed and replace(old.embed, source=new_property(old.embed.source))
        return replace(old, name=new_property(old.name), rename_from=old.name, embed=embed)

    return Catalog(
        interfaces={n: replace(i, **members(i)) for n, i in catalog.interfaces.items()},
        nodes={
            new_type(n.name): replace(
                n,
                name=new_type(n.name),
                rename_from=n.name,
                key=n.key and group(n.key),
                ranges=tuple(replace(r, property=new_property(r.property)) for r in n.ranges),
                checks=tuple(replace(c, property=new_property(c.property)) for c in n.checks),
                **members(n),
            )
            for n in catalog.nodes.values()
        },
        edges={
            new_type(e.name): replace(
                e,
                name=new_type(e.name),
                rename_from=e.name,
                source=new_type(e.source),
                target=new_type(e.target),
                **members(e),
            )
            for e in catalog.edges.values()
        },
    )


def new_type(name: str) -> str:
    return {"A": "Z", "B": "Y", "C": "X"}[name]


def new_property(name: str) -> str:
    return {"a": "z", "b": "y", "c": "x"}[name]


@given(catalogs())
def test_renaming_everything_is_nothing_but_renames(catalog: Catalog) -> None:
    found = plan(catalog, renamed(catalog))
    kinds = {StepKind.RENAME_TYPE, StepKind.RENAME_PROPERTY}
    assert [str(step) for step in found.steps if step.kind not in kinds] == []
    declared: list[Any] = [
        *catalog.interfaces.values(),
        *catalog.nodes.values(),
        *catalog.edges.values(),
    ]
    properties = sum(len(each.properties) for each in declared)
    assert found.step_count == len(catalog.nodes) + len(catalog.edges) + properties


@given(catalogs(), catalogs())
def test_data_loss_only_promotes_the_drops(old: Catalog, new: Catalog) -> None:
    soft, hard = plan(old, new), plan(old, new, allow_data_loss=True)
    drops = {StepKind.DROP_PROPERTY, StepKind.DROP_TYPE}
    assert len(soft.steps) == len(hard.steps)
    for mild, harsh in zip(soft.steps, hard.steps, strict=True):
        assert replace(mild, mode=harsh.mode, tier=harsh.tier) == harsh
        assert (mild == harsh) is (mild.kind not in drops)


@given(catalogs(), catalogs())
def test_a_plan_is_ordered_and_tells_nothing_twice(old: Catalog, new: Catalog) -> None:
    steps = plan(old, new).steps
    assert len(set(steps)) == len(steps)
    order = ["interface", "node", "edge"]
    places = [
        (order.index(step.type_kind), step.kind is StepKind.DROP_TYPE or step.code == "OG-BC-102")
        for step in steps
    ]
    assert places == sorted(places)
