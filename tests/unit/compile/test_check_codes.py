"""Every type-check code: what it refuses, what it must name, and the neighbour it lets pass."""

import re
from pathlib import Path

import pytest

from omnigraphdb import compile
from omnigraphdb.compile.codes import CHECK_CODES
from omnigraphdb.errors import QueryError
from tests.support.compiling import EXTENDED, checked, diagnostics

V = "$v: Vessel"

# code, parameters, body, words the message must hold
READS = [
    ("T1", "", "match { $x: Vesel } return { $x }", ["Vesel", "Vessel"]),
    ("T1", "", "match { $x: CallsAt } return { $x }", ["CallsAt", "edge"]),
    ("T1", "", "match { $x: Namd } return { $x }", ["Namd", "Named"]),
    ("T2", "", 'match { $v: Vessel { nam: "a" } } return { $v }', ["Vessel", "nam", "'name'"]),
    ("T2", "", 'match { $v: Vessel { id: "a" } } return { $v }', ["id", "key"]),
    ("T3", "", 'match { $v: Vessel { dwt: "1" } } return { $v }', ["dwt", "I64?", "String"]),
    ("T3", "", 'match { $v: Vessel { kind: "tug" } } return { $v }', ["kind", "tug", "bulk"]),
    ("T3", "", 'match { $v: Vessel { kind: "Bulk" } } return { $v }', ["differs only by case"]),
    ("T3", "", 'match { $v: Vessel { tags: ["ice"] } } return { $v }', ["tags", "[String]"]),
    ("T3", "", "match { $v: Vessel { tags: 5 } } return { $v }", ["tags", "I64"]),
    ("T3", "", 'match { $v: Vessel { scan: "base64:" } } return { $v }', ["scan", "Blob"]),
    ("T3", "", "match { $v: Vessel { sig: [1.0] } } return { $v }", ["sig", "Vector(3)", "1"]),
    ("T3", "", 'match { $v: Vessel { built: "2020-01-01" } } return { $v }', ["built", "Date"]),
    ("T3", "$b: Blob", "match { $v: Vessel { scan: $b } } return { $v }", ["scan", "Blob"]),
    ("T4", "", "match { $v: Vessel  $v callAt $p } return { $p }", ["callAt", "'callsAt'"]),
    ("T4", "", "match { $v: Vessel  $v calls_at $p } return { $p }", ["calls_at"]),
    ("T5", "", "match { $v: Vessel  $v feeds $p } return { $p }", ["$v", "Vessel", "Feeds", "Port"]),
    ("T5", "", "match { $v: Vessel  $w: Vessel  $v callsAt $w } return { $w }", ["$w", "Port"]),
    ("T5", "", "match { $v callsAt $v } return { $v }", ["$v", "CallsAt"]),
    ("T5", "", "match { $v: Vessel  $v callsAt $p  $p ownedBy $c } return { $c }", ["$p", "Port"]),
    ("T6", "", "match { $v: Vessel } return { $v.nme }", ["Vessel.nme", "'name'"]),
    ("T6", "", "match { $v: Vessel } return { $x.name }", ["$x", "bound here: v"]),
    ("T6", "", "match { $v.dwt > 3  $v: Vessel } return { $v }", ["$v", "below"]),
    ("T6", "", "match { $v: Vessel  $v callsAt $_  $_.name = \"x\" } return { $v }", ["$_"]),
    ("T6", "", "match { $v: Vessel } return { $v.id }", ["id", "$v"]),
    ("T6", "", "match { $v: Vessel  not { $v callsAt $p } } return { $p.name }", ["$p", "block"]),
    ("T6", "", "match { $v: Vessel  $v $c:callsAt $p } return { $c.src }", ["CallsAt.src"]),
    ("T6", "", "match { $x: Named } return { $x.code }", ["Port has String", "Vessel has none"]),
    ("T6", "", "match { $x: Named } return { $x.nme }", ["'name'"]),
    ("T6", "$q: String", "match { $v: Vessel } return { $q.name }", ["$q", "parameter"]),
    ("T7", "", 'match { $v: Vessel  $v.dwt = "1" } return { $v }', ["I64", "String"]),
    ("T7", "", "match { $v: Vessel  $v.active > 0 } return { $v }", ["Bool", "I64"]),
    ("T7", "", 'match { $v: Vessel  $v.seen > date("2020-01-01") } return { $v }', ["DateTime", "Date"]),
    ("T7", "", 'match { $v: Vessel  $v.tags = "ice" } return { $v }', ["[String]"]),
    ("T7", "", "match { $v: Vessel  $v.sig = [1.0, 2.0, 3.0] } return { $v }", ["Vector(3)"]),
    ("T7", "", 'match { $v: Vessel  $v.scan = "x" } return { $v }', ["Blob"]),
    ("T7", "", "match { $v: Vessel  count($v) > 1 } return { $v }", ["count"]),
    ("T7", "", 'match { $v: Vessel  $v.dwt starts_with "4" } return { $v }', ["starts_with"]),
    ("T7", "", "match { $v: Vessel  $v.name contains 4 } return { $v }", ["String", "I64"]),
    ("T7", "", 'match { $v: Vessel  $v.tags contains ["a"] } return { $v }', ["[String]"]),
    ("T7", "$s: String", "match { $v: Vessel { dwt: $s } } return { $v }", ["Vessel.dwt", "String"]),
    ("T7", "$l: [String]", "match { $v: Vessel { tags: $l } } return { $v }", ["Vessel.tags"]),
    ("T7", "", "match { $v: Vessel { built: now() } } return { $v }", ["Vessel.built", "DateTime"]),
    ("T7", "", "match { $v: Vessel { sig: [1.0, 2.0, 3.0] } } return { $v }", ["nearest"]),
    ("T8", "", "match { $v: Vessel } return { sum($v.name) as s }", ["sum", "String"]),
    ("T8", "", "match { $v: Vessel } return { avg($v.seen) as s }", ["avg", "DateTime"]),
    ("T8", "", "match { $v: Vessel } return { max($v.tags) as s }", ["max", "[String]"]),
    ("T8", "", "match { $v: Vessel } return { min($v.active) as s }", ["min", "Bool"]),
    ("T8", "", "match { $v: Vessel } return { min($v) as s }", ["min", "node Vessel"]),
    ("T9", "", "match { $v: Vessel  not { $p: Port { lat: 4.0 } } } return { $v }", ["not"]),
    ("T9", "", "match { $v: Vessel  not { $_ callsAt $_ } } return { $v }", ["not"]),
    ("T9", "", "match { $v: Vessel } return { count($v) as n, 1 as one }", ["aggregate"]),
    ("T9", "$p: I32", "match { $v: Vessel } return { $p, count($v) as n }", ["$p"]),
    ("T15", "", "match { $v: Vessel  $v callsAt{0,2} $q } return { $q }", ["{0,2}", "CallsAt"]),
    ("T15", "", "match { $p: Port  $p feeds{3,2} $q } return { $q }", ["{3,2}"]),
    ("T15", "", "match { $p: Port  $p feeds{1,} $q } return { $q }", ["maximum"]),
    ("T15", "$q: Vector(2)", f"match {{ {V} }} return {{ $v }} order {{ nearest($v.sig, $q) }} limit 1", ["3", "2"]),
    ("T15", "", f"match {{ {V} }} return {{ $v }} order {{ nearest($v.sig, [1.0, 2.0]) }} limit 1", ["3", "2"]),
    ("T15", "", f"match {{ {V} }} return {{ $v }} order {{ nearest($v.name, \"x\") }} limit 1", ["String"]),
    ("T15", "", f"match {{ {V} }} return {{ $v }} order {{ nearest($v.sig, 5) }} limit 1", ["I64"]),
    ("T15", "", f"match {{ {V} }} return {{ $v }} order {{ nearest($v.sig, [\"a\", \"b\", \"c\"]) }} limit 1", ["[String]"]),
    ("T17", "$q: String", f"match {{ {V} }} return {{ $v }} order {{ nearest($v.sig, $q) }}", ["limit"]),
    ("T17", "$q: String", f"match {{ {V} }} return {{ $v, nearest($v.sig, $q) as d }} order {{ d }}", ["limit"]),
    ("T18", "", f"match {{ {V} }} return {{ $v.name as n }} order {{ nearest($v.sig, \"x\"), n }} limit 1", ["alias"]),
    ("T18", "", f"match {{ {V} }} return {{ $v.name as n }} order {{ n, nearest($v.sig, \"x\") }} limit 1", ["alias"]),
    ("T19", "", f"match {{ {V}  search($v.dwt, \"4\") }} return {{ $v }}", ["search", "I64"]),
    ("T19", "", f"match {{ {V}  search(\"a\", \"4\") }} return {{ $v }}", ["search"]),
    ("T19", "", f"match {{ {V}  search($v.tags, \"4\") }} return {{ $v }}", ["search", "[String]"]),
    ("T19", "", f"match {{ {V}  fuzzy($v.name, \"x\", 1.5) }} return {{ $v }}", ["fuzzy", "F64"]),
    ("T19", "", f"match {{ {V}  search($v.name, $v) }} return {{ $v }}", ["search", "node Vessel"]),
    ("T20", "", f"match {{ {V}  match_text($v.name, 5) }} return {{ $v }}", ["match_text", "I64"]),
    ("T20", "$n: I32", f"match {{ {V} }} return {{ $v }} order {{ bm25($v.name, $n) }}", ["bm25", "I32"]),
    ("T21", "", f"match {{ {V} }} return {{ $v }} order {{ rrf(bm25($v.name, \"x\"), bm25($v.blurb, \"x\")) }}", ["rrf", "limit"]),
    ("T21", "", f"match {{ {V} }} return {{ $v }} order {{ rrf(bm25($v.name, \"x\"), bm25($v.blurb, \"x\"), 0) }} limit 3", ["zero"]),
    ("T21", "", f"match {{ {V} }} return {{ $v }} order {{ rrf(bm25($v.name, \"x\"), bm25($v.blurb, \"x\"), 1.5) }} limit 3", ["1.5"]),
    ("T21", "", f"match {{ {V}  $v callsAt $p }} return {{ $v }} order {{ rrf(bm25($v.name, \"x\"), bm25($p.name, \"x\")) }} limit 3", ["$v", "$p"]),
    ("T21", "", f"match {{ {V} }} return {{ rrf(bm25($v.name, \"x\"), bm25($v.blurb, \"x\")) as s }}", ["limit"]),
    ("T22", "", "match { $v: Vessel  $v <callsAt> $p } return { $p }", ["CallsAt", "Vessel", "Port"]),
    ("T68", "", "match { $p: Port  $p $f:feeds{1,*} $q } return { $q }", ["$f", "maximum"]),
    ("T23", "", "match { $p: Port  $p $p:feeds $q } return { $q }", ["$p"]),
    ("T23", "", "match { $p: Port  $p $q:feeds $q } return { $p }", ["$q"]),
    ("T23", "", "match { $p: Port  $p $f:feeds $q  $q $f:feeds $r } return { $q }", ["$f"]),
    ("T23", "", "match { $v: Vessel  $v $c:callsAt $p } return { $c }", ["$c"]),
    ("T23", "", "match { $v: Vessel  $v $c:callsAt $p } return { count($c) as n }", ["$c"]),
    ("T23", "", "match { $v: Vessel  $v $c:callsAt $p } return { $p } order { $c }", ["$c"]),
    ("T23", "", "match { $v: Vessel  $v $c:callsAt $p  search($c.berth, \"x\") } return { $p }", ["$c"]),
    ("T23", "", "match { $v: Vessel  $v $c:callsAt $p  $c feeds $q } return { $p }", ["$c"]),
    ("T24", "", "match { $v: Vessel } return { $v.scan }", ["$v.scan"]),
    ("T24", "", "match { $v: Vessel } return { count($v.scan) as n }", ["$v.scan"]),
    ("T24", "", "match { $v: Vessel } return { $v } order { $v.scan }", ["$v.scan"]),
    ("T24", "", "match { $v: Vessel  $v $c:callsAt $p } return { $c.papers }", ["$c.papers"]),
    ("T24", "$b: Blob", "match { $v: Vessel } return { $b }", ["b"]),
    ("T25", "", "match { $v: Vessel } return { $ghost }", ["$ghost"]),
    ("T25", "", "match { $v: Vessel } return { $_ }", ["$_"]),
    ("T25", "", "match { $v: Vessel  $v.dwt > $lmit } return { $v }", ["$lmit"]),
    ("T25", "", f"match {{ {V}  search($v.name, $qq) }} return {{ $v }}", ["$qq"]),
    ("T26", "", "match { $v: Vessel  $v: Port } return { $v }", ["$v", "Vessel", "Port"]),
    ("T26", "", "match { $v: Vessel  $v callsAt $p  $p: Company } return { $p }", ["$p", "Port", "Company"]),
    ("T26", "", "match { $v: Vessel  $v $c:callsAt $p  $c: Port } return { $p }", ["$c", "edge", "Port"]),
    ("T27", "", 'match { $v: Vessel } return { [1, "a"] as l }', ["I64", "String"]),
    ("T27", "", "match { $v: Vessel } return { [[1]] as l }", ["list"]),
    ("T28", "$v: Vector(0)", "match { $p: Port } return { $p }", ["$v", "0"]),
    ("T28", "$__now: DateTime", "match { $p: Port } return { $p }", ["$__now", "reserved"]),
    ("T28", "$b: [Blob]", "match { $p: Port } return { $p }", ["$b", "Blob"]),
    ("T28", "$_: I32", "match { $p: Port } return { $p }", ["$_", "anonymous"]),
    ("T31", "$a: I32, $a: I32", "match { $p: Port } return { $p }", ["$a"]),
    ("T32", "$p: String", "match { $p: Port } return { $p.name }", ["$p"]),
    ("T32", "$q: String", "match { $p: Port  $p feeds $q } return { $p }", ["$q"]),
    ("T32", "$f: String", "match { $p: Port  $p $f:feeds $q } return { $q }", ["$f"]),
    ("T33", "", "match { $p: Port { name: $who } } return { $p }", ["$who"]),
    ("T33", "", "match { $v: Vessel  $p: Port { name: $v } } return { $p }", ["$v"]),
    ("T34", "", "match { $v: Vessel } return { $v.name as x, $v.dwt as x }", ["'x'"]),
    ("T34", "", "match { $v: Vessel } return { $v.dwt, $v.dwt }", ["v.dwt"]),
    ("T34", "", "match { $v: Vessel } return { 1, 2 }", ["literal"]),
    ("T34", "", "match { $v: Vessel } return { $v, $v.name as v }", ["'v'"]),
    ("T34", "", "match { $v: Vessel } return { count($v), count($v.dwt) }", ["count"]),
    ("T35", "", "match { $v: Vessel } return { $v.name as label } order { labl }", ["labl", "label"]),
    ("T35", "", "match { $v: Vessel } return { $v } order { v }", ["'v'"]),
    ("T36", "", "match { $v: Vessel } return { $v } order { $v }", ["$v"]),
    ("T36", "", "match { $v: Vessel } return { $v } order { 3 }", ["'3'"]),
    ("T36", "", "match { $v: Vessel } return { $v } order { now() }", ["now"]),
    ("T36", "", "match { $v: Vessel } return { $v } order { $v.tags }", ["$v.tags"]),
    ("T36", "", "match { $v: Vessel } return { $v.sig as s } order { s }", ["Vector(3)"]),
    ("T36", "", "match { $v: Vessel } return { $v, count($v) as n } order { $v.name }", ["$v.name"]),
    ("T36", "", "match { $v: Vessel } return { count(sum($v.dwt)) as n }", ["nest"]),
    ("T36", "", "match { $v: Vessel  $v.dwt > size } return { $v }", ["size"]),
    ("T36", "", "match { $v: Vessel } return { $v, count($v) as n } order { bm25($v.name, \"x\") }", ["aggregate"]),
    ("T37", "", 'match { $v: Vessel  $v.built > date("soon") } return { $v }', ["soon"]),
    ("T37", "", 'match { $v: Vessel { built: date("2023-02-30") } } return { $v }', ["2023-02-30"]),
    ("T37", "", 'match { $v: Vessel  $v.seen > datetime("noon") } return { $v }', ["noon"]),
    ("T38", "", 'match { $v: Vessel  search($v.name, "x") = false } return { $v }', ["search"]),
    ("T38", "", 'match { $v: Vessel  search($v.name, "x") != true } return { $v }', ["search"]),
    ("T38", "", 'match { $v: Vessel  bm25($v.name, "x") > 0.5 } return { $v }', ["bm25"]),
    ("T38", "", 'match { $v: Vessel } return { $v } order { bm25($v.name, "x") asc }', ["bm25"]),
    ("T38", "", 'match { $v: Vessel } return { $v } order { bm25($v.name, "x"), $v.name }', ["bm25"]),
    ("T38", "", 'match { $v: Vessel } return { $v } order { $v.name, bm25($v.name, "x") }', ["bm25"]),
    ("T38", "", 'match { $v: Vessel } return { $v } order { search($v.name, "x") }', ["search"]),
    ("T38", "", 'match { $v: Vessel } return { count(bm25($v.name, "x")) as n }', ["bm25"]),
    ("T38", "", 'match { $v: Vessel } return { nearest($v.sig, "x") as d } order { d desc } limit 1', ["nearest"]),
    ("T65", "", "match { $n: Note  $n -- $p } return { $p }", ["Note"]),
    ("T65", "", "match { $p: Port  $p --{1,2} $q } return { $q }", ["once"]),
    ("T66", "", 'match { $x: Named  search($x.name, "x") } return { $x }', ["Port, Vessel"]),
]  # fmt: skip

