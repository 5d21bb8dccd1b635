"""A query after the type checker: every name resolved, every expression typed, nothing left to guess."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from omnigraphdb.catalog.mixed import split_types
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.ids import TableKey, edge_key, node_key
from omnigraphdb.language.query.tree import AggregateName, Comparison, TextFunction
from omnigraphdb.language.source import NOWHERE, Span
from omnigraphdb.values import dataclass


class VariableKind(StrEnum):
    """The kind of entity that a variable is bound to."""

    NODE = "node"
    EDGE = "edge"
    PATH = "path"


class Direction(StrEnum):
    """The direction in which a traversal walks an edge, seen from its left variable."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A named or anonymous entity of the pattern; anonymous ones have made-up names such as `_1`.

    Names are unique in a query: a variable local to a `not` block whose name is used elsewhere too
    gets a made-up one. `nullable` marks those of optional blocks, which outside may be NULL.
    """

    name: str
    kind: VariableKind
    type_name: str
    anonymous: bool = False
    nullable: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The types that it ranges over: one, unless its type is mixed."""
        return split_types(self.type_name)

    @property
    def is_node(self) -> bool:
        """Whether it stands for nodes; an edge variable and a path stand for edges."""
        return self.kind is VariableKind.NODE

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The tables of the types that it ranges over."""
        return tuple(map(node_key if self.is_node else edge_key, self.types))


# ---- typed expressions


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of calendar time: months, days and milliseconds are not convertible into one another."""

    months: int
    days: int
    milliseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Const:
    """A literal as a Python value: `date`/`datetime` (UTC) for dates, tuple for lists, None for null."""

    value: object
    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamRef:
    """A parameter of the query."""

    name: str
    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The instant of the query."""

    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRef:
    """A property of a bound node or edge."""

    variable: str
    property: str
    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRef:
    """A bare node variable: its id."""

    variable: str
    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Field:
    """A value that every row carries under a name: a column of a group, or the value of a block."""

    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator or function of values; the evaluator defines its meaning."""

    function: str
    arguments: "tuple[Operand, ...]"
    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A condition as a value."""

    condition: "Condition"
    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate over the rows of a group; `fraction` is that of a percentile."""

    function: AggregateName
    argument: "Operand"
    type: PropertyType
    distinct: bool = False
    fraction: "Const | ParamRef | None" = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class PathValue:
    """A value of a path: `hops`, `nodes`, `edges`, or an aggregate over its edges.

    `argument` is an expression over the variable `walked`, which stands for each edge of the path in turn.
    """

    variable: str
    function: "AggregateName | Literal['hops', 'nodes', 'edges']"
    walked: str
    type: PropertyType
    argument: "Operand | None" = None
    distinct: bool = False
    fraction: "Const | ParamRef | None" = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch:
    """`search`, `fuzzy` or `match_text` on a node property; `distance` only for `fuzzy`."""

    function: TextFunction
    field: PropertyRef
    query: "Const | ParamRef"
    distance: "Const | ParamRef | None" = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """Squared L2 distance of a vector property to a vector, or to the embedding of a text."""

    field: PropertyRef
    query: "Const | ParamRef"
    model: str | None = None
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25:
    """BM25 relevance of a text property."""

    field: PropertyRef
    query: "Const | ParamRef"
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rrf:
    """Reciprocal rank fusion of two rankings of one variable."""

    first: "Nearest | Bm25"
    second: "Nearest | Bm25"
    k: "Const | ParamRef"
    span: Span = NOWHERE


Ranking = Nearest | Bm25 | Rrf
Operand = (
    Const | ParamRef | Now | PropertyRef | EntityRef | Field | Call | Truth | Aggregate | PathValue
)
"""A value of a row; an aggregate is one only in a result."""

ItemExpr = Operand | TextMatch | Nearest | Bm25 | Rrf


# ---- conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """`left op right`; `contains` on a list is membership, on a text substring (see `left.type`)."""

    left: Operand
    op: Comparison
    right: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """`operand is [not] null`."""

    operand: Operand
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InList:
    """`operand in choices`; choices is a list constant or a list parameter."""

    operand: Operand
    choices: Const | ParamRef


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Conjunction, three-valued."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """Disjunction, three-valued."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """Negation, three-valued: unknown stays unknown and is not kept."""

    part: "Condition"


Condition = Compare | IsNull | InList | AllOf | AnyOf | Not | TextMatch


# ---- patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A node variable that is scanned, with the property tests of its block."""

    variable: str
    type_name: str
    matches: tuple[Condition, ...] = ()


