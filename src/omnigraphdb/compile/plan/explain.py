"""Plans as text: a tree, the result on top, one operator per line."""

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import assert_never

from omnigraphdb.compile.checked import (
    Aggregate,
    AllOf,
    AnyOf,
    Bm25,
    Call,
    Compare,
    Const,
    Direction,
    Duration,
    EntityRef,
    Field,
    HopBound,
    InList,
    IsNull,
    ItemExpr,
    Nearest,
    Not,
    Now,
    Parameter,
    ParamRef,
    PathValue,
    PropertyRef,
    Rrf,
    TextMatch,
    Truth,
)
from omnigraphdb.compile.plan.algebra import Always, Test
from omnigraphdb.compile.plan.operators import (
    Anti,
    Argument,
    Attach,
    Expand,
    Filter,
    FindPaths,
    Group,
    Multiplicity,
    Operator,
    OptionalJoin,
    Output,
    Product,
    Project,
    Rank,
    Scan,
    Semi,
    Slice,
    Sort,
    SortBy,
    Stage,
    Tally,
    Union,
    Window,
)
from omnigraphdb.compile.plan.visit import list_inputs
from omnigraphdb.limits import VALUE_SHOWN_CHARS_MAX


def explain(name: str, params: Iterable[Parameter], root: Project) -> str:
    """Draw a plan as a tree; the same plan always gives the same text."""
    listed = ", ".join(f"${param.name}: {param.type}" for param in params)
    return "\n".join((f"query {name}({listed})", *_render_tree(root)))


def _render_tree(operator: Operator) -> Iterator[str]:
    yield render_operator(operator)
    below = list_inputs(operator)
    for position, child in enumerate(below, start=1):
        last = position == len(below)
        first, rest = ("└─ ", "   ") if last else ("├─ ", "│  ")
        for number, text in enumerate(_render_tree(child)):
            yield (rest if number else first) + text


# ---- operators


def render_operator(operator: Operator) -> str:
    """Describe one operator, without the operators below it."""
    match operator:
        case Scan(variable=variable, type_name=type_name):
            return f"Scan ${variable}: {type_name}" + _where((*operator.filter, *operator.search))
        case Argument(variables=variables):
            return f"Argument {_variables(variables)}"
        case Expand():
            return _expand(operator)
        case FindPaths():
            return _find_paths(operator)
        case Filter(conditions=conditions):
            return "Filter" + _where(conditions).removeprefix(" where")
        case Product(on=on):
            return "Product" + (f" on {_all(on)}" if on else "")
        case Anti(on=on):
            return f"Anti on {_variables(on)}"
        case Semi(on=on):
            return f"Semi on {_variables(on)}"
        case Attach(on=on, tally=tally, name=name):
            text = f"{name} = exists" if tally is None else _tally(tally)
            return f"Attach {text} on {_variables(on)}"
        case OptionalJoin(on=on, binds=binds):
            return f"Optional on {_variables(on)} binding {_variables(binds)}"
        case Rank():
            return f"Rank by {render_expression(operator.ranking)}{_ties(operator.ties)}" + _first(
                operator.window
            )
        case Group(keys=keys, tallies=tallies):
            return f"Group by {_list(map(_output, keys))}: {_list(map(_tally, tallies))}"
        case Sort(keys=keys):
            by = (*map(_sort_key, keys), *(f"${name}" for name in operator.ties))
            return f"Sort by {_list(by)}" + _first(operator.window)
        case Slice(window=window, per=per):
            return f"Slice {_window(window)}" + (
                f" per {_list(map(render_expression, per))}" if per else ""
            )
        case Stage(entities=entities, values=values):
            return f"With {_list((*(f'${entity}' for entity in entities), *map(_output, values)))}"
        case Union():
            return "Union"
        case Project(columns=columns):
            return f"Project {_list(map(_output, columns))}"
        case _:
            assert_never(operator)


_ARROWS = {Direction.OUT: "-[{}]->", Direction.IN: "<-[{}]-", Direction.BOTH: "-[{}]-"}


def _expand(expand: Expand) -> str:
    edge = (
        expand.edge if expand.edge_variable is None else f"${expand.edge_variable}: {expand.edge}"
    )
    if (expand.low, expand.high) != (1, 1) or expand.where:
        edge += _hops(expand, "")
    arrow = _ARROWS[expand.direction].format(edge)
    target = f"${expand.target}" if expand.closes else f"${expand.target}: {expand.target_type}"
    notes = [] if expand.keep is None else [f"keeps {_variables(expand.keep)}"]
    if expand.multiplicity is not Multiplicity.EACH:
        notes.append(str(expand.multiplicity))
    verb = "Expand into" if expand.closes else "Expand"
    return f"{verb} ${expand.source} {arrow} {target}" + (f" ({'; '.join(notes)})" if notes else "")


def _find_paths(find: FindPaths) -> str:
    choice = find.choice
    words = "" if choice.by is None else f" by {choice.by.property}"
    if choice.every:
        words += " all"
    elif choice.best is not None:
        words += f" best {_bound(choice.best)}"
    arrow = _ARROWS[find.direction].format(f"${choice.variable}: {find.edge}{_hops(find, words)}")
    target = f"${find.target}" if find.closes else f"${find.target}: {find.target_type}"
    keep = "" if find.keep is None else f" (keeps {_variables(find.keep)})"
    return f"Paths {'into ' if find.closes else ''}${find.source} {arrow} {target}{keep}"


