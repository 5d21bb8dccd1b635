"""Whatever tree comes in, the checker answers with a checked query or with findings, never a crash."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.compile.check import check_error, check_findings
from omnigraphdb.errors import DataError, QueryError
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Source
from tests.support.compiling import harbour
from tests.support.queries import files
from tests.unit.compile.test_check_splices import assert_whole

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
OPS: st.SearchStrategy[Any] = st.sampled_from(
    ["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"]
)


def named(texts: st.SearchStrategy[str]) -> st.SearchStrategy[tree.Name]:
    return st.builds(tree.Name, texts)


def one_of(*options: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A choice under a short name: the description of a nested one would grow with every level."""
    strategy = st.one_of(*options)

    @st.composite
    def choice(draw: st.DrawFn) -> Any:
        return draw(strategy)

    return choice()


def listed(items: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[Any]:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def literal(form: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(tree.LiteralExpr, form=st.just(form), value=values)


PLAIN = one_of(
    literal("string", st.sampled_from(["", "bulk", "tug", "2020-01-01"])),
    literal("int", st.sampled_from([0, 1, 2**31, 2**63 - 1])),
    literal("float", st.sampled_from([0.0, 2.5, 1e300])),
    literal("bool", st.booleans()),
    literal("date", st.sampled_from(["2020-01-01", "soon"])),
    literal("datetime", st.sampled_from(["2020-01-01T00:00:00Z", "noon"])),
    literal("null", st.none()),
)
LIST = literal("list", listed(PLAIN, 0, 4))
LITERAL = one_of(PLAIN, LIST, literal("list", listed(LIST, 1, 1)))
PROPERTY = st.builds(tree.PropertyExpr, variable=VARIABLES, property=PROPERTIES)
VARIABLE = st.builds(tree.VariableExpr, name=VARIABLES)
WORD = st.builds(tree.AliasExpr, name=WORDS)
SIMPLE = one_of(PROPERTY, VARIABLE, LITERAL, st.builds(tree.NowExpr), WORD)
TEXT = st.builds(
    tree.TextExpr,
    function=st.sampled_from(["search", "fuzzy", "match_text"]),
    field=SIMPLE,
    query=SIMPLE,
    distance=st.none() | SIMPLE,
)
ARM = one_of(
    st.builds(tree.NearestExpr, field=PROPERTY, query=SIMPLE),
    st.builds(tree.Bm25Expr, field=SIMPLE, query=SIMPLE),
)
AGGREGATE = st.builds(
    tree.AggregateExpr,
    function=st.sampled_from(["count", "sum", "avg", "min", "max"]),
    argument=one_of(SIMPLE, ARM, TEXT),
)
FUSED = st.builds(tree.RrfExpr, first=ARM, second=ARM, k=st.none() | SIMPLE)
EXPRESSION = one_of(SIMPLE, AGGREGATE, TEXT, ARM, FUSED)
TEST = one_of(
    st.builds(tree.Compare, left=EXPRESSION, op=OPS, right=EXPRESSION),
    TEXT,
    st.builds(tree.IsNull, operand=EXPRESSION, negated=st.booleans()),
    st.builds(tree.InList, operand=EXPRESSION, choices=EXPRESSION),
)


def combined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return one_of(
        parts,
        st.builds(tree.AllOf, parts=listed(parts, 2, 3)),
        st.builds(tree.AnyOf, parts=listed(parts, 2, 3)),
        st.builds(tree.Not, part=parts),
    )


CONDITION = combined(combined(TEST))
MATCHES = listed(st.builds(tree.PropertyMatch, name=named(PROPERTIES), value=EXPRESSION), 0, 3)
HOPS = st.builds(tree.Hops, low=st.integers(0, 3), high=st.none() | st.integers(0, 3))
FLAT = one_of(
    st.builds(tree.Binding, variable=named(VARIABLES), type_name=named(TYPES), matches=MATCHES),
    st.builds(
        tree.Traversal,
        left=named(VARIABLES),
        edge=named(EDGES),
        right=named(VARIABLES),
        edge_variable=st.none() | named(VARIABLES),
        undirected=st.booleans(),
        hops=st.none() | HOPS,
    ),
    st.builds(tree.Filter, condition=CONDITION),
)


def nested(clauses: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inside = listed(clauses, 1, 3)
    blocks = st.builds(tree.Negation, clauses=inside), st.builds(tree.Optional, clauses=inside)
    return one_of(clauses, clauses, *blocks)


BOUND = one_of(st.none(), LITERAL, VARIABLE)
READ = st.builds(
    tree.Read,
    clauses=listed(nested(nested(FLAT)), 1, 5),
    items=listed(st.builds(tree.Item, expr=EXPRESSION, alias=st.none() | named(WORDS)), 1, 4),
    order=listed(
        st.builds(tree.OrderKey, expr=EXPRESSION, direction=st.sampled_from([None, "asc", "desc"])),
        0,
        2,
    ),
    limit=BOUND,
    offset=BOUND,
)
RETURNED = listed(st.builds(tree.Item, expr=EXPRESSION, alias=st.none() | named(WORDS)), 0, 2)
STAGE = st.builds(
    tree.Stage,
    clauses=listed(FLAT, 1, 2),
    items=listed(st.builds(tree.Item, expr=EXPRESSION, alias=st.none() | named(WORDS)), 1, 2),
)
ORIGIN = one_of(
    st.none(),
    st.builds(tree.Matched, clauses=listed(nested(FLAT), 1, 3), stages=listed(STAGE, 0, 1)),
    st.builds(tree.Unnest, parameter=named(st.sampled_from(["k", "ghost"])), item=named(VARIABLES)),
)
STATEMENT = one_of(
    st.builds(
        tree.Insert,
        type_name=named(TYPES),
        assignments=MATCHES,
        if_absent=st.booleans(),
        returning=RETURNED,
        origin=ORIGIN,
    ),
    st.builds(
        tree.Upsert,
        type_name=named(TYPES),
        key=MATCHES,
        assignments=MATCHES,
        returning=RETURNED,
        origin=ORIGIN,
    ),
    st.builds(
        tree.Update,
        target=named(one_of(TYPES, VARIABLES)),
        assignments=MATCHES,
        where=st.none() | CONDITION,
        returning=RETURNED,
        origin=ORIGIN,
    ),
    st.builds(
        tree.Delete,
        target=named(one_of(TYPES, VARIABLES)),
        where=st.none() | CONDITION,
        returning=RETURNED,
        origin=ORIGIN,
    ),
)
PARAM = st.builds(
    tree.Param,
    name=named(st.sampled_from(["k", "ghost", "__x"])),
    type=st.builds(
        tree.ParamType,
        scalar=st.sampled_from(["String", "I32", "F64", "Date", "Blob", "Nope", None]),
        is_list=st.booleans(),
        dimension=st.sampled_from([None, None, 0, 3]),
        nullable=st.booleans(),
    ),
)
QUERY = st.builds(
    tree.Query,
    name=named(st.just("q")),
    params=listed(PARAM, 0, 2),
    body=one_of(READ, listed(STATEMENT, 0, 3)),
)


@given(QUERY)
def test_any_tree_is_checked_or_refused(query: tree.Query) -> None:
    source = Source("query q() {}")
    checked, found = check_findings(query, harbour(), source)
    if checked is None:
        assert isinstance(check_error(found, harbour(), source), QueryError | DataError)
    else:
        assert_whole(checked)


@settings(max_examples=settings().max_examples // 3)
@given(st.booleans().flatmap(lambda extended: files(extended=extended)))
def test_any_file_of_any_words_is_checked_or_refused(file: tree.QueryFile) -> None:
    source = Source("")
    found = [check_findings(query, harbour(), source) for query in file.queries]
    wrong = [diagnostic for _, diagnostics in found for diagnostic in diagnostics]
    if wrong:
        assert isinstance(check_error(wrong, harbour(), source), QueryError | DataError)
    else:
        assert all(checked is not None for checked, _ in found)
