"""A query as a whole: its parameters and body together, and the error its findings make."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import INTEGERS, PropertyType, Scalar
from omnigraph.compile.check.context import (
    ANONYMOUS,
    Context,
    Namer,
    Scope,
    list_block_introductions,
    list_introductions,
)
from omnigraph.compile.check.expressions import check_parameter
from omnigraph.compile.check.items import (
    check_columns,
    check_having,
    check_left_names,
    check_per,
)
from omnigraph.compile.check.mutation import check_mutation
from omnigraph.compile.check.order import check_sort_keys
from omnigraph.compile.check.pattern import check_block, check_pattern
from omnigraph.compile.checked import (
    Aggregate,
    Bm25,
    Checked,
    CheckedRead,
    CheckedStage,
    Const,
    Demand,
    Nearest,
    Parameter,
    ParamRef,
    Pattern,
    Rrf,
    TextMatch,
)
from omnigraph.compile.plan.visit import walk
from omnigraph.errors import OmniError, Problem, data_error
from omnigraph.language.diagnostics import (
    Diagnostic,
    Findings,
    Stage,
    list_alternatives,
    locate,
    query_error,
)
from omnigraph.language.query import tree
from omnigraph.language.source import Source
from omnigraph.limits import PROBLEMS_SHOWN_MAX


def check(query: tree.Query, catalog: Catalog, source: Source) -> Checked:
    """Check one query against a schema, or raise everything that is wrong with it."""
    checked, found = check_findings(query, catalog, source)
    if checked is None:
        raise check_error(found, catalog, source)
    return checked


def check_findings(
    query: tree.Query, catalog: Catalog, source: Source
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """Check one query and list what is wrong instead of raising; the first finding leads."""
    report = Findings(source, query_name=query.name.text)
    context = Context(
        catalog=catalog,
        params=check_parameters(query.params, report),
        findings=report,
        namer=Namer(_list_names(query.body)),
        variables={},
        check_block=check_block,
    )
    check_exposure(query.mcp or (), report)
    checked: Checked
    if isinstance(query.body, tree.Read):
        checked = check_read(query, query.body, context)
    else:
        checked = check_mutation(query, query.body, context)
    # What is wrong with the text leads; values come after it, as they do when a query runs.
    ordered = sorted(report.found, key=_concerns_value)
    placed = tuple(locate(source, diagnostic) for diagnostic in ordered)
    return (None if placed else checked), placed


def check_file(file: tree.QueryFile, catalog: Catalog, source: Source) -> tuple[Checked, ...]:
    """Check every query of a file, or raise everything that is wrong with any of them."""
    wrong = list(find_repeated_names(file))
    checked: list[Checked] = []
    for query in file.queries:
        one, found = check_findings(query, catalog, source)
        wrong += found
        checked += [one] if one is not None else []
    if wrong:
        raise check_error(wrong, catalog, source)
    return tuple(checked)


def find_repeated_names(file: tree.QueryFile) -> tuple[Diagnostic, ...]:
    """Report every query whose name an earlier one of the file has."""
    first: dict[str, int] = {}
    repeated: dict[str, tree.Name] = {}
    for number, query in enumerate(file.queries):
        if first.setdefault(query.name.text, number) != number:
            repeated.setdefault(query.name.text, query.name)
    return tuple(_report_repeated(name) for name in islice(repeated.values(), PROBLEMS_SHOWN_MAX))


def _report_repeated(name: tree.Name) -> Diagnostic:
    return Diagnostic(
        message=f"two queries of this file are called '{name.text}'; give one another name",
        code="T30",
        stage=Stage.TYPECHECK,
        span=name.span,
        query_name=name.text,
    )


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


def _list_names(body: tree.Read | tuple[tree.Statement, ...]) -> Counter[str]:
    """Count where the names of variables are introduced."""
    if isinstance(body, tuple):
        return Counter()
    found: Counter[str] = Counter()
    parts: tuple[tree.Stage | tree.Read, ...] = (*body.stages, body)
    for part in parts:
        shown = [*(item.expr for item in part.items), *part.having]
        shown += [key.expr for key in part.order]
        found += list_introductions(part.clauses) + list_block_introductions(*shown)
    for _, other in body.union:
        found += _list_names(other)
    return found


# ---- parameters


DIMENSION_MAX = 2**31 - 1
RESERVED_PREFIX = "__"

_SCALARS = {str(scalar): scalar for scalar in Scalar}


_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def check_exposure(options: Sequence[tree.Option], report: Findings) -> None:
    """Check what `@mcp(…)` says: `expose` is true or false, `tool_name` a word, each at most once."""
    seen: set[str] = set()
    for option in options:
        name, value = option.name.text, option.value
        if name in seen or not _is_option(name, value):
            message = (
                f"'{name}' is no option of @mcp here: it takes expose: true or false, and tool_name: a"
                " text of letters, digits and underscores, each at most once"
            )
            report.report(
                "T64", option.span, message, fix='@mcp(expose: true, tool_name: "find_person")'
            )
        seen.add(name)


def _is_option(name: str, value: str | bool) -> bool:
    if name == "expose":
        return isinstance(value, bool)
    return name == "tool_name" and isinstance(value, str) and bool(_TOOL_NAME.fullmatch(value))


def check_parameters(declared: Sequence[tree.Param], report: Findings) -> Mapping[str, Parameter]:
    """Check the declared parameters; one whose type is wrong stays, so that its uses are understood."""
    found: dict[str, Parameter] = {}
    for param in declared:
        name = param.name.text
        if name in found:
            message = f"parameter '${name}' is declared twice; one of them must go"
            report.report("T31", param.name.span, message)
            continue
        problem = _declaration_problem(param)
        if problem is not None:
            report.report("T28", param.span, f"parameter '${name}' {problem}")
        found[name] = Parameter(name=name, type=_type(param.type), span=param.span)
    return found


def _declaration_problem(param: tree.Param) -> str | None:
    written = param.type
    if param.name.text.startswith(RESERVED_PREFIX):
        return f"begins with '{RESERVED_PREFIX}', and such names are reserved"
    if param.name.text == ANONYMOUS:
        return "stands for nobody: '$_' is the anonymous variable"
    if written.dimension is not None:
        if 1 <= written.dimension <= DIMENSION_MAX:
            return None
        return f"has dimension {written.dimension}; a Vector has 1 to {DIMENSION_MAX}"
    if written.scalar not in _SCALARS:
        return f"has the unknown type '{written.scalar}'; types are {', '.join(Scalar)}"
    if written.is_list and written.scalar == Scalar.BLOB:
        return "is a list of Blob, which does not exist"
    return None


def _type(written: tree.ParamType) -> PropertyType:
    if written.dimension is not None:
        return PropertyType(
            scalar=Scalar.F32, dimension=written.dimension, nullable=written.nullable
        )
    return PropertyType(
        scalar=_SCALARS.get(written.scalar or "", Scalar.STRING),
        is_list=written.is_list,
        nullable=written.nullable,
    )


# ---- reads


_ROWS = PropertyType(scalar=Scalar.I64)


def check_read(query: tree.Query, read: tree.Read, context: Context) -> CheckedRead:
    """Check a read; what it returns counts only when nothing was reported."""
    first = _check_single(query, read, context)
    joined = tuple((every, _check_single(query, one, context)) for every, one in read.union)
    for (_, other), (_, written) in zip(joined, read.union, strict=True):
        _check_joined(first, other, written, context)
    if read.union:
        _check_union_order(read, first, context)
    checked = replace(first, union=joined, variables=context.variables)
    return replace(checked, demands=list_demands(checked))


def _check_single(query: tree.Query, read: tree.Read, context: Context) -> CheckedRead:
    """Check the stages of a read and its result."""
    before: Scope | None = None
    stages = []
    for written in read.stages:
        stage, before = _check_stage(written, before, context)
        stages.append(stage)
    matched, scope = check_pattern(read.clauses, context, before)
    asked = len(scope.blocks)
    projected = check_columns(read, scope, context)
    return CheckedRead(
        name=query.name.text,
        params=context.params,
        pattern=matched,
        variables=context.variables,
        columns=projected,
        distinct=read.distinct,
        having=check_having(read, scope, context),
        order=check_sort_keys(read, projected, scope, context),
        blocks=tuple(scope.blocks[asked:]),
        limit=_check_bound("limit", read.limit, context),
        offset=_check_bound("offset", read.offset, context),
        description=query.description,
        instruction=query.instruction,
        stages=tuple(stages),
    )


def _check_stage(
    written: tree.Stage, before: Scope | None, context: Context
) -> tuple[CheckedStage, Scope]:
    """Check a stage; also give the names that it leaves."""
    matched, scope = check_pattern(written.clauses, context, before)
    asked = len(scope.blocks)
    columns = check_columns(written, scope, context)
    having = check_having(written, scope, context)
    order = check_sort_keys(written, columns, scope, context)
    after, entities = check_left_names(written, columns, scope, context)
    stage = CheckedStage(
        pattern=matched,
        columns=columns,
        entities=entities,
        distinct=written.distinct,
        having=having,
        order=order,
        per=check_per(written, columns, scope, context),
        blocks=tuple(scope.blocks[asked:]),
        limit=_check_bound("limit", written.limit, context),
        offset=_check_bound("offset", written.offset, context),
    )
    return stage, after


def _check_joined(
    first: CheckedRead, other: CheckedRead, written: tree.Read, context: Context
) -> None:
    """Check that a read of a union gives the columns of the first, and leaves order and bounds to the whole."""
    columns, others = (
        [(one.name, replace(one.type, nullable=True, enum_values=())) for one in read.columns]
        for read in (first, other)
    )
    if columns != others:
        context.findings.report(
            "T62",
            written.span,
            f"the reads of a union have equal columns; the first has {_list_columns(first)},"
            f" this one {_list_columns(other)}",
        )
    if written.order or written.limit or written.offset:
        message = (
            "order, offset and limit stand behind the last read of a union, for all of its rows"
        )
        context.findings.report("T62", written.span, message)


def _check_union_order(read: tree.Read, first: CheckedRead, context: Context) -> None:
    """Check that the rows of a union are ordered by columns: entities of one read mean nothing in another."""
    for written, key in zip(read.order, first.order, strict=False):
        if not isinstance(key.key, str):
            message = f"the rows of a union are ordered by its columns: {_list_columns(first)}"
            context.findings.report("T62", written.span, message)


def _list_columns(read: CheckedRead) -> str:
    return ", ".join(f"{one.name}: {one.type}" for one in read.columns) or "none"


def _check_bound(
    word: str, expr: tree.LiteralExpr | tree.VariableExpr | None, context: Context
) -> Const | ParamRef | None:
    match expr:
        case None:
            return None
        case tree.LiteralExpr() if expr.form == "int":
            return Const(value=expr.value, type=_ROWS, span=expr.span)
        case tree.LiteralExpr():
            context.findings.report("T7", expr.span, f"{word} takes an integer, not {expr.form}")
        case tree.VariableExpr() if expr.name not in context.params:
            reason = list_alternatives(expr.name, context.params, "parameters")
            message = (
                f"{word} takes an integer or a parameter, '${expr.name}' is not declared{reason}"
            )
            context.findings.report("T25", expr.span, message)
        case tree.VariableExpr():
            return _check_integer_parameter(word, expr, context)
    return None


def _check_integer_parameter(
    word: str, expr: tree.VariableExpr, context: Context
) -> ParamRef | None:
    found = check_parameter(expr, context)
    if found.type.is_plain and found.type.scalar in INTEGERS:
        return found
    message = f"{word} takes an integer parameter (I64), '${expr.name}' is {found.type}"
    context.findings.report("T7", expr.span, message)
    return None


# ---- demands


_Use = tuple[Const | ParamRef | None, str, int | None]


def list_demands(read: CheckedRead) -> tuple[Demand, ...]:
    """What a read asks of its parameters."""
    return tuple(
        Demand(parameter=used, word=word, least=least)
        for used, word, least in _uses(read)
        if isinstance(used, ParamRef)
    )


def _uses(read: CheckedRead) -> Iterator[_Use]:
    parts: tuple[CheckedStage | CheckedRead, ...] = (*read.stages, read)
    for part in parts:
        yield part.limit, "limit", 0
        yield part.offset, "offset", 0
        yield from _expression_uses(part.having)
        for column in part.columns:
            yield from _expression_uses(column.expr)
        for key in part.order:
            if not isinstance(key.key, str):
                yield from _expression_uses(key.key)
    for pattern in read.patterns:
        yield from _pattern_uses(pattern)
    for _, other in read.union:
        yield from _uses(other)


def _pattern_uses(pattern: Pattern) -> Iterator[_Use]:
    for condition in pattern.conditions:
        yield from _expression_uses(condition)
    for block in pattern.nested:
        yield from _pattern_uses(block)


def _expression_uses(expr: object) -> Iterator[_Use]:
    for one in walk(expr):
        match one:
            case TextMatch():
                yield one.query, f"the query text of {one.function}", None
                yield one.distance, "the edit distance of fuzzy", 0
            case Nearest():
                yield one.query, "the query of nearest", None
            case Bm25():
                yield one.query, "the query text of bm25", None
            case Rrf():
                yield one.k, "the constant k of rrf", 1
            case Aggregate():
                yield one.fraction, "the fraction of percentile", 0
            case _:
                pass
