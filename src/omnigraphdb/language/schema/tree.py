"""The tree of a schema text as written, with its positions, before anything is checked."""

from typing import Literal

from omnigraphdb.language.source import NOWHERE, Span
from omnigraphdb.values import dataclass

ConstraintKind = Literal["key", "unique", "index", "range", "check"]


@dataclass(frozen=True, slots=True)
class Name:
    """A word and its place."""

    text: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeExpr:
    """A property type as written: a scalar, a list of one, an enum or a vector; maybe nullable."""

    scalar: str | None = None
    is_list: bool = False
    enum_values: tuple[Name, ...] = ()
    dimension: int | None = None
    nullable: bool = False
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A value of an annotation: `text` is the source spelling (strings unescaped)."""

    text: str
    form: Literal["string", "float", "int", "bool", "ident"]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """`@name`, `@name(value)`, `@name(value, key=value, …)`; `extra` are values past the first."""

    name: str
    value: Argument | None = None
    keywords: tuple[tuple[Name, Argument], ...] = ()
    extra: tuple[Argument, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """`name: type @annotation…`."""

    name: Name
    type: TypeExpr
    annotations: tuple[Annotation, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A bound as written; `text` keeps its spelling."""

    text: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A body constraint: columns for key, unique and index; bounds for range; a pattern for check."""

    kind: ConstraintKind
    columns: tuple[Name, ...]
    low: Number | None = None
    high: Number | None = None
    pattern: Argument | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """`@card(low..high)`; `high` is None when open."""

    low: int
    high: int | None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceDecl:
    """`interface Name { properties }`."""

    name: Name
    properties: tuple[Property, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecl:
    """`node Name @annotation… implements A, B { members }`; members in text order."""

    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    members: tuple[Property | Constraint, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDecl:
    """`edge Name: From -> To @card(…) @annotation… { members }`."""

    name: Name
    source: Name
    target: Name
    card: Card | None = None
    annotations: tuple[Annotation, ...] = ()
    members: tuple[Property | Constraint, ...] = ()
    has_body: bool = False
    span: Span = NOWHERE


Declaration = InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as written; `own_line` when nothing stands before it on its line."""

    text: str
    own_line: bool = True
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class SchemaTree:
    """A whole file, declarations in text order; `gaps` are the offsets that follow a blank line."""

    declarations: tuple[Declaration, ...] = ()
    comments: tuple[Comment, ...] = ()
    gaps: frozenset[int] = frozenset()
