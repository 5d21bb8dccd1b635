"""Query trees as Hypothesis strategies, and the query texts of the conformance files."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from hypothesis import strategies as st

from omnigraphdb.language.query.tokens import CALLS, FUNCTIONS, KEYWORDS, SCALARS
from omnigraphdb.language.query.tree import (
    ANY_EDGE,
    AggregateExpr,
    AliasExpr,
    AllOf,
    AnyOf,
    Arithmetic,
    Between,
    Binding,
    BlockExpr,
    Bm25Expr,
    CallExpr,
    CaseExpr,
    Clause,
    Compare,
    Condition,
    Delete,
    Expr,
    Filter,
    Hops,
    InList,
    Insert,
    IsNull,
    Item,
    LiteralExpr,
    Matched,
    Minus,
    Name,
    NearestExpr,
    Negation,
    Not,
    NowExpr,
    Option,
    Optional,
    OrderKey,
    Param,
    ParamType,
    PropertyExpr,
    PropertyMatch,
    Query,
    QueryFile,
    Read,
    RrfExpr,
    Stage,
    Statement,
    TextExpr,
    Traversal,
    Unnest,
    Update,
    Upsert,
    VariableExpr,
)
from omnigraphdb.language.source import NOWHERE

T = TypeVar("T")

CONFORMANCE = Path(__file__).parent.parent / "conformance"


def without_places(tree: T) -> T:
    """The same tree with every span forgotten."""
    if isinstance(tree, tuple):
        return tuple(without_places(one) for one in tree)  # type: ignore[return-value]
    if not is_dataclass(tree) or isinstance(tree, type):
        return tree
    names = [field.name for field in fields(tree)]
    values = {name: without_places(getattr(tree, name)) for name in names if name != "span"}
    places = {"span": NOWHERE} if "span" in names else {}
    return replace(tree, **values, **places)


def conformance_texts() -> Iterator[tuple[str, str, bool]]:
    """Every query text of the conformance files: where it stands, the text, whether it parses."""
    for path in sorted(CONFORMANCE.glob("*.yaml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for number, (text, step) in enumerate(_steps(document)):
            yield f"{path.stem}-{number}", text, step.get("error") != "QueryError"


def _steps(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for operation in ("query", "mutate", "lint"):
            if isinstance(node.get(operation), str):
                yield node[operation], node
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _steps(one)


# ---- words

PLAIN_WORDS = (
    "name",
    "notes",
    "true_total",
    "orders",
    "_x",
    "aB9",
    "null_count",
    "query_text",
    "_",
)
# A pool instead of a pattern: drawing from it is quick, and each keyword comes up often.
_POOL = sorted(
    {*PLAIN_WORDS, *KEYWORDS, *FUNCTIONS, "a", "b", "from", "to", "id", "mutation", "edge"}
)


def _pick(pool: Sequence[str]) -> st.SearchStrategy[str]:
    """One of many words; a strategy that lists them all takes long to describe itself."""
    return st.integers(0, len(pool) - 1).map(lambda place: pool[place])


_WORDS = st.sampled_from(PLAIN_WORDS)
_ANY_WORDS = _pick(_POOL)
_EDGE_WORDS = _pick([word for word in _POOL if word != "not"])
_TYPES = st.sampled_from(("Vessel", "Port", "Date", "Vector", "String", "MATCH", "X", "A_1b"))
_VARIABLES = st.one_of(st.sampled_from(("v", "p", "_", "x1")), _ANY_WORDS)
# The names of constants are read as the constants, except as order keys.
_COLUMN_WORDS = _pick([w for w in _POOL if w not in ("true", "false", "null", "not")])

words = _ANY_WORDS
names = _ANY_WORDS.map(Name)
edge_names = _EDGE_WORDS.map(Name)
type_names = _TYPES.map(Name)
variables = _VARIABLES.map(Name)


# ---- literals


def _literal(form: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[LiteralExpr]:
    return values.map(lambda value: LiteralExpr(form=form, value=value))


def literals(*, extended: bool = False) -> st.SearchStrategy[LiteralExpr]:
    """Literals, nested lists included; null, signs and exponents only where they are allowed."""
    low = -(2**63) if extended else 0
    floor = None if extended else 0.0
    plain = st.one_of(
        _literal("string", st.text(max_size=8)),
        _literal("int", st.integers(low, 2**63 - 1)),
        _literal("float", st.floats(floor, allow_nan=False, allow_infinity=False)),
        _literal("bool", st.booleans()),
        _literal("date", st.text(max_size=10)),
        _literal("datetime", st.text(max_size=10)),
        *([st.just(LiteralExpr(form="null", value=None))] if extended else []),
    )
    return st.recursive(
        plain, lambda inner: _literal("list", st.lists(inner, max_size=3).map(tuple)), max_leaves=5
    )


def values(*, extended: bool = False) -> st.SearchStrategy[Expr]:
    """What may stand in a block or behind `where`."""
    return st.one_of(literals(extended=extended), _variable_exprs, st.just(NowExpr()))


# ---- expressions

_variable_exprs = _VARIABLES.map(lambda name: VariableExpr(name=name))
_named_properties = st.builds(
    PropertyExpr, variable=_VARIABLES, property=_ANY_WORDS, span=st.just(NOWHERE)
)
_properties = _named_properties | _ANY_WORDS.map(
    lambda name: PropertyExpr(variable="", property=name)
)
"""Properties of variables, and of the row of a statement."""
_TRUTHS = ("true", "false")
"""Words that are literals on the left of a comparison, too."""
_aliases = _WORDS.map(lambda name: AliasExpr(name=name))


def expressions(*, extended: bool = False) -> st.SearchStrategy[Expr]:
    """Every kind of expression, calls inside calls included."""
    simple: st.SearchStrategy[Expr] = st.one_of(values(extended=extended), _properties, _aliases)
    return st.recursive(simple, _values if extended else _calls, max_leaves=6)


def _values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Operators and functions of values, besides searches and rankings."""
    here = st.just(NOWHERE)

    def chain(*operators: str) -> st.SearchStrategy[Any]:
        step = st.tuples(st.sampled_from(operators), inner)
        steps = st.lists(step, min_size=1, max_size=2).map(tuple)
        return st.builds(Arithmetic, first=inner, steps=steps, span=here)

    branches = st.lists(st.tuples(inner, inner), min_size=1, max_size=2).map(tuple)
    return st.one_of(
        _calls(inner),
        chain("+", "-"),
        chain("*", "/", "%"),
        st.builds(Minus, operand=inner.filter(_is_no_number), span=here),
        st.builds(
            CallExpr,
            function=st.sampled_from(CALLS),
            arguments=st.lists(inner, max_size=3).map(tuple),
            span=here,
        ),
        st.builds(CaseExpr, branches=branches, otherwise=st.none() | inner, span=here),
        st.builds(Between, operand=inner, low=inner, high=inner, span=here),
        st.builds(Not, part=inner, span=here),
        st.builds(AllOf, parts=st.lists(inner, min_size=2, max_size=2).map(tuple), span=here),
    )


