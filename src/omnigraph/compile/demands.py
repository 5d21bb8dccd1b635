"""Demands: what a read asks of parameters beyond their types, told by the places where it uses them."""

from collections.abc import Iterator

from omnigraph.compile.checked import (
    AllOf,
    AnyOf,
    Bm25,
    CheckedRead,
    Condition,
    Const,
    Demand,
    ItemExpr,
    Nearest,
    Not,
    ParamRef,
    Pattern,
    Rrf,
    TextMatch,
)

_Use = tuple[Const | ParamRef | None, str, int | None]


def demands_of(read: CheckedRead) -> tuple[Demand, ...]:
    """What a read asks of its parameters."""
    return tuple(
        Demand(parameter=used, word=word, least=least)
        for used, word, least in _uses(read)
        if isinstance(used, ParamRef)
    )


def _uses(read: CheckedRead) -> Iterator[_Use]:
    yield read.limit, "limit", 0
    yield read.offset, "offset", 0
    yield from _pattern_uses(read.pattern)
    for column in read.columns:
        yield from _expression_uses(column.expr)
    for key in read.order:
        if not isinstance(key.key, str):
            yield from _expression_uses(key.key)


def _pattern_uses(pattern: Pattern) -> Iterator[_Use]:
    for condition in pattern.conditions:
        yield from _condition_uses(condition)
    for block in (*pattern.negations, *pattern.optionals):
        yield from _pattern_uses(block)


def _condition_uses(condition: Condition) -> Iterator[_Use]:
    match condition:
        case TextMatch():
            yield from _expression_uses(condition)
        case AllOf() | AnyOf():
            for part in condition.parts:
                yield from _condition_uses(part)
        case Not():
            yield from _condition_uses(condition.part)
        case _:
            return


def _expression_uses(expr: ItemExpr) -> Iterator[_Use]:
    match expr:
        case TextMatch():
            yield expr.query, f"the query text of {expr.function}", None
            yield expr.distance, "the edit distance of fuzzy", 0
        case Nearest():
            yield expr.query, "the query of nearest", None
        case Bm25():
            yield expr.query, "the query text of bm25", None
        case Rrf():
            yield from _expression_uses(expr.first)
            yield from _expression_uses(expr.second)
            yield expr.k, "the constant k of rrf", 1
        case _:
            return
