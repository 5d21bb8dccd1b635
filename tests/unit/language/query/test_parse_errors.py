"""Query text that does not parse: where it says so, what it expected, and how to mend it."""

import gc
import time

import pytest

from omnigraphdb.errors import QueryError
from omnigraphdb.language.diagnostics import Diagnostic, Stage, diagnostics_of, render
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.parse import parse_findings, parse_queries
from omnigraphdb.language.source import Source
from omnigraphdb.limits import NESTING_MAX, PROBLEMS_SHOWN_MAX, SOURCE_BYTES_MAX
from tests.support.queries import conformance_texts

REFUSED = [(where, text) for where, text, parses in conformance_texts() if not parses]


def findings(text: str) -> tuple[Diagnostic, ...]:
    file, found = parse_findings(Source(text, "people.gq"))
    assert file is None
    return found


def first(text: str) -> Diagnostic:
    return findings(text)[0]


def pointed_at(text: str) -> str:
    span = first(text).span
    return text[span.start : span.end]


def in_match(clauses: str) -> str:
    return f"query q() {{ match {{ {clauses} }} return {{ $a }} }}"


@pytest.mark.parametrize("text", [text for _, text in REFUSED], ids=[where for where, _ in REFUSED])
def test_every_text_that_must_be_refused_is(text: str) -> None:
    assert findings(text)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("SELECT * FROM Patient", "Q004", "SELECT"),
        ("mutation { insert X { a: 1 } }", "Q004", "mutation"),
        ("{ users { name } }", "Q004", "{"),
        ("MATCH (n:Person) RETURN n", "Q004", "MATCH"),
        ("node Person { name: String }", "Q004", "node"),
        ("qurey q() { delete T where a = 1 }", "Q004", "qurey"),
        ("query q() { delete T where a = 1 } }", "Q004", "}"),
        ("# note", "Q004", "#"),
        ("query { users { name } }", "Q001", "{"),
        ("query q { delete T where a = 1 }", "Q002", "{"),
        ("query q = 3", "Q002", "="),
        ("query Find() { delete T where a = 1 }", "Q006", "Find"),
        ("query q($n: Int) { delete T where a = $n }", "Q009", "Int"),
        ("query q($n: string) { delete T where a = $n }", "Q009", "string"),
        ("query q($n: [Vector(3)]) { delete T where a = $n }", "Q009", "Vector"),
        ("query q($n: enum(a)) { delete T where a = $n }", "Q009", "enum"),
        ("query q($n: [I32?]) { delete T where a = $n }", "Q001", "?"),
        ("query q($n: ID!) { delete T where a = $n }", "Q009", "ID"),
        ("query q($a: I32,) { delete T where a = $a }", "Q001", ")"),
        ('query q() @note("x") { delete T where a = 1 }', "Q010", "@note"),
        ('query q() @description("x") @description("y") { delete T where a = 1 }', "Q010", "@description"),
        ("query q() { }", "Q023", "}"),
        ("query q() { return { 1 } }", "Q023", "return"),
        ("query q() { insert T { a: 1 } match { $a: T } return { $a } }", "Q023", "return"),
        ("query q() { match { $a: T } return { $a } delete T where a = 1 }", "Q023", "delete"),
        ("query q() { match { } return { $a } }", "Q021", "}"),
        ("query q() { match { $a: T } return { } }", "Q021", "}"),
        ("query q() { match { $a: T } return { $a } order { } }", "Q021", "}"),
        ("query q() { match { $a: T not { } } return { $a } }", "Q021", "}"),
        ("query q() { insert Company { } }", "Q021", "}"),
        ("query q() { update Company set { } where a = 1 }", "Q021", "}"),
        ("query q() { match { $a: T } }", "Q022", "}"),
        ("query q() { match { $a: T } return { $a } limit 1 order { $a.x } }", "Q022", "order"),
        ("query q() { match { $a: T } return { $a } limit 1 limit 2 }", "Q022", "limit"),
        ("query q() { match { $a: T } return { $a } order { $a.x } order { $a.y } }", "Q022", "order"),
        (in_match("$P: Patient"), "Q005", "$P"),
        (in_match("$d Treats $p"), "Q006", "Treats"),
        (in_match("$d <Treats> $p"), "Q006", "Treats"),
        (in_match("$d $t:Treats{1,2} $p"), "Q006", "Treats"),
        (in_match("$a: doctor"), "Q007", "doctor"),
        (in_match("$a.Name = 1"), "Q006", "Name"),
        (in_match("$a: T { Name: 1 }"), "Q006", "Name"),
        (in_match("$a T $b: T"), "Q006", "T"),
        (in_match("$a T"), "Q001", "T"),
        (in_match("$a not $b"), "Q001", "not"),
        (in_match("$a <not> $b"), "Q001", "not"),
        (in_match("$a feeds{2} $b"), "Q025", "}"),
        (in_match("$a feeds{,2} $b"), "Q025", ","),
        (in_match("$a feeds{1,n} $b"), "Q025", "n"),
        (in_match("$a: T; $b: T"), "Q014", ";"),
        (in_match("$a.x == 1"), "Q014", "=="),
        (in_match("$a.x <> 1"), "Q014", "<>"),
        (in_match("$a.x = 'y'"), "Q014", "'y'"),
        (in_match("$a -> $b"), "Q014", "->"),
        (in_match("$a.x = 1 -- note\n"), "Q014", "-- note"),
        (in_match("$a.x = $"), "Q014", "$"),
        (in_match("$a.x\u00a0= 1"), "Q014", "\u00a0"),
        (in_match("$a: T { x = 1 }"), "Q001", "="),
        (in_match('$a.x = "a\\qb"'), "Q012", "\\q"),
        (in_match('$a.x = "a\\u0041"'), "Q012", "\\u"),
        (in_match("$a.x = 9223372036854775808"), "Q015", "9223372036854775808"),
        (in_match("$a.x = 1."), "Q015", "1."),
        (in_match("$a.x = 12abc"), "Q015", "12abc"),
        (in_match("$a.x = 1.2.3"), "Q015", "1.2.3"),
        (in_match(f"$a.x = {'9' * 400}.0"), "Q015", "9" * 400 + ".0"),
        (in_match("$a.x = lowercase($a.y)"), "Q024", "lowercase"),
        (in_match("nearest($a, $q) > 1"), "Q024", ","),
        (in_match("search($a.x)"), "Q024", ")"),
        (in_match("search($a.x, $b, 2)"), "Q024", ","),
        ("query q() { match { $a: T } return { count(*) as n } }", "Q024", "*"),
        ("query q() { match { $a: T } return { now(1) } }", "Q024", "1"),
        ("query q() { match { $a: T } return { date(5) } }", "Q024", "5"),
        ("query q() { match { $a: T } return { $a } order { rrf($a, 2) } }", "Q024", "$a"),
        ("query q() { match { $a: T } return { $a } order { nearest($a.v, $q) desc } limit 1 }", "Q018", "desc"),
        ("query q() { match { $a: T } return { $a } order { nearest($a.v, $q) asc } limit 1 }", "Q018", "asc"),
        ("query q() { match { $a: T } return { $a } order { $a.x $a.y } }", "Q001", "$a"),
        ("query q() { match { $a: T } return { $a as } }", "Q001", "}"),
        ("query q() { match { $a: T } return { $a } limit x }", "Q001", "x"),
        ("query q() { match { $a: T } return { $a } limit 1.5 }", "Q001", "1.5"),
        ("query q() { MATCH { $a: T } return { $a } }", "Q008", "MATCH"),
        ("query q() { match { $a: T } return { $a AS n } }", "Q008", "AS"),
        ("query q() { delete Crate }", "Q020", "}"),
        ("query q() { update T set { a: 1 } }", "Q020", "}"),
        ("query q() { delete T where }", "Q020", "}"),
        ("query q() { unnest $a insert T { a: 1 } }", "Q001", "insert"),
        ("query q() { insert T { a: 1 } if { a: 1 } }", "Q001", "{"),
        ("query q() { insert T { a: 1 } returning { } }", "Q021", "}"),
        ("query q() { insert callsAt { a: 1 } }", "Q007", "callsAt"),
        ("use magic\nquery q() { delete T where a = 1 }", "Q017", "magic"),
        ("query q() { delete T where a = 1 }\nuse extensions", "Q017", "use"),
        ("use extensions use extensions", "Q017", "use"),
        ("query q() { delete T where a = 1 } /* never", "Q013", "/*"),
        ('query q() { delete T where a = "never }\n}', "Q011", '"never }'),
    ],
)  # fmt: skip
def test_the_finding_points_at_the_offending_word(text: str, code: str, word: str) -> None:
    assert (first(text).code, pointed_at(text)) == (code, word)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("query find_people {\n  delete T where a = 1 }", "query find_people() {"),
        ("query q()\n{ match {\n  $d Treats $p\n} return { $p } }", "$d treats $p"),
        ("query q()\n{ match {\n  $P: Patient\n} return { $p } }", "$p: Patient"),
        ("query q()\n{ match {\n  $d: doctor\n} return { $p } }", "$d: Doctor"),
        ("query q()\n{ match {\n  $d Doctor\n} return { $p } }", "$d: Doctor"),
        ("query q()\n{ match { $d: T }\n  RETURN { $d } }", "return { $d } }"),
        ("query q(\n  $n: Int\n) { delete T where a = 1 }", "$n: I64"),
        ("query q(\n  $n: Strng\n) { delete T where a = 1 }", "$n: String"),
        ('query q() {\n  delete T where a = "\\d"\n}', 'delete T where a = "\\\\d"'),
        ("query q() {\n  delete T where a = 'x'\n}", 'delete T where a = "x"'),
        ("query q() {\n  delete T where a == 1\n}", "delete T where a = 1"),
        ("query q() {\n  insert T { a = 1 }\n}", "insert T { a : 1 }"),
        ("query q() { match { $a feeds{2} $b } return { $a } }", "{2,2}"),
        ("query { delete T where a = 1 }", "query name() {"),
        ("qurey q() {}", "query q() {}"),
    ],
)
def test_the_fix_can_be_copied(text: str, fix: str) -> None:
    assert first(text).fix == fix


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("query q($n: Int) { delete T where a = 1 }", ["'Int'", "'I64'"]),
        ("query q($n: Dat) { delete T where a = 1 }", ["'Dat'", "'Date'"]),
        (in_match("$a.x = serch($a.y)"), ["'serch'", "'search'"]),
        (
            'query q() @note("x") { delete T where a = 1 }',
            ["'@note'", "@description", "@instruction"],
        ),
        (in_match('$a.x = "\\q"'), ["'\\q'".replace("\\", "\\")]),
        (in_match("$a.x\u00a0= 1"), ["NO-BREAK SPACE"]),
        ("query q() { insert T { } }", ["'T'", "empty"]),
    ],
)
def test_the_message_names_the_names(text: str, words: list[str]) -> None:
    said = f"{first(text).message} {first(text).expected}"
    assert [word for word in words if word not in said] == []