MUTATIONS = [
    ("T10", "", 'insert Vesel { imo: "1" }', ["Vesel", "Vessel"]),
    ("T10", "", 'insert Callsat { from: "1", to: "2" }', ["Callsat", "CallsAt"]),
    ("T10", "", 'insert Named { name: "1" }', ["Named", "interface"]),
    ("T11", "", 'update Port set { depth: 3 } where code = "X"', ["Port", "depth", "it has: code, lat, name"]),
    ("T11", "", 'update Port set { lat: 3.0 } where depth = 1', ["Port", "depth"]),
    ("T11", "", 'delete Port where id = "X"', ["id"]),
    ("T11", "", 'delete Vessel where scan = "X"', ["scan", "Blob"]),
    ("T11", "", 'delete CallsAt where src = "X"', ["src", "'from'"]),
    ("T11", "", 'delete Port where from = "X"', ["from"]),
    ("T12", "", 'insert Port { code: "X" }', ["Port", "name"]),
    ("T12", "", 'insert CallsAt { from: "X" }', ["CallsAt", "'to'"]),
    ("T12", "", 'insert Rated { from: "X" }', ["'to'", "score"]),
    ("T12", "", 'insert Note { vec: [1.0, 2.0, 3.0] }', ["text"]),
    ("T13", "", 'insert Port { code: "X", name: "a", name: "b" }', ["Port.name"]),
    ("T14", "", "insert Company { name: $who }", ["$who"]),
    ("T14", "$who: String", "delete Company where name = $whom", ["$whom", "who"]),
    ("T3", "", "insert Company { name: 5 }", ["name", "String", "I64"]),
    ("T3", "", 'insert Vessel { imo: "1", name: "a", kind: "tug" }', ["kind", "tug"]),
    ("T3", "", 'insert Vessel { imo: "1", name: "a", tags: "ice" }', ["tags", "[String]"]),
    ("T3", "", 'insert Vessel { imo: "1", name: "a", sig: [1.0] }', ["sig", "Vector(3)", "1"]),
    ("T3", "", 'insert Vessel { imo: "1", name: "a", built: "2020-01-01" }', ["built", "Date"]),
    ("T3", "", 'insert CallsAt { from: 1, to: "X" }', ["from"]),
    ("T3", "", 'delete Vessel where dwt = "1"', ["dwt"]),
    ("T3", "", 'delete Vessel where kind = "tug"', ["kind", "tug"]),
    ("T7", "$n: I32", "insert Company { name: $n }", ["Company.name", "I32"]),
    ("T7", "$l: String", 'update Vessel set { tags: $l } where imo = "1"', ["Vessel.tags"]),
    ("T7", "$q: Vector(2)", 'update Vessel set { sig: $q } where imo = "1"', ["Vector(3)", "Vector(2)"]),
    ("T7", "", 'update Vessel set { built: now() } where imo = "1"', ["Vessel.built", "DateTime"]),
    ("T7", "", 'delete Vessel where tags = "ice"', ["tags", "comparable"]),
    ("T7", "$s: String", "delete Vessel where dwt = $s", ["Vessel.dwt"]),
    ("T16", "", 'update CallsAt set { to: "A" } where from = "X"', ["CallsAt.to"]),
    ("T6", "", "update Vessel set { dwt: $.dwtt + 1 } where dwt > 1", ["dwtt"]),
    ("T36", "", "update Vessel set { dwt: dwt + 1 } where dwt > 1", ["$.dwt"]),
    ("T7", "", "update Vessel set { dwt: lower($.name) } where dwt > 1", ["Vessel.dwt", "String"]),
    ("T11", "", "delete Vessel where dwt > 1 and lower(nam) = \"x\"", ["nam"]),
    ("T51", "", "delete Vessel where name + 1 > 3", ["String"]),
    ("T70", "", "update $v set { dwt: 1 }", ["$v"]),
    ("T70", "", "match { $v: Vessel } delete Vessel where dwt = 1", ["delete"]),
    ("T70", "", "match { $v: Vessel } update $w set { dwt: 1 }", ["$w"]),
    ("T70", "", "match { $a -- $b } delete $b", ["$b", "one type"]),
    ("T71", "", "update Vessel set { dwt: count { $v: Vessel } } where dwt = 1", ["count", "match"]),
    ("T71", "", 'delete Vessel where search(name, "x")', ["search", "match"]),
    ("T71", "", "update Vessel set { dwt: max($.dwt) } where dwt = 1", ["max"]),
    ("T72", "", "unnest $rows as $r insert Company { name: $r }", ["$rows"]),
    ("T72", "$n: String", "unnest $n as $r insert Company { name: $r }", ["$n", "list"]),
    ("T72", "$n: [{ a: String }]", "unnest $n as $r insert Company { name: $r.b }", ["$r.b", "$r.a"]),
    ("T72", "$n: [{ a: String }]", "unnest $n as $r insert Company { name: $r }", ["$r"]),
    ("T72", "$n: [String]", "unnest $n as $r delete Company where name = $n", ["unnest"]),
    ("T28", "$n: [{ a: String, a: I32 }]", "unnest $n as $r insert Company { name: $r.a }", ["'a'"]),
    ("T73", "", 'upsert CallsAt { from: "A" } set { berth: "x" }', ["CallsAt", "key"]),
    ("T73", "", 'upsert Port { name: "A" } set { lat: 1.0 }', ["Port", "code"]),
    ("T73", "", 'match { $p: Port } upsert Port { code: $p.code } set { name: "n", lat: avg($q.lat) { $p feeds $q  $q.lat > $.lat } }', ["block", "$."]),
    ("W05", "", 'upsert Port { code: "A" } set { code: "B", name: "x" }', ["Port.code"]),
    ("T12", "", 'upsert Port { code: "A" } set { lat: 1.0 }', ["name"]),
    ("T74", "", 'insert Company { name: "A" } returning { created }', ["created"]),
    ("T74", "", 'insert Company { name: "A" } returning { id, name as id }', ["id"]),
    ("T74", "", 'insert Company { name: "A" } returning { id } insert Company { name: "B" } returning { name }', ["id"]),
    ("T11", "", 'insert Company { name: "A" } returning { nam }', ["nam"]),
    ("T75", "", 'insert Company { name: "A" } match { $c: Company } insert Company { name: lower($c.name) }', ["Company"]),
    ("T7", "", "match { $v: Vessel } insert CallsAt { from: $v, to: $v }", ["CallsAt.to", "Port"]),
    ("T14", "", "match { $v: Vessel } insert Company { name: $ghost }", ["$ghost"]),
    ("T29", "", 'insert Company { name: "A" }  delete Company where name = "B"', ["'q'", "Split", "branch"]),
    ("T29", "", 'delete Company where name = "B"  update Port set { lat: 1.0 } where code = "X"', ["'q'"]),
    ("T37", "", 'update Vessel set { built: date("soon") } where imo = "1"', ["soon"]),
    ("W01", "", "insert Company { name: null }", ["name", "required"]),
    ("W02", "", 'update Vessel set { crew: 5000000000 } where imo = "1"', ["5000000000", "U32"]),
    ("W03", "", 'update Vessel set { dwt: 7.5 } where imo = "1"', ["7.5", "dwt"]),
    ("W05", "", 'update Port set { code: "Y" } where code = "X"', ["Port.code"]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "params", "body", "words"), READS + MUTATIONS)
