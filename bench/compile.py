"""How long a mebibyte of queries takes to compile: `python bench/compile.py [rounds]`.

The text is cut into tokens, parsed, and checked against a schema, as a server does before it takes stored queries; the goal
is two seconds. Each read is planned when it is first run, which is timed beside it. Times are of the processor, the best of
the rounds. Ratios are to Python's own parser, which is written in C, over as many bytes of Python: they say the same on a slow
machine and on a fast one.
"""

import ast
import gc
import inspect
import sys
import textwrap
import time
from collections.abc import Callable
from itertools import count, cycle
from typing import Any

from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.compile.check import check_file
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.lower import lower
from omnigraphdb.compile.rules import optimize
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source

BYTES = 1 << 20
SECONDS_MAX = 2.0
ROUNDS = 5
SCHEMA = """
interface Named { name: String }
node Port implements Named { code: String @key  lat: F64?  calls: I64? }
node Vessel implements Named {
  imo: String @key  kind: enum(bulk, tanker, roro)?  built: Date?  seen: DateTime?  dwt: I64?  tags: [String]?
}
edge CallsAt: Vessel -> Port { eta: DateTime?  berth: String? }
edge Feeds: Port -> Port { weight: I32? }
"""
BODIES = (
    """($code: String, $since: DateTime?) @description("Who calls at a port") {
  match {
    $p: Port { code: $code }
    $v $c:callsAt $p
    $c.eta >= $since
  }
  return { $v.name as vessel, $c.eta as eta }
  order { eta desc }
  limit 20
}""",
    """($least: I64) {
  match { $v: Vessel  $v.dwt > $least or $v.kind in ["bulk", "tanker"]  not { $v callsAt $_ } }
  return { $v, $v.name, lower($v.name) as low, case when $v.dwt > 90000 then "large" else "small" end as size }
  order { low }  offset 20  limit 10
}""",
    """() {
  match { $v: Vessel  $v callsAt $p  optional { $p feeds{1,3} $q  $q.lat > 50.5 } }
  return { $p.code, count(distinct $v) as n, sum($v.dwt) / count($v.dwt) as mean, collect($q.name) as names }
  having { n > 1 }  order { n desc }
}""",
    """($n: I64) {
  match { $p: Port  count { $v callsAt $p  $v.kind = "tanker" } > 3 }
  with { $p, $p.lat as lat }  order { lat desc }  limit $n
  match { $p $e:feeds $q  $q != $p }
  return distinct { $p.name as start, $q.name as goal, $e.weight * 2 + 1 as cost }
}""",
    """($imo: String, $name: String) { update Vessel set { name: trim($name), dwt: coalesce($.dwt, 0) + 1 } where imo = $imo }""",
    """($rows: [{ code: String, name: String, lat: F64? }]) {
  unnest $rows as $r insert Port { code: $r.code, name: $r.name, lat: $r.lat } if absent returning { id, created }
}""",
)
"""What people ask: names, filters, counts, stages, writes."""


def write_queries(size: int) -> str:
    """Write queries up to a number of bytes, each with a name of its own."""
    parts: list[str] = []
    for number, body in zip(count(), cycle(BODIES), strict=False):
        part = f"query q{number}{body}\n\n"
        if size < len(part):
            return "".join(parts)
        parts.append(part)
        size -= len(part)
    raise AssertionError("unreachable")


def spend(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor, and what came of it."""
    gc.collect()
    start = time.process_time()
    done = work()
    return time.process_time() - start, done


def compile_once(text: str) -> dict[str, float]:
    """The seconds of each step."""
    source, catalog = Source(text), compile_schema(SCHEMA)
    parsing, file = spend(lambda: parse_queries(source))
    checking, checked = spend(lambda: check_file(file, catalog, source))
    reads = [one for one in checked if isinstance(one, CheckedRead)]
    planning, _ = spend(lambda: [optimize(lower(one, catalog)) for one in reads])
    return {"parse": parsing, "check": checking, "plan": planning}


def parse_python() -> float:
    """Seconds of Python's own parser for as many bytes, of this module's functions again and again."""
    body = textwrap.dedent(inspect.getsource(compile_once))
    text = body * (BYTES // len(body))
    return min(spend(lambda: ast.parse(text))[0] for _ in range(3))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    text = write_queries(BYTES)
    # The first reading loads the tables of the grammar.
    compile_once(write_queries(BYTES // 64))
    taken = [compile_once(text) for _ in range(rounds)]
    best = min(taken, key=lambda one: sum(one.values()))
    python, queries = parse_python(), text.count("query q")
    for step, seconds in best.items():
        print(f"{step:8} {seconds:5.2f} s, ratio to Python's parser {seconds / python:.2f}")
    compiled = best["parse"] + best["check"]
    print(
        f"compiled {compiled:5.2f} s for {len(text)} bytes in {queries} queries (goal {SECONDS_MAX:.0f})"
    )
    if compiled > SECONDS_MAX:
        raise SystemExit(f"a mebibyte took {compiled:.2f} s of the processor, not {SECONDS_MAX}")


if __name__ == "__main__":
    main()