# ---- ends

OPEN = "query q() {\n  match { $p: Patient }\n  return { $p.name  // more\n\n"


def test_the_end_of_the_text_is_reported_behind_the_last_word() -> None:
    found = first(OPEN)
    assert (found.code, found.span.start, found.span.end) == (
        "Q003",
        OPEN.index("  // more"),
        OPEN.index("  // more"),
    )
    assert (found.position.line, found.position.column) == (3, 19)
    assert "'return {' of line 3" in found.message
    assert "'query q {' of line 1" in found.message
    assert found.fix == "} }"


@pytest.mark.parametrize(
    "text",
    ["query", "query q", "query q(", "query q($a", "query q($a:", "query q()", "query q() {", "query q() { match",
     "query q() { match { $a", "query q() { match { $a: T } return { count($a", "query q() { match { $a: T { x: [1",
     "query q() { insert", "query q() { delete T where a", "use"],
)  # fmt: skip
def test_every_early_end_is_reported_at_the_end(text: str) -> None:
    found = first(text + "\n// nothing more\n")
    assert (found.code, found.span.start) == ("Q003", len(text))
    assert found.expected


def test_the_next_query_inside_an_open_block_is_where_the_brace_is_missing() -> None:
    text = "query a() { match { $p: T\n  return { $p }\n}\nquery b() { match { $p: T } return { $p } }\nquery c() { delete T where }"
    assert [(found.code, found.position.line) for found in findings(text)] == [
        ("Q003", 2),
        ("Q020", 5),
    ]
    text = "query a() { match { $p: T } return { $p }\nquery b() { delete T where a = 1 }"
    found = first(text)
    assert (found.code, found.position.line, found.fix) == ("Q003", 2, "}")
    assert "query 'b' begins inside 'query a {' of line 1" in found.message


