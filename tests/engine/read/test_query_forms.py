"""Every form of the language is known to everything that reads queries: layout, lint, descriptors, plans, profiles."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.compile.check import check
from omnigraphdb.compile.checked import CheckedRead
from omnigraphdb.compile.descriptor import describe_operation
from omnigraphdb.compile.lint import lint
from omnigraphdb.language.diagnostics import Severity
from omnigraphdb.language.query.format import format_queries, format_source
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source
from tests.support.queries import without_places
from tests.support.query_forms import FORMS, READS, RECORDS, SCHEMA, WRITES, Form, catalog


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    place: Path = tmp_path_factory.mktemp("forms")
    with omnigraphdb.init(place / "g", SCHEMA) as made:
        made.load(RECORDS, mode="append")
        yield made


def named(form: Form) -> str:
    return form.name


@pytest.mark.parametrize("form", FORMS, ids=named)
def test_a_form_survives_its_layout_and_passes_lint(form: Form) -> None:
    tree = parse_queries(Source(form.text))
    text = format_queries(tree)
    assert without_places(parse_queries(Source(text))) == without_places(tree)
    assert format_source(Source(text)) == text
    assert not [one for one in lint(catalog(), Source(text)) if one.severity is Severity.ERROR]


@pytest.mark.parametrize("form", FORMS, ids=named)
def test_a_form_is_described(form: Form, graph: Graph) -> None:
    source = Source(form.text)
    checked = check(parse_queries(source).queries[0], catalog(), source)
    described = describe_operation(checked, catalog())
    if isinstance(checked, CheckedRead):
        found = graph.query(form.text, dict(form.given))
        assert [one.name for one in described.result] == found.columns
        assert described.reads
        assert not described.writes
    else:
        assert described.writes


@pytest.mark.parametrize("form", READS, ids=named)
def test_a_read_finds_its_rows_and_shows_how(form: Form, graph: Graph) -> None:
    assert len(graph.query(form.text, dict(form.given)).rows) == form.rows
    assert sum(one.num_rows for one in graph.stream(form.text, dict(form.given))) == form.rows
    planned = graph.explain(form.text, dict(form.given))
    profiled = graph.explain(form.text, dict(form.given), profile=True)
    assert str(planned)
    assert profiled.steps[-1].rows == form.rows or profiled.steps[0].rows == form.rows


@pytest.mark.parametrize("form", WRITES, ids=named)
def test_a_write_counts_its_rows(form: Form, graph: Graph) -> None:
    done = graph.mutate(form.text, dict(form.given), dry_run=True)
    assert done.affected_nodes + done.affected_edges == form.rows
