"""The tree of a query text: what was written, where, before anything is checked."""

from typing import Literal

from omnigraph.language.source import NOWHERE, Span
from omnigraph.values import dataclass

Comparison = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"]
AggregateName = Literal["count", "sum", "avg", "min", "max"]
TextFunction = Literal["search", "fuzzy", "match_text"]
LiteralForm = Literal["string", "int", "float", "bool", "date", "datetime", "list", "null"]


@dataclass(frozen=True, slots=True)
class Name:
    """A word and its place."""

    text: str
    span: Span = NOWHERE


# ---- expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralExpr:
    """A literal: Python `str int float bool None`, a tuple of literals, or the text of a date."""

    form: LiteralForm
    value: "str | int | float | bool | tuple[LiteralExpr, ...] | None"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableExpr:
    """`$name`; the name is without the sign."""

    name: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyExpr:
    """`$variable.property`."""

    variable: str
    property: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasExpr:
    """A bare word: the alias of a return item."""

    name: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class NowExpr:
    """`now()`."""

    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateExpr:
    """`count(e)` and its kin."""

    function: AggregateName
    argument: "Expr"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExpr:
    """`search(f, q)`, `fuzzy(f, q, n)`, `match_text(f, q)`."""

    function: TextFunction
    field: "Expr"
    query: "Expr"
    distance: "Expr | None" = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestExpr:
    """`nearest($x.v, q)`."""

    field: PropertyExpr
    query: "Expr"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25Expr:
    """`bm25(f, q)`."""

    field: "Expr"
    query: "Expr"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class RrfExpr:
    """`rrf(a, b, k)`."""

    first: "NearestExpr | Bm25Expr"
    second: "NearestExpr | Bm25Expr"
    k: "Expr | None" = None
    span: Span = NOWHERE


Expr = (
    LiteralExpr
    | VariableExpr
    | PropertyExpr
    | AliasExpr
    | NowExpr
    | AggregateExpr
    | TextExpr
    | NearestExpr
    | Bm25Expr
    | RrfExpr
)


# ---- conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """`left op right`."""

    left: Expr
    op: Comparison
    right: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """`e is null`, `e is not null` (extension)."""

    operand: Expr
    negated: bool
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Among:
    """`e in [a, b]`, `e in $list` (extension)."""

    operand: Expr
    choices: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """`a and b` (extension)."""

    parts: "tuple[Condition, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """`a or b` (extension)."""

    parts: "tuple[Condition, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """`not a` of a filter (extension); three-valued: unknown stays unknown."""

    part: "Condition"
    span: Span = NOWHERE


Condition = Compare | IsNull | Among | AllOf | AnyOf | Not | TextExpr


# ---- clauses of a match


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyMatch:
    """`name: value` inside a binding or an assignment."""

    name: Name
    value: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """`$v: Type { matches }`."""

    variable: Name
    type_name: Name
    matches: tuple[PropertyMatch, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Hops:
    """`{min,max}` as written; `high` is None when it was left out."""

    low: int
    high: int | None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversal:
    """`$a $e:edge{1,3} $b`, or `$a <edge> $b`."""

    left: Name
    edge: Name
    right: Name
    edge_variable: Name | None = None
    undirected: bool = False
    hops: Hops | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition standing as a clause."""

    condition: Condition
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """`not { clauses }`."""

    clauses: "tuple[Clause, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Optional:
    """`optional { clauses }` (extension)."""

    clauses: "tuple[Clause, ...]"
    span: Span = NOWHERE


Clause = Binding | Traversal | Filter | Negation | Optional


# ---- queries


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamType:
    """The type of a parameter as written."""

    scalar: str | None = None
    is_list: bool = False
    dimension: int | None = None
    nullable: bool = False
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """`$name: Type?`."""

    name: Name
    type: ParamType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """`expr as alias` of a return block."""

    expr: Expr
    alias: Name | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """`expr asc|desc`; `direction` is None when none was written."""

    expr: Expr
    direction: Literal["asc", "desc"] | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """`match { … } return { … } order { … } offset n limit n`."""

    clauses: tuple[Clause, ...]
    items: tuple[Item, ...]
    order: tuple[OrderKey, ...] = ()
    limit: LiteralExpr | VariableExpr | None = None
    offset: LiteralExpr | VariableExpr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """`property op value` after `where`."""

    property: Name
    op: Comparison
    value: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`insert Type { assignments }`."""

    type_name: Name
    assignments: tuple[PropertyMatch, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`update Type set { assignments } where predicate`."""

    type_name: Name
    assignments: tuple[PropertyMatch, ...]
    predicate: Predicate
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """`delete Type where predicate`."""

    type_name: Name
    predicate: Predicate
    span: Span = NOWHERE


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One named declaration; the body is a read or a tuple of statements."""

    name: Name
    params: tuple[Param, ...] = ()
    description: str | None = None
    instruction: str | None = None
    body: Read | tuple[Statement, ...]
    span: Span = NOWHERE

    @property
    def is_mutation(self) -> bool:
        """Whether the body writes."""
        return isinstance(self.body, tuple)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A whole file; `extended` when it begins with `use extensions`."""

    queries: tuple[Query, ...] = ()
    extended: bool = False
