"""Reads of several stages, unions of them, and the expressions in them, written twice: as queries and as SQL."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import duckdb
import pyarrow as pa

from tests.support.paired_random import Scope as Known
from tests.support.paired_random import Writer
from tests.support.paired_reads import (
    ITEMS,
    NUMBERS,
    TEXTS,
    Asked,
    Bind,
    Calc,
    Clause,
    Expr,
    Item,
    Named,
    Prop,
    Scope,
    Tally,
    Value,
    properties,
    sorted_by,
    source_of,
    write_clause,
    write_item,
    write_sql_item,
)
from tests.support.paired_worlds import Seen, exact_rows, python_rows

# ---- trees


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A match and what it leaves: entities by their variables, then values; the last stage leaves values only."""

    clauses: tuple[Clause, ...]
    entities: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()
    distinct: bool = False
    having: Calc | None = None
    descending: frozenset[str] = frozenset()
    ordered: bool = False
    limit: int | None = None
    offset: int | None = None
    per: str | None = None

    @property
    def is_grouped(self) -> bool:
        return any(isinstance(item.expr, Tally) for item in self.items)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Stages of which each goes on from the rows of the one before."""

    stages: tuple[Stage, ...]


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Chains, joined by `union` or `union all`; the last stage of the first says order and bounds of all."""

    chains: tuple[Chain, ...]
    every: tuple[bool, ...] = ()
    params: tuple[Value, ...] = ()

    @property
    def last(self) -> Stage:
        return self.chains[0].stages[-1]


# ---- in the query language


def gq(whole: Whole) -> str:
    """Write a read in the query language."""
    parts = [_chain(whole.chains[0], bounded=len(whole.chains) == 1)]
    for every, chain in zip(whole.every, whole.chains[1:], strict=True):
        parts += ["union all" if every else "union", _chain(chain, bounded=False)]
    if len(whole.chains) > 1:
        parts.append(_bounds(whole.last))
    return "query q() {\n  " + "\n  ".join(parts) + "\n}"


def _chain(chain: Chain, *, bounded: bool) -> str:
    texts = []
    for stage in chain.stages:
        is_last = stage is chain.stages[-1]
        match = ",\n    ".join(write_clause(clause) for clause in stage.clauses)
        shown = [*(f"${one}" for one in stage.entities)]
        shown += [f"{write_item(item.expr)} as {item.name}" for item in stage.items]
        word = "return" if is_last else "with"
        text = f"match {{\n    {match}\n  }} " if match else ""
        text += f"{word} {'distinct ' if stage.distinct else ''}{{ {', '.join(shown)} }}"
        if stage.having is not None:
            text += (
                f" having {{ {stage.having.gq.format(*(_name(p) for p in stage.having.parts))} }}"
            )
        texts.append(text + ("" if is_last and not bounded else " " + _bounds(stage)))
    return "\n  ".join(texts)


def _name(part: Any) -> str:
    return part.name if isinstance(part, Named) else str(part)


def _keys(stage: Stage) -> list[str]:
    return [*(item.name for item in stage.items), *stage.entities]


def _bounds(stage: Stage) -> str:
    text = ""
    if stage.ordered:
        keys = (
            f"{f'id(${key})' if key in stage.entities else key}"
            f" {'desc' if key in stage.descending else 'asc'}"
            for key in _keys(stage)
        )
        text = f"order {{ {', '.join(keys)} }}"
    text += f" limit {stage.limit}" if stage.limit is not None else ""
    text += f" offset {stage.offset}" if stage.offset is not None else ""
    if stage.per is not None:
        text += f" per {f'${stage.per}' if stage.per in stage.entities else stage.per}"
    return text


# ---- in SQL


def sql(whole: Whole) -> str:
    """Write a read in SQL."""
    if len(whole.chains) == 1:
        return _sql_chain(whole.chains[0], bounded=True)
    text = f"({_sql_chain(whole.chains[0], bounded=False)})"
    for every, chain in zip(whole.every, whole.chains[1:], strict=True):
        text = f"({text} UNION {'ALL ' if every else ''}({_sql_chain(chain, bounded=False)}))"
    return _sql_bounds(f"SELECT * FROM {text}", whole.last, {n: n for n in _keys(whole.last)})


def _sql_chain(chain: Chain, *, bounded: bool) -> str:
    scope, before = Scope({}, {}), ""
    for number, stage in enumerate(chain.stages):
        is_last = number == len(chain.stages) - 1
        before, scope = _sql_stage(stage, scope, before, number, bounded or not is_last)
    return before