def test_a_text_that_ends_inside_a_case_is_told_what_closes_it() -> None:
    text = "query a() { match { $p: T } return { case when $p.x > 1 then 2 else 3"
    found = first(text)
    assert (found.code, found.fix) == ("Q003", "end } }")
    assert "'case' of line 1" in found.message
    # The next query begins inside of it, too.
    found = first(text + "\nquery b() { delete T where a = 1 }")
    assert (found.code, found.position.line) == ("Q003", 2)


def test_reading_goes_on_at_an_indented_query_and_on_the_same_line() -> None:
    text = (
        "query a() { match { $p: T } return { $p }\n  query b() { delete T } query c() { delete T }"
    )
    assert [(one.code, one.query_name) for one in findings(text)] == [
        ("Q003", "a"),
        ("Q020", "b"),
        ("Q020", "c"),
    ]


def test_a_forgotten_quote_is_blamed_where_it_was_forgotten() -> None:
    text = 'query a() { match { $p: T { x: "abc } }\n return { $p } }\nquery b() { match { $p: T { x: "y" } } return { $p } }'
    (found,) = findings(text)
    assert (found.code, found.position.line) == ("Q011", 1)


# ---- several

SEVERAL = """query a() { match { $a T } return { $a } }
query b() { match { $a: T } return $a }
query c() { match { $a: T } return { $a } }
query d() { insert T { a: } }
query e { delete T where a = 1 }
query F() { match [ $a: T ] }
query g() { match { $x: t  $X y $z } return { $x.Y } limit -1 }
"""


