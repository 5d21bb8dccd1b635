"""From text to checked queries, with a schema that has something of everything."""

from functools import cache

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.compile.check import check, check_findings
from omnigraphdb.compile.checked import Checked, CheckedMutation, CheckedRead
from omnigraphdb.language.diagnostics import Diagnostic
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source

HARBOUR = """
interface Named { name: String }
node Vessel implements Named {
  imo: String @key
  kind: enum(bulk, tanker, roro)?
  built: Date?
  seen: DateTime?
  dwt: I64?
  draft: F32?
  crew: U32?
  active: Bool?
  tags: [String]?
  marks: [I32]?
  calls: [DateTime]?
  blurb: String?
  scan: Blob?
  sig: Vector(3)? @embed("blurb", model="acme/e1")
}
node Port implements Named { code: String @key  lat: F64? }
node Company { name: String @key }
node Note { text: String  vec: Vector(3) @embed("text") }
edge CallsAt: Vessel -> Port { eta: DateTime?  berth: String?  papers: Blob? }
edge Feeds: Port -> Port { weight: I32? }
edge OwnedBy: Vessel -> Company
edge Rated: Company -> Port { score: F64  tags: [String]? }
"""

EXTENDED = "use extensions\n"


@cache
def harbour() -> Catalog:
    """The schema every checker test speaks of."""
    return compile_schema(HARBOUR)


def diagnostics(text: str, catalog: Catalog | None = None) -> tuple[Diagnostic, ...]:
    """What the checker says about the only query of a text."""
    source = Source(text)
    file = parse_queries(source)
    (query,) = file.queries
    return check_findings(query, catalog or harbour(), source)[1]


def checked(text: str, catalog: Catalog | None = None) -> Checked:
    """The only query of a text, checked."""
    source = Source(text)
    file = parse_queries(source)
    (query,) = file.queries
    return check(query, catalog or harbour(), source)


def read(body: str, params: str = "", *, extended: bool = False) -> CheckedRead:
    """A read query, checked; the body is everything between its braces."""
    found = checked(f"{EXTENDED if extended else ''}query q({params}) {{ {body} }}")
    assert isinstance(found, CheckedRead)
    return found


def mutation(body: str, params: str = "", *, extended: bool = False) -> CheckedMutation:
    """A mutation, checked; the body is everything between its braces."""
    found = checked(f"{EXTENDED if extended else ''}query q({params}) {{ {body} }}")
    assert isinstance(found, CheckedMutation)
    return found