def _hops(walk: Expand | FindPaths, words: str) -> str:
    high = "*" if walk.high is None else _bound(walk.high)
    return f"{{{_bound(walk.low)},{high}{words}{_where(walk.where)}}}"


def _bound(bound: HopBound) -> str:
    return str(bound) if isinstance(bound, int) else render_expression(bound)


def _variables(names: tuple[str, ...]) -> str:
    return _list(f"${name}" for name in names)


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts) or "nothing"


def _ties(names: tuple[str, ...]) -> str:
    return f", {_variables(names)}" if names else ""


def _first(window: Window | None) -> str:
    return "" if window is None else f" (first {_window(window)})"


def _window(window: Window) -> str:
    bounds = (("offset", window.offset), ("limit", window.limit))
    return " ".join(
        f"{word} {render_expression(bound)}" for word, bound in bounds if bound is not None
    )


def _output(output: Output) -> str:
    text = render_expression(output.expr)
    return output.name if text in (output.name, f"${output.name}") else f"{output.name} = {text}"


def _tally(tally: Tally) -> str:
    argument = "" if tally.argument is None else render_expression(tally.argument)
    distinct = "distinct " if tally.distinct else ""
    fraction = "" if tally.fraction is None else f", {render_expression(tally.fraction)}"
    return f"{tally.name} = {tally.function}({distinct}{argument}{fraction})"


def _sort_key(key: SortBy) -> str:
    return render_expression(key.expr) + (" desc" if key.descending else "")


# ---- conditions and expressions


def _where(tests: tuple[Test, ...]) -> str:
    return f" where {_all(tests)}" if tests else ""


def _all(tests: Iterable[Test]) -> str:
    return " and ".join(render_condition(test) for test in tests)


def render_condition(test: Test) -> str:
    """Write a condition as it would stand in a query."""
    match test:
        case Always(value=value):
            return "always" if value else "never"
        case Compare(left=left, op=op, right=right):
            return f"{render_expression(left)} {op} {render_expression(right)}"
        case IsNull(operand=operand, negated=negated):
            return f"{render_expression(operand)} is {'not null' if negated else 'null'}"
        case InList(operand=operand, choices=choices):
            return f"{render_expression(operand)} in {render_expression(choices)}"
        case TextMatch():
            return render_expression(test)
        case Not(part=part):
            return f"not {render_condition(part)}"
        case AllOf(parts=parts):
            return f"({_all(parts)})"
        case AnyOf(parts=parts):
            return f"({' or '.join(map(render_condition, parts))})"
        case _:
            assert_never(test)


def render_expression(expr: ItemExpr) -> str:
    """Write an expression as it would stand in a query; the id of an entity is `$x.id`."""
    match expr:
        case Const(value=value):
            return _render_value(value)
        case ParamRef(name=name):
            return f"${name}"
        case Now():
            return "now()"
        case PropertyRef(variable=variable, property=name):
            return f"${variable}.{name}"
        case EntityRef(variable=variable):
            return f"${variable}.id"
        case Field(name=name):
            return name
        case PathValue(function="hops" | "nodes" | "edges" as function, variable=variable):
            return f"{function}(${variable})"
        case PathValue(function=function, variable=variable, argument=argument):
            assert argument is not None, "an aggregate over the edges of a path has an argument"
            return f"{function}({render_expression(argument)} of ${variable})"
        case Aggregate(function=function, argument=argument):
            return f"{function}({render_expression(argument)})"
        case Truth(condition=condition):
            return f"({render_condition(condition)})"
        case Call(function=function, arguments=arguments) if not function[0].isalpha():
            return f"({f' {function} '.join(map(render_expression, arguments))})"
        case Call(function=function, arguments=arguments):
            return _call(function, *arguments)
        case TextMatch(function=function, field=field, query=query, distance=distance):
            return _call(function, field, query, distance)
        case Nearest(field=field, query=query):
            return _call("nearest", field, query)
        case Bm25(field=field, query=query):
            return _call("bm25", field, query)
        case Rrf(first=first, second=second, k=k):
            return _call("rrf", first, second, k)
        case _:
            assert_never(expr)


def _call(name: str, *arguments: ItemExpr | None) -> str:
    return f"{name}({', '.join(render_expression(argument) for argument in arguments if argument is not None)})"


def _render_value(value: object) -> str:
    match value:
        case None:
            return "null"
        case datetime():
            return f'datetime("{value.isoformat().replace("+00:00", "Z")}")'
        case date():
            return f'date("{value.isoformat()}")'
        case Duration(months=months, days=days, milliseconds=ms):
            return f'duration("P{months}M{days}DT{ms / 1000:g}S")'
        case tuple():
            return _shorten(f"[{', '.join(map(_render_value, value))}]")
        case _:
            return _shorten(json.dumps(value, ensure_ascii=False))


def _shorten(text: str) -> str:
    limit = VALUE_SHOWN_CHARS_MAX
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