def _is_no_number(expr: Expr) -> bool:
    return not isinstance(expr, LiteralExpr) or expr.form not in ("int", "float")


def _calls(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    here = st.just(NOWHERE)
    nearest = st.builds(NearestExpr, field=_named_properties, query=inner, span=here)
    bm25 = st.builds(Bm25Expr, field=inner, query=inner, span=here)
    ranking = st.one_of(nearest, bm25)
    return st.one_of(
        st.builds(
            AggregateExpr,
            function=st.sampled_from(("count", "sum", "avg", "min", "max")),
            argument=inner,
            span=here,
        ),
        text_calls(inner),
        nearest,
        bm25,
        st.builds(RrfExpr, first=ranking, second=ranking, k=st.none() | inner, span=here),
    )


def text_calls(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[TextExpr]:
    """`search`, `match_text` and `fuzzy`; only the last has a distance."""
    here = st.just(NOWHERE)
    plain = st.sampled_from(("search", "match_text"))
    return st.one_of(
        st.builds(TextExpr, function=plain, field=inner, query=inner, span=here),
        st.builds(
            TextExpr,
            function=st.just("fuzzy"),
            field=inner,
            query=inner,
            distance=st.none() | inner,
            span=here,
        ),
    )


# ---- conditions and clauses

_COMPARISONS = st.sampled_from(("=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"))


def conditions(*, extended: bool = False) -> st.SearchStrategy[Condition]:
    """Conditions; joined, negated and null tests only where they are allowed."""
    here = st.just(NOWHERE)
    operand = expressions(extended=extended)
    compare = st.builds(Compare, left=operand, op=_COMPARISONS, right=operand, span=here)
    searches = text_calls(operand)
    if not extended:
        return st.one_of(compare.filter(_is_no_traversal), searches)
    lists = literals(extended=True).filter(lambda one: one.form == "list")
    simple: st.SearchStrategy[Condition] = st.one_of(
        compare,
        searches,
        st.builds(IsNull, operand=operand, negated=st.booleans(), span=here),
        st.builds(InList, operand=operand, choices=st.one_of(lists, _variable_exprs), span=here),
    )
    return st.recursive(simple, _joined, max_leaves=5)


def _joined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    here = st.just(NOWHERE)
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(AllOf, parts=parts, span=here),
        st.builds(AnyOf, parts=parts, span=here),
        st.builds(Not, part=inner, span=here),
    )


def _is_no_traversal(one: Compare) -> bool:
    bare = isinstance(one.left, VariableExpr) and isinstance(one.right, VariableExpr)
    return not (bare and one.op in ("contains", "starts_with"))


def pairs(*, extended: bool = False) -> st.SearchStrategy[PropertyMatch]:
    """`name: value`."""
    return st.builds(
        PropertyMatch, name=names, value=values(extended=extended), span=st.just(NOWHERE)
    )


def hops(*, extended: bool = False) -> st.SearchStrategy[Hops]:
    """Bounds of a walk, with what chooses among paths and with a condition."""
    here, small = st.just(NOWHERE), st.integers(0, 12)
    bound = small | _variable_exprs
    plain = st.builds(Hops, low=bound, high=st.none() | bound, span=here)
    far = st.builds(Hops, low=bound, high=st.none(), unbounded=st.just(True), span=here)
    chosen = st.builds(
        Hops,
        low=bound,
        high=bound,
        by=st.none() | edge_names,
        best=st.none() | bound,
        where=st.none() | conditions(extended=extended),
        span=here,
    )
    every = st.builds(Hops, low=bound, high=bound, every=st.just(True), span=here)
    return st.one_of(plain, far, chosen, every)


def clauses(*, extended: bool = False) -> st.SearchStrategy[Clause]:
    """Clauses of a match, blocks inside blocks included."""
    here = st.just(NOWHERE)
    small = st.integers(0, 12)
    walks = hops(extended=extended)
    simple: st.SearchStrategy[Clause] = st.one_of(
        st.builds(
            Binding,
            variable=variables,
            type_name=type_names,
            matches=st.lists(pairs(extended=extended), max_size=3).map(tuple),
            span=here,
        ),
        st.builds(
            Traversal,
            left=variables,
            edge=edge_names,
            right=variables,
            edge_variable=st.none() | variables,
            others=st.lists(edge_names, max_size=2).map(tuple),
            undirected=st.booleans(),
            hops=st.none() | walks,
            span=here,
        ),
        st.builds(
            Traversal,
            left=variables,
            edge=st.just(Name(ANY_EDGE)),
            right=variables,
            edge_variable=st.none() | variables,
            hops=st.none() | st.builds(Hops, low=small, high=st.none() | small, span=here),
            span=here,
        ),
        st.builds(Filter, condition=conditions(extended=extended), span=here),
    )
    kinds = (Negation, Optional) if extended else (Negation,)
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            [
                st.builds(
                    kind, clauses=st.lists(inner, min_size=1, max_size=3).map(tuple), span=here
                )
                for kind in kinds
            ]
        ),
        max_leaves=5,
    )


