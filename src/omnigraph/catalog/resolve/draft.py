"""The properties of a declaration while a schema is resolved: typed, with their annotations read."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from omnigraph.catalog.diff.steps import TypeKind
from omnigraph.catalog.model import Property
from omnigraph.catalog.names import list_reserved_names
from omnigraph.catalog.resolve.annotations import Marks, Place, Subject, read_marks
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.errors import InternalError, shorten
from omnigraph.language.diagnostics import Findings
from omnigraph.language.schema import tree
from omnigraph.values import dataclass

VECTOR_DIMENSION_MAX = 2**31 - 1
TYPE_SHOWN_CHARS_MAX = 200

_PLACES = {
    TypeKind.INTERFACE: Place.INTERFACE_PROPERTY,
    TypeKind.NODE: Place.NODE_PROPERTY,
    TypeKind.EDGE: Place.EDGE_PROPERTY,
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
        """`Port.code`."""
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
        """The property of the catalog."""
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
        """The same property in a node that takes it from interfaces."""
        return replace(self, inherited_from=tuple(sorted(interfaces)))


Drafts = Mapping[str, Draft]


def type_shown(type_: PropertyType) -> str:
    """A type for a message; a long enum is cut."""
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
        place=_PLACES[owner.kind],
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
    """The type of a property, or None when it is reported as wrong."""
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