def test_many_independent_errors_are_reported_in_the_order_of_the_text() -> None:
    found = findings(SEVERAL)
    assert [one.position.line for one in found] == [1, 2, 4, 5, 6, 6, 7, 7, 7, 7]
    assert [one.query_name for one in found] == ["a", "b", "d", "e", None, "f", "g", "g", "g", "g"]
    assert len({one.span for one in found}) == len(found)


def test_the_error_carries_every_finding() -> None:
    with pytest.raises(QueryError) as caught:
        parse_queries(Source(SEVERAL, "people.gq"))
    error = caught.value
    assert error.code == "Q001"
    assert [one["code"] for one in diagnostics_of(error)] == [one.code for one in findings(SEVERAL)]
    assert error.details["diagnostic"]["source_name"] == "people.gq"
    assert error.details["diagnostic"]["stage"] == Stage.PARSE
    assert "--> people.gq:1:24" in str(error)


def test_a_flood_is_cut() -> None:
    assert len(findings("query q { }\n" * 100)) == PROBLEMS_SHOWN_MAX


def test_the_human_form_shows_the_place() -> None:
    source = Source(
        "// people\n\nquery find_people {\n  match { $p: Person } return { $p } }", "people.gq"
    )
    _, (found,) = parse_findings(source)
    assert render(source, found).splitlines() == [
        "error[Q002]: expected '(' after the query name 'find_people'",
        "  --> people.gq:3:19",
        "   |",
        " 3 | query find_people {",
        "   |                   ^ a query declares its parameters even when there are none",
        "   = expected: '('",
        "   = fix: query find_people() {",
    ]


# ---- bounds


def nested(depth: int, opening: str, core: str, closing: str) -> str:
    return in_match(opening * depth + core + closing * depth)


@pytest.mark.parametrize(
    ("opening", "core", "closing"),
    [("not { ", "$a e $b", " }"), ("$a.x = ", "1", ""), ("count(", "$a", ") = 1")],
)
def test_nesting_is_refused_before_the_stack_is(opening: str, core: str, closing: str) -> None:
    for depth in (1_000, 100_000):
        assert findings(nested(depth, opening, core, closing))


@pytest.mark.parametrize(
    ("before", "opening", "closing"),
    [("", "not { ", " }"), ("$a.x = ", "[", "]"), ("$a.x = ", "count(", ")")],
)
def test_nesting_is_allowed_up_to_the_bound(before: str, opening: str, closing: str) -> None:
    core = "$a e $b" if opening == "not { " else "1"

    def text(depth: int) -> str:
        return in_match(before + opening * depth + core + closing * depth)

    levels = NESTING_MAX - 2
    assert parse_queries(Source(text(levels)))
    assert first(text(levels + 1)).code == "Q026"