# ---- queries


def _params() -> st.SearchStrategy[Param]:
    here = st.just(NOWHERE)
    scalars = st.sampled_from(sorted(SCALARS))
    types = st.one_of(
        st.builds(
            ParamType, scalar=scalars, is_list=st.booleans(), nullable=st.booleans(), span=here
        ),
        st.builds(ParamType, dimension=st.integers(0, 4096), nullable=st.booleans(), span=here),
    )
    fields = st.lists(st.builds(Param, name=names, type=types, span=here), min_size=1, max_size=3)
    records = st.builds(
        ParamType,
        is_list=st.just(True),
        nullable=st.booleans(),
        fields=fields.map(tuple),
        span=here,
    )
    return st.builds(Param, name=variables, type=types | records, span=here)


def reads(*, extended: bool = False) -> st.SearchStrategy[Read]:
    """Bodies that read."""
    here = st.just(NOWHERE)
    anything = expressions(extended=extended)
    items = st.builds(
        Item,
        expr=st.one_of(anything, _COLUMN_WORDS.map(lambda name: AliasExpr(name=name))),
        alias=st.none() | names,
        span=here,
    )
    directions = st.sampled_from((None, "asc", "desc"))
    constants = ("bool", "null")
    keys = st.one_of(
        st.builds(
            OrderKey,
            expr=st.one_of(
                anything.filter(lambda one: getattr(one, "form", None) not in constants),
                _ANY_WORDS.map(lambda name: AliasExpr(name=name)),
            ).filter(lambda one: "NearestExpr" not in repr(one)),
            direction=directions,
            span=here,
        ),
        st.builds(
            OrderKey,
            expr=st.builds(NearestExpr, field=_named_properties, query=anything, span=here),
            span=here,
        ),
    )
    counts = _literal("int", st.integers(0, 2**63 - 1))
    bounds = st.one_of(st.none(), counts, *([_variable_exprs] if extended else []))
    return st.builds(
        Read,
        clauses=st.lists(clauses(extended=extended), min_size=1, max_size=4).map(tuple),
        items=st.lists(items, min_size=1, max_size=4).map(tuple),
        order=st.lists(keys, max_size=3).map(tuple),
        limit=bounds,
        offset=bounds if extended else st.none(),
    )


