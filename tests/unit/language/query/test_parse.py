"""What query text means: every construct, every place a keyword may be a name, every span."""

from typing import Any

import pytest

from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.query.tokens import FUNCTIONS, KEYWORDS
from omnigraphdb.language.query.tree import (
    AggregateExpr,
    AliasExpr,
    Binding,
    Bm25Expr,
    Compare,
    Delete,
    Filter,
    Hops,
    Insert,
    Item,
    LiteralExpr,
    Name,
    NearestExpr,
    Negation,
    NowExpr,
    OrderKey,
    Param,
    ParamType,
    PropertyExpr,
    PropertyMatch,
    Query,
    QueryFile,
    Read,
    RrfExpr,
    TextExpr,
    Traversal,
    Update,
    VariableExpr,
)
from omnigraphdb.language.source import Source, Span
from tests.support.queries import conformance_texts, without_places


def parsed(text: str) -> QueryFile:
    return without_places(parse_queries(Source(text)))


def only(text: str) -> Query:
    (query,) = parsed(text).queries
    return query


def read(match: str = "$v: Vessel", rest: str = "return { $v }") -> Read:
    body = only(f"query q() {{ match {{ {match} }} {rest} }}").body
    assert isinstance(body, Read)
    return body


def clause(text: str) -> Any:
    (found,) = read(text).clauses
    return found


def condition(text: str) -> Any:
    found = clause(text)
    assert isinstance(found, Filter)
    return found.condition


def item(text: str) -> Item:
    (found,) = read(rest=f"return {{ {text} }}").items
    return found


def key(text: str) -> OrderKey:
    (found,) = read(rest=f"return {{ $v }} order {{ {text} }}").order
    return found


def literal(text: str) -> LiteralExpr:
    found = item(text).expr
    assert isinstance(found, LiteralExpr)
    return found


def statement(text: str) -> Any:
    body = only(f"query m() {{ {text} }}").body
    assert isinstance(body, tuple)
    (found,) = body
    return found


# ---- files and heads


@pytest.mark.parametrize("text", ["", "  \n", "// nothing\n", "/* nothing */", "\ufeff"])
def test_a_file_may_hold_no_query(text: str) -> None:
    assert parsed(text) == QueryFile()


def test_queries_keep_their_order_and_double_names_are_left_to_the_checker() -> None:
    text = "query b() { delete T where a = 1 } query a() { delete T where a = 1 } query a() { delete T where a = 1 }"
    assert [query.name.text for query in parsed(text).queries] == ["b", "a", "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("String", ParamType(scalar="String")),
        ("Date?", ParamType(scalar="Date", nullable=True)),
        ("Blob", ParamType(scalar="Blob")),
        ("[I32]", ParamType(scalar="I32", is_list=True)),
        ("[ DateTime ] ?", ParamType(scalar="DateTime", is_list=True, nullable=True)),
        ("Vector(4)", ParamType(dimension=4)),
        ("Vector(0)?", ParamType(dimension=0, nullable=True)),
    ],
)
def test_parameters_have_types(text: str, expected: ParamType) -> None:
    query = only(f"query q($a: {text}, $b: Bool) {{ delete T where a = $a }}")
    assert query.params == (
        Param(name=Name("a"), type=expected),
        Param(name=Name("b"), type=ParamType(scalar="Bool")),
    )


@pytest.mark.parametrize(
    "annotations",
    ['@description("a") @instruction("b")', '@instruction("b")\n@description("a")'],
)
def test_annotations_come_in_any_order(annotations: str) -> None:
    query = only(f"query q() {annotations} {{ delete T where a = 1 }}")
    assert (query.description, query.instruction) == ("a", "b")


def test_annotations_may_be_absent() -> None:
    query = only("query q() { delete T where a = 1 }")
    assert (query.description, query.instruction, query.is_mutation) == (None, None, True)


# ---- patterns


def test_a_binding_matches_properties() -> None:
    values = '{ name: "Aster", dwt: $d, eta: now(), tags: ["ice", "lng"] , }'
    assert clause(f"$v: Vessel {values}") == Binding(
        variable=Name("v"),
        type_name=Name("Vessel"),
        matches=(
            PropertyMatch(name=Name("name"), value=LiteralExpr(form="string", value="Aster")),
            PropertyMatch(name=Name("dwt"), value=VariableExpr(name="d")),
            PropertyMatch(name=Name("eta"), value=NowExpr()),
            PropertyMatch(
                name=Name("tags"),
                value=LiteralExpr(
                    form="list",
                    value=(
                        LiteralExpr(form="string", value="ice"),
                        LiteralExpr(form="string", value="lng"),
                    ),
                ),
            ),
        ),
    )