def _sql_stage(
    stage: Stage, scope: Scope, before: str, number: int, bounded: bool
) -> tuple[str, Scope]:
    source, _ = source_of(stage.clauses, scope)
    if before:
        source = source.replace("FROM ", f"FROM ({before}) AS s{number - 1} CROSS JOIN ", 1)
    columns: dict[str, str] = {}
    after = Scope({}, {}, scope.names)
    for variable in stage.entities:
        type_name = scope.types[variable]
        for name in ("id", *properties(type_name)):
            columns[f"{variable}_{name}"] = scope.column(variable, name)
        after.types[variable], after.places[variable] = type_name, f"s{number}.{variable}_"
    keys = list(columns.values())
    for item in stage.items:
        columns[item.name] = write_sql_item(item.expr, scope)
        after.places[f"#{item.name}"] = f"s{number}."
        if not isinstance(item.expr, Tally):
            keys.append(columns[item.name])
    shown = ", ".join(f"{text} AS {name}" for name, text in columns.items())
    text = f"SELECT {'DISTINCT ' if stage.distinct else ''}{shown} {source}"
    if stage.is_grouped and keys:
        text += f" GROUP BY {', '.join(keys)}"
    text = f"SELECT * FROM ({text}) AS t"
    if stage.having is not None:
        parts = (f"t.{_name(p)}" if isinstance(p, Named) else str(p) for p in stage.having.parts)
        text += f" WHERE {stage.having.sql.format(*parts)}"
    places = {key: f"{key}_id" if key in stage.entities else key for key in _keys(stage)}
    return (_sql_bounds(text, stage, places) if bounded else text), after


def _sql_bounds(text: str, stage: Stage, places: Mapping[str, str]) -> str:
    order = ", ".join(sorted_by(places[key], key in stage.descending) for key in _keys(stage))
    if stage.per is not None:
        low = stage.offset or 0
        number = f"row_number() OVER (PARTITION BY {places[stage.per]} ORDER BY {order})"
        return f"{text} QUALIFY {number} > {low} AND {number} <= {low + (stage.limit or 0)}"
    text += f" ORDER BY {order}" if stage.ordered else ""
    text += f" LIMIT {stage.limit}" if stage.limit is not None else ""
    return text + (f" OFFSET {stage.offset}" if stage.offset is not None else "")


# ---- at random


