"""Whatever tree comes in, the checker answers with a checked query or with findings, never a crash."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compile.check import check_error, findings
from omnigraph.errors import DataError, QueryError
from omnigraph.language.query import tree
from omnigraph.language.source import Source
from tests.support.compiling import harbour
from tests.unit.compile.test_check_splices import assert_whole

# Deferred strategies keep the description of a failing tree short.
VARIABLES = st.sampled_from(["v", "p", "q", "c", "e", "k", "_", "_1", "ghost"])
PROPERTIES = st.sampled_from(
    ["name", "imo", "code", "dwt", "kind", "built", "seen", "tags", "marks", "sig", "scan", "lat",
     "eta", "berth", "papers", "text", "from", "to", "src", "id", "nope"]
)  # fmt: skip
TYPES = st.sampled_from(
    ["Vessel", "Port", "Company", "Note", "CallsAt", "Feeds", "OwnedBy", "Named", "Nope"]
)
EDGES = st.sampled_from(["callsAt", "feeds", "ownedBy", "rated", "nope"])
WORDS = st.sampled_from(["n", "m", "name", "count", "literal"])
OPS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"])


def named(texts: st.SearchStrategy[str]) -> st.SearchStrategy[tree.Name]:
    return st.builds(tree.Name, texts)


def literals() -> st.SearchStrategy[tree.LiteralExpr]:
    def of(form: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tree.LiteralExpr]:
        return st.builds(tree.LiteralExpr, form=st.just(form), value=values)

    plain = st.one_of(
        of("string", st.sampled_from(["", "bulk", "tug", "2020-01-01"])),
        of("int", st.sampled_from([0, 1, 2**31, 2**63 - 1])),
        of("float", st.sampled_from([0.0, 2.5, 1e300])),
        of("bool", st.booleans()),
        of("date", st.sampled_from(["2020-01-01", "soon"])),
        of("datetime", st.sampled_from(["2020-01-01T00:00:00Z", "noon"])),
        of("null", st.none()),
    )
    return st.recursive(plain, lambda inner: of("list", st.lists(inner, max_size=4).map(tuple)), max_leaves=4)  # fmt: skip


PROPERTY = st.builds(tree.PropertyExpr, variable=VARIABLES, property=PROPERTIES)
VARIABLE = st.builds(tree.VariableExpr, name=VARIABLES)
SIMPLE: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        literals(),
        VARIABLE,
        PROPERTY,
        st.builds(tree.NowExpr),
        st.builds(tree.AliasExpr, name=WORDS),
    )
)
TEXT = st.builds(
    tree.TextExpr,
    function=st.sampled_from(["search", "fuzzy", "match_text"]),
    field=SIMPLE,
    query=SIMPLE,
    distance=st.none() | SIMPLE,
)
NEAREST = st.builds(tree.NearestExpr, field=PROPERTY, query=SIMPLE)
BM25 = st.builds(tree.Bm25Expr, field=SIMPLE, query=SIMPLE)
RRF = st.builds(tree.RrfExpr, first=NEAREST | BM25, second=NEAREST | BM25, k=st.none() | SIMPLE)
FUNCTIONS: st.SearchStrategy[Any] = st.deferred(lambda: st.one_of(TEXT, NEAREST, BM25, RRF))
AGGREGATE = st.builds(
    tree.AggregateExpr,
    function=st.sampled_from(["count", "sum", "avg", "min", "max"]),
    argument=SIMPLE | FUNCTIONS,
)
EXPRESSION: st.SearchStrategy[Any] = st.deferred(lambda: st.one_of(SIMPLE, FUNCTIONS, AGGREGATE))
COMPARE = st.builds(tree.Compare, left=EXPRESSION, op=OPS, right=EXPRESSION)
CONDITION: st.SearchStrategy[Any] = st.deferred(
    lambda: st.recursive(
        st.one_of(
            COMPARE,
            TEXT,
            st.builds(tree.IsNull, operand=EXPRESSION, negated=st.booleans()),
            st.builds(tree.Among, operand=EXPRESSION, choices=EXPRESSION),
        ),
        lambda inner: st.one_of(
            st.builds(tree.AllOf, parts=st.lists(inner, min_size=2, max_size=3).map(tuple)),
            st.builds(tree.AnyOf, parts=st.lists(inner, min_size=2, max_size=3).map(tuple)),
            st.builds(tree.Not, part=inner),
        ),
        max_leaves=4,
    )
)
MATCHES = st.lists(
    st.builds(tree.PropertyMatch, name=named(PROPERTIES), value=EXPRESSION), max_size=3
).map(tuple)
CLAUSE: st.SearchStrategy[Any] = st.deferred(
    lambda: st.recursive(
        st.one_of(
            st.builds(
                tree.Binding, variable=named(VARIABLES), type_name=named(TYPES), matches=MATCHES
            ),
            st.builds(
                tree.Traversal,
                left=named(VARIABLES),
                edge=named(EDGES),
                right=named(VARIABLES),
                edge_variable=st.none() | named(VARIABLES),
                undirected=st.booleans(),
                hops=st.none()
                | st.builds(tree.Hops, low=st.integers(0, 3), high=st.none() | st.integers(0, 3)),
            ),
            st.builds(tree.Filter, condition=CONDITION),
        ),
        lambda inner: st.one_of(
            st.builds(tree.Negation, clauses=st.lists(inner, min_size=1, max_size=3).map(tuple)),
            st.builds(tree.Optional, clauses=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=6,
    )
)
BOUND = st.none() | literals() | VARIABLE
READ: st.SearchStrategy[Any] = st.deferred(
    lambda: st.builds(
        tree.Read,
        clauses=st.lists(CLAUSE, min_size=1, max_size=5).map(tuple),
        items=st.lists(
            st.builds(tree.Item, expr=EXPRESSION, alias=st.none() | named(WORDS)),
            min_size=1,
            max_size=4,
        ).map(tuple),
        order=st.lists(
            st.builds(
                tree.OrderKey, expr=EXPRESSION, direction=st.sampled_from([None, "asc", "desc"])
            ),
            max_size=2,
        ).map(tuple),
        limit=BOUND,
        offset=BOUND,
    )
)
PREDICATE = st.builds(tree.Predicate, property=named(PROPERTIES), op=OPS, value=EXPRESSION)
STATEMENT: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        st.builds(tree.Insert, type_name=named(TYPES), assignments=MATCHES),
        st.builds(tree.Update, type_name=named(TYPES), assignments=MATCHES, predicate=PREDICATE),
        st.builds(tree.Delete, type_name=named(TYPES), predicate=PREDICATE),
    )
)
PARAM: st.SearchStrategy[Any] = st.deferred(
    lambda: st.builds(
        tree.Param,
        name=named(st.sampled_from(["k", "limit", "ghost", "__x"])),
        type=st.builds(
            tree.ParamType,
            scalar=st.sampled_from(["String", "I32", "F64", "Date", "Blob", "Nope", None]),
            is_list=st.booleans(),
            dimension=st.sampled_from([None, None, 0, 3]),
            nullable=st.booleans(),
        ),
    )
)
QUERY = st.builds(
    tree.Query,
    name=named(st.just("q")),
    params=st.lists(PARAM, max_size=2).map(tuple),
    body=READ | st.lists(STATEMENT, max_size=3).map(tuple),
)


@given(QUERY, st.booleans())
def test_any_tree_is_checked_or_refused(query: tree.Query, extended: bool) -> None:
    source = Source("query q() {}")
    checked, found = findings(query, harbour(), source, extended=extended)
    if checked is None:
        assert isinstance(check_error(found, harbour(), source), QueryError | DataError)
    else:
        assert_whole(checked)