@pytest.mark.parametrize("text", ["$v: Vessel", "$v: Vessel {}", "$v: Vessel { /* any */ }"])
def test_a_binding_may_match_nothing_more(text: str) -> None:
    assert clause(text) == Binding(variable=Name("v"), type_name=Name("Vessel"))


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("$a feeds $b", {}),
        ("$a feeds{1,3} $b", {"hops": Hops(low=1, high=3)}),
        ("$a feeds { 0 , } $b", {"hops": Hops(low=0, high=None)}),
        ("$a <feeds> $b", {"undirected": True}),
        ("$a < feeds > {2,2} $b", {"undirected": True, "hops": Hops(low=2, high=2)}),
        ("$a $e:feeds $b", {"edge_variable": Name("e")}),
        ("$a $_ : <feeds> $b", {"edge_variable": Name("_"), "undirected": True}),
    ],
)
def test_traversals(text: str, facts: dict[str, Any]) -> None:
    assert clause(text) == Traversal(left=Name("a"), edge=Name("feeds"), right=Name("b"), **facts)


def test_a_negation_holds_clauses_and_negations() -> None:
    inner = Negation(clauses=(Traversal(left=Name("p"), edge=Name("e"), right=Name("_")),))
    assert clause("not { $v: T not { $p e $_ } }") == Negation(
        clauses=(Binding(variable=Name("v"), type_name=Name("T")), inner)
    )


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "contains", "starts_with"])
def test_filters_compare(op: str) -> None:
    left = PropertyExpr(variable="v", property="dwt")
    assert condition(f"$v.dwt {op} $d") == Compare(left=left, op=op, right=VariableExpr(name="d"))  # type: ignore[arg-type]


def test_clauses_need_no_separator() -> None:
    text = (
        "$v: Vessel $v.dwt > 5 $v callsAt $p $p.code = $code $p: Port { name: $n } not { $p e $_ }"
    )
    kinds = [type(found).__name__ for found in read(text).clauses]
    assert kinds == ["Binding", "Filter", "Traversal", "Filter", "Binding", "Negation"]


@pytest.mark.parametrize("word", ["contains", "starts_with", "in", "is", "and", "or"])
def test_a_bare_variable_on_both_sides_is_a_traversal(word: str) -> None:
    assert clause(f"$q {word} $m") == Traversal(left=Name("q"), edge=Name(word), right=Name("m"))
    assert clause(f"$q {word}{{1,2}} $m").hops == Hops(low=1, high=2)


def test_a_bare_variable_is_compared_with_anything_else() -> None:
    parameter = VariableExpr(name="q")
    name = PropertyExpr(variable="v", property="name")
    text = LiteralExpr(form="string", value="x")
    assert condition("$q contains $v.name") == Compare(left=parameter, op="contains", right=name)
    assert condition('$q starts_with "x"') == Compare(left=parameter, op="starts_with", right=text)
    assert condition("$q < $m") == Compare(left=parameter, op="<", right=VariableExpr(name="m"))


def test_text_functions_are_conditions_and_operands() -> None:
    field, query = PropertyExpr(variable="v", property="name"), VariableExpr(name="q")
    found = TextExpr(function="search", field=field, query=query)
    assert condition("search($v.name, $q)") == found
    right = LiteralExpr(form="bool", value=True)
    assert condition("search($v.name, $q) = true") == Compare(left=found, op="=", right=right)
    assert condition("match_text($v.name, $q)").function == "match_text"


@pytest.mark.parametrize(
    ("text", "distance"),
    [
        ("fuzzy($v.name, $q)", None),
        ("fuzzy($v.name, $q, 1)", LiteralExpr(form="int", value=1)),
        ("fuzzy($v.name, $q, 1.5)", LiteralExpr(form="float", value=1.5)),
    ],
)
def test_fuzzy_takes_a_distance(text: str, distance: LiteralExpr | None) -> None:
    assert condition(text).distance == distance


# ---- results


def test_items_need_no_commas() -> None:
    spellings = [
        "$v.name as n, count($v), $p",
        "$v.name as n count($v) $p",
        "$v.name as n\ncount($v),\n$p,",
    ]
    found = {read(rest=f"return {{ {text} }}").items for text in spellings}
    assert found == {
        (
            Item(expr=PropertyExpr(variable="v", property="name"), alias=Name("n")),
            Item(expr=AggregateExpr(function="count", argument=VariableExpr(name="v"))),
            Item(expr=VariableExpr(name="p")),
        )
    }


def test_order_and_limit() -> None:
    found = read(rest="return { $v } order { $v.built desc, n, m asc } limit 20")
    assert found.order == (
        OrderKey(expr=PropertyExpr(variable="v", property="built"), direction="desc"),
        OrderKey(expr=AliasExpr(name="n")),
        OrderKey(expr=AliasExpr(name="m"), direction="asc"),
    )
    assert (found.limit, found.offset) == (LiteralExpr(form="int", value=20), None)


