"""Editions of the language: the two forms that meant something else in the first one, which lint names."""

from collections.abc import Iterator
from itertools import pairwise

from omnigraphdb.catalog.types import Scalar
from omnigraphdb.compile.checked import Aggregate, Checked, CheckedRead, CheckedStage
from omnigraphdb.compile.plan.visit import walk
from omnigraphdb.language.diagnostics import Diagnostic, Severity, Stage
from omnigraphdb.language.query import tree
from omnigraphdb.language.source import Source, Span


def find_changed_meanings(
    query: tree.Query, checked: Checked | None, source: Source
) -> Iterator[Diagnostic]:
    """Find texts whose meaning differs from the first edition: a minus that begins a line, and a sum of integers."""
    for span in _find_leading_minus(query, source):
        yield _report(
            "L203",
            span,
            "this '-' subtracts from the line above; in the first edition it began an item or a clause of its own",
            "put a comma before it, if it is one",
            query,
        )
    for span in _find_integer_sums(checked):
        yield _report(
            "L204",
            span,
            "a sum of integers is an exact I64; in the first edition it was an F64",
            "sum(1.0 * …) gives an F64",
            query,
        )


def _find_leading_minus(query: tree.Query, source: Source) -> Iterator[Span]:
    if not isinstance(query.body, tree.Read):
        return
    parts: list[tree.Stage | tree.Read] = []
    for read in (query.body, *(union_read for _, union_read in query.body.union)):
        parts += [*read.stages, read]
    for part in parts:
        filters = (clause.condition for clause in part.clauses if isinstance(clause, tree.Filter))
        for expr in (*filters, *(item.expr for item in part.items)):
            yield from _find_in(expr, source)


def _find_in(expr: tree.Expr, source: Source) -> Iterator[Span]:
    if isinstance(expr, tree.Arithmetic):
        operands = (expr.first, *(part for _, part in expr.steps))
        for (op, _), (before, after) in zip(expr.steps, pairwise(operands), strict=True):
            between = source.text[before.span.end : after.span.start]
            if op == "-" and "\n" in between.partition("-")[0]:
                start = before.span.end + between.index("-")
                yield Span(start, start + 1)
    for part in tree.list_parts(expr):
        yield from _find_in(part, source)


def _find_integer_sums(checked: Checked | None) -> Iterator[Span]:
    if not isinstance(checked, CheckedRead):
        return
    parts: tuple[CheckedStage | CheckedRead, ...] = (*checked.stages, checked)
    for part in parts:
        for expr in walk(tuple(column.expr for column in part.columns)):
            if (
                isinstance(expr, Aggregate)
                and expr.function == "sum"
                and expr.type.scalar is Scalar.I64
            ):
                yield expr.span


def _report(code: str, span: Span, message: str, fix: str, query: tree.Query) -> Diagnostic:
    return Diagnostic(
        message=message,
        code=code,
        severity=Severity.INFO,
        stage=Stage.LINT,
        span=span,
        fix=fix,
        query_name=query.name.text,
        query_names=(query.name.text,),
    )
