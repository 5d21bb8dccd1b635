"""Properties while a schema is resolved: declared, inherited from interfaces, not yet finished."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraphdb.catalog.diff.steps import TypeKind
from omnigraphdb.catalog.model import Property
from omnigraphdb.catalog.names import list_reserved_names
from omnigraphdb.catalog.resolve.annotations import AnnotationTarget, Marks, Subject, read_marks
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.errors import InternalError, shorten
from omnigraphdb.language.diagnostics import Findings
from omnigraphdb.language.schema import tree
from omnigraphdb.values import dataclass

VECTOR_DIMENSION_MAX = 2**31 - 1
TYPE_SHOWN_CHARS_MAX = 200

_TARGETS = {
    TypeKind.INTERFACE: AnnotationTarget.INTERFACE_PROPERTY,
    TypeKind.NODE: AnnotationTarget.NODE_PROPERTY,
    TypeKind.EDGE: AnnotationTarget.EDGE_PROPERTY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A declaration as findings and messages call it."""

    kind: TypeKind
    name: tree.Name

    @property
    def shown(self) -> str:
        """`node 'Port'`."""
        return f"{self.kind} '{shorten(self.name.text)}'"

    def of(self, property_name: str) -> str:
        """Name a property with its type: `Port.code`."""
        return f"{shorten(self.name.text)}.{shorten(property_name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A property whose type and annotations are known; the type is missing when it is itself wrong."""

    name: str
    type: PropertyType | None
    marks: Marks
    written: tree.Property
    inherited_from: tuple[str, ...] = ()

    def finished(self) -> Property:
        """Make the property of the catalog."""
        if self.type is None:
            raise InternalError(f"property '{self.name}' has no type, yet its schema was accepted")
        return Property(
            name=self.name,
            type=self.type,
            description=self.marks.description,
            embed=self.marks.embed.embed if self.marks.embed else None,
            annotations=self.marks.annotations,
            rename_from=self.marks.rename_from,
            inherited_from=self.inherited_from,
        )

    def inherited(self, interfaces: Iterable[str]) -> "Draft":
        """Return the same property in a node that takes it from interfaces."""
        return replace(self, inherited_from=tuple(sorted(interfaces)))


Drafts = Mapping[str, Draft]


def type_shown(type_: PropertyType) -> str:
    """Word a type for a message; a long enum is cut."""
    return shorten(str(type_), TYPE_SHOWN_CHARS_MAX)


def draft_properties(
    findings: Findings, owner: Owner, properties: Iterable[tree.Property]
) -> Drafts:
    """Type the properties of a declaration and read their annotations; of two of a name the first."""
    drafts: dict[str, Draft] = {}
    for written in properties:
        draft = _draft(findings, owner, written)
        first = drafts.setdefault(draft.name, draft)
        if first is not draft:
            findings.report(
                "S021",
                written.name.span,
                f"{owner.shown} declares the property '{shorten(draft.name)}' twice",
                type_name=owner.name.text,
                property_name=draft.name,
                earlier=first.written.name.span,
                fix="remove or rename one of them",
            )
    return drafts


def _draft(findings: Findings, owner: Owner, written: tree.Property) -> Draft:
    name = written.name.text
    _refuse_reserved(findings, owner, written.name)
    subject = Subject(
        findings=findings,
        target=_TARGETS[owner.kind],
        shown=f"'{owner.of(name)}'",
        owner=owner.name.text,
        property_name=name,
    )
    return Draft(
        name=name,
        type=_type(findings, owner, written),
        marks=read_marks(subject, written.annotations),
        written=written,
    )


def _refuse_reserved(findings: Findings, owner: Owner, name: tree.Name) -> None:
    reserved = list_reserved_names(on_edge=owner.kind is TypeKind.EDGE)
    if name.text not in reserved:
        return
    findings.report(
        "S003",
        name.span,
        f"'{name.text}' is reserved and cannot be a property of {owner.shown}; "
        f"reserved here: {', '.join(reserved)}",
        type_name=owner.name.text,
        property_name=name.text,
        fix=f"choose another name, such as {name.text.strip('_')}_value",
        later=True,
    )


def _type(findings: Findings, owner: Owner, written: tree.Property) -> PropertyType | None:
    """Resolve the type of a property; None when it is reported as wrong."""
    type_ = written.type
    if type_.dimension is not None:
        return _vector(findings, owner, written)
    if type_.enum_values:
        return _enum(findings, owner, written)
    scalar = Scalar(type_.scalar or "")
    if type_.is_list and scalar is Scalar.BLOB:
        _report(
            findings,
            owner,
            written,
            "S012",
            f"'{owner.of(written.name.text)}' is a list of Blob; a list holds plain scalars",
            "give each Blob a node of its own and connect them with an edge",
        )
        return None
    return PropertyType(scalar=scalar, nullable=type_.nullable, is_list=type_.is_list)