def test_rankings() -> None:
    near = NearestExpr(
        field=PropertyExpr(variable="v", property="sig"), query=VariableExpr(name="q")
    )
    words = Bm25Expr(
        field=PropertyExpr(variable="v", property="name"),
        query=LiteralExpr(form="string", value="x"),
    )
    assert key("nearest($v.sig, $q)") == OrderKey(expr=near)
    assert key('bm25($v.name, "x") asc') == OrderKey(expr=words, direction="asc")
    assert key('rrf(nearest($v.sig, $q), bm25($v.name, "x"))').expr == RrfExpr(
        first=near, second=words
    )
    k = LiteralExpr(form="int", value=0)
    assert key('rrf(bm25($v.name, "x"), nearest($v.sig, $q), 0) desc').expr == RrfExpr(
        first=words, second=near, k=k
    )


@pytest.mark.parametrize(
    "text",
    [
        "count($p) > 1",
        'bm25($p.name, "x") > 0.5',
        'search($p.name, "x") = false',
        "nearest($p.sig, $q) < 3",
        "sum(count($p.x)) = 3",
        "$p.tags = [[1], 2, true]",
        "total > 3",
    ],
)
def test_what_only_the_checker_refuses_can_be_read(text: str) -> None:
    assert clause(text)


@pytest.mark.parametrize("text", ["count($p) desc", "3", "$p", "nosuch", "now()", "[1]"])
def test_any_expression_may_be_an_order_key_for_the_checker_to_judge(text: str) -> None:
    assert key(text)


# ---- literals


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("0", "int", 0),
        ("007", "int", 7),
        ("9223372036854775807", "int", 2**63 - 1),
        ("0" * 5000 + "1", "int", 1),
        ("1.50", "float", 1.5),
        ("0.0", "float", 0.0),
        ("true", "bool", True),
        ("false", "bool", False),
        ('""', "string", ""),
        ('"a\\"b\\\\c\\n\\r\\t"', "string", 'a"b\\c\n\r\t'),
        (
            '"two\nlines // no comment /* nor here */"',
            "string",
            "two\nlines // no comment /* nor here */",
        ),
        ('"größe $x { } \U0001f600"', "string", "größe $x { } \U0001f600"),
        ('date("soon")', "date", "soon"),
        ('datetime ( "2026-01-10T08:00:00Z" )', "datetime", "2026-01-10T08:00:00Z"),
        ("[]", "list", ()),
    ],
)
def test_literals(text: str, form: str, value: object) -> None:
    found = literal(text)
    assert (found.form, found.value) == (form, value)
    assert type(found.value) is type(value)


# ---- words

NAMES = [*KEYWORDS, *FUNCTIONS, "notes", "true_total", "from", "to", "mutation", "edge", "_", "id"]


@pytest.mark.parametrize("word", NAMES)
def test_a_keyword_is_a_fine_name(word: str) -> None:
    assert clause(f"$v.{word} = 1").condition.left == PropertyExpr(variable="v", property=word)
    assert clause(f"$v: T {{ {word}: 1, {word}: $x }}").matches[1].name == Name(word)
    assert item(f"$v.{word} as {word}") == Item(
        expr=PropertyExpr(variable="v", property=word), alias=Name(word)
    )
    assert key(f"{word} desc") == OrderKey(expr=AliasExpr(name=word), direction="desc")
    assert key(word) == OrderKey(expr=AliasExpr(name=word))
    assert only(f"query {word}() {{ delete T where {word} = 1 }}").name == Name(word)
    assert only(f"query q(${word}: I32) {{ delete T where a = ${word} }}").params[0].name == Name(
        word
    )
    assert clause(f"${word}: T").variable == Name(word)
    assert (
        len(
            statement(f"insert T {{ {word}: 1 {word}: $x, {word}: now() {word}: [1] }}").assignments
        )
        == 4
    )
    where = statement(f"update T set {{ {word}: 1 }} where {word} >= 2").where
    # A truth value is one on both sides of a comparison, as in a match.
    is_truth = word in ("true", "false")
    assert where.left == (
        LiteralExpr(form="bool", value=word == "true") if is_truth else AliasExpr(name=word)
    )
    assert statement(f"update T set {{ a: $.{word} + 1 }} where a = 1").assignments[
        0
    ].value.first == (PropertyExpr(variable="", property=word))


@pytest.mark.parametrize("word", [word for word in NAMES if word != "not"])
def test_a_keyword_is_a_fine_edge_word(word: str) -> None:
    expected = Traversal(left=Name("a"), edge=Name(word), right=Name("b"))
    assert clause(f"$a {word} $b") == expected
    assert clause(f"$a {word}{{1,2}} $b").edge == Name(word)
    assert clause(f"$a <{word}> $b").edge == Name(word)
    assert clause(f"$a $e:{word} $b").edge == Name(word)
    assert read(f"$x: T $a {word} $b $b.y = $p $a {word} $b").clauses[1] == expected