def test_a_wrong_query_is_refused_by_code_and_names(
    code: str, params: str, body: str, words: list[str]
) -> None:
    prefix = EXTENDED if "null" in body else ""
    found = diagnostics(f"{prefix}query q({params}) {{ {body} }}")
    assert found, "the query was accepted"
    assert found[0].code == code, found
    missing = [word for word in words if word not in found[0].message]
    assert not missing, found[0].message
    assert found[0].query_name == "q"
    assert found[0].stage == "typecheck"


ACCEPTED = [
    ("", "match { $x: Vessel { } } return { $x }"),
    ("", 'match { $v: Vessel { name: "a", kind: "bulk", } } return { $v }'),
    ("", "match { $v: Vessel { dwt: 120.7, draft: 1 } } return { $v }"),
    ("", 'match { $v: Vessel { tags: "ice", marks: 2.0, built: date("2020-01-01") } } return { $v }'),
    ("$s: String", "match { $v: Vessel { kind: $s, tags: $s } } return { $v }"),
    ("", "match { $v: Vessel { seen: now(), calls: now() } } return { $v }"),
    ("", "match { $v: Vessel  $v callsat $p } return { $p }"),
    ("", "match { $p: Port  $p callsAt $v } return { $v.imo }"),
    ("", "match { $p: Port  $v callsAt $p } return { $v.imo }"),
    ("", "match { $v: Vessel  $v callsAt $_  $v ownedBy $_ } return { $v }"),
    ("", "match { $v: Vessel  not { $v callsAt $p  not { $p.name = \"x\" } } } return { $v }"),
    ("", "match { $v: Vessel  not { $v: Vessel { kind: \"bulk\" } } } return { $v }"),
    ("", "match { $p: Port  $p feeds{1,1} $q  $p $f:feeds{1,1} $r } return { $f.weight }"),
    ("", "match { $v: Vessel  $v $_:callsAt $p } return { $p }"),
    ("", "match { $p: Port  $p <feeds>{1,2} $q } return { $q }"),
    ("", 'match { $v: Vessel  $v.kind = "tug" } return { $v }'),
    ("", "match { $v: Vessel  $v.dwt > 2.5  3000000000 > $v.crew  $v.dwt < $v.draft } return { $v }"),
    ("", 'match { $v: Vessel  "the Aster" contains $v.name  $v.marks contains 2.0 } return { $v }'),
    ("", 'match { $v: Vessel  search($v.kind, "x") = true  true = search($v.name, "x") } return { $v }'),
    ("$n: I32?", "match { $v: Vessel  fuzzy($v.name, \"x\", $n) } return { $v }"),
    ("", "match { $v: Vessel } return { $v.kind, count($v), max($v.kind) as k, min($v.draft) as d }"),
    ("", "match { $v: Vessel } return { count(1) as n }"),
    ("", "match { $v: Vessel } return { $v, 1, now(), [1, 2.5] as l }"),
    ("", "match { $v: Vessel } return { $v.name as n } order { n, $v.dwt desc }"),
    ("", "match { $v: Vessel } return { $v.name as n, count($v) as c } order { c desc, $v.name }"),
    ("", 'match { $v: Vessel } return { $v } order { nearest($v.sig, [1, 2.0, 3]) } limit 0'),
    ("", 'match { $v: Vessel } return { $v } order { bm25($v.name, "x") desc }'),
    ("$t: String", 'match { $v: Vessel } return { $v, nearest($v.sig, $t) as d } order { d } limit 3'),
    ("$k: I64", 'match { $v: Vessel } return { $v } order { rrf(nearest($v.sig, "x"), bm25($v.name, "x"), $k) } limit 3'),
    ("$q: Vector(3)", "match { $v: Vessel } return { $v, $q }"),
    ("", "match { $v: Vessel  not { $v callsAt $x }  not { $v ownedBy $x } } return { $v }"),
    ("", 'insert Vessel { imo: "1", name: "a", dwt: 7.0, draft: 5, tags: [], marks: [1], sig: [1, 2, 3], scan: "base64:" }'),
    ("", 'insert Note { text: "a" }'),
    ("$n: String?", "insert Company { name: $n }"),
    ("$n: F64, $b: Blob, $s: String", 'update Vessel set { dwt: $n, scan: $b } where kind > "m"  update Vessel set { scan: $s } where imo = $s'),
    ("", 'insert CallsAt { from: "1", to: "2", eta: now() }'),
    ("", 'delete CallsAt where from = "1"  delete Vessel where dwt > 2.5'),
    ("$a: Date", "delete Vessel where built < $a"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "body"), [one[1:3] for one in READS + MUTATIONS])
