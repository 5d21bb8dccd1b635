"""The canonical layout of query text, and where comments go."""

import pytest

from omnigraphdb.errors import QueryError
from omnigraphdb.language.query.format import LINE_CHARS_MAX, format_queries, format_source
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source
from tests.support.queries import conformance_texts, without_places

CONFORMING = [(where, text) for where, text, parses in conformance_texts() if parses]


def format_text(text: str) -> str:
    once = format_source(Source(text))
    assert format_source(Source(once)) == once
    return once


def test_the_canonical_layout() -> None:
    text = """use extensions query q($code:String,$since:Date?)@instruction("b")@description("a"){match{$v:Vessel{kind:"tanker",}
      $v $c:callsAt{1,}$p ($v.x=1)or(not($v.y=2 and $v.z=007)) not{$v <feeds> $_} optional{$w:T $w.x is not null}}
      return{$v.name as n count($v)} order{n desc,$v.x} limit 5 offset $o} query m(){insert T{a:1 b:[1,-2.50]}
      update T set{a:now()}where b>=3 delete T where order=date("x")}"""
    assert format_text(text) == (
        """use extensions

query q($code: String, $since: Date?)
  @description("a")
  @instruction("b")
{
  match {
    $v: Vessel { kind: "tanker" }
    $v $c:callsAt{1,} $p
    $v.x = 1 or not ($v.y = 2 and $v.z = 7)
    not { $v <feeds> $_ }
    optional {
      $w: T
      $w.x is not null
    }
  }
  return { $v.name as n, count($v) }
  order { n desc, $v.x }
  offset $o
  limit 5
}

query m() {
  insert T { a: 1, b: [1, -2.5] }
  update T set { a: now() } where b >= 3
  delete T where order = date("x")
}
"""
    )


def test_long_blocks_are_broken_one_part_to_a_line() -> None:
    names = [f"a_rather_long_property_name_{number}" for number in range(4)]
    pairs = " ".join(f"{name}: {number}" for number, name in enumerate(names))
    params = ", ".join(f"${name}: DateTime" for name in names)
    text = f"query q({params}) {{ insert T {{ {pairs} }} }}"
    broken = format_text(text)
    assert max(len(line) for line in broken.splitlines()) <= LINE_CHARS_MAX
    assert broken.splitlines() == [
        "query q(",
        *[f"  ${name}: DateTime," for name in names[:-1]],
        f"  ${names[-1]}: DateTime",
        ") {",
        "  insert T {",
        *[f"    {name}: {number}," for number, name in enumerate(names[:-1])],
        f"    {names[-1]}: 3",
        "  }",
        "}",
    ]


COMMENTED = """// licence

// about q

query q( // the query
  $code: String, // the code
  $since: Date? /* when */ ) @description("a") /* mid */ { // body
  match { $v: Vessel { } // any
    // group

    $v: Vessel { kind: "tanker", // only tankers
       dwt: 1 }


    $v.x = /* inner */ 1 // cond
    // last
  }
  return { $v.name as name, // the name
    count($v /* in */) as n
  } order { n desc } /* a */ limit 5 // page
} // end
query e() { match { $a: T } return { $a } }
// bye
/* multi
   line */
"""


def test_comments_stay_where_they_were() -> None:
    assert format_text(COMMENTED) == (
        """// licence

// about q

query q(  // the query
  $code: String,  // the code
  $since: Date?  /* when */
)
  @description("a")  /* mid */
{  // body
  match {
    $v: Vessel  // any
    // group

    $v: Vessel {
      kind: "tanker",  // only tankers
      dwt: 1
    }

    /* inner */
    $v.x = 1  // cond
    // last
  }
  return {
    $v.name as name,  // the name
    /* in */
    count($v) as n
  }
  order { n desc }  /* a */
  limit 5  // page
}  // end

query e() {
  match { $a: T }
  return { $a }
}
// bye
/* multi
   line */
"""
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("\n\n", ""),
        ("// only", "// only\n"),
        ("// a\r\n// b\r\n", "// a\n// b\n"),
        ("use extensions // on", "use extensions  // on\n"),
    ],
)
def test_small_files(text: str, expected: str) -> None:
    assert format_text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.50", "1.5"),
        ("10000000000000000000000.0", "10000000000000000000000.0"),
        ("0.0000001", "0.0000001"),
        ("0007", "7"),
        ('"a\\"b\\\\c\nd\te"', '"a\\"b\\\\c\\nd\\te"'),
        ('datetime( "x" )', 'datetime("x")'),
        ("[ ]", "[]"),
        (
            'rrf( nearest($v.x,$q) ,bm25($v.y,"z"),60 )',
            'rrf(nearest($v.x, $q), bm25($v.y, "z"), 60)',
        ),
    ],
)
def test_expressions_have_one_spelling(text: str, expected: str) -> None:
    whole = f"query q() {{ match {{ $v: T }} return {{ {text} as n }} }}"
    assert f"  return {{ {expected} as n }}" in format_text(whole).splitlines()


@pytest.mark.parametrize("text", ["1e+300", "-5", "1e-30", "-0.5", "null"])
def test_extended_numbers_keep_their_exponent(text: str) -> None:
    whole = f"use extensions\nquery q() {{ match {{ $v: T }} return {{ {text} as n }} }}"
    assert f"  return {{ {text} as n }}" in format_text(whole).splitlines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(($v.a = 1))", "$v.a = 1"),
        ("($v.a = 1 and $v.b = 2) and $v.c = 3", "($v.a = 1 and $v.b = 2) and $v.c = 3"),
        ("($v.a = 1 and $v.b = 2) or $v.c = 3", "$v.a = 1 and $v.b = 2 or $v.c = 3"),
        ("not ($v.a = 1)", "not $v.a = 1"),
        ("($p contains $q) and $v.a = 1", "($p contains $q and $v.a = 1)"),
        ("($p in $q)", "($p in $q)"),
        ("($p contains $q.x)", "$p contains $q.x"),
    ],
)
def test_parentheses_stand_only_where_they_are_needed(text: str, expected: str) -> None:
    whole = f"use extensions\nquery q() {{ match {{ $v: T  {text} }} return {{ $v }} }}"
    assert f"    {expected}" in format_text(whole).splitlines()


def test_a_text_that_does_not_parse_is_not_laid_out() -> None:
    with pytest.raises(QueryError):
        format_source(Source("query q {"))


@pytest.mark.parametrize("text", [text for _, text in CONFORMING], ids=[w for w, _ in CONFORMING])
def test_every_conforming_text_survives_its_layout(text: str) -> None:
    tree = parse_queries(Source(text))
    again = parse_queries(Source(format_text(text)))
    assert without_places(again) == without_places(tree)
    assert format_queries(tree) == format_text(text)


def test_a_union_keeps_what_its_first_read_says() -> None:
    text = """query q() {
  match { $v: Vessel }
  return { $v.name as n }
  having { n > "a" }
  limit 1
  union
  match { $p: Port }
  return { $p.name as n }
  order { n }
}
"""
    assert format_source(Source(text)) == text


def test_a_condition_called_query_does_not_begin_the_next_query() -> None:
    text = """query q() {
  match { $n: Note }
  with { $n, $n.public as query }
  match {
    (query)
    fuzzy($n.body, "x", 0)
  }
  return { $n }
}
"""
    assert format_source(Source(text)) == text
    written = text.replace("{\n    (query)\n   ", "{ query")
    assert format_source(Source(written)) == text