def statements(*, extended: bool = False) -> st.SearchStrategy[Statement]:
    """Statements that write."""
    here = st.just(NOWHERE)
    assignments = st.lists(pairs(extended=extended), min_size=1, max_size=3).map(tuple)
    relations = st.builds(
        Compare,
        left=st.builds(
            AliasExpr, name=_ANY_WORDS.filter(lambda word: word not in _TRUTHS), span=here
        ),
        op=st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
        right=values(extended=extended),
        span=here,
    )
    if not extended:
        return st.one_of(
            st.builds(Insert, type_name=type_names, assignments=assignments, span=here),
            st.builds(
                Update, target=type_names, assignments=assignments, where=relations, span=here
            ),
            st.builds(Delete, target=type_names, where=relations, span=here),
        )
    items = st.builds(
        Item,
        expr=_COLUMN_WORDS.map(lambda name: AliasExpr(name=name)),
        alias=st.none() | names,
        span=here,
    )
    rest = {"returning": st.lists(items, max_size=2).map(tuple), "span": here}
    origins = st.one_of(
        st.none(),
        st.builds(Unnest, parameter=variables, item=variables, span=here),
        st.builds(
            Matched,
            clauses=st.lists(clauses(extended=True), min_size=1, max_size=2).map(tuple),
            span=here,
        ),
    )
    where = relations | conditions(extended=True)
    set_ = {"assignments": assignments} | rest
    return st.one_of(
        st.builds(Insert, type_name=type_names, if_absent=st.booleans(), origin=origins, **set_),
        st.builds(Upsert, type_name=type_names, key=assignments, origin=origins, **set_),
        st.builds(Update, target=type_names, where=where, **set_),
        st.builds(Update, target=variables, origin=origins, **set_),
        st.builds(Delete, target=type_names, where=where, **rest),
        st.builds(Delete, target=variables, origin=origins, **rest),
    )


def _options() -> st.SearchStrategy[Option]:
    values = st.booleans() | st.text(max_size=12)
    return st.builds(Option, name=names, value=values, span=st.just(NOWHERE))


def queries(*, extended: bool = False) -> st.SearchStrategy[Query]:
    """Whole declarations, right in form only: no name need exist and no type need fit."""
    writes = st.lists(statements(extended=extended), min_size=1, max_size=3).map(tuple)
    return st.builds(
        Query,
        name=names,
        params=st.lists(_params(), max_size=3).map(tuple),
        description=st.none() | st.text(max_size=12),
        instruction=st.none() | st.text(max_size=12),
        mcp=st.none() | st.lists(_options(), min_size=1, max_size=2).map(tuple),
        body=st.one_of(reads(extended=extended), writes),
        span=st.just(NOWHERE),
    )