HopBound = int | Const | ParamRef
"""A number of hops or of paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The path of a walk that is bound: of fewest hops, or of least cost `by` a property of the edges.

    There may be the `best` of these paths, or `every` path of fewest hops.
    """

    variable: str
    by: PropertyRef | None = None
    best: HopBound | None = None
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A traversal. `low`/`high` are hop bounds (1, 1 for a plain one, None for no end); `edge_variable` names the edge.

    `edge` may name several types between the same ends. `where` is a condition on every edge that is walked, about the
    variable `walked`. With a `path` the walk binds paths. With `any_edge` it is one hop over an edge of any of the types
    that `edge` names, in either direction.
    """

    left: str
    right: str
    edge: str
    direction: Direction
    low: HopBound = 1
    high: HopBound | None = 1
    edge_variable: str | None = None
    any_edge: bool = False
    walked: str | None = None
    where: "tuple[Condition, ...]" = ()
    path: Choice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A conjunction of binds, hops, conditions and nested blocks.

    `variables` are those introduced here, in text order; `outer` are the ones used from outside.
    A `Bind` of an outer variable inside a nested block is extra property tests on it. A variable
    has at most one `Bind` here, and every group of connected hops holds a `Bind` or an outer variable.
    An outer variable may be NULL (it comes from an optional block): conditions see NULL, a `Bind` or a
    hop of it matches nothing.
    """

    variables: tuple[Variable, ...] = ()
    outer: frozenset[str] = frozenset()
    binds: tuple[Bind, ...] = ()
    hops: tuple[Hop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    negations: "tuple[Pattern, ...]" = ()
    existences: "tuple[Pattern, ...]" = ()
    optionals: "tuple[Pattern, ...]" = ()
    blocks: "tuple[BlockValue, ...]" = ()
    """The values of nested blocks that conditions here use; each is a `Field` of its name."""
    walked: tuple[Variable, ...] = ()
    """Variables that stand for the edges of a walk, one after the other; no row assigns them."""

    @property
    def nested(self) -> "tuple[Pattern, ...]":
        """The blocks right inside this one."""
        block_patterns = (block.pattern for block in self.blocks)
        return (*self.negations, *self.existences, *self.optionals, *block_patterns)

    @property
    def row_variables(self) -> tuple[Variable, ...]:
        """The variables that a row of this pattern assigns: its own and those of its optional blocks."""
        nested = (variable for block in self.optionals for variable in block.row_variables)
        return (*self.variables, *nested)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockValue:
    """One value per outer row: an aggregate over the matches of a block, or whether there is a match."""

    name: str
    function: "AggregateName | Literal['exists']"
    argument: "Operand | None"
    pattern: Pattern
    type: PropertyType
    distinct: bool = False
    fraction: "Const | ParamRef | None" = None


# ---- queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A declared parameter."""

    name: str
    type: PropertyType
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One item of the result, under its output name."""

    name: str
    expr: ItemExpr
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """One order key: an output column, an expression that is not projected, or a leading ranking."""

    key: "str | Operand | Nearest | Bm25 | Rrf"
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRule:
    """A parameter that cannot be NULL where it is used, nor less than `least` if there is such a bound."""

    parameter: ParamRef
    word: str
    """The use of the parameter, as messages write it."""
    least: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStage:
    """A stage that type-checks. Later parts see only its `entities`, variables by the name of their column, and
    the other columns.
    """

    pattern: Pattern
    columns: tuple[Column, ...]
    entities: Mapping[str, str] = field(default_factory=dict)
    blocks: tuple[BlockValue, ...] = ()
    distinct: bool = False
    having: tuple[Condition, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: Const | ParamRef | None = None
    offset: Const | ParamRef | None = None
    per: tuple[Operand, ...] = ()

    @property
    def is_aggregate(self) -> bool:
        """Whether rows are grouped."""
        return any(has_aggregate(column.expr) for column in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRead:
    """A read that type-checks. With any aggregate among the columns, the others are the group key.

    `variables` holds every variable of the query by name, those of nested blocks included. `union` are reads
    whose rows follow, each with whether all of them do; order and bounds are then those of the whole.
    """

    name: str
    params: Mapping[str, Parameter]
    pattern: Pattern
    variables: Mapping[str, Variable]
    columns: tuple[Column, ...]
    blocks: tuple[BlockValue, ...] = ()
    """The values of blocks that the result uses, beyond those of the pattern."""
    distinct: bool = False
    having: tuple[Condition, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: Const | ParamRef | None = None
    offset: Const | ParamRef | None = None
    description: str | None = None
    instruction: str | None = None
    demands: tuple[ParameterRule, ...] = ()
    stages: tuple[CheckedStage, ...] = ()
    union: "tuple[tuple[bool, CheckedRead], ...]" = ()
    open_forms: tuple[str, ...] = ()
    """The forms that stand for all types or properties of the schema, so that another schema means other rows."""

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns of all parts: of stages, of the blocks of results, of the reads of a union."""
        own = [*(stage.pattern for stage in self.stages), self.pattern]
        stage_patterns = [block.pattern for stage in self.stages for block in stage.blocks]
        block_patterns = [*stage_patterns, *(block.pattern for block in self.blocks)]
        union_patterns = [pattern for _, read in self.union for pattern in read.patterns]
        return (*own, *block_patterns, *union_patterns)

    @property
    def is_aggregate(self) -> bool:
        """Whether rows are grouped."""
        return any(has_aggregate(column.expr) for column in self.columns)


def has_aggregate(expr: object) -> bool:
    """Tell whether an expression aggregates anywhere inside."""
    match expr:
        case Aggregate():
            return True
        case Call(arguments=parts) | AllOf(parts=parts) | AnyOf(parts=parts):
            return any(map(has_aggregate, parts))
        case Truth(condition=part) | Not(part=part) | IsNull(operand=part):
            return has_aggregate(part)
        case Compare(left=left, right=right):
            return has_aggregate(left) or has_aggregate(right)
        case InList(operand=operand):
            return has_aggregate(operand)
        case _:
            return False


def read_id(entity: EntityRef) -> PropertyRef:
    """Return the id of an entity as a text."""
    return PropertyRef(variable=entity.variable, property="id", type=entity.type, span=entity.span)


def find_condition(expr: object) -> "Condition | None":
    """Return the condition whose truth a column holds; None for any other column."""
    match expr:
        case Truth(condition=condition):
            return condition
        case TextMatch():
            return expr
        case _:
            return None


# ---- mutations


ROW = ""
"""The variable of the row that a statement writes: no query can spell it."""

CREATED = "#created"
"""The field of `returning` that tells whether a row was created."""

TARGET = "#target"
"""The column of a match that names the entity to write."""

ITEM = "#item"
"""The field of a list of scalars; a field of records has its own name behind `#`."""

AssignedValue = Const | ParamRef | Now


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """`property: value`, with the type of the property; edge ends are `src` and `dst`, type String."""

    property: str
    value: Operand
    type: PropertyType
    span: Span = NOWHERE


Origin = CheckedRead | ParamRef
"""The source of the rows of a statement: a match, whose columns are the assigned values and the target, or a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedInsert:
    """Insert an entity, or one for every row of `origin`; with `if_absent` only where there is none yet."""

    type_name: str
    kind: VariableKind
    assignments: tuple[Assign, ...]
    if_absent: bool = False
    origin: Origin | None = None
    returning: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedUpsert:
    """Set properties of the node that has a key, which is inserted where it is not there."""

    type_name: str
    key: tuple[Assign, ...]
    assignments: tuple[Assign, ...]
    origin: Origin | None = None
    returning: tuple[Column, ...] = ()
    kind: VariableKind = VariableKind.NODE


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedUpdate:
    """Set properties of every entity that satisfies a condition, or that a match finds."""

    type_name: str
    kind: VariableKind
    assignments: tuple[Assign, ...]
    where: Condition | None = None
    origin: CheckedRead | None = None
    returning: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDelete:
    """Remove every entity that satisfies a condition, or that a match finds; nodes take their edges along."""

    type_name: str
    kind: VariableKind
    where: Condition | None = None
    origin: CheckedRead | None = None
    returning: tuple[Column, ...] = ()


CheckedStatement = CheckedInsert | CheckedUpsert | CheckedUpdate | CheckedDelete


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMutation:
    """A mutation that type-checks: statements in text order, either writes or deletes."""

    name: str
    params: Mapping[str, Parameter]
    statements: tuple[CheckedStatement, ...] = field(default=())
    description: str | None = None
    instruction: str | None = None

    @property
    def returning(self) -> tuple[Column, ...]:
        """The returned columns; all statements that return columns return the same columns."""
        return next(
            (statement.returning for statement in self.statements if statement.returning), ()
        )

    @property
    def matches(self) -> tuple[CheckedRead, ...]:
        """The matches that its statements take their rows from."""
        origins = (statement.origin for statement in self.statements)
        return tuple(origin for origin in origins if isinstance(origin, CheckedRead))


Checked = CheckedRead | CheckedMutation