def test_a_chain_of_not_is_nesting_too() -> None:
    text = "use extensions\n" + in_match("not " * 1_000 + "$a.x = 1")
    assert first(text).code == "Q026"
    mixed = "use extensions\n" + in_match(("not " * 40 + "(") * 40 + "$a.x = 1" + ")" * 40)
    assert first(mixed).code == "Q026"


def test_a_text_over_the_limit_is_refused_with_both_sizes() -> None:
    found = first(" " * (SOURCE_BYTES_MAX + 1))
    assert found.code == "Q027"
    assert str(SOURCE_BYTES_MAX) in found.message
    assert str(SOURCE_BYTES_MAX + 1) in found.message
    assert parse_queries(Source(" " * SOURCE_BYTES_MAX)).queries == ()


SIZE = 1 << 18
HOSTILE = {
    "parentheses": "(" * SIZE,
    "inner parentheses": in_match("(" * SIZE),
    "open strings": '"' + '\\"\n' * (SIZE // 3),
    "open comments": "/*" * (SIZE // 2),
    "stray characters": "$" * SIZE,
    "inner stray characters": in_match(";" * SIZE),
    "backslashes": in_match('$a.x = "' + "\\q" * (SIZE // 2) + '"'),
    "keywords": "query\n" * (SIZE // 6),
    "open queries": "query a(\n" * (SIZE // 9),
    "bad queries": "query q {}\n" * (SIZE // 11),
    "nots": in_match("not " * (SIZE // 4)),
    "digits": in_match("$a.x = " + "3" * SIZE),
    "fraction": in_match("$a.x = 1." + "3" * SIZE),
    "upper case": in_match("$a X $b " * (SIZE // 8)),
    "a long word": in_match("$a " + "X" * SIZE + " $b"),
    "a long name": "query " + "q" * SIZE + "() { match { $A: t $B T } }",
    "a long line": "query q() { " + " " * SIZE + "}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_text_is_answered_at_once_and_in_few_words(text: str) -> None:
    start = time.process_time()
    file, found = parse_findings(Source(text))
    assert time.process_time() - start < 2.0
    if file is None:
        assert len(str([one.to_dict() for one in found])) < 50_000


def test_a_file_of_three_hundred_queries_is_read_in_less_than_a_second() -> None:
    query = """query q%d($code: String, $since: Date?) @description("calls") {
      match {
        $v: Vessel { kind: "tanker" }
        $v $c:callsAt $p
        $p.code = $code
        not { $v feeds{1,3} $x }
      }
      return { $v.name as name, count($v) as n } order { n desc } limit 10 }
    """
    source = Source("".join(query % number for number in range(300)))
    parse_queries(Source(""))
    start = time.process_time()
    assert len(parse_queries(source).queries) == 300
    assert time.process_time() - start < 1.0


def test_a_long_text_is_read_without_a_search_for_garbage_and_the_search_goes_on_afterwards() -> (
    None
):
    source = Source("query q() { match { $a: T } return { $a } }\n" * 10_000)
    gc.collect()
    before = gc.get_stats()[2]["collections"]
    assert len(parse_queries(source).queries) == 10_000
    assert gc.get_stats()[2]["collections"] == before
    assert gc.isenabled()
    with pytest.raises(QueryError):
        parse_queries(Source(source.text + "query"))
    assert gc.isenabled()


def test_every_code_is_said_by_something_here() -> None:
    # The file code belongs to lint, which makes one finding of all of these.
    assert set(QueryCode) - {QueryCode.FILE} <= {
        found.code for text in EVERY_CODE for found in parse_findings(Source(text))[1]
    }


EVERY_CODE = [
    in_match("$a: T )"), "query q { x }", "query q(", "select", in_match("$A: T"), in_match("$a T $b"), in_match("$a: t"),
    "query q() { MATCH { } }", "query q($a: Text) {}", 'query q() @x("") {}', in_match('$a.x = "'), in_match('"\\x" = 1'),
    "/*", in_match("~"), in_match("$a.x = 1x"), in_match("$a.x is null"), "use x",
    "query q() { match { $a: T } return { $a } order { nearest($a.v, 1) asc } }", in_match("$a.x = [$b]"),
    "query q() { delete T }", in_match(""), "query q() { match { $a: T } limit 1 }", "query q() {}", in_match("f(1) = 2"),
    in_match("$a e{1} $b"), in_match("not {" * 99), " " * (SOURCE_BYTES_MAX + 1),
]  # fmt: skip
