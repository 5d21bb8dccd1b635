"""Every form of the query language once, as a query of its own over one small graph of ports and vessels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema

SCHEMA = """
interface Named { name: String }
node Port implements Named { code: String @key  lat: F64?  calls: I64? }
node Vessel implements Named {
  imo: String @key  kind: enum(bulk, tanker, roro)?  built: Date?  seen: DateTime?  dwt: I64?  draft: F32?
  active: Bool?  tags: [String]?  marks: [I32]?  sig: Vector(3)? @index
}
edge CallsAt: Vessel -> Port { eta: DateTime?  berth: String? }
edge Feeds: Port -> Port { weight: I32? }
edge Ships: Port -> Port { weight: I32? }
"""
RECORDS: list[dict[str, Any]] = [
    *(
        {"type": "Port", "data": {"code": code, "name": name, "lat": lat, "calls": calls}}
        for code, name, lat, calls in [
            ("BEANR", "Antwerp", 51.2, 1),
            ("DEHAM", "Hamburg", None, None),
            ("FRLEH", "Le Havre", 49.5, 7),
            ("NLRTM", "Rotterdam", 51.9, 2),
        ]
    ),
    {"type": "Vessel", "data": {
        "imo": "9100001", "name": "Aster", "kind": "tanker", "built": "2010-05-01", "seen": "2026-01-10T08:00:00Z", "dwt": 80000,
        "draft": 9.5, "active": True, "tags": ["ice", "lng"], "marks": [3, 1], "sig": [1, 0, 0],
    }},
    {"type": "Vessel", "data": {
        "imo": "9100002", "name": "Borea", "kind": "bulk", "dwt": 120000, "active": False, "tags": [], "sig": [0, 1, 0],
    }},
    {"type": "Vessel", "data": {"imo": "9100003", "name": "Cirrus", "kind": "tanker", "built": "2018-03-15", "tags": ["ice"]}},
    *(
        {"edge": edge, "from": a, "to": b, "data": {"weight": weight}}
        for edge, a, b, weight in [
            ("Feeds", "NLRTM", "BEANR", 5),
            ("Feeds", "NLRTM", "DEHAM", 9),
            ("Feeds", "BEANR", "DEHAM", 2),
            ("Feeds", "DEHAM", "NLRTM", 1),
            ("Ships", "BEANR", "FRLEH", 4),
        ]
    ),
    {"edge": "CallsAt", "from": "9100001", "to": "NLRTM", "data": {"berth": "A1", "eta": "2026-01-10T08:00:00Z"}},
    {"edge": "CallsAt", "from": "9100001", "to": "NLRTM"},
    {"edge": "CallsAt", "from": "9100002", "to": "NLRTM"},
    {"edge": "CallsAt", "from": "9100001", "to": "BEANR"},
]  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One form: a query that uses it, what it declares and is given, and how many rows it finds or writes."""

    name: str
    body: str
    rows: int
    params: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The query."""
        return f"query q({self.params}) {{ {self.body} }}"


V, P = "$v: Vessel", "$p: Port"
WALK = '$x: Port { code: "NLRTM" }  $y: Port { code: "DEHAM" }'


def _filter(name: str, test: str, rows: int, params: str = "", **given: Any) -> Form:
    return Form(name, f"match {{ {V}  {test} }} return {{ $v }}", rows, params, given)


def _item(name: str, expr: str) -> Form:
    return Form(name, f"match {{ {V} }} return {{ {expr} as c }}", 3)


READS = (
    # ---- patterns
    Form("binding", f"match {{ {V} }} return {{ $v }}", 3),
    Form("property matches", 'match { $v: Vessel { kind: "tanker", tags: "lng" } } return { $v }', 1),
    Form("one hop", f"match {{ {V}  $v callsAt $p }} return {{ $v, $p }}", 3),
    Form("one hop backwards", f"match {{ {P}  $p callsAt $v }} return {{ $v, $p }}", 3),
    Form("edge variable", f"match {{ {V}  $v $c:callsAt $p  $c.berth is null }} return {{ $c.eta, from($c) as f, to($c) as t }}", 3),
    Form("either direction", f"match {{ {P}  $p <feeds> $q }} return {{ $q }}", 6),
    Form("bounds", f"match {{ {P}  $p feeds{{1,3}} $q }} return {{ $q }}", 6),
    Form("bounds from the start", f"match {{ {P}  $p feeds{{0,2}} $q }} return {{ $q }}", 10),
    Form("reachability", f"match {{ {P}  $p feeds{{1,*}} $q }} return {{ $q }}", 6),
    Form("bounds by parameter", f"match {{ {P}  $p feeds{{1,$n}} $q }} return {{ $q }}", 6, "$n: I64", {"n": 2}),
    Form("several edge types", f"match {{ {P}  $p feeds|ships{{1,2}} $q }} return {{ $q }}", 8),
    Form("condition on walked edges", f"match {{ {P}  $p feeds{{1,3 where weight > 1}} $q }} return {{ $q }}", 3),
    Form("anonymous end", f"match {{ {V}  $v callsAt $_ }} return {{ $v }}", 3),
    Form("interface", "match { $x: Named } return { $x, type($x) as t, $x.name }", 7),
    Form("any edge", f"match {{ {P}  $p -- $y }} return {{ $p, $y }}", 11),
    Form("any edge with a variable", f"match {{ {P}  $p $e:-- $y }} return {{ type($e) as t, from($e) as f, to($e) as g }}", 14),
    Form("identity", f"match {{ {P}  $q: Port  $p != $q }} return {{ $p, $q }}", 12),
    Form("product", f"match {{ {P}  {V} }} return {{ $p, $v }}", 12),
    # ---- blocks
    Form("not", f"match {{ {V}  not {{ $v callsAt $_ }} }} return {{ $v }}", 1),
    Form("exists", f"match {{ {V}  exists {{ $v callsAt $p }} }} return {{ $v }}", 2),
    Form("optional", f"match {{ {V}  optional {{ $v callsAt $p  $p.lat > 51.5 }} }} return {{ $v, $p }}", 3),
    Form("count as a value", f"match {{ {P}  count {{ $v callsAt $p }} > 1 }} return {{ $p }}", 1),
    Form("aggregate as a value", f"match {{ {P} }} return {{ $p, sum($e.weight) {{ $p $e:feeds $_ }} as s }}", 4),
    Form("block inside or", f"match {{ {V}  not {{ $v callsAt $_ }} or exists {{ $v callsAt $p  $p.lat < 51.5 }} }} return {{ $v }}", 2),
    # ---- conditions
    *(_filter(f"compared by {op}", f"$v.dwt {op} 80000", rows) for op, rows in
      {"=": 1, "!=": 1, "<": 0, "<=": 1, ">": 1, ">=": 2}.items()),
    _filter("and, or, not", '$v.dwt > 1000 and not $v.kind = "bulk" or $v.name = "Cirrus"', 2),
    _filter("in a list", '$v.kind in ["bulk", $kind]', 3, "$kind: String", kind="tanker"),
    _filter("in a parameter", "$v.kind in $kinds", 1, "$kinds: [String]", kinds=["bulk"]),
    _filter("in an empty list", "$v.kind in []", 0),
    _filter("between", "$v.dwt between 1 and 90000", 1),
    _filter("is null", "$v.built is null", 1),
    _filter("is not null", "$v.built is not null", 2),
    _filter("contains an item", '$v.tags contains "ice"', 2),
    _filter("contains a text", '$v.name contains "r"', 3),
    _filter("starts with", '$v.name starts_with "A"', 1),
    _filter("ends with", '$v.name ends_with "s"', 1),
    _filter("matches", '$v.name matches "^[AB]"', 2),
    _filter("a property that is true", "$v.active", 1),
    _filter("now", "$v.seen < now()", 1),
    _filter("literals", '$v.built < date("2020-01-01") and $v.seen > datetime("2020-01-01T00:00:00Z") or $v.dwt = -1 or $v.draft > 1e1', 1),
    # ---- values
    *(_item(f"computed by {op}", f"$v.dwt {op} 7") for op in ("+", "-", "*", "/", "%")),
    _item("sign", "-$v.dwt"),
    _item("case", 'case when $v.dwt > 90000 then "large" when $v.dwt is null then null else "small" end'),
    _item("coalesce", "coalesce($v.dwt, 0)"),
    *(_item(name, f"{name}($v.name)") for name in ("lower", "upper", "trim", "length")),
    _item("substring", "substring($v.name, 2, 3)"),
    _item("replace", 'replace($v.name, "r", "rr")'),
    _item("concat", 'concat($v.name, "-", $v.imo)'),
    *(_item(name, f"{name}($v.draft)") for name in ("abs", "round", "floor", "ceil")),
    _item("round to digits", "round($v.draft, 1)"),
    *(_item(name, f"{name}($v.built)") for name in ("year", "month", "day")),
    _item("date_trunc", 'date_trunc("month", $v.built)'),
    _item("duration", '$v.built + duration("P1M2D")'),
    *(_item(name, f"{name}($v.tags)") for name in ("size", "first", "last")),
    _item("id", "id($v)"),
    _item("type", "type($v)"),
    _item("entity", "entity($v)"),
    Form("star", f"match {{ {V} }} return {{ $v.* }}", 3),
    # ---- results
    Form("distinct", f"match {{ {V} }} return distinct {{ $v.kind }}", 2),
    Form("alias of an earlier item", f"match {{ {V} }} return {{ $v.dwt + 1 as n, n * 2 as m }}", 3),
    *(Form(f"aggregate {name}", f"match {{ {V} }} return {{ $v.kind, {name}($v.dwt) as n }}", 2)
      for name in ("count", "sum", "avg", "min", "max", "collect", "stddev")),
    Form("count distinct", f"match {{ {V}  $v callsAt $p }} return {{ count(distinct $p) as n }}", 1),
    Form("percentile", f"match {{ {V} }} return {{ percentile($v.dwt, 0.5) as n }}", 1),
    Form("dates of a group", f"match {{ {V} }} return {{ min($v.built) as n, max($v.seen) as m }}", 1),
    Form("having", f"match {{ {V} }} return {{ $v.kind, count($v) as n }} having {{ n > 1 }}", 1),
    Form("order by an aggregate", f"match {{ {V} }} return {{ $v.kind, count($v) as n }} order {{ max($v.dwt) desc }}", 2),
    Form("order", f"match {{ {V} }} return {{ $v.name as n }} order {{ $v.dwt desc, n asc }}", 3),
    Form("limit and offset", f"match {{ {V} }} return {{ $v }} order {{ $v.imo }} offset 1 limit $n", 1, "$n: I64", {"n": 1}),
    # ---- stages
    Form("stage", f"match {{ {V}  $v callsAt $p }} with {{ $p, count($v) as n }} match {{ $p feeds $q }} return {{ $q, n }}", 3),
    Form("stage that bounds", f"match {{ {V} }} with distinct {{ $v, $v.dwt as d }} having {{ d > 1 }} order {{ d desc }} limit 1 return {{ $v, d }}", 1),
    Form("top of each group", f"match {{ {P}  $p $e:feeds $q }} with {{ $p, $q, $e.weight as w }} order {{ w desc }} limit 1 per $p return {{ $p, $q, w }}", 3),
    Form("union", f"match {{ {V} }} return {{ $v.name as n }} union match {{ {P} }} return {{ $p.name as n }} order {{ n }} limit 5", 5),
    Form("union all", f"match {{ {V} }} return {{ $v.kind as n }} union all match {{ {P} }} return {{ $p.name as n }}", 7),
    # ---- paths
    Form("shortest path", f"match {{ {WALK}  $x $w:feeds{{1,8}} $y }} return {{ hops($w) as n, nodes($w) as v, edges($w) as e }}", 1),
    Form("cheapest path", f"match {{ {WALK}  $x $w:feeds{{1,8 by weight}} $y }} return {{ sum($w.weight) as cost }}", 1),
    Form("best paths", f"match {{ {WALK}  $x $w:feeds{{1,8 best 3}} $y }} return {{ hops($w) as n }}", 2),
    Form("all shortest paths", f"match {{ {WALK}  $x $w:feeds|ships{{1,8 all where weight < 10}} $y }} return {{ hops($w) as n }}", 1),
    # ---- search
    Form("search", f'match {{ {V}  search($v.name, "aster") }} return {{ $v }}', 1),
    Form("match_text", f'match {{ {V}  match_text($v.name, "aster") }} return {{ $v }}', 1),
    Form("fuzzy", f'match {{ {V}  fuzzy($v.name, "astr", 1) }} return {{ $v }}', 1),
    Form("bm25", f'match {{ {V} }} return {{ $v, bm25($v.name, "aster") as s }} order {{ bm25($v.name, "aster") }} limit 2', 1),
    Form("nearest", f"match {{ {V} }} return {{ $v, nearest($v.sig, $q) as d }} order {{ nearest($v.sig, $q) }} limit 1", 1,
         "$q: Vector(3)", {"q": [1, 0, 0]}),
    Form("rrf", f'match {{ {V} }} return {{ $v }} order {{ rrf(nearest($v.sig, $q), bm25($v.name, "aster"), 60) }} limit 2', 2,
         "$q: Vector(3)", {"q": [1, 0, 0]}),
)  # fmt: skip

WRITES = (
    Form("insert", 'insert Port { code: "ESVGO", name: "Vigo" }', 1),
    Form("insert of an edge", 'insert Feeds { from: "NLRTM", to: "FRLEH", weight: 3 }', 1),
    Form("insert if absent", 'insert Port { code: "NLRTM", name: "-" } if absent returning { id, created }', 0),
    Form("upsert", 'upsert Port { code: "NLRTM" } set { name: "Maas", calls: coalesce($.calls, 0) + 1 } returning { id, calls, created }', 1),
    Form("update", 'update Vessel set { dwt: $.dwt + 1 } where kind = "tanker" and dwt is not null returning { id, dwt }', 1),
    Form("update of edges", "update Feeds set { weight: $.weight * 2 } where from = $a and weight > 5", 1, "$a: String", {"a": "NLRTM"}),
    Form("delete", 'delete Vessel where name starts_with "C" returning { id, name }', 1),
    Form("delete of edges", 'delete CallsAt where to = "NLRTM" and berth is null', 2),
    Form("update by pattern", f"match {{ {V}  $v callsAt $p }} update $v set {{ active: true }}", 2),
    Form("update of edges by pattern", f"match {{ {P}  $p $e:feeds $q }} update $e set {{ weight: $e.weight + 1 }}", 4),
    Form("delete by pattern", f"match {{ {V}  not {{ $v callsAt $_ }} }} delete $v returning {{ id }}", 1),
    Form("insert by pattern", 'match { $v: Vessel  $p: Port { code: "DEHAM" } } insert CallsAt { from: $v, to: $p } returning { id, from, to }', 3),
    Form("upsert by pattern", f"match {{ {P}  {V}  $v callsAt $p }} with {{ $p, count($v) as n }} upsert Port {{ code: $p.code }} set {{ name: $p.name, calls: n }}", 2),
    Form("unnest of records", "unnest $rows as $r insert Port { code: $r.code, name: trim($r.name), lat: $r.lat } returning { id }", 2,
         "$rows: [{ code: String, name: String, lat: F64? }]",
         {"rows": [{"code": "ESVGO", "name": " Vigo "}, {"code": "ESBIO", "name": "Bilbao", "lat": 43.3}]}),
    Form("unnest of values", "unnest $codes as $c upsert Port { code: $c } set { name: upper($c) }", 2, "$codes: [String]",
         {"codes": ["ESVGO", "NLRTM"]}),
    Form("several statements", 'insert Port { code: "ESVGO", name: "Vigo" } insert Feeds { from: "ESVGO", to: "NLRTM" }', 2),
)  # fmt: skip
FORMS = READS + WRITES


@cache
def catalog() -> Catalog:
    """The schema of every form."""
    return compile_schema(SCHEMA)
