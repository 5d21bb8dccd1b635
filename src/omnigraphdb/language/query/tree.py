"""The tree of a query text as written, with its positions, before anything is checked."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal

from omnigraphdb.language.source import NOWHERE, Span
from omnigraphdb.values import dataclass, replace

Comparison = Literal[
    "=", "!=", "<", "<=", ">", ">=", "contains", "starts_with", "ends_with", "matches"
]
AggregateName = Literal[
    "count", "sum", "avg", "min", "max", "collect", "stddev", "percentile"
]  # fmt: skip
ArithmeticOperator = Literal["+", "-", "*", "/", "%"]
BlockKind = Literal["exists", "not"]
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
    """`$variable.property`; `$.property`, without a variable, is that of the row which a statement writes."""

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
    """`count(e)` and its kin; `fraction` is the second argument of `percentile`."""

    function: AggregateName
    argument: "Expr"
    distinct: bool = False
    fraction: "Expr | None" = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListExpr:
    """`[a, $b]`: a list with an item that is not a literal."""

    items: "tuple[Expr, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class StarExpr:
    """`$v.*`: all properties of an entity."""

    variable: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """`a + b - c`: operators of one rank, applied from the left."""

    first: "Expr"
    steps: "tuple[tuple[ArithmeticOperator, Expr], ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Minus:
    """`-e`."""

    operand: "Expr"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExpr:
    """`lower(e)` and every other function of values."""

    function: str
    arguments: "tuple[Expr, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseExpr:
    """`case when a then b else c end`."""

    branches: "tuple[tuple[Expr, Expr], ...]"
    otherwise: "Expr | None" = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockExpr:
    """`exists { … }`, `not { … }` inside an expression, or an aggregate over the matches of a block."""

    kind: "BlockKind | AggregateExpr"
    clauses: "tuple[Clause, ...]"
    span: Span = NOWHERE


# ---- conditions: expressions that are true, false or unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """`left op right`."""

    left: "Expr"
    op: Comparison
    right: "Expr"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """`e is null`, `e is not null`."""

    operand: "Expr"
    negated: bool
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class InList:
    """`e in [a, b]`, `e in $list`."""

    operand: "Expr"
    choices: "Expr"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """`a and b`."""

    parts: "tuple[Expr, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """`a or b`."""

    parts: "tuple[Expr, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """`not a` of a filter ; three-valued: unknown stays unknown."""

    part: "Expr"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """`e between a and b`, both included."""

    operand: "Expr"
    low: "Expr"
    high: "Expr"
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
    | ListExpr
    | StarExpr
    | Arithmetic
    | Minus
    | CallExpr
    | CaseExpr
    | BlockExpr
    | Compare
    | IsNull
    | InList
    | Between
    | AllOf
    | AnyOf
    | Not
)
"""The union of all expressions: the type of an expression, not its form, decides whether it is a condition."""

Condition = Expr


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
    """`{min,max by p best k where condition}` as written; `high` is None when it was left out, or is `*`."""

    low: "HopBound"
    high: "HopBound | None"
    unbounded: bool = False
    by: Name | None = None
    best: "HopBound | None" = None
    every: bool = False
    """Whether `all` was written."""
    where: Expr | None = None
    span: Span = NOWHERE


HopBound = int | VariableExpr
"""A number of hops or of paths, or the parameter that gives it."""

ANY_EDGE = "--"
"""The word for an edge of any type, walked either way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversal:
    """`$a $e:edge{1,3} $b`, `$a <edge> $b`, `$a one|other $b`, or `$a -- $b`."""

    left: Name
    edge: Name
    right: Name
    others: tuple[Name, ...] = ()
    """The edge types besides the first."""
    edge_variable: Name | None = None
    undirected: bool = False
    hops: Hops | None = None
    span: Span = NOWHERE

    @property
    def is_any_edge(self) -> bool:
        """Whether an edge of any type fits."""
        return self.edge.text == ANY_EDGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition standing as a clause."""

    condition: Expr
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """`not { clauses }`."""

    clauses: "tuple[Clause, ...]"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Optional:
    """`optional { clauses }`."""

    clauses: "tuple[Clause, ...]"
    span: Span = NOWHERE


Clause = Binding | Traversal | Filter | Negation | Optional


# ---- queries


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamType:
    """The type of a parameter as written; with `fields` it is a list of records."""

    scalar: str | None = None
    is_list: bool = False
    dimension: int | None = None
    nullable: bool = False
    fields: "tuple[Param, ...]" = ()
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
class Stage:
    """`match { … } with { … } having { … } order { … } limit n per $g`: the clauses behind it see only its items."""

    clauses: tuple[Clause, ...]
    items: tuple[Item, ...]
    distinct: bool = False
    having: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: LiteralExpr | VariableExpr | None = None
    offset: LiteralExpr | VariableExpr | None = None
    per: tuple[Expr, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """`match { … } return { … } having { … } order { … } offset n limit n`, after its stages.

    `union` are further reads whose rows follow, each with whether `all` of its rows do; order and
    bounds are then those of the whole. `bounded` is the first of them as written where it has an order
    or bounds of its own, which the checker refuses.
    """

    clauses: tuple[Clause, ...]
    items: tuple[Item, ...]
    distinct: bool = False
    having: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: LiteralExpr | VariableExpr | None = None
    offset: LiteralExpr | VariableExpr | None = None
    stages: tuple[Stage, ...] = ()
    union: "tuple[tuple[bool, Read], ...]" = ()
    bounded: "Read | None" = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """`match { … } with { … }` before a statement, which writes once for every row."""

    clauses: tuple[Clause, ...]
    stages: tuple[Stage, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnest:
    """`unnest $parameter as $item` before a statement, which writes once for every item."""

    parameter: Name
    item: Name
    span: Span = NOWHERE


Origin = Matched | Unnest
"""The source of the rows of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`insert Type { assignments } if absent returning { … }`."""

    type_name: Name
    assignments: tuple[PropertyMatch, ...]
    if_absent: bool = False
    returning: tuple[Item, ...] = ()
    origin: Origin | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """`upsert Type { key } set { assignments } returning { … }`."""

    type_name: Name
    key: tuple[PropertyMatch, ...]
    assignments: tuple[PropertyMatch, ...]
    returning: tuple[Item, ...] = ()
    origin: Origin | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`update Type set { assignments } where condition`, or of a variable of a match, without a condition."""

    target: Name
    assignments: tuple[PropertyMatch, ...]
    where: Expr | None = None
    returning: tuple[Item, ...] = ()
    origin: Origin | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """`delete Type where condition`, or of a variable of a match, without a condition."""

    target: Name
    where: Expr | None = None
    returning: tuple[Item, ...] = ()
    origin: Origin | None = None
    span: Span = NOWHERE


