"""A query as a whole: its parameters and body together, and the error its findings make."""

from collections import Counter
from collections.abc import Sequence

from omnigraph.catalog.model import Catalog
from omnigraph.compile.check.context import Context
from omnigraph.compile.check.findings import Findings
from omnigraph.compile.check.mutation import check_mutation
from omnigraph.compile.check.parameters import parameters
from omnigraph.compile.check.read import check_read
from omnigraph.compile.check.scope import Namer, introductions
from omnigraph.compile.checked import Checked
from omnigraph.errors import OmniError, Problem, data_error
from omnigraph.language.query import tree
from omnigraph.language.source import Diagnostic, Source, query_error


def check(
    query: tree.Query, catalog: Catalog, source: Source, *, extended: bool = False
) -> Checked:
    """Check one query against a schema, or raise everything that is wrong with it."""
    checked, found = findings(query, catalog, source, extended=extended)
    if checked is None:
        raise check_error(found, catalog, source)
    return checked


def findings(
    query: tree.Query, catalog: Catalog, source: Source, *, extended: bool = False
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """Check one query and list what is wrong instead of raising; the first finding leads."""
    report = Findings(query.name.text)
    clauses = query.body.clauses if isinstance(query.body, tree.Read) else ()
    context = Context(
        catalog=catalog,
        params=parameters(query.params, report),
        findings=report,
        namer=Namer(introductions(clauses)),
        variables={},
        extended=extended,
    )
    checked: Checked
    if isinstance(query.body, tree.Read):
        checked = check_read(query, query.body, context)
    else:
        checked = check_mutation(query, query.body, context)
    # What is wrong with the text leads; values come after it, as they do when a query runs.
    ordered = sorted(report.found, key=_concerns_value)
    placed = tuple(source.place(diagnostic) for diagnostic in ordered)
    return (None if placed else checked), placed


def check_file(file: tree.QueryFile, catalog: Catalog, source: Source) -> tuple[Checked, ...]:
    """Check every query of a file, or raise everything that is wrong with any of them."""
    wrong = list(find_repeated_names(file))
    checked: list[Checked] = []
    for query in file.queries:
        one, found = findings(query, catalog, source, extended=file.extended)
        wrong += found
        checked += [one] if one is not None else []
    if wrong:
        raise check_error(wrong, catalog, source)
    return tuple(checked)


def find_repeated_names(file: tree.QueryFile) -> tuple[Diagnostic, ...]:
    """Report every query whose name an earlier one of the file has."""
    report = Findings("")
    seen: Counter[str] = Counter()
    for query in file.queries:
        name = query.name.text
        seen[name] += 1
        if seen[name] == 2:
            message = f"two queries of this file are called '{name}'; give one another name"
            report.query_name = name
            report.report("T30", query.name.span, message)
    return tuple(report.found)


def check_error(found: Sequence[Diagnostic], catalog: Catalog, source: Source) -> OmniError:
    """The error that findings make; the first decides whether query or data is to blame."""
    if not _concerns_value(found[0]):
        return query_error(source, found)
    return data_error([_problem(one, catalog) for one in found if _concerns_value(one)])


def _concerns_value(found: Diagnostic) -> bool:
    return (found.code or "").startswith("W")


def _problem(found: Diagnostic, catalog: Catalog) -> Problem:
    name = found.type_name or ""
    table = catalog.nodes.get(name) or catalog.edges.get(name)
    return Problem(
        rule=found.code or "",
        message=found.message,
        table_key=table.table_key if table else None,
        property=found.property,
    )
