"""Changing plans: all tests, or all expressions, with whatever stays the same shared."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar, assert_never

from omnigraph.compile.checked import TextMatch
from omnigraph.compile.plan.algebra import Always, Test, all_of, conjuncts
from omnigraph.compile.plan.leaves import (
    Change,
    Reference,
    change_argument,
    change_condition,
    change_item,
    change_ranking,
    change_text,
)
from omnigraph.compile.plan.operators import (
    Anti,
    Argument,
    Expand,
    Field,
    Filter,
    Group,
    Operator,
    OptionalJoin,
    Output,
    Product,
    Project,
    Rank,
    Scan,
    Slice,
    Sort,
    SortBy,
    Tally,
    Window,
    rewrite,
)
from omnigraph.compile.plan.plan import Plan

T = TypeVar("T")


def add_filter(operator: Operator, tests: Iterable[Test]) -> Operator:
    """Put a filter on an operator, unless there is nothing to test."""
    wanted = conjuncts(all_of(tests))
    return Filter(operator, wanted) if wanted else operator


def change_tests(plan: Plan, change: Callable[[Test], Test]) -> Plan:
    """Change every test of the filters and scans; filters left without one disappear."""

    def visit(operator: Operator) -> Operator:
        match operator:
            case Filter(input=below, conditions=tests):
                changed = _conjoin(tests, change)
                return operator if changed == tests else add_filter(below, changed)
            case Scan(filter=tests):
                changed = _conjoin(tests, change)
                return operator if changed == tests else replace(operator, filter=changed)
            case _:
                return operator

    return plan.with_root(lambda root: rewrite(root, visit))


def _conjoin(tests: tuple[Test, ...], change: Callable[[Test], Test]) -> tuple[Test, ...]:
    return conjuncts(all_of(map(change, tests))) if tests else tests


def _itself(test: Test) -> Test:
    return test


def change_leaves(plan: Plan, change: Change, settle: Callable[[Test], Test] = _itself) -> Plan:
    """Change every leaf of every expression of the plan, and settle the tests that this changes."""
    return plan.with_root(
        lambda root: rewrite(root, lambda one: _rebuild_operator(one, change, settle))
    )


def _rebuild_operator(
    operator: Operator, change: Change, settle: Callable[[Test], Test]
) -> Operator:
    match operator:
        case Scan(filter=tests, search=search):
            new = _tests(tests, change, settle), _each(search, change, change_text)
            same = new[0] is tests and new[1] is search
            return operator if same else replace(operator, filter=new[0], search=new[1])
        case Filter(input=below, conditions=tests):
            changed = _tests(tests, change, settle)
            if changed is tests:
                return operator
            return Filter(below, changed) if changed else below
        case Rank():
            return _rebuild_rank(operator, change)
        case Group(keys=keys, tallies=tallies):
            by, counts = _each(keys, change, _output), _each(tallies, change, _tally)
            same = by is keys and counts is tallies
            return operator if same else replace(operator, keys=by, tallies=counts)
        case Sort(keys=order, window=window):
            sort, first = _each(order, change, _sort_key), _window(window, change)
            same = sort is order and first is window
            return operator if same else replace(operator, keys=sort, window=first)
        case Slice(input=below, window=window):
            bounds = _window(window, change)
            return operator if bounds is window or bounds is None else Slice(below, bounds)
        case Project(input=below, columns=columns):
            shown = _each(columns, change, _output)
            return operator if shown is columns else Project(below, shown)
        case Argument() | Expand() | Product() | Anti() | OptionalJoin():
            return operator
        case _:
            assert_never(operator)


def _each(parts: tuple[T, ...], change: Change, apply: Callable[[T, Change], T]) -> tuple[T, ...]:
    new = tuple(apply(part, change) for part in parts)
    return parts if all(a is b for a, b in zip(new, parts, strict=True)) else new


def _tests(
    tests: tuple[Test, ...], change: Change, settle: Callable[[Test], Test]
) -> tuple[Test, ...]:
    changed = _each(tests, change, _test)
    if changed is tests:
        return tests
    pairs = zip(changed, tests, strict=True)
    return conjuncts(all_of(new if new is old else settle(new) for new, old in pairs))


def _test(test: Test, change: Change) -> Test:
    return test if isinstance(test, Always) else change_condition(test, change)


def _output(output: Output, change: Change) -> Output:
    if isinstance(output.expr, Field):
        return output
    expr = change_item(output.expr, change)
    return output if expr is output.expr else replace(output, expr=expr)


def _tally(tally: Tally, change: Change) -> Tally:
    if tally.argument is None:
        return tally
    argument = change_argument(tally.argument, change)
    return tally if argument is tally.argument else replace(tally, argument=argument)


def _sort_key(key: SortBy, change: Change) -> SortBy:
    match key.expr:
        case Field():
            return key
        case TextMatch() as text:
            expr: TextMatch | Reference = change_text(text, change)
        case reference:
            expr = change.reference(reference)
    return key if expr is key.expr else replace(key, expr=expr)


def _rebuild_rank(rank: Rank, change: Change) -> Rank:
    ranking = change_ranking(rank.ranking, change)
    depth, window = _window(rank.depth, change), _window(rank.window, change)
    same = ranking is rank.ranking and depth is rank.depth and window is rank.window
    return rank if same else replace(rank, ranking=ranking, depth=depth, window=window)


def _window(window: Window | None, change: Change) -> Window | None:
    if window is None:
        return None
    offset = None if window.offset is None else change.fixed(window.offset)
    limit = None if window.limit is None else change.fixed(window.limit)
    same = offset is window.offset and limit is window.limit
    return window if same else Window(offset=offset, limit=limit)