def test_a_column_called_like_a_function_can_be_ordered_by() -> None:
    found = read(rest="return { $v.kind, count($v) as count } order { count desc, $v.kind }")
    assert found.order[0] == OrderKey(expr=AliasExpr(name="count"), direction="desc")


@pytest.mark.parametrize("word", ["Date", "Vector", "String", "I32"])
def test_a_node_type_may_be_called_like_a_scalar(word: str) -> None:
    assert clause(f"$v: {word}").type_name == Name(word)


def test_a_query_may_stand_beside_columns_called_query() -> None:
    text = """query query($query: String) {
      match { $query: Query { query: $query } }
      return { $query.x as query
        count($query) as n }
      order { query desc, query }
    }
    query other() { delete Query where query = 1 }"""
    assert [query.name.text for query in parsed(text).queries] == ["query", "other"]


def test_comments_are_free() -> None:
    text = """/* a */ query // b
      q /* c */ ( $a /**/ : // d
      I32 ) { match { $v /* e */ . // f
      count /* g */ = $a } return { count /* h */ ($v) as // i
      n } } // end"""
    plain = "query q($a: I32) { match { $v.count = $a } return { count($v) as n } }"
    assert parsed(text) == parsed(plain)


def test_comments_do_not_nest() -> None:
    assert parsed("/* a /* b */ query q() { delete T where a = 1 }").queries


# ---- writing


def test_statements() -> None:
    one, two = LiteralExpr(form="int", value=1), VariableExpr(name="b")
    assert statement("insert T { a: 1 b: $b }") == Insert(
        type_name=Name("T"),
        assignments=(
            PropertyMatch(name=Name("a"), value=one),
            PropertyMatch(name=Name("b"), value=two),
        ),
    )
    where = Compare(left=AliasExpr(name="b"), op="!=", right=NowExpr())
    assert statement("update T set { a: 1, } where b != now()") == Update(
        target=Name("T"),
        assignments=(PropertyMatch(name=Name("a"), value=one),),
        where=where,
    )
    assert statement("delete T where b != now()") == Delete(target=Name("T"), where=where)


def test_statements_need_no_separator() -> None:
    body = only(
        'query m() { insert T { a: $x } delete T where a = $x update T set { a: 1 } where a = "x" insert T { insert: 1 } }'
    ).body
    assert isinstance(body, tuple)
    assert [type(found).__name__ for found in body] == ["Insert", "Delete", "Update", "Insert"]


# ---- places


def test_every_name_knows_its_place() -> None:
    text = 'query q($a: Date?) {\n  match { $v $c:calls{1,2} $p  $v.x >= date("y") }\n  return { $v.x as n }\n}'
    query = parse_queries(Source(text)).queries[0]

    def at(span: Span) -> str:
        return text[span.start : span.end]

    assert isinstance(query.body, Read)
    traversal, filter_ = query.body.clauses
    assert isinstance(traversal, Traversal)
    assert isinstance(filter_, Filter)
    assert traversal.hops is not None
    assert traversal.edge_variable is not None
    spans = [query.name.span, query.params[0].span, query.params[0].type.span, traversal.edge.span]
    assert [at(span) for span in spans] == ["q", "$a: Date?", "Date?", "calls"]
    assert at(traversal.span) == "$v $c:calls{1,2} $p"
    assert at(traversal.edge_variable.span) == "$c"
    assert at(traversal.hops.span) == "{1,2}"
    assert at(filter_.span) == '$v.x >= date("y")'
    assert at(query.body.items[0].span) == "$v.x as n"
    assert at(query.span) == text


def test_places_count_characters_not_bytes() -> None:
    text = "// größe \U0001f600\nquery q() { delete T where a = 1 }"
    assert parse_queries(Source(text)).queries[0].span.start == text.index("query")


# ---- conformance

CONFORMING = [(where, text) for where, text, parses in conformance_texts() if parses]
REFUSED = [(where, text) for where, text, parses in conformance_texts() if not parses]


def test_the_conformance_files_hold_texts() -> None:
    assert (len(CONFORMING) > 500, len(REFUSED) > 10) == (True, True)


@pytest.mark.parametrize("text", [text for _, text in CONFORMING], ids=[w for w, _ in CONFORMING])
def test_every_conforming_text_means_the_same_with_the_header(text: str) -> None:
    plain, extended = parsed(text), parsed("use extensions\n" + text)
    assert plain.queries == extended.queries
    assert (plain.extended, extended.extended) == (False, True)
