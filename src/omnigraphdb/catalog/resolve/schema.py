"""From the tree of a schema to its catalog, or to everything that is wrong with it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from omnigraphdb.catalog.diff.steps import TypeKind
from omnigraphdb.catalog.model import (
    Cardinality,
    Catalog,
    EdgeType,
    Interface,
    NodeType,
    Property,
)
from omnigraphdb.catalog.resolve.annotations import AnnotationTarget, Marks, Subject, read_marks
from omnigraphdb.catalog.resolve.constraints import Rules, read_rules
from omnigraphdb.catalog.resolve.draft import (
    Drafts,
    Interfaces,
    Owner,
    draft_properties,
    merge_properties,
    resolve_interfaces,
)
from omnigraphdb.errors import ResourceLimit, shorten
from omnigraphdb.language.diagnostics import Findings, schema_error
from omnigraphdb.language.schema import tree
from omnigraphdb.language.schema.parse import parse_schema_text
from omnigraphdb.language.source import Source, pause_collection
from omnigraphdb.limits import SCHEMA_PROPERTIES_MAX
from omnigraphdb.values import dataclass

_ORDER = (
    "S003 S010 S012 S013 S021 S024",
    "S030 S031 S032",
    "S040 S041 S042 S044 S045",
    "S050 S051 S052 S053 S054 S055 S056 S057 S058 S059 S060 S061 S062",
    "S020 S022 S023",
)
"""The checks in order: one declaration, interfaces, annotations, constraints, the catalog."""
_STEPS = {code: step for step, codes in enumerate(_ORDER) for code in codes.split()}

_UINT32_MAX = 2**32 - 1

Decl = TypeVar("Decl", tree.InterfaceDecl, tree.NodeDecl, tree.EdgeDecl)


def compile_schema(source: Source | str, *, stored: bool = False) -> Catalog:
    """Parse and resolve a schema text."""
    schema_source = Source(source) if isinstance(source, str) else source
    with pause_collection(schema_source):
        return resolve(parse_schema_text(schema_source), schema_source, stored=stored)


def resolve(schema: tree.SchemaTree, source: Source, *, stored: bool = False) -> Catalog:
    """Check a schema and build its catalog, which has no identities yet.

    Errors come together, first those of single declarations, then interfaces, annotations, constraints
    and the catalog as a whole. `stored` skips the rules that a schema accepted earlier need not obey.
    """
    findings = Findings(source, stored=stored, steps=_STEPS)
    interfaces = _first_of_each(
        _read_interface(findings, declaration) for declaration in _of(schema, tree.InterfaceDecl)
    )
    drafts = {name: interface.drafts for name, interface in interfaces.items()}
    _refuse_growth(schema, drafts)
    nodes = [
        _read_node(findings, declaration, drafts) for declaration in _of(schema, tree.NodeDecl)
    ]
    edges = [_read_edge(findings, declaration) for declaration in _of(schema, tree.EdgeDecl)]
    check_whole(findings, schema)
    if findings.found:
        raise schema_error(source, findings.ordered())
    return Catalog(
        interfaces={name: _interface(interfaces[name]) for name in sorted(interfaces)},
        nodes={read.name: _node(read) for read in sorted(nodes, key=_by_name)},
        edges={
            read.name: _edge(read, ends)
            for read, ends in sorted(edges, key=lambda edge: _by_name(edge[0]))
        },
    )


def _of(schema: tree.SchemaTree, kind: type[Decl]) -> Sequence[Decl]:
    return [declaration for declaration in schema.declarations if isinstance(declaration, kind)]


def _refuse_growth(schema: tree.SchemaTree, interfaces: Interfaces) -> None:
    """Refuse too many inherited properties: interfaces multiply, so that a short text may mean very many of them."""
    total = sum(
        len(interfaces.get(name.text, ()))
        for node in _of(schema, tree.NodeDecl)
        for name in node.implements
    )
    if total > SCHEMA_PROPERTIES_MAX:
        raise ResourceLimit(
            "inherited properties of the schema",
            SCHEMA_PROPERTIES_MAX,
            total,
            hint="let fewer node types implement the large interfaces",
        )


# ---- reading: every finding is made here


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A declaration whose properties, annotations and constraints are known."""

    owner: Owner
    drafts: Drafts
    rules: Rules
    marks: Marks = field(default_factory=Marks)
    implements: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The declared name."""
        return self.owner.name.text

    @property
    def properties(self) -> Mapping[str, Property]:
        """The finished properties in name order."""
        return {name: self.drafts[name].finished() for name in sorted(self.drafts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """The parts of an edge that a node does not have."""

    source: str
    target: str
    cardinality: Cardinality


def _by_name(read: _Read) -> str:
    return read.name


def _first_of_each(read: Iterable[_Read]) -> Mapping[str, _Read]:
    first: dict[str, _Read] = {}
    for declaration in read:
        first.setdefault(declaration.name, declaration)
    return first


def _read_interface(findings: Findings, written: tree.InterfaceDecl) -> _Read:
    owner = Owner(kind=TypeKind.INTERFACE, name=written.name)
    drafts = draft_properties(findings, owner, written.properties)
    return _Read(owner=owner, drafts=drafts, rules=read_rules(findings, owner, drafts, ()))


def _read_node(findings: Findings, written: tree.NodeDecl, interfaces: Interfaces) -> _Read:
    owner = Owner(kind=TypeKind.NODE, name=written.name)
    own = draft_properties(findings, owner, _properties(written))
    implements = resolve_interfaces(findings, owner, written.implements, interfaces)
    drafts = merge_properties(findings, owner, own, implements, interfaces)
    return _Read(
        owner=owner,
        drafts=drafts,
        rules=read_rules(findings, owner, drafts, _constraints(written)),
        marks=_type_marks(findings, owner, AnnotationTarget.NODE_HEAD, written.annotations),
        implements=implements,
        declared=_list_declared(own, written.implements, interfaces),
    )


def _list_declared(
    own: Drafts, implements: Sequence[tree.Name], interfaces: Interfaces
) -> tuple[str, ...]:
    """List the properties of a node type in the order of the text: its own, then those of each interface it names."""
    inherited = (name for interface in implements for name in interfaces.get(interface.text, ()))
    return tuple(dict.fromkeys((*own, *inherited)))


def _read_edge(findings: Findings, written: tree.EdgeDecl) -> tuple[_Read, _Ends]:
    owner = Owner(kind=TypeKind.EDGE, name=written.name)
    drafts = draft_properties(findings, owner, _properties(written))
    read = _Read(
        owner=owner,
        drafts=drafts,
        rules=read_rules(findings, owner, drafts, _constraints(written)),
        marks=_type_marks(findings, owner, AnnotationTarget.EDGE_HEAD, written.annotations),
        declared=tuple(drafts),
    )
    ends = _Ends(
        source=written.source.text,
        target=written.target.text,
        cardinality=_cardinality(findings, owner, written.card),
    )
    return read, ends


def _properties(written: tree.NodeDecl | tree.EdgeDecl) -> list[tree.Property]:
    return [member for member in written.members if isinstance(member, tree.Property)]


def _constraints(written: tree.NodeDecl | tree.EdgeDecl) -> list[tree.Constraint]:
    return [member for member in written.members if isinstance(member, tree.Constraint)]


def _type_marks(
    findings: Findings,
    owner: Owner,
    target: AnnotationTarget,
    annotations: Sequence[tree.Annotation],
) -> Marks:
    subject = Subject(findings=findings, target=target, shown=owner.shown, owner=owner.name.text)
    return read_marks(subject, annotations)


def _cardinality(findings: Findings, owner: Owner, card: tree.Card | None) -> Cardinality:
    if card is None:
        return Cardinality()
    high = card.low if card.high is None else card.high
    fault = None
    if max(card.low, high) > _UINT32_MAX:
        fault = f"a count is at most {_UINT32_MAX}"
    elif card.low > high:
        fault = f"the minimum {card.low} is greater than the maximum {high}"
    if fault is not None:
        text = findings.written(card.span, f"@card({card.low}..{high})")
        findings.report(
            "S024",
            card.span,
            f"{text} of {owner.shown} is not a range of counts: {fault}",
            type_name=owner.name.text,
            fix="write @card(low..high) with low not above high, or @card(low..)",
        )
    return Cardinality(low=card.low, high=card.high)


# ---- finishing: nothing can be wrong any more


def _interface(read: _Read) -> Interface:
    return Interface(
        name=read.name,
        properties=read.properties,
        key=read.rules.key,
        unique=read.rules.unique,
        indices=read.rules.indices,
    )


def _node(read: _Read) -> NodeType:
    return NodeType(
        name=read.name,
        properties=read.properties,
        implements=read.implements,
        key=read.rules.key,
        unique=read.rules.unique,
        indices=read.rules.indices,
        ranges=read.rules.ranges,
        checks=read.rules.checks,
        description=read.marks.description,
        instruction=read.marks.instruction,
        annotations=read.marks.annotations,
        rename_from=read.marks.rename_from,
        declared=read.declared,
    )


def _edge(read: _Read, ends: _Ends) -> EdgeType:
    return EdgeType(
        name=read.name,
        source=ends.source,
        target=ends.target,
        properties=read.properties,
        cardinality=ends.cardinality,
        unique=read.rules.unique,
        indices=read.rules.indices,
        description=read.marks.description,
        instruction=read.marks.instruction,
        annotations=read.marks.annotations,
        rename_from=read.marks.rename_from,
        declared=read.declared,
    )


# ---- the catalog as a whole


def check_whole(findings: Findings, schema: tree.SchemaTree) -> None:
    """Report declarations that clash or that refer to nothing."""
    _names_once(findings, schema)
    edges = [
        declaration for declaration in schema.declarations if isinstance(declaration, tree.EdgeDecl)
    ]
    nodes = dict.fromkeys(
        declaration.name.text
        for declaration in schema.declarations
        if isinstance(declaration, tree.NodeDecl)
    )
    others = {declaration.name.text for declaration in schema.declarations} - nodes.keys()
    _edge_names_differ(findings, edges)
    for edge in edges:
        for end in (edge.source, edge.target):
            if end.text not in nodes:
                _unknown_end(findings, edge, end, nodes, others)


def keyword_of(declaration: tree.Declaration) -> str:
    """Return `interface`, `node` or `edge`."""
    match declaration:
        case tree.InterfaceDecl():
            return "interface"
        case tree.NodeDecl():
            return "node"
        case tree.EdgeDecl():
            return "edge"


def _names_once(findings: Findings, schema: tree.SchemaTree) -> None:
    first: dict[tuple[str, str], tree.Declaration] = {}
    for declaration in schema.declarations:
        keyword, name = keyword_of(declaration), declaration.name
        before = first.setdefault((keyword, name.text), declaration)
        if before is not declaration:
            findings.report(
                "S020",
                name.span,
                f"{keyword} '{shorten(name.text)}' is declared twice",
                type_name=name.text,
                earlier=before.name.span,
                fix="remove or rename one of them",
            )


def _edge_names_differ(findings: Findings, edges: Collection[tree.EdgeDecl]) -> None:
    first: dict[str, tree.Name] = {}
    for edge in edges:
        before = first.setdefault(edge.name.text.lower(), edge.name)
        if before.text != edge.name.text:
            findings.report(
                "S023",
                edge.name.span,
                f"edges '{shorten(before.text)}' and '{shorten(edge.name.text)}' differ only by "
                "case, which queries ignore",
                type_name=edge.name.text,
                earlier=before.span,
                fix="give one of them another name",
            )


def _unknown_end(
    findings: Findings,
    edge: tree.EdgeDecl,
    end: tree.Name,
    nodes: Collection[str],
    others: Collection[str],
) -> None:
    is_other = end.text in others
    why = "is not a node type; edges connect nodes" if is_other else "is not declared"
    findings.report(
        "S022",
        end.span,
        f"edge '{shorten(edge.name.text)}' names '{shorten(end.text)}', which {why}",
        type_name=edge.name.text,
        near=None if is_other else (end.text, nodes),
    )
