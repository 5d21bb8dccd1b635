"""The logical operators: each turns one table of bindings, or of results, into the next.

A table of bindings has one column of entities per variable. Properties are not in it: an operator that
needs one fetches it for the rows it sees.
"""

from enum import StrEnum

from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.compile.checked import (
    Choice,
    Compare,
    Const,
    Direction,
    EntityRef,
    HopBound,
    ItemExpr,
    Operand,
    ParamRef,
    Ranking,
    Rrf,
    TextMatch,
)
from omnigraphdb.compile.plan.algebra import Test
from omnigraphdb.language.query.tree import AggregateName
from omnigraphdb.values import dataclass

# ---- parts of operators


class Multiplicity(StrEnum):
    """The meaning of equal rows for the operators above."""

    EACH = "each"
    """Every match is a row of its own."""

    COUNTED = "counted"
    """Only their number matters: equal rows may be one row with a weight, which `Group` adds up."""

    ANY = "any"
    """Only whether there is one matters: equal rows may be merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One named value per row."""

    name: str
    expr: ItemExpr
    type: PropertyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One aggregate per group; without an argument it counts rows.

    `ties` are the variables by whose ids a list is ordered.
    """

    name: str
    function: AggregateName
    argument: Operand | None
    type: PropertyType
    distinct: bool = False
    fraction: Const | ParamRef | None = None
    ties: tuple[EntityRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SortBy:
    """One sort key; NULL is below every value."""

    expr: Operand | TextMatch
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Skip `offset` rows, then keep `limit`; None means without a bound."""

    offset: Const | ParamRef | None = None
    limit: Const | ParamRef | None = None


# ---- sources of bindings


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Bind a variable to every node of a type that passes `filter` and all text `search`es.

    `filter` mentions no other variable and no text search, so it can go down to storage as it is.
    """

    variable: str
    type_name: str
    filter: tuple[Test, ...] = ()
    search: tuple[TextMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """Give the distinct values that the enclosing operator's input has for these variables.

    NULL is such a value: tests see it, hops lead nowhere from it. Without variables it is one row that
    binds nothing.
    """

    variables: tuple[str, ...]


# ---- bindings to bindings


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand:
    """Walk an edge type from `source` to `target`, keeping the order of the rows.

    The result is a set of (row, target) pairs, or one row per edge when the edge has a variable. With
    more than one hop a target counts once, at its shortest distance, if that lies in `low..high`. When
    it `closes`, `target` is already bound and the walk is a test. `keep` lists the variables needed
    above (None: all); a new target missing there needs no column, only its effect on the rows. `edge` may
    name several types between the same ends. Only edges that pass `where`, which is about the variable
    `walked`, are walked. Without `high` the walk goes as far as there are edges. With `any_edge` the walk is
    over an edge of any of the types that `edge` names, in either direction.
    """

    input: "Operator"
    source: str
    target: str
    target_type: str
    edge: str
    direction: Direction
    low: HopBound = 1
    high: HopBound | None = 1
    edge_variable: str | None = None
    closes: bool = False
    keep: tuple[str, ...] | None = None
    multiplicity: Multiplicity = Multiplicity.EACH
    any_edge: bool = False
    walked: str | None = None
    where: tuple[Test, ...] = ()

    @property
    def binds(self) -> frozenset[str]:
        """The variables that are new here."""
        fresh = () if self.closes else (self.target,)
        return frozenset(fresh if self.edge_variable is None else (*fresh, self.edge_variable))


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPaths:
    """Find paths from `source` to `target`, as `Expand` walks, and bind them to the variable of `choice`.

    There is a row for every path that is chosen. Where paths are equally good, the one with the least edge ids
    is chosen, compared from the left end of the traversal; with `backward` that is the end at `target`.
    """

    input: "Operator"
    source: str
    target: str
    target_type: str
    edge: str
    direction: Direction
    choice: Choice
    low: HopBound
    high: HopBound | None
    walked: str
    where: tuple[Test, ...] = ()
    closes: bool = False
    backward: bool = False
    keep: tuple[str, ...] | None = None

    @property
    def binds(self) -> frozenset[str]:
        """The variables that are new here."""
        return frozenset(
            (self.choice.variable,) if self.closes else (self.target, self.choice.variable)
        )


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows for which every condition is true."""

    input: "Operator"
    conditions: tuple[Test, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Pair every left row with every right row for which all of `on` hold (left and right properties)."""

    left: "Operator"
    right: "Operator"
    on: tuple[Compare, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Anti:
    """Keep the rows whose values of `on` do not occur in `inner`."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Semi:
    """Keep the rows whose values of `on` occur in `inner`."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """Give each row a value: a tally of the rows of `inner` that agree on `on`, or whether there is one."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]
    tally: "Tally | None"
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalJoin:
    """Join each row with the rows of `inner` that agree on `on`, or with NULL for the variables of `binds`."""

    input: "Operator"
    inner: "Operator"
    on: tuple[str, ...]
    binds: tuple[str, ...]


# ---- order, groups and results


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Order rows by relevance of their entity, best first; drop rows that have none.

    Entities with equal scores come by id (for a fusion: by its first arm, then its second); rows of one
    entity by the ids of `ties`. `depth` bounds the share of a `nearest` arm in a fusion. Only the
    rows of `window` are needed, when there is one.
    """

    input: "Operator"
    ranking: Ranking
    ties: tuple[str, ...] = ()
    depth: Window | None = None
    window: Window | None = None

    @property
    def variable(self) -> str:
        """The variable whose entities are ranked."""
        return ranked_variable(self.ranking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Form groups by `keys` and give one row of keys and tallies for each; without keys exactly one."""

    input: "Operator"
    keys: tuple[Output, ...]
    tallies: tuple[Tally, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """Order rows by `keys`, then by the ids of `ties`; only the rows of `window` are needed, if any."""

    input: "Operator"
    keys: tuple[SortBy, ...]
    ties: tuple[str, ...] = ()
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Keep a window of the rows, in their order; with `per`, of the rows that are equal in it."""

    input: "Operator"
    window: Window
    per: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Leave only some entities of the rows, and named values that they carry."""

    input: "Operator"
    entities: tuple[str, ...]
    values: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """All rows of several stages, one after the other."""

    inputs: "tuple[Operator, ...]"


@dataclass(frozen=True, slots=True)
class Project:
    """Fetch the values of the result, for the rows that survived."""

    input: "Operator"
    columns: tuple[Output, ...]


Binder = (
    Scan
    | Argument
    | Expand
    | FindPaths
    | Filter
    | Product
    | Anti
    | Semi
    | Attach
    | OptionalJoin
    | Stage
    | Union
)
Shaper = Rank | Group | Sort | Slice | Project
Operator = Binder | Shaper


def ranked_variable(ranking: Ranking) -> str:
    """Name the variable a ranking is about; both arms of a fusion are about the same."""
    return ranking.first.field.variable if isinstance(ranking, Rrf) else ranking.field.variable