class ChainWriter(Writer):
    """Writes one read of several stages after another."""

    def wholes(self) -> Iterator[Whole]:
        """Reads without end."""
        while True:
            self._clear()
            yield self._whole()

    def _value(self, kind: str, pool: dict[str, tuple[Any, ...]]) -> Value:
        """A value that is written down: parameters have reads of their own."""
        return Value(self.chance.choice(pool[kind]), kind)

    def _among(self, prop: Prop) -> Any:
        found = super()._among(prop)
        self.params.clear()
        return (
            found
            if found.choices.parameter is None
            else Calc("bool", "{0} is null", "{0} IS NULL", (prop,))
        )

    def _whole(self) -> Whole:
        first = self._chain(None)
        chains, every = [first], []
        kinds = [_plain_kind(_kind_of(item.expr)) for item in first.stages[-1].items]
        if self.chance.random() < 0.4 and all(kind in _CONSTANTS for kind in kinds):
            for _ in range(self.chance.choice((1, 1, 2))):
                self.taken = 0
                chains.append(self._chain(kinds))
                every.append(self.chance.random() < 0.5)
        return Whole(chains=tuple(chains), every=tuple(every))

    def _chain(self, kinds: list[str] | None) -> Chain:
        scope = Known()
        left: list[Named] = []
        stages = []
        for number in range(self.chance.choice((0, 1, 1, 2))):
            stage = self._stage(scope, left, number)
            stages.append(stage)
            types = {name: scope.nodes[name] for name in stage.entities}
            missing = scope.missing & types.keys()
            scope = Known(types, {}, set(missing))
            left = [Named(i.name, _kind_of(i.expr)) for i in stage.items]
        clauses = self._clauses(scope, left, may_be_empty=bool(stages))
        return Chain(stages=(*stages, self._last(clauses, scope, left, kinds)))

    def _clauses(
        self, scope: Known, left: list[Named], *, may_be_empty: bool
    ) -> tuple[Clause, ...]:
        clauses: list[Clause] = []
        if not scope.nodes or not may_be_empty:
            clauses.append(self._bind(scope))
        for _ in range(self.chance.choice((0, 0, 1, 1))):
            clauses.append(self._clause(scope, depth=1))
        if self.chance.random() < 0.25:
            clauses.append(self._truth(scope, left))
        if self.chance.random() < 0.25:
            clauses.append(self._asked_test(scope))
        if self.chance.random() < 0.3 and (same := self._identity(scope)) is not None:
            clauses.append(same)
        if self.chance.random() < 0.15 and (among := self._among_values(scope)) is not None:
            clauses.append(among)
        return tuple(clauses)

    def _identity(self, scope: Known) -> Calc | None:
        """Two variables of one type that are the same entity, or are not."""
        pairs = [
            (a, b)
            for a, b in combinations(sorted(scope.nodes), 2)
            if scope.nodes[a] == scope.nodes[b]
        ]
        if not pairs:
            return None
        pair, op = self.chance.choice(pairs), self.chance.choice(("!=", "!=", "="))
        ids = tuple(Prop(one, "id", "text") for one in pair)
        return Calc("bool", f"${pair[0]} {op} ${pair[1]}", f"{{0}} {op} {{1}}", ids)

    def _among_values(self, scope: Known) -> Calc | None:
        """A property among a list of literals and properties."""
        props = [one for one in self._props(scope) if one.kind == "i32"]
        if len(props) < 2:
            return None
        first, second = self.chance.sample(props, 2)
        small = self.chance.choice((-2, 0, 1, 5))
        word = self.chance.choice(("", "not "))
        form = f"{word}({{0}} in [{small}, {{1}}])"
        return Calc("bool", form, form.replace("[", "(").replace("]", ")"), (first, second))

    def _stage(self, scope: Known, left: list[Named], number: int) -> Stage:
        clauses = self._clauses(scope, left, may_be_empty=number > 0)
        usable = sorted(scope.nodes)
        entities = tuple(sorted(self._some(usable, 2) or [self.chance.choice(usable)]))
        names = (f"n{number}{place}" for place in range(9))
        if self.chance.random() < 0.4:
            tallies = [Tally("count", self.chance.choice(usable)), *self._tallies(scope, left)]
            keys = [self._expr(scope, left) for _ in range(self.chance.choice((0, 0, 1)))]
            items = [Item(expr, next(names)) for expr in (*keys, *tallies)]
        else:
            exprs = [self._expr(scope, left) for _ in range(self.chance.choice((0, 1, 2)))]
            items = [Item(expr, next(names)) for expr in exprs]
        return self._bounded(clauses, entities, tuple(items), stage=True)

    def _last(
        self, clauses: tuple[Clause, ...], scope: Known, left: list[Named], kinds: list[str] | None
    ) -> Stage:
        if kinds is None:
            exprs: list[Any] = [*self._some(sorted(scope.nodes), 2), *self._some(left, 2)]
            exprs += [self._expr(scope, left) for _ in range(self.chance.choice((1, 2)))]
            if self.chance.random() < 0.4:
                exprs += [Tally("count", self.chance.choice(sorted(scope.nodes)))]
                exprs += self._tallies(scope, left)
            elif self.chance.random() < 0.4:
                exprs.append(self._asked(scope))
        else:
            exprs = [self._of_kind(kind, scope, left) for kind in kinds]
        items = tuple(Item(expr, f"c{place}") for place, expr in enumerate(exprs))
        return self._bounded(clauses, (), items, stage=False)

    def _bounded(
        self,
        clauses: tuple[Clause, ...],
        entities: tuple[str, ...],
        items: tuple[Item, ...],
        *,
        stage: bool,
    ) -> Stage:
        names = [*(item.name for item in items), *entities]
        counts = [
            Named(item.name, "i64")
            for item in items
            if isinstance(item.expr, Tally) and item.expr.function == "count"
        ]
        having = None
        if counts and self.chance.random() < 0.3:
            having = Calc("bool", "{0} > 1", "{0} > 1", (self.chance.choice(counts),))
        grouped = any(isinstance(item.expr, Tally) for item in items)
        distinct = not grouped and self.chance.random() < 0.2
        ordered = self.chance.random() < 0.6
        limit = self.chance.choice((None, None, 0, 1, 3, 5)) if ordered else None
        per = None
        if stage and limit is not None and self.chance.random() < 0.6:
            per = self.chance.choice(names)
        return Stage(
            clauses=clauses,
            entities=entities,
            items=items,
            distinct=distinct,
            having=having,
            descending=frozenset(self._some(names, 3)),
            ordered=ordered,
            limit=limit,
            offset=self.chance.choice((None, 1)) if limit else None,
            per=per,
        )

    def _tallies(self, scope: Known, left: list[Named]) -> list[Tally]:
        found: list[Tally] = []
        numbers: list[Expr] = [p for p in self._props(scope) if p.kind in ("i32", "f64")]
        numbers += [one for one in left if one.kind in ("i64", "i32", "f64")]
        for function in ("sum", "avg", "min", "max", "stddev", "percentile"):
            if numbers and self.chance.random() < 0.2:
                found.append(Tally(function, self.chance.choice(numbers)))
        dates: list[Expr] = [p for p in self._props(scope) if p.kind in ("date", "instant")]
        if dates and self.chance.random() < 0.2:
            found.append(Tally(self.chance.choice(("min", "max")), self.chance.choice(dates)))
        if self.chance.random() < 0.3:
            found.append(Tally("count", self.chance.choice(sorted(scope.nodes)), distinct=True))
        if self.chance.random() < 0.2:
            found.append(Tally("count", self._expr(scope, left), distinct=True))
        return found

    # ---- expressions

    def _leaves(self, scope: Known, left: list[Named]) -> list[Expr]:
        plain = [one for one in self._props(scope) if one.kind not in ITEMS]
        return [*plain, *left, *left]

    def _pair(self, scope: Known, left: list[Named]) -> Calc | None:
        """Two values of one kind, computed with one another."""
        leaves = [one for one in self._leaves(scope, left) if one.kind in ("i32", "text", "f64")]
        if not leaves:
            return None
        first = self.chance.choice(leaves)
        second = self.chance.choice([one for one in leaves if one.kind == first.kind])
        both = (first, second)
        if first.kind == "text":
            return Calc("text", "concat({0}, {1})", "({0} || {1})", both)
        if first.kind == "f64":
            sign = self.chance.choice("+-*")
            return Calc("f64", f"{{0}} {sign} {{1}}", f"{{0}} {sign} {{1}}", both)
        sign, wide = self.chance.choice("+-*"), ("CAST({0} AS BIGINT)", "CAST({1} AS BIGINT)")
        return Calc("i64", f"{{0}} {sign} {{1}}", f"{wide[0]} {sign} {wide[1]}", both)

    def _about_entity(self, scope: Known) -> Calc:
        """What is asked of an entity itself: its id, its type."""
        variable = self.chance.choice(sorted(scope.nodes))
        key = Prop(variable, "id", "text")
        if self.chance.random() < 0.5:
            return Calc("text", f"id(${variable})", "{0}", (key,))
        shown = f"CASE WHEN {{0}} IS NULL THEN NULL ELSE '{scope.nodes[variable]}' END"
        return Calc("text", f"type(${variable})", shown, (key,))

    def _expr(self, scope: Known, left: list[Named]) -> Expr:
        roll = self.chance.random()
        if roll < 0.08:
            return self._about_entity(scope)
        if roll < 0.2 and (pair := self._pair(scope, left)) is not None:
            return pair
        lists = [one for one in self._props(scope) if one.kind in ITEMS]
        if roll < 0.26 and lists:
            return self._computed(self.chance.choice(lists))
        leaf = self.chance.choice(self._leaves(scope, left))
        found = leaf if self.chance.random() < 0.3 else self._computed(leaf)
        if self.chance.random() < 0.2:
            other = self.chance.choice(self._leaves(scope, left))
            test = self._test_of(other)
            branch = self._computed(leaf)
            form = "case when {0} then {1} else {2} end"
            if branch.kind == found.kind:
                return Calc(found.kind, form, form, (test, branch, found))
        return found

    def _of_kind(self, kind: str, scope: Known, left: list[Named]) -> Expr:
        for _ in range(40):
            found = self._expr(scope, left)
            if _plain_kind(found.kind) == kind:
                return found
        return _CONSTANTS[kind]

    def _computed(self, leaf: Expr) -> Calc:
        small = self.chance.choice((1, 2, 3, 7))
        return self.chance.choice(_forms(leaf, small))

    def _test_of(self, leaf: Expr) -> Calc:
        calc = self._computed(leaf)
        return self.chance.choice(_tests(leaf, calc, self.chance.choice((0, 1, 2))))

    def _truth(self, scope: Known, left: list[Named]) -> Calc:
        tests = [self._test_of(self.chance.choice(self._leaves(scope, left))) for _ in range(2)]
        word = self.chance.choice(("and", "or"))
        if self.chance.random() < 0.2:
            return Calc("bool", "not ({0})", "NOT ({0})", (tests[0],))
        return Calc("bool", f"({{0}} {word} {{1}})", f"({{0}} {word} {{1}})", tuple(tests))

    def _asked(self, scope: Known) -> Asked:
        block = self._block("exists", scope, 0)
        function = self.chance.choice(("count", "count", "exists", "not", "sum", "max"))
        bound = [c for c in block.clauses if isinstance(c, Bind) and c.variable not in scope.nodes]
        if function in ("sum", "max"):
            numbers = [
                Prop(c.variable, n, k)
                for c in bound
                for n, k in properties(c.type_name).items()
                if k in ("i32", "f64")
            ]
            if numbers:
                prop = self.chance.choice(numbers)
                kind = "i64" if (function, prop.kind) == ("sum", "i32") else prop.kind
                return Asked(kind, function, prop, block.clauses)
            function = "count"
        return Asked("i64" if function == "count" else "bool", function, None, block.clauses)

    def _asked_test(self, scope: Known) -> Calc:
        asked = self._asked(scope)
        other = self._test_of(self.chance.choice(self._leaves(scope, [])))
        if asked.kind == "bool":
            return Calc("bool", "({0} or {1})", "({0} or {1})", (asked, other))
        return Calc("bool", "({0} > 0 or {1})", "({0} > 0 or {1})", (asked, other))


