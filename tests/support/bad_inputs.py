"""Bad inputs of writing, by the facts their errors must name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = """
node Port {
  code: String @key
  name: String
  lat: F64?
  draft: F32?
  built: Date?
  seen: DateTime?
  kind: enum(sea, river)?
  big: U64?
  small: I32?
  open: Bool?
  tags: [String]?
  levels: [I32]?
  sig: Vector(3)?
  scan: Blob?
  @range(small, 0..100)
  @check(code, "^[A-Z]{2,5}$")
  @unique(name)
}
node Note { text: String  at: DateTime? }
node Berth { port: String  no: I32  @key(port, no) }
node Mark { size: F64 @key }
edge Feeds: Port -> Port { weight: I32? }
edge Tells: Note -> Port @card(0..1)
edge Needs: Note -> Port @card(2..3)
"""
RECORDS: tuple[dict[str, Any], ...] = (
    {"type": "Port", "data": {"code": "AA", "name": "Aber", "small": 5}},
    {"type": "Port", "data": {"code": "BB", "name": "Brest"}},
    {"type": "Port", "data": {"code": "CC", "name": "Cork"}},
    {"type": "Note", "data": {"id": "n1", "text": "one"}},
    {"type": "Note", "data": {"id": "n2", "text": "two"}},
    {"edge": "Feeds", "from": "AA", "to": "BB", "data": {"id": "f1"}},
    {"edge": "Tells", "from": "n1", "to": "AA", "data": {"id": "t1"}},
    {"edge": "Needs", "from": "n1", "to": "AA", "data": {"id": "d1"}},
    {"edge": "Needs", "from": "n1", "to": "BB", "data": {"id": "d2"}},
)

DATA, CONSTRAINT, REFERENCE = "data_error", "constraint_error", "referential_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLoad:
    """A file, how it is loaded, and what its error must name."""

    name: str
    lines: tuple[str | bytes, ...]
    kind: str
    code: str | None
    facts: tuple[str, ...]
    mode: Any = "append"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadMutation:
    """A mutation and what its error must name."""

    name: str
    query: str
    kind: str
    code: str | None
    facts: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def _load(
    name: str,
    lines: str | bytes | tuple[str | bytes, ...],
    code: str | None,
    *facts: str,
    kind: str = DATA,
    mode: str = "append",
    **options: Any,
) -> BadLoad:
    several = lines if isinstance(lines, tuple) else (lines,)
    return BadLoad(
        name=name, lines=several, kind=kind, code=code, facts=facts, mode=mode, options=options
    )


def _port(**data: str) -> str:
    members = ", ".join(f'"{name}": {value}' for name, value in data.items())
    return f'{{"type": "Port", "data": {{"code": "ZZ", "name": "Zed", {members}}}}}'


GOOD = '{"type": "Port", "data": {"code": "GG", "name": "Good"}}'

LOADS: tuple[BadLoad, ...] = (
    # ---- lines and envelopes
    _load("no JSON", (GOOD, "port ZZ"), "J01", "line 2", "column 1", "port ZZ"),
    _load("cut off", (GOOD, "", '{"type": "Port", "da'), "J01", "line 3", "column"),
    _load("a comment", ("// ports", GOOD), "J01", "line 1", "// ports"),
    _load("two records in a line", GOOD + " " + GOOD, "J01", "line 1", "Extra data"),
    _load("a trailing comma", '{"type": "Port",}', "J01", "line 1", "column"),
    _load("not a number", _port(lat="NaN"), "J01", "line 1", "NaN"),
    _load("no UTF-8", (GOOD, b'{"type": "Port", "data": {"code": "\xff"}}'), "J01", "line 2", "UTF-8", "byte"),
    _load("long garbage is shortened", "x" * 500, "J01", "line 1", "…"),
    _load("a number", "5", "J02", "line 1", "object", "5"),
    _load("an array", "[1, 2]", "J02", "line 1", "object", "[1, 2]"),
    _load("neither type nor edge", '{"data": {"code": "ZZ"}}', "J02", "line 1", "'type'", "'edge'", "neither"),
    _load("both type and edge", '{"type": "Port", "edge": "Feeds"}', "J02", "line 1", "both"),
    _load("data is no object", '{"type": "Port", "data": [1]}', "J02", "line 1", "'data'", "[1]"),
    _load("an unknown node type", '{"type": "Prot", "data": {}}', "J03", "line 1", "node type 'Prot'", "'Port'"),
    _load("an unknown edge type", '{"edge": "Feed", "from": "AA", "to": "BB"}', "J03", "line 1", "edge type 'Feed'", "'Feeds'"),
    _load("a type that is no text", '{"type": 7}', "J03", "line 1", "7"),
    _load("an edge as a node", '{"type": "Feeds", "data": {}}', "J03", "line 1", "node type 'Feeds'"),
    _load("no from", '{"edge": "Feeds", "to": "BB"}', "J04", "line 1", "'from'", "missing"),
    _load("no to", '{"edge": "Feeds", "from": "AA"}', "J04", "line 1", "'to'", "missing"),
    _load("an end that is no text", '{"edge": "Feeds", "from": 5, "to": "BB"}', "J04", "line 1", "'from'", "5"),
    _load("an unknown property", _port(nmae='"x"'), "J05", "line 1", "Port", "'nmae'", "'name'"),
    _load("an unknown member", '{"type": "Port", "date": {}}', "J05", "line 1", "'date'", "'data'"),
    _load("id beside data", '{"type": "Note", "id": "x", "data": {"text": "t"}}', "J05", "line 1", "'id'"),
    _load("a property twice", '{"type": "Note", "data": {"text": "a", "text": "b"}}', "J06", "line 1", "'text'", "twice"),
    _load("type twice", '{"type": "Note", "type": "Port", "data": {}}', "J06", "line 1", "'type'", "twice"),
    _load("a reserved property", _port(_rowid="1"), "J08", "line 1", "'_rowid'", "reserved"),
    _load("ends inside data", '{"edge": "Feeds", "from": "AA", "to": "BB", "data": {"src": "AA"}}', "J08", "line 1", "'src'", "reserved"),
    _load("a reserved member", '{"type": "Port", "_tombstone": true, "data": {}}', "J08", "line 1", "'_tombstone'"),
    # ---- values
    _load("text for an integer", _port(small='"5"'), "J07", "line 1", "'small'", "'ZZ'", "I32?", "'5'"),
    _load("a fraction for an integer", _port(small="2.5"), "J07", "line 1", "'small'", "I32?", "2.5"),
    _load("a float for an integer", _port(small="3.0"), "J07", "line 1", "'small'", "3.0"),
    _load("too large for I32", _port(small="3000000000"), "J07", "line 1", "'small'", "3000000000", "-2147483648 to 2147483647"),
    _load("negative for U64", _port(big="-1"), "J07", "line 1", "'big'", "-1", "0 to 18446744073709551615"),
    _load("too large for U64", _port(big="18446744073709551616"), "J07", "line 1", "'big'", "18446744073709551616"),
    _load("too large for F32", _port(draft="1e39"), "J07", "line 1", "'draft'", "F32"),
    _load("too large for F64", _port(lat="1e400"), "J07", "line 1", "'lat'", "finite"),
    _load("a number for text", '{"type": "Note", "data": {"text": 5}}', "J07", "line 1", "'text'", "String", "'5'"),
    _load("text for a boolean", _port(open='"yes"'), "J07", "line 1", "'open'", "Bool?", "'yes'"),
    _load("a boolean for an integer", _port(small="true"), "J07", "line 1", "'small'", "boolean", "true"),
    _load("a day in another order", _port(built='"01.02.2024"'), "J07", "line 1", "'built'", "YYYY-MM-DD", "'01.02.2024'"),
    _load("a day that is none", _port(built='"2024-02-30"'), "J07", "line 1", "'built'", "'2024-02-30'"),
    _load("an instant in words", _port(seen='"yesterday"'), "J07", "line 1", "'seen'", "RFC 3339", "'yesterday'"),
    _load("an instant out of reach", _port(seen="9999999999999999"), "J07", "line 1", "'seen'", "9999999999999999"),
    _load("a wrong item of a list", _port(levels='[1, "x"]'), "J07", "line 1", "'levels'", "item 1", "'x'"),
    _load("a missing item of a list", _port(tags='["x", null]'), "J07", "line 1", "'tags'", "item 1"),
    _load("half a surrogate pair", _port(tags='["\\ud800"]'), "J07", "line 1", "'tags'", "surrogate"),
    _load("an object for text", '{"type": "Note", "data": {"text": {}}}', "J07", "line 1", "'text'", "object"),
    _load("a long value is shortened", _port(small='"' + "9" * 200 + '"'), "J07", "line 1", "'small'", "…"),
    _load("an id that is no text", '{"type": "Note", "data": {"id": 5, "text": "t"}}', "J09", "line 1", "Note", "5"),
    _load("an id beside its key", _port(id='"OTHER"'), "J10", "line 1", "'OTHER'", "'ZZ'"),
    _load("an id beside its composite key", '{"type": "Berth", "data": {"id": "b", "port": "AA", "no": 1}}', "J10", "line 1", "'b'", "AA"),
    _load("a vector too short", _port(sig="[1, 2]"), "J12", "line 1", "'sig'", "3", "2"),
    _load("a vector with a hole", _port(sig="[1, null, 2]"), "J12", "line 1", "'sig'", "item 1", "null"),
    _load("a vector as text", _port(sig='"1,2,3"'), "J12", "line 1", "'sig'", "Vector(3)", "1,2,3"),
    _load("a vector too large", _port(sig="[1, 2, 1e39]"), "J12", "line 1", "'sig'", "item 2"),
    _load("a list as text", _port(tags='"a,b"'), "J13", "line 1", "'tags'", "[String]?", "a,b"),
    _load("a required property is missing", '{"type": "Port", "data": {"code": "ZZ"}}', "J14", "line 1", "Port", "'ZZ'", "'name'", "missing"),
    _load("a required property is null", '{"type": "Note", "data": {"text": null}}', "J14", "line 1", "Note", "'text'"),
    _load("no data at all", '{"type": "Note"}', "J14", "line 1", "Note", "'text'"),
    _load("a key is missing", '{"type": "Berth", "data": {"port": "AA"}}', "J14", "line 1", "Berth", "'no'"),
    _load("bytes that are no base64", _port(scan='"base64:?"'), "W24", "line 1", "'scan'", "base64"),
    _load("bytes from elsewhere", _port(scan='"s3://elsewhere/x"'), "W22", "line 1", "'scan'", "s3://elsewhere/x"),
    _load("bytes as a number", _port(scan="5"), "J07", "line 1", "'scan'", "base64", "5"),
    # ---- rules of the schema
    _load("outside an enum", _port(kind='"lake"'), "W12", "line 1", "invalid enum value 'lake'", "Port.kind", "river, sea", kind=CONSTRAINT),
    _load("an enum in another case", _port(kind='"Sea"'), "W12", "line 1", "'Sea'", "river, sea", "differs only by case", kind=CONSTRAINT),
    _load("above a range", _port(small="101"), "W10", "line 1", "@range violation on Port.small", "101", "100", kind=CONSTRAINT),
    _load("below a range", _port(small="-1"), "W10", "line 1", "@range violation on Port.small", "-1", "minimum 0", kind=CONSTRAINT),
    _load("against a pattern", '{"type": "Port", "data": {"code": "zz9", "name": "Z"}}', "W11", "line 1", "@check violation on Port.code", "'zz9'", "^[A-Z]{2,5}$", kind=CONSTRAINT),
    _load("unique among committed rows", '{"type": "Port", "data": {"code": "ZZ", "name": "Aber"}}', "W13", "line 1", "@unique violation on Port.name", "'Aber'", "'AA'", "'ZZ'", kind=CONSTRAINT),
    _load("unique inside the file", ('{"type": "Port", "data": {"code": "YY", "name": "Same"}}', '{"type": "Port", "data": {"code": "ZZ", "name": "Same"}}'), "W13", "line 2", "Port.name", "'YY'", "'ZZ'", kind=CONSTRAINT),
    _load("one key twice", (GOOD, _port(lat="1"), GOOD), "W13", "line 1", "line 3", "'GG'", kind=CONSTRAINT),
    _load("one key twice in a merge", (GOOD, GOOD), "W13", "@unique violation on Port.code", "line 1", "line 2", "'GG'", kind=CONSTRAINT, mode="merge"),
    _load("one id twice", ('{"type": "Note", "data": {"id": "x", "text": "a"}}',) * 2, "W20", "line 1", "line 2", "'x'", kind="key_conflict"),
    _load("one id twice in an overwrite", ('{"edge": "Feeds", "from": "AA", "to": "BB", "data": {"id": "x"}}',) * 2, "W20", "line 1", "line 2", "'x'", kind="key_conflict", mode="overwrite"),
    _load("append of what exists", (GOOD, '{"type": "Port", "data": {"code": "AA", "name": "New"}}'), "W20", "line 2", "Port 'AA'", "mode='merge'", kind="key_conflict"),
    _load("no such source", '{"edge": "Feeds", "from": "QQ", "to": "BB"}', "W15", "line 1", "Feeds", "from (src)", "'QQ'", "'Port'", "not found", kind=REFERENCE),
    _load("no such target", '{"edge": "Feeds", "from": "AA", "to": "QQ"}', "W15", "line 1", "Feeds", "to (dst)", "'QQ'", "'Port'", "not found", kind=REFERENCE),
    _load("an end of another type", '{"edge": "Feeds", "from": "AA", "to": "n1"}', "W15", "line 1", "'n1'", "'Port'", "a 'Note' has this id", kind=REFERENCE),
    _load("an edge to what an overwrite removes", ('{"type": "Note", "data": {"id": "n9", "text": "t"}}', '{"edge": "Tells", "from": "n1", "to": "AA"}', '{"edge": "Needs", "from": "n9", "to": "AA"}', '{"edge": "Needs", "from": "n9", "to": "BB"}'), "W15", "line 2", "'n1'", "'Note'", kind=REFERENCE, mode="overwrite"),
    _load("an overwrite that strands edges", GOOD, "W16", "Feeds", "'f1'", "'AA'", "Port", kind=REFERENCE, mode="overwrite"),
    _load("more edges than allowed", '{"edge": "Tells", "from": "n1", "to": "BB"}', "W14", "line 1", "@card violation on edge Tells", "'n1'", "2", "max 1", kind=CONSTRAINT),
    _load("fewer edges than needed", '{"edge": "Needs", "from": "n2", "to": "BB"}', "W14", "line 1", "@card violation on edge Needs", "'n2'", "1", "min 2", kind=CONSTRAINT),
    _load("an edge that leaves too few", '{"edge": "Needs", "from": "n2", "to": "BB", "data": {"id": "d1"}}', "W14", "@card violation on edge Needs", "'n1'", "min 2", kind=CONSTRAINT, mode="merge"),
    # ---- many, files, modes, branches
    _load("thirty problems", tuple(_port(small=f'"{n}"') for n in range(30)), "J07", "31 problems", "line 1", "line 20", "11 more"),
    _load("problems of every sort", ("nonsense", '{"type": "Prot"}', _port(small='"5"'), '{"edge": "Feeds", "from": "AA"}'), "J01", "4 problems", "line 1", "line 2", "line 3", "line 4"),
    _load("nothing to overwrite with", (), None, "bad.jsonl", "0 records", kind="user_input", mode="overwrite"),
    _load("blank lines to overwrite with", ("", " "), None, "bad.jsonl", "0 records", kind="user_input", mode="overwrite"),
    _load("an unknown mode", GOOD, None, "'upsert'", "append, merge or overwrite", kind="user_input", mode="upsert"),
    _load("an unknown branch", GOOD, None, "branch 'sied'", "'side'", "from_branch=", kind="not_found", branch="sied"),
    _load("an unknown base", GOOD, None, "branch 'nowhere'", kind="not_found", branch="fresh", from_branch="nowhere"),
    _load("a bad branch name", GOOD, None, "'a b'", "' '", kind="user_input", branch="a b", from_branch="main"),
    _load("a reserved branch", GOOD, None, "'__schema_apply_lock__'", "reserved", "load", kind="user_input", branch="__schema_apply_lock__"),
    _load("a load that would not fit on its new branch", '{"edge": "Feeds", "from": "QQ", "to": "BB"}', "W15", "line 1", "'QQ'", kind=REFERENCE, branch="fresh", from_branch="main"),
)  # fmt: skip


def _mutation(
    name: str,
    query: str,
    code: str | None,
    *facts: str,
    kind: str = DATA,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> BadMutation:
    return BadMutation(
        name=name,
        query=query,
        kind=kind,
        code=code,
        facts=facts,
        params=params or {},
        options=options,
    )


QUERY = "query_error"

MUTATIONS: tuple[BadMutation, ...] = (
    # ---- text and types
    _mutation("no query", "insert Port", "Q", "1:1", kind=QUERY),
    _mutation("an insert of nothing", "query q() { insert Port { } }", "Q", "Port", kind=QUERY),
    _mutation("a wrapper", "mutation { insert Note { text: \"a\" } }", "Q", "query", kind=QUERY),
    _mutation("an unknown type", 'query q() { insert Prot { code: "A" } }', "T10", "'Prot'", "'Port'", kind=QUERY),
    _mutation("an unknown property", 'query q() { insert Note { text: "a", txet: "b" } }', "T11", "'txet'", "Note", kind=QUERY),
    _mutation("an unknown property to compare", 'query q() { delete Note where txet = "b" }', "T11", "'txet'", "Note", kind=QUERY),
    _mutation("a required property is missing", 'query q() { insert Port { code: "ZZ" } }', "T12", "'name'", "Port", kind=QUERY),
    _mutation("an edge without its end", 'query q() { insert Feeds { from: "AA" } }', "T12", "'to'", "Feeds", kind=QUERY),
    _mutation("a property twice", 'query q() { insert Note { text: "a", text: "b" } }', "T13", "Note.text", kind=QUERY),
    _mutation("an undeclared variable", "query q() { insert Note { text: $t } }", "T14", "$t", kind=QUERY),
    _mutation("a literal of another type", "query q() { insert Note { text: 5 } }", "T", "Note.text", "String", kind=QUERY),
    _mutation("an enum value that is none", 'query q() { update Port set { kind: "lake" } where code = "AA" }', "T", "Port.kind", "lake", kind=QUERY),
    _mutation("a moment for a day", 'query q() { update Port set { built: now() } where code = "AA" }', "T7", "Port.built", kind=QUERY),
    _mutation("an update of an end", 'query q() { update Feeds set { to: "BB" } where weight = 2 }', "T16", "Feeds.to", kind=QUERY),
    _mutation("a variable that no match binds", "query q() { update $p set { small: 1 } }", "T70", "$p", kind=QUERY),
    _mutation("a count without a match", "query q() { update Port set { small: count { $p: Port } } where small = 5 }", "T71", "count", "match", kind=QUERY),
    _mutation("an aggregate in a value", "query q() { match { $p: Port } update $p set { small: sum($p.small) } }", "T7", "aggregate", kind=QUERY),
    _mutation("a list that is none", 'query q($t: String) { unnest $t as $r insert Note { text: $r } }', "T72", "$t", "list", kind=QUERY, params={"t": "x"}),
    _mutation("an upsert without a key", 'query q() { upsert Note { text: "a" } set { text: "b" } }', "T73", "Note", "key", kind=QUERY),
    _mutation("a match of what was written", 'query q() { insert Note { text: "a" } match { $n: Note } insert Note { text: $n.text } }', "T75", "Note", "before", kind=QUERY),
    _mutation("writes beside deletes", 'query swap() { insert Note { text: "a" } delete Note where text = "b" }', "T29", "'swap'", "Split", kind=QUERY),
    _mutation("a read", "query q() { match { $p: Port } return { $p.code } }", None, "query", kind=QUERY),
    _mutation("two queries and no name", 'query a() { insert Note { text: "a" } } query b() { insert Note { text: "b" } }', None, "a", "b", kind=QUERY),
    # ---- parameters
    _mutation("a parameter is missing", "query q($t: String) { insert Note { text: $t } }", "P06", "t", "String", kind="param_error"),
    _mutation("a parameter of another type", "query q($t: String) { insert Note { text: $t } }", "P", "t", "String", "5", kind="param_error", params={"t": 5}),
    _mutation("a parameter out of range", 'query q($n: I32) { update Port set { small: $n } where code = "AA" }', "P", "n", "3000000000", kind="param_error", params={"n": 3000000000}),
    # ---- values and rules
    _mutation("null for a required property", "query q($t: String?) { insert Note { text: $t } }", "W01", "'text'", "Note", params={"t": None}),
    _mutation("null for a required property of nobody", 'query q($t: String?) { update Note set { text: $t } where text = "none" }', "W01", "'text'", "Note", params={"t": None}),
    _mutation("too large for its property", 'query q($n: I64) { update Port set { small: $n } where code = "AA" }', "W02", "'small'", "3000000000", "I32", params={"n": 3000000000}),
    _mutation("a fraction for an integer", 'query q($n: F64) { update Port set { small: $n } where code = "AA" }', "W03", "'small'", "2.5", "I32", params={"n": 2.5}),
    _mutation("a vector too short", 'query q($v: Vector(2)) { update Port set { sig: $v } where code = "AA" }', "T", "Port.sig", "Vector(3)", kind=QUERY),
    _mutation("bytes that are no base64", 'query q() { update Port set { scan: "base64:?" } where code = "AA" }', "W24", "'scan'", "base64"),
    _mutation("bytes from elsewhere", 'query q() { update Port set { scan: "s3://elsewhere/x" } where code = "AA" }', "W22", "'scan'", "s3://elsewhere/x"),
    _mutation("a sum too large for its property", "query q() { update Port set { small: $.small + 3000000000 } where small = 5 }", "W02", "'small'", "I32", "AA"),
    _mutation("a value for a required property that is NULL", 'query q() { update Port set { name: lower(null) } where code = "AA" }', "W01", "'name'", "AA"),
    _mutation("a division by zero", "query q() { update Port set { small: 1 / ($.small - 5) } where small = 5 }", None, "division by zero", "AA", kind="evaluation_error"),
    _mutation("an entity matched twice", "query q() { match { $p: Port $q: Port $p != $q } update $p set { built: case when $q.code = \"AA\" then date(\"2020-01-01\") else date(\"2021-01-01\") end } }", "W06", "matched several times", "built"),
    _mutation("one key twice", 'query q($r: [{ c: String, n: String }]) { unnest $r as $x insert Port { code: $x.c, name: $x.n } }', "W06", "'ZZ'", "name", params={"r": [{"c": "ZZ", "n": "a"}, {"c": "ZZ", "n": "b"}]}),
    _mutation("a record without a field", 'query q($r: [{ t: String }]) { unnest $r as $x insert Note { text: $x.t } }', "P05", "'t'", "1", kind="param_error", params={"r": [{"t": "a"}, {}]}),
    _mutation("a record with another field", 'query q($r: [{ t: String? }]) { unnest $r as $x insert Note { text: $x.t } }', "P01", "'u'", kind="param_error", params={"r": [{"u": "a"}]}),
    _mutation("a record that is none", 'query q($r: [{ t: String }]) { unnest $r as $x insert Note { text: $x.t } }', "P01", "text at 0", kind="param_error", params={"r": ["a"]}),
    _mutation("an update of a key", 'query q() { update Port set { code: "ZZ" } where code = "AA" }', "W05", "Port.code", "delete"),
    _mutation("above a range", 'query q() { update Port set { small: 101 } where code = "AA" }', "W10", "@range violation on Port.small", "101", "100", kind=CONSTRAINT),
    _mutation("against a pattern", 'query q() { insert Port { code: "z", name: "Z" } }', "W11", "@check violation on Port.code", "'z'", kind=CONSTRAINT),
    _mutation("an enum from a parameter", 'query q($k: String) { update Port set { kind: $k } where code = "AA" }', "W12", "invalid enum value 'SEA'", "Port.kind", "river, sea", "differs only by case", kind=CONSTRAINT, params={"k": "SEA"}),
    _mutation("unique among committed rows", 'query q() { insert Port { code: "ZZ", name: "Aber" } }', "W13", "@unique violation on Port.name", "'Aber'", "'AA'", "'ZZ'", kind=CONSTRAINT),
    _mutation("unique inside the query", 'query q() { update Port set { name: "Same" } where small = 5 update Port set { name: "Same" } where code = "BB" }', "W13", "Port.name", "'AA'", "'BB'", kind=CONSTRAINT),
    _mutation("more edges than allowed", 'query q() { insert Tells { from: "n1", to: "BB" } }', "W14", "@card violation on edge Tells", "'n1'", "2", "max 1", kind=CONSTRAINT),
    _mutation("fewer edges than needed", 'query q() { delete Needs where to = "BB" }', "W14", "@card violation on edge Needs", "'n1'", "1", "min 2", kind=CONSTRAINT),
    _mutation("a node whose edges others need", 'query q() { delete Port where code = "BB" }', "W14", "@card violation on edge Needs", "'n1'", "min 2", kind=CONSTRAINT),
    _mutation("no such source", 'query q() { insert Feeds { from: "QQ", to: "BB" } }', "W15", "Feeds", "from (src)", "'QQ'", "'Port'", "not found", kind=REFERENCE),
    _mutation("no such target beside a good insert", 'query q() { insert Note { text: "x" } insert Feeds { from: "AA", to: "n1" } }', "W15", "to (dst)", "'n1'", "a 'Note' has this id", kind=REFERENCE),
    # ---- where and when
    _mutation("an unknown branch", 'query q() { insert Note { text: "a" } }', None, "branch 'sied'", "'side'", kind="not_found", branch="sied"),
    _mutation("a reserved branch", 'query q() { insert Note { text: "a" } }', None, "'__schema_apply_lock__'", "reserved", "mutate", kind="user_input", branch="__schema_apply_lock__"),
    _mutation("a stale expectation", 'query q() { insert Note { text: "a" } }', "W31", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "nothing was written", kind="precondition_failed", if_commit="01ARZ3NDEKTSV4RRFFQ69G5FAV"),
)  # fmt: skip