def _vector(findings: Findings, owner: Owner, written: tree.Property) -> PropertyType | None:
    dimension = written.type.dimension or 0
    if not 1 <= dimension <= VECTOR_DIMENSION_MAX:
        size = findings.written(written.type.span, f"Vector({dimension})")
        _report(
            findings,
            owner,
            written,
            "S010",
            f"'{owner.of(written.name.text)}' is a {size}; "
            f"a vector has 1 to {VECTOR_DIMENSION_MAX} dimensions",
            "write the dimension of your embedding model",
        )
        return None
    return PropertyType(scalar=Scalar.F32, nullable=written.type.nullable, dimension=dimension)


def _enum(findings: Findings, owner: Owner, written: tree.Property) -> PropertyType | None:
    values = [value.text for value in written.type.enum_values]
    twice, times = Counter(values).most_common(1)[0]
    if times > 1:
        _report(
            findings,
            owner,
            written,
            "S013",
            f"the enum of '{owner.of(written.name.text)}' lists '{shorten(twice)}' twice",
            "list each value once",
        )
        return None
    return PropertyType(
        scalar=Scalar.STRING, nullable=written.type.nullable, enum_values=tuple(sorted(values))
    )


def _report(
    findings: Findings, owner: Owner, written: tree.Property, code: str, message: str, fix: str
) -> None:
    findings.report(
        code,
        written.type.span,
        message,
        type_name=owner.name.text,
        property_name=written.name.text,
        fix=fix,
    )


# ---- interfaces


Interfaces = Mapping[str, Drafts]
"""The properties of each interface, by its name."""


def resolve_interfaces(
    findings: Findings, owner: Owner, written: Sequence[tree.Name], interfaces: Interfaces
) -> tuple[str, ...]:
    """List the interfaces of a node type, sorted, each once; unknown ones are reported."""
    for name in written:
        if name.text not in interfaces:
            findings.report(
                "S030",
                name.span,
                f"{owner.shown} implements '{shorten(name.text)}', and there is no such interface",
                type_name=owner.name.text,
                near=(name.text, interfaces),
            )
    return tuple(sorted({name.text for name in written} & interfaces.keys()))


def merge_properties(
    findings: Findings, owner: Owner, own: Drafts, implements: Sequence[str], interfaces: Interfaces
) -> Drafts:
    """Merge the own and the inherited properties of a node type, in name order."""
    contributed: dict[str, dict[str, Draft]] = {}
    for interface in implements:
        for name, draft in interfaces[interface].items():
            contributed.setdefault(name, {})[interface] = draft
    drafts = dict(own)
    for name, contributors in contributed.items():
        if name in own:
            _same_type(findings, owner, own[name], contributors)
        else:
            drafts[name] = _merge_contributions(findings, owner, contributors)
    return {name: drafts[name] for name in sorted(drafts)}


def _same_type(
    findings: Findings, owner: Owner, own: Draft, contributors: Mapping[str, Draft]
) -> None:
    """Check that a property of the node itself has exactly the type that each interface asks for."""
    for interface, inherited in contributors.items():
        if own.type is None or inherited.type is None or own.type == inherited.type:
            continue
        findings.report(
            "S031",
            own.written.type.span,
            f"'{owner.of(own.name)}' is {type_shown(own.type)}, interface '{shorten(interface)}' asks for "
            f"{type_shown(inherited.type)}; both must be the same, with nullability and enum values",
            type_name=owner.name.text,
            property_name=own.name,
            earlier=inherited.written.type.span,
            fix=f"write {type_shown(inherited.type)}, or remove the property to inherit it",
        )


def _merge_contributions(
    findings: Findings, owner: Owner, contributors: Mapping[str, Draft]
) -> Draft:
    """Merge a property that several interfaces contribute; they must agree in every part of it."""
    first_name, first = next(iter(contributors.items()))
    for interface, other in contributors.items():
        differs = _difference(first, other)
        if differs is None:
            continue
        findings.report(
            "S032",
            owner.name.span,
            f"{owner.shown} inherits '{shorten(first.name)}' from '{shorten(first_name)}' and "
            f"'{shorten(interface)}', whose {differs} differ",
            type_name=owner.name.text,
            property_name=first.name,
            fix="make the interfaces agree, or declare the property in the node",
            later=first.type == other.type,
        )
    return first.inherited(contributors)


def _difference(first: Draft, other: Draft) -> str | None:
    if first.type is None or other.type is None:
        return None
    if first.type != other.type:
        return f"types ({type_shown(first.type)} and {type_shown(other.type)})"
    return None if first.marks.agrees_with(other.marks) else "annotations"
