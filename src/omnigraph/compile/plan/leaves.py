"""The leaves of expressions and conditions: listing them, and changing them with whatever stays the same shared."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, assert_never

from omnigraph.compile.checked import (
    Aggregate,
    AllOf,
    Among,
    AnyOf,
    Bm25,
    Compare,
    Condition,
    Const,
    EntityRef,
    IsNull,
    ItemExpr,
    Nearest,
    Not,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
    Ranking,
    Rrf,
    TextMatch,
)
from omnigraph.language.source import NOWHERE
from omnigraph.values import dataclass

Reference = PropertyRef | EntityRef
Fixed = Const | ParamRef

T = TypeVar("T")


def _same(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of each kind of leaf; `field` is a property inside a search or ranking."""

    reference: Callable[[Reference], Reference] = _same
    field: Callable[[PropertyRef], PropertyRef] = _same
    fixed: Callable[[Fixed], Fixed] = _same
    now: Callable[[Now], Now | Const] = _same


def change_operand(operand: Operand, change: Change) -> Operand:
    """Change one operand."""
    match operand:
        case PropertyRef() | EntityRef():
            return change.reference(operand)
        case Const() | ParamRef():
            return change.fixed(operand)
        case Now():
            return change.now(operand)
        case _:
            assert_never(operand)


def change_condition(condition: Condition, change: Change) -> Condition:
    """Change every leaf of a condition."""
    match condition:
        case Compare(left=left, right=right):
            new = change_operand(left, change), change_operand(right, change)
            return condition if new[0] is left and new[1] is right else replace(
                condition, left=new[0], right=new[1]
            )  # fmt: skip
        case IsNull(operand=operand):
            one = change_operand(operand, change)
            return condition if one is operand else replace(condition, operand=one)
        case Among(operand=operand, choices=choices):
            one, among = change_operand(operand, change), change.fixed(choices)
            return condition if one is operand and among is choices else Among(
                operand=one, choices=among
            )  # fmt: skip
        case TextMatch():
            return change_text(condition, change)
        case Not(part=part):
            inner = change_condition(part, change)
            return condition if inner is part else Not(part=inner)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            changed = tuple(change_condition(part, change) for part in parts)
            same = all(new is old for new, old in zip(changed, parts, strict=True))
            return condition if same else replace(condition, parts=changed)
        case _:
            assert_never(condition)


def change_text(text: TextMatch, change: Change) -> TextMatch:
    """Change every leaf of a text search."""
    field, query = change.field(text.field), change.fixed(text.query)
    distance = None if text.distance is None else change.fixed(text.distance)
    if field is text.field and query is text.query and distance is text.distance:
        return text
    return TextMatch(function=text.function, field=field, query=query, distance=distance)


def change_ranking(ranking: Ranking, change: Change) -> Ranking:
    """Change every leaf of a ranking."""
    if not isinstance(ranking, Rrf):
        return _change_arm(ranking, change)
    first, second = _change_arm(ranking.first, change), _change_arm(ranking.second, change)
    k = change.fixed(ranking.k)
    if first is ranking.first and second is ranking.second and k is ranking.k:
        return ranking
    return Rrf(first=first, second=second, k=k)


def _change_arm(arm: Nearest | Bm25, change: Change) -> Nearest | Bm25:
    field, query = change.field(arm.field), change.fixed(arm.query)
    if field is arm.field and query is arm.query:
        return arm
    return replace(arm, field=field, query=query, span=NOWHERE)


def change_item(expr: ItemExpr, change: Change) -> ItemExpr:
    """Change every leaf of a result expression."""
    match expr:
        case Aggregate():
            return change_aggregate(expr, change)
        case TextMatch():
            return change_text(expr, change)
        case Nearest() | Bm25() | Rrf():
            return change_ranking(expr, change)
        case _:
            return change_operand(expr, change)


def change_aggregate(aggregate: Aggregate, change: Change) -> Aggregate:
    """Change the argument of an aggregate."""
    argument = change_argument(aggregate.argument, change)
    if argument is aggregate.argument:
        return aggregate
    return replace(aggregate, argument=argument, span=NOWHERE)


def change_argument(argument: Reference | Fixed, change: Change) -> Reference | Fixed:
    """Change what an aggregate is over."""
    match argument:
        case PropertyRef() | EntityRef():
            return change.reference(argument)
        case Const() | ParamRef():
            return change.fixed(argument)
        case _:
            assert_never(argument)


def references(part: object) -> Iterator[PropertyRef]:
    """Every property that a part of a query or of a plan mentions."""
    if isinstance(part, PropertyRef):
        yield part
    elif is_dataclass(part):
        for name in (one.name for one in fields(part)):
            yield from references(getattr(part, name))
    elif isinstance(part, tuple):
        for item in part:
            yield from references(item)