def files(*, extended: bool = False) -> st.SearchStrategy[QueryFile]:
    """Whole files."""
    return st.lists(queries(extended=extended), max_size=3).map(
        lambda some: QueryFile(tuple(some), extended=extended)
    )


any_files = st.one_of(files(extended=False), files(extended=True))


# ---- stages, unions and blocks


@st.composite
def staged_files(draw: st.DrawFn) -> QueryFile:
    """A read of few words with stages, unions and blocks, one inside the other."""
    read = replace(draw(_singles()), **_draw_ends(draw))
    joined = draw(st.lists(st.tuples(st.booleans(), _singles()), max_size=2))
    body = replace(read, union=tuple(joined))
    return QueryFile((Query(name=Name("q"), params=(), body=body),))


@st.composite
def _singles(draw: st.DrawFn) -> Read:
    matched = _draw_clauses(draw, 2)
    stages: list[Stage] = []
    for _ in range(draw(st.integers(0, 2))):
        per = tuple(draw(st.lists(_variable_exprs, max_size=2)))
        stages.append(Stage(clauses=matched, per=per, **_draw_rows(draw), **_draw_ends(draw)))
        matched = _draw_clauses(draw, 1) if draw(st.booleans()) else ()
    return Read(clauses=matched, stages=tuple(stages), **_draw_rows(draw))


def _draw_rows(draw: st.DrawFn) -> dict[str, Any]:
    values = st.one_of(_named_properties, _variable_exprs)
    shown = [
        Item(expr=draw(values), alias=draw(st.none() | names)),
        Item(expr=_draw_amount(draw, 1)),
    ]
    having = (_draw_asked(draw, 1),) if draw(st.booleans()) else ()
    return {"items": tuple(shown), "distinct": draw(st.booleans()), "having": having}


def _draw_ends(draw: st.DrawFn) -> dict[str, Any]:
    bounds = st.none() | _literal("int", st.integers(0, 9)) | _variable_exprs
    keys = st.builds(
        OrderKey, expr=_named_properties, direction=st.sampled_from((None, "asc", "desc"))
    )
    order = tuple(draw(st.lists(keys, max_size=2)))
    return {"order": order, "limit": draw(bounds), "offset": draw(bounds)}


def _draw_clauses(draw: st.DrawFn, depth: int) -> tuple[Clause, ...]:
    found: list[Clause] = [Binding(variable=draw(variables), type_name=draw(type_names))]
    for _ in range(draw(st.integers(0, 2)) if depth else 0):
        match draw(st.sampled_from(("not", "optional", "asked"))):
            case "not":
                found.append(Negation(clauses=_draw_clauses(draw, depth - 1)))
            case "optional":
                found.append(Optional(clauses=_draw_clauses(draw, depth - 1)))
            case _:
                found.append(Filter(condition=_draw_asked(draw, depth - 1)))
    return tuple(found)


def _draw_asked(draw: st.DrawFn, depth: int) -> Condition:
    """A condition on what a block comes to."""
    exists = BlockExpr(kind="exists", clauses=_draw_clauses(draw, depth))
    absent = BlockExpr(kind="not", clauses=_draw_clauses(draw, depth))
    least = draw(_literal("int", st.integers(0, 9)))
    operator: Any = draw(st.sampled_from(("=", "<", ">=")))
    compared = Compare(left=_draw_amount(draw, depth), op=operator, right=least)
    either, none = AnyOf(parts=(absent, compared)), Not(part=exists)
    forms: tuple[Condition, ...] = (exists, compared, either, none)
    return draw(st.sampled_from(forms))


def _draw_amount(draw: st.DrawFn, depth: int) -> BlockExpr:
    counted = AggregateExpr(function="count", argument=LiteralExpr(form="int", value=1))
    summed = AggregateExpr(
        function=draw(st.sampled_from(("sum", "min", "collect"))),
        argument=draw(_named_properties),
        distinct=draw(st.booleans()),
    )
    kind = draw(st.sampled_from((counted, summed)))
    return BlockExpr(kind=kind, clauses=_draw_clauses(draw, depth))
