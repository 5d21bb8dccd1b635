"""Reads nobody chose, and the values they compare with; the same for the same seed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from random import Random
from typing import Any

from tests.support.paired_reads import (
    EDGES,
    FLOATS,
    ITEMS,
    NODES,
    NUMBERS,
    REACH_MAX,
    TEXTS,
    Bind,
    Block,
    Both,
    Clause,
    Compare,
    Condition,
    Hop,
    In,
    IsNull,
    Item,
    Not,
    Prop,
    Read,
    Tally,
    Value,
    properties,
)

VALUES: dict[str, tuple[Any, ...]] = {
    "text": ("", "a", "b", "ab", "Z", "é", "it's"),
    "enum": ("x", "y", "z"),
    "i32": (-2, 0, 1, 2, 5),
    "i64": (-3, 0, 1, 2, 2**40),
    "u64": (0, 1, 2, 2**62),
    "f64": (-1.5, 0.0, 0.5, 1.0, 2.0),
    "f32": (-1.5, 0.0, 0.25, 1.0, 2.0),
    "bool": (True, False),
    "date": (date(2020, 2, 29), date(2021, 1, 1), date(1969, 12, 31)),
    "instant": (
        datetime(2021, 1, 1, 8, 30, 0, 500_000),
        datetime(2021, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999_000),
    ),
}
ASKED: dict[str, tuple[Any, ...]] = {
    **VALUES,
    "i32": (*VALUES["i32"], 2.0, 0.5, 3_000_000_000),
    "i64": (*VALUES["i64"], 1.0, 1.5),
    "u64": (0, 1, 2, -1, 1.0),
    "f64": (*VALUES["f64"], 1, 2),
    "f32": (*VALUES["f32"], 1, 0),
}
ORDERED = ("=", "!=", "<", "<=", ">", ">=")


def stored(kind: str, chance: Random, *, required: bool = False) -> Any:
    """A value that an entity may have."""
    if not required and chance.random() < 0.3:
        return None
    if kind in ITEMS:
        return tuple(chance.choices(VALUES[ITEMS[kind]], k=chance.randrange(3)))
    return chance.choice(VALUES[kind])


@dataclass
class Scope:
    """The variables that may be mentioned: nodes and edges by type, and those that may be NULL here."""

    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def inner(self) -> "Scope":
        """The same for a block inside, where walks from a NULL are allowed."""
        return Scope(dict(self.nodes), dict(self.edges))


class Writer:
    """Writes one read after another."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._clear()

    def _clear(self) -> None:
        self.taken = 0
        self.params: list[Value] = []

    def reads(self) -> Iterator[Read]:
        """Reads without end."""
        while True:
            yield self.read()

    def read(self) -> Read:
        """A read with clauses of every kind."""
        self._clear()
        scope = Scope()
        clauses: list[Clause] = [self._bind(scope)]
        roll = self.chance.random()
        if roll < 0.15:
            clauses += self._joined(scope)
        elif roll < 0.6:
            clauses.append(self._block("optional", scope, 1))
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 3))):
            clauses.append(self._clause(scope, depth=2))
        shape = self._grouped if self.chance.random() < 0.45 else self._plain
        return shape(scope, tuple(clauses))

    # ---- clauses

    def _fresh(self) -> str:
        self.taken += 1
        return f"v{self.taken}"

    def _clause(self, scope: Scope, depth: int) -> Clause:
        kinds = ["hop"] * 4 + ["test"] * 2 + ["bind"]
        kinds += ["not", "optional", "optional"] if depth else []
        match self.chance.choice(kinds):
            case "hop" if (hop := self._hop(scope)) is not None:
                return hop
            case "bind" if len(scope.nodes) < 3:
                return self._bind(scope)
            case "not":
                return self._block("not", scope, depth - 1)
            case "optional":
                return self._block("optional", scope, depth - 1)
            case _:
                return self._test(scope)

    def _bind(self, scope: Scope) -> Bind:
        type_name = self.chance.choice(("P", "P", "P", "Q", "R"))
        variable = self._fresh()
        scope.nodes[variable] = type_name
        return Bind(variable, type_name, self._matches(type_name))

    def _matches(self, type_name: str) -> tuple[tuple[str, Value], ...]:
        if self.chance.random() < 0.9:
            return ()
        name = self.chance.choice(sorted(NODES[type_name]))
        kind = NODES[type_name][name]
        return ((name, self._value(ITEMS.get(kind, kind), VALUES)),)

    def _joined(self, scope: Scope) -> list[Clause]:
        """A second node that nothing but an equality connects with the first."""
        [first] = scope.nodes
        bind = self._bind(scope)
        kinds = set(NODES[scope.nodes[first]].values()) & set(NODES[bind.type_name].values())
        kind = self.chance.choice(sorted(kinds - ITEMS.keys()))
        sides = [
            self.chance.choice([one for one in self._props(scope, [name]) if one.kind == kind])
            for name in (first, bind.variable)
        ]
        return [bind, Compare(sides[0], "=", sides[1])]

    def _block(self, word: str, scope: Scope, depth: int) -> Block:
        inner = scope.inner()
        clauses: list[Clause] = [self._about(inner, scope)]
        if scope.missing and self.chance.random() < 0.3:
            clauses.append(self._bind(inner))
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            clauses.append(self._clause(inner, depth))
        if word == "optional":
            fresh = (inner.nodes.keys() - scope.nodes.keys()) | (
                inner.edges.keys() - scope.edges.keys()
            )
            scope.nodes |= inner.nodes
            scope.edges |= inner.edges
            scope.missing |= fresh
        return Block(word, tuple(clauses))

    def _about(self, inner: Scope, outer: Scope) -> Clause:
        """A clause that mentions a variable from outside."""
        missing = sorted(outer.missing & outer.nodes.keys())
        among = missing if missing and self.chance.random() < 0.8 else sorted(outer.nodes)
        roll = self.chance.random() + (0.3 if missing else 0)
        if roll < 0.65 and (hop := self._hop(inner, near=among)) is not None:
            return hop
        if roll < 0.75:
            variable = self.chance.choice(among)
            type_name = outer.nodes[variable]
            return Bind(variable, type_name, self._matches(type_name))
        return self._test(inner, left=among)

    def _hop(self, scope: Scope, near: list[str] | None = None) -> Hop | None:
        starts = [one for one in near or sorted(scope.nodes) if one not in scope.missing]
        if not starts or self.taken > 9:
            return None
        start = self.chance.choice(starts)
        type_name = scope.nodes[start]
        edge = self.chance.choice([name for name, ends in EDGES.items() if type_name in ends[:2]])
        source, target, _ = EDGES[edge]
        outwards = type_name == source and (source != target or self.chance.random() < 0.5)
        other = self._end(target if outwards else source, scope)
        ends = (start, other) if outwards else (other, start)
        bounds, variable = None, None
        if self.chance.random() < 0.3:
            low = self.chance.choice((1, 1, 2))
            bounds = (low, self.chance.randint(low, REACH_MAX))
        elif self.chance.random() < 0.4:
            variable = self._fresh()
            scope.edges[variable] = edge
        return Hop(
            edge=edge,
            source=ends[0],
            target=ends[1],
            undirected=source == target and self.chance.random() < 0.4,
            bounds=bounds,
            edge_variable=variable,
            turned=source != target and self.chance.random() < 0.5,
        )

    def _end(self, type_name: str, scope: Scope) -> str:
        known = [n for n, t in scope.nodes.items() if t == type_name and n not in scope.missing]
        roll = self.chance.random()
        if known and roll < 0.3:
            return self.chance.choice(known)
        if roll < 0.4:
            return f"_{self._fresh()}"
        variable = self._fresh()
        scope.nodes[variable] = type_name
        return variable

    # ---- conditions

    def _props(self, scope: Scope, among: list[str] | None = None) -> list[Prop]:
        every = {**scope.nodes, **scope.edges}
        return [
            Prop(variable, name, kind)
            for variable, type_name in every.items()
            if among is None or variable in among
            for name, kind in properties(type_name).items()
        ]

    def _test(self, scope: Scope, left: list[str] | None = None) -> Condition:
        first = self._leaf(scope, left)
        roll = self.chance.random()
        if roll < 0.55:
            return first
        if roll < 0.7:
            return Not(first)
        both = Both(self.chance.choice(("or", "or", "and")), (first, self._leaf(scope, None)))
        return Not(both) if self.chance.random() < 0.3 else both

    def _leaf(self, scope: Scope, among: list[str] | None) -> Condition:
        prop = self.chance.choice(self._props(scope, among))
        if self.chance.random() < (0.25 if among is None else 0.45):
            return IsNull(prop, self.chance.random() < 0.4)
        if prop.kind in ITEMS:
            return Compare(prop, "contains", self._facing(prop, scope, ITEMS[prop.kind]))
        if self.chance.random() < 0.3:
            return self._among(prop)
        ops = (*ORDERED, "contains", "starts_with") if prop.kind in TEXTS else ORDERED
        op = self.chance.choice((*ops, "=", "="))
        right = self._facing(prop, scope, prop.kind)
        if op in ORDERED and self.chance.random() < 0.1 and isinstance(right, Value):
            return Compare(right, op, prop)
        return Compare(prop, op, right)

    def _facing(self, prop: Prop, scope: Scope, kind: str) -> Prop | Value:
        """What a property is compared with: a value, or another property that is comparable."""
        family = next((one for one in (NUMBERS, TEXTS) if kind in one), (kind,))
        others = [one for one in self._props(scope) if one.kind in family and one != prop]
        if others and self.chance.random() < 0.35:
            return self.chance.choice(others)
        return self._value(kind, ASKED)

    def _among(self, prop: Prop) -> In:
        pool = VALUES if prop.kind in ("bool", "enum") else ASKED
        values = tuple(self.chance.choices(pool[prop.kind], k=self.chance.choice((0, 0, 1, 2, 3))))
        if len({isinstance(one, float) for one in values}) > 1:
            values = tuple(one for one in values if not isinstance(one, float))
        if (
            values
            and self.chance.random() < 0.4
            and all(self._fits(one, prop.kind) for one in values)
        ):
            return In(prop, self._parameter(values, prop.kind))
        if not values and self.chance.random() < 0.5:
            return In(prop, self._parameter(self.chance.choice(((), None)), prop.kind, listed=True))
        return In(
            prop, Value(values, prop.kind), turned=bool(values) and self.chance.random() < 0.2
        )

    def _value(self, kind: str, pool: dict[str, tuple[Any, ...]]) -> Value:
        value = self.chance.choice(pool[kind])
        if self.chance.random() < 0.3 and self._fits(value, kind):
            value = None if self.chance.random() < 0.15 else value
            return self._parameter(value, kind)
        return Value(value, kind)

    def _fits(self, value: Any, kind: str) -> bool:
        """Whether a parameter of a kind takes a value."""
        return value in VALUES[kind] and type(value) is type(VALUES[kind][0])

    def _parameter(self, value: Any, kind: str, *, listed: bool = False) -> Value:
        given = Value(value, kind, f"p{len(self.params)}", listed or isinstance(value, tuple))
        self.params.append(given)
        return given

    # ---- results

    def _plain(self, scope: Scope, clauses: tuple[Clause, ...]) -> Read:
        exprs: list[Any] = [*scope.nodes, *self._some(self._props(scope), 3)]
        items = tuple(Item(expr, f"c{place}") for place, expr in enumerate(exprs))
        sortable = [prop for prop in self._props(scope) if prop.kind not in ITEMS]
        order: list[tuple[Prop | str, bool]] = [
            (prop, self.chance.random() < 0.5) for prop in self._some(sortable, 2)
        ]
        named = [
            item for item in items if isinstance(item.expr, Prop) and item.expr.kind not in ITEMS
        ]
        if named and order and self.chance.random() < 0.3:
            order[0] = (self.chance.choice(named).name, self.chance.random() < 0.5)
        return self._windowed(clauses, items, tuple(order))

    def _grouped(self, scope: Scope, clauses: tuple[Clause, ...]) -> Read:
        plain = [prop for prop in self._props(scope) if prop.kind not in ITEMS]
        keys: list[Any] = self._some([*plain, *scope.nodes], 2)
        missing = [prop for prop in plain if prop.variable in scope.missing and prop not in keys]
        if missing and self.chance.random() < 0.7:
            keys = [self.chance.choice(missing), *keys[:1]]
        counted: list[Prop | str] = [*plain, *scope.nodes]
        tallies: list[Tally] = [Tally("count", self.chance.choice(counted))]
        for function, kinds in (
            ("sum", ("i32", *FLOATS)), ("avg", NUMBERS), ("min", (*NUMBERS, *TEXTS)), ("max", (*NUMBERS, *TEXTS)),
        ):  # fmt: skip
            fitting = [prop for prop in plain if prop.kind in kinds]
            if fitting and self.chance.random() < 0.35:
                tallies.append(Tally(function, self.chance.choice(fitting)))
        items = tuple(Item(expr, f"c{place}") for place, expr in enumerate((*keys, *tallies)))
        order: tuple[tuple[Prop | str, bool], ...] = ()
        if keys and self.chance.random() < 0.4:
            by = self.chance.choice(items)
            order = ((by.name, self.chance.random() < 0.5),)
        return self._windowed(clauses, items, order)

    def _some(self, pool: list[Any], most: int) -> list[Any]:
        return self.chance.sample(pool, min(len(pool), self.chance.randrange(most + 1)))

    def _windowed(self, clauses: tuple[Clause, ...], items: tuple[Item, ...], order: Any) -> Read:
        limit = self.chance.choice((*(None,) * 6, 0, 1, 3, 3))
        offset = self.chance.choice((None, None, 1, 2)) if self.chance.random() < 0.4 else None
        return Read(
            clauses=clauses,
            items=items,
            order=order,
            limit=limit,
            offset=offset,
            params=tuple(self.params),
        )