def test_a_refusal_says_what_would_be_right(params: str, body: str) -> None:
    for found in diagnostics(f"query q({params}) {{ {body} }}"):
        assert found.fix or found.expected, found


def test_every_code_that_is_reported_has_a_meaning() -> None:
    reported = {
        code
        for path in Path(compile.__file__).parent.rglob("*.py")
        for code in re.findall(r'"(T\d+)"', path.read_text())
    }
    assert reported == CHECK_CODES.keys()


@pytest.mark.parametrize(("params", "body"), ACCEPTED)
def test_a_right_query_is_accepted(params: str, body: str) -> None:
    checked(f"query q({params}) {{ {body} }}")


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("match { $v: Vesel } return { $v }", "Vessel"),
        ("match { $v: Vessel { nam: 1 } } return { $v }", "name"),
        ("match { $v: Vessel } return { $v.nme }", "$v.name"),
        ("match { $v: Vessel } return { $v.id }", "$v"),
        ("match { $v: Vessel  $v callAt $p } return { $p }", "callsAt"),
        ("match { $v: Vessel  $v <callsAt> $p } return { $p }", "callsAt"),
        ('match { $v: Vessel { built: "2020-01-01" } } return { $v }', 'date("2020-01-01")'),
        ("match { $v: Vessel } return { $v.name as label } order { labl }", "label"),
        ('insert Callsat { from: "1", to: "2" }', "CallsAt"),
        ('delete CallsAt where src = "1"', "from"),
        ('delete Port where cod = "1"', "code"),
        (
            'update Vessel set { seen: "2020-01-01T00:00:00Z" } where imo = "1"',
            'datetime("2020-01-01T00:00:00Z")',
        ),
    ],
)
def test_an_obvious_fix_is_offered(body: str, fix: str) -> None:
    assert diagnostics(f"query q() {{ {body} }}")[0].fix == fix