Statement = Insert | Upsert | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """`expose: false` in `@mcp(…)`."""

    name: Name
    value: str | bool
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One named declaration; the body is a read or a tuple of statements."""

    name: Name
    params: tuple[Param, ...] = ()
    description: str | None = None
    instruction: str | None = None
    mcp: tuple[Option, ...] | None = None
    """The options of the tool of the query in `@mcp(…)`; None without it."""
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


_VALUES = frozenset({LiteralExpr, VariableExpr, PropertyExpr, AliasExpr, NowExpr})


def list_parts(expr: Expr) -> tuple[Expr, ...]:
    """List the expressions right inside an expression; the clauses of a block are not among them."""
    # Most expressions are one value, and every query asks several times.
    if type(expr) in _VALUES:
        return ()
    match expr:
        case AllOf(parts=parts) | AnyOf(parts=parts) | ListExpr(items=parts):
            return parts
        case CallExpr(arguments=parts):
            return parts
        case Compare(left=left, right=right):
            return left, right
        case InList(operand=operand, choices=choices):
            return operand, choices
        case Between(operand=operand, low=low, high=high):
            return operand, low, high
        case Arithmetic(first=first, steps=steps):
            return first, *(part for _, part in steps)
        case CaseExpr(branches=branches, otherwise=otherwise):
            branch_parts = tuple(part for branch in branches for part in branch)
            return branch_parts if otherwise is None else (*branch_parts, otherwise)
        case Not(part=part) | Minus(operand=part) | IsNull(operand=part):
            return (part,)
        case AggregateExpr(argument=argument):
            return (argument,)
        case _:
            return ()


def has_aggregate(expr: Expr) -> bool:
    """Tell whether an expression aggregates the rows of a result; a block aggregates its own matches."""
    return isinstance(expr, AggregateExpr) or any(map(has_aggregate, list_parts(expr)))


def list_leaves(expr: Expr) -> list[Expr]:
    """List the innermost expressions of an expression; a block is one of its leaves."""
    parts = list_parts(expr)
    return [leaf for part in parts for leaf in list_leaves(part)] if parts else [expr]


def change_leaves(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Change the innermost expressions of an expression; a block is one of its leaves."""
    if not list_parts(expr):
        return change(expr)
    values = {
        field.name: getattr(expr, field.name) for field in fields(expr) if field.name != "span"
    }
    return replace(expr, **{name: _change_nested(value, change) for name, value in values.items()})


def _change_nested(value: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, tuple):
        return tuple(_change_nested(part, change) for part in value)
    return change_leaves(value, change) if isinstance(value, Expr) else value