_CONSTANTS: dict[str, Expr] = {
    "text": Calc("text", 'lower("A")', "lower('A')", ()),
    "i64": Calc("i64", "abs(1)", "CAST(1 AS BIGINT)", ()),
    "f64": Calc("f64", "abs(1.5)", "CAST(1.5 AS DOUBLE)", ()),
    "bool": Calc("bool", "1 = 2", "1 = 2", ()),
}


def _plain_kind(kind: str) -> str:
    return "text" if kind == "enum" else kind


def _kind_of(expr: Expr | str | Tally) -> str:
    match expr:
        case str():
            return "text"
        case Tally(function="count"):
            return "i64"
        case Tally(function="sum", argument=argument):
            assert not isinstance(argument, str)
            return "f64" if argument.kind == "f64" else "i64"
        case Tally(function="avg" | "stddev" | "percentile"):
            return "f64"
        case Tally(argument=argument):
            assert not isinstance(argument, str)
            return argument.kind
        case _:
            return expr.kind


def _forms(leaf: Expr, small: int) -> list[Calc]:
    one = (leaf,)
    if leaf.kind in ITEMS:
        item = ITEMS[leaf.kind]
        return [
            Calc("i64", "size({0})", "len({0})", one),
            Calc(item, "first({0})", "{0}[1]", one),
            Calc(item, "last({0})", "{0}[-1]", one),
        ]
    if leaf.kind in ("i32", "i64"):
        wide = "CAST({0} AS BIGINT)"
        return [
            Calc("i64", f"{{0}} + {small}", f"{wide} + {small}", one),
            Calc("i64", f"{{0}} - {small}", f"{wide} - {small}", one),
            Calc("i64", f"{{0}} * {small}", f"{wide} * {small}", one),
            Calc("i64", f"({{0}}) / {small}", f"{wide} // {small}", one),
            Calc("i64", f"({{0}}) % {small}", f"{wide} % {small}", one),
            Calc("i64", "-({0})", f"-{wide}", one),
            Calc("i64", "abs({0})", f"abs({wide})", one),
            Calc("i64", f"coalesce({{0}}, {small}) + 1", f"coalesce({wide}, {small}) + 1", one),
            Calc("f64", f"({{0}}) / {small}.0", f"CAST({{0}} AS DOUBLE) / {small}.0", one),
            Calc("f64", "round(({0}) / 3.0, 2)", "round(CAST({0} AS DOUBLE) / 3.0, 2)", one),
        ]
    if leaf.kind in ("f64", "f32", "u64"):
        wide = "CAST({0} AS DOUBLE)"
        return [
            Calc("f64", f"{{0}} * {small}.0", f"{wide} * {small}", one),
            Calc("f64", "floor(1.0 * {0})", f"floor({wide})", one),
            Calc("f64", "ceil(1.0 * {0})", f"ceil({wide})", one),
            Calc("f64", "round(1.0 * {0})", f"round({wide})", one),
            Calc("f64", "coalesce({0}, 0.5) + 0.25", f"coalesce({wide}, 0.5) + 0.25", one),
        ]
    if leaf.kind in TEXTS:
        return [
            Calc("text", "lower({0})", "lower({0})", one),
            Calc("text", "upper({0})", "upper({0})", one),
            Calc("text", f"substring({{0}}, {small}, 2)", f"substring({{0}}, {small}, 2)", one),
            Calc("text", 'replace({0}, "a", "xy")', "replace({0}, 'a', 'xy')", one),
            Calc("text", 'concat({0}, "-", {0})', "({0} || '-' || {0})", one),
            Calc("text", 'trim(concat(" ", {0}, "  "))', "trim(' ' || {0} || '  ')", one),
            Calc("text", 'coalesce({0}, "none")', "coalesce({0}, 'none')", one),
            Calc("i64", "length({0})", "length({0})", one),
        ]
    if leaf.kind in ("date", "instant"):
        return [
            Calc("i64", "year({0})", "year({0})", one),
            Calc("i64", "month({0}) * 100 + day({0})", "month({0}) * 100 + day({0})", one),
            Calc(
                leaf.kind, 'date_trunc("month", {0})', _cast("date_trunc('month', {0})", leaf), one
            ),
            Calc(
                leaf.kind,
                '{0} + duration("P1M2D")',
                _cast("{0} + INTERVAL 1 MONTH + INTERVAL 2 DAY", leaf),
                one,
            ),
            Calc(leaf.kind, '{0} - duration("P1Y")', _cast("{0} - INTERVAL 1 YEAR", leaf), one),
        ]
    return [
        Calc("i64", "case when {0} then 1 else 0 end", "CASE WHEN {0} THEN 1 ELSE 0 END", one),
        Calc("bool", "not {0}", "NOT {0}", one),
        Calc("bool", "coalesce({0}, true)", "coalesce({0}, TRUE)", one),
    ]