def test_the_error_carries_every_finding_and_leads_with_the_first() -> None:
    text = "query q() {\n  match { $v: Vessel  $v.nme = 1  $v heals $p }\n  return { $v.dwt, $v.dwt }\n}"
    with pytest.raises(QueryError) as caught:
        checked(text)
    assert [d["code"] for d in caught.value.details["diagnostics"]] == ["T6", "T4", "T34"]
    assert caught.value.code == "T6"
    assert caught.value.details["diagnostic"]["position"] == {"line": 2, "column": 23, "byte": 34}


def test_one_mistake_is_one_finding() -> None:
    text = (
        "query q() { match { $v: Vesel { name: 1 }  $v callsAt $p  $v.x = 1 } return { $v.y, $v } }"
    )
    assert [d.code for d in diagnostics(text)] == ["T1"]


def test_an_unknown_edge_does_not_make_its_ends_unknown() -> None:
    text = "query q() { match { $v: Vessel  $v $e:heals $p  $e.x = 1 } return { $p.name } }"
    assert [d.code for d in diagnostics(text)] == ["T4"]


def test_a_report_is_bounded() -> None:
    items = ", ".join(f"$v.x{i}" for i in range(500))
    assert len(diagnostics(f"query q() {{ match {{ $v: Vessel }} return {{ {items} }} }}")) == 20


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("match { $v: Vessel { nam: 1 } } return { $v }", "nam"),
        ("match { $v: Vessel { dwt: \"x\" } } return { $v }", '"x"'),
        ("match { $v: Vesel } return { $v }", "Vesel"),
        ("match { $v: Vessel  $v heals $p } return { $v }", "heals"),
        ("match { $v: Vessel } return { $v.nme }", "$v.nme"),
        ("match { $v: Vessel } return { $v } order { lbl }", "lbl"),
        ("match { $p: Port  $p feeds{3,2} $q } return { $p }", "{3,2}"),
        ("insert Vesel { imo: \"1\" }", "Vesel"),
        ("delete Port where depth = 1", "depth"),
    ],
)  # fmt: skip
def test_a_finding_points_at_the_offending_token(body: str, shown: str) -> None:
    text = f"query q() {{ {body} }}"
    span = diagnostics(text)[0].span
    assert text[span.start : span.end] == shown
