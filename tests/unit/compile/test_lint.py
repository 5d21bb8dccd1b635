"""What lint says about a file."""

import pytest

from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.compile.lint import lint, lint_report
from omnigraphdb.language.diagnostics import Severity
from omnigraphdb.language.source import Source
from tests.support.compiling import harbour

MIXED = Source(
    """
query good($k: String) { match { $v: Vessel { kind: $k } } return { $v.name } }
query bad() { match { $v: Vessel } return { $v.colour } }
query mixed($n: String) { insert Company { name: $n }  delete Company where name = $n }
query hard() { insert Company { name: "A" } }
""",
    name="queries/mixed.gq",
)


def codes(text: str) -> list[str | None]:
    return [d.code for d in lint(harbour(), Source(text))]


def test_every_query_is_checked_and_refusals_of_execution_are_found() -> None:
    found = lint(harbour(), MIXED)
    assert [(d.code, str(d.severity), d.query_name) for d in found] == [
        ("T29", "error", "mixed"),
        ("T6", "error", "bad"),
        (None, "warning", "hard"),
    ]
    assert found[1].source_name == "queries/mixed.gq"
    assert found[1].position.line == 3


def test_the_report_is_what_the_command_prints() -> None:
    report = lint_report(harbour(), MIXED, schema_source={"kind": "file", "path": "fleet.pg"})
    body = report.to_dict()
    assert {name: body[name] for name in ("status", "errors", "warnings", "infos")} == {
        "status": "error",
        "errors": 2,
        "warnings": 1,
        "infos": 0,
    }
    assert body["schema_source"] == {"kind": "file", "path": "fleet.pg"}
    assert body["query_path"] == "queries/mixed.gq"
    assert body["queries_processed"] == 4
    good, bad, mixed, hard = body["results"]
    assert (good["kind"], good["status"], good["warnings"]) == ("read", "ok", [])
    assert good["operation"]["result"] == [{"name": "v.name", "kind": "string", "nullable": False}]
    assert "error" not in good
    assert (bad["status"], "operation" in bad) == ("error", False)
    assert "colour" in bad["error"]
    assert (mixed["kind"], mixed["status"]) == ("mutation", "error")
    assert (hard["status"], len(hard["warnings"])) == ("ok", 1)
    assert body["findings"][1] == {
        "severity": "error",
        "code": "T6",
        "message": bad["error"],
        "type_name": "Vessel",
        "property": "colour",
        "query_names": ["bad"],
    }


def test_a_file_that_does_not_parse_is_one_finding() -> None:
    report = lint_report(harbour(), Source("query a() { match } query b( {"))
    (found,) = report.findings
    assert (found.code, str(found.severity), str(found.stage)) == ("Q000", "error", "parse")
    assert found.position.line == 1
    assert found.position.column > 1
    assert report.to_dict()["results"] == []


def test_an_empty_file_is_clean() -> None:
    report = lint_report(harbour(), Source(""))
    assert (report.status, report.findings, report.results) == ("ok", (), ())


def test_repeated_names_are_found() -> None:
    text = "query a() { match { $v: Vessel } return { $v } }\n"
    assert codes(text * 2) == ["T30"]


# ---- properties no update sets


def test_a_nullable_property_no_update_sets_is_mentioned_with_the_updates() -> None:
    found = lint(
        harbour(),
        Source(
            "query move($c: String, $l: F64?) { update Port set { lat: $l } where code = $c }\n"
            "query tag($i: String, $t: [String]?) { update Vessel set { tags: $t } where imo = $i }\n"
            "query age($i: String, $d: Date?) { update Vessel set { built: $d } where imo = $i }\n"
        ),
    )
    assert {d.code for d in found} == {"L201"}
    assert {d.type_name for d in found} == {"Vessel"}
    assert {d.query_names for d in found} == {("age", "tag")}
    never = [d.property for d in found]
    assert never == sorted(never, key=str)
    assert "sig" not in never, "the target of @embed is not the business of an update"
    assert "imo" not in never, "a key cannot be updated"
    assert "name" not in never, "a required property has a value already"
    assert {"tags", "built"}.isdisjoint(never)
    assert {"kind", "dwt", "scan", "blurb"} <= set(never)


def test_an_invalid_update_does_not_count() -> None:
    text = 'query bad($i: String) { update Vessel set { nme: "x" } where imo = $i }'
    assert codes(text) == ["T11"]


def test_an_insert_alone_asks_for_no_updates() -> None:
    assert codes("query add($n: String) { insert Company { name: $n } }") == []


# ---- vectors that nobody embeds


def test_an_insert_that_leaves_out_a_required_vector_is_mentioned() -> None:
    text = 'node D { text: String  vec: Vector(2) @embed("text")  may: Vector(2)? @embed("text") }'
    catalog = compile_schema(Source(text))
    left_out = "query a($t: String) { insert D { text: $t } }"
    given = "query b($t: String, $v: Vector(2)) { insert D { text: $t, vec: $v } }"
    (found,) = lint(catalog, Source(f"{left_out}\n{given}"))
    assert (found.code, str(found.severity), found.property) == ("L202", "warning", "vec")
    assert found.query_name == "a"
    assert "will be refused" in found.message


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("match { $v: Vessel } return { sum($v.dwt) as s }", ["L204"]),
        ("match { $v: Vessel } return { sum(1.0 * $v.dwt) as s, count($v) as n }", []),
        ("match { $v: Vessel } return { $v.dwt\n - 1 as s }", ["L203"]),
        ("match { $v: Vessel  $v.dwt - 1 > 2 } return { $v.dwt,\n -1 as s }", []),
    ],
)
def test_what_reads_otherwise_than_in_the_first_edition_is_named(
    body: str, codes: list[str]
) -> None:
    found = lint(harbour(), Source(f"query q() {{ {body} }}"))
    assert [one.code for one in found] == codes
    assert all(one.severity is Severity.INFO and one.fix for one in found)