def _cast(text: str, leaf: Expr) -> str:
    return f"CAST({text} AS {'DATE' if leaf.kind == 'date' else 'TIMESTAMP'})"


def _tests(leaf: Expr, calc: Calc, small: int) -> list[Calc]:
    both = (leaf,)
    found = [
        Calc("bool", "{0} is null", "{0} IS NULL", both),
        Calc("bool", "{0} is not null", "{0} IS NOT NULL", both),
    ]
    if calc.kind in NUMBERS:
        for op in ("=", "!=", "<", ">="):
            found.append(Calc("bool", f"{{0}} {op} {small}", f"{{0}} {op} {small}", (calc,)))
        form = f"{{0}} between {-small} and {small + 2}"
        found.append(Calc("bool", form, form, (calc,)))
        found.append(Calc("bool", "{0} in [1, 2]", "{0} IN (1, 2)", (calc,)))
    if leaf.kind in TEXTS:
        found += [
            Calc("bool", '{0} ends_with "b"', "suffix({0}, 'b')", both),
            Calc("bool", '{0} starts_with "a"', "prefix({0}, 'a')", both),
            Calc("bool", '{0} matches "^[a-b]+$"', "regexp_matches({0}, '^[a-b]+$')", both),
            Calc("bool", '{0} between "a" and "b"', "{0} BETWEEN 'a' AND 'b'", both),
        ]
    return found


# ---- comparing


def assert_same_rows(
    whole: Whole, found: pa.Table, base: duckdb.DuckDBPyConnection, seen: Seen
) -> None:
    """Require the rows that DuckDB gives: in their order where there is one, else as a bag."""
    try:
        expected = exact_rows(base.execute(sql(whole)).fetchall())
    except duckdb.InternalException:
        seen.lost += 1
        return
    actual = exact_rows(python_rows(found))
    seen.asked += 1
    seen.found += bool(actual)
    shown = f"\n{gq(whole)}\n{sql(whole)}\nours:   {actual}\nDuckDB: {expected}"
    if whole.last.ordered:
        assert actual == expected, shown
    else:
        assert Counter(actual) == Counter(expected), shown
