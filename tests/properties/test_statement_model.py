"""Random statements beside plain dictionaries: the same entities, the same rows returned, or the same refusal."""

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.settled import assert_settled

SCHEMA = """
node Person { k: String @key  n: I64?  m: I64? }
edge Knows: Person -> Person { w: I64? }
"""
Row = dict[str, Any]
Test = Callable[[Row], bool | None]


class Refused(Exception):
    """The model refuses a statement."""


@dataclass
class Model:
    """Persons by key, and edges in any order."""

    people: dict[str, Row] = field(default_factory=dict)
    edges: list[Row] = field(default_factory=list)

    def write_each(self, found: list[tuple[str, Row]]) -> list[str]:
        """Set values of persons; one that would get different values is refused."""
        images: dict[str, Row] = {}
        for key, values in found:
            if images.setdefault(key, values) != values:
                raise Refused
        for key, values in images.items():
            self.people[key] |= values
        return list(images)

    def remove(self, keys: set[str]) -> None:
        """Delete persons, with their edges."""
        self.people = {k: row for k, row in self.people.items() if k not in keys}
        self.edges = [e for e in self.edges if not {e["from"], e["to"]} & keys]


def _lift(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: None if left is None or right is None else function(left, right)


_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


def make_test(random_: random.Random, depth: int = 0) -> tuple[str, Test]:
    """A condition over `n` and `m` as text, and as a function of three values."""
    if depth < 2 and random_.random() < 0.4:
        word = random_.choice(["and", "or"])
        (one, first), (other, second) = make_test(random_, depth + 1), make_test(random_, depth + 1)

        def joined(row: Row) -> bool | None:
            parts = (first(row), second(row))
            decided = word == "or"
            if decided in parts:
                return decided
            return None if None in parts else not decided

        return f"({one} {word} {other})", joined
    name = random_.choice("nm")
    if random_.random() < 0.2:
        return f"{name} is null", lambda row: row[name] is None
    sign, bound = random_.choice(list(_OPERATORS)), random_.randint(0, 9)
    compare = _lift(_OPERATORS[sign])
    if random_.random() < 0.3:
        return f"n + m {sign} {bound}", lambda row: compare(
            _lift(operator.add)(row["n"], row["m"]), bound
        )
    return f"{name} {sign} {bound}", lambda row: compare(row[name], bound)


@dataclass
class Step:
    """A mutation as text with its parameters, and what it does to the model: it returns rows."""

    text: str
    run: Callable[[Model], list[tuple[Any, ...]]]
    params: dict[str, Any] = field(default_factory=dict)


def make_step(random_: random.Random) -> Step:
    """Make a random statement."""
    return random_.choice(
        [_update, _delete, _matched_update, _matched_insert, _absent, _upsert, _matched_upsert, _unnest, _edges, _rewire]
    )(random_)  # fmt: skip


def _update(random_: random.Random) -> Step:
    text, test = make_test(random_)
    add = random_.randint(-3, 5)

    def run(model: Model) -> list[tuple[Any, ...]]:
        found = [
            (k, {"n": _lift(operator.add)(row["m"], add), "m": row["n"]})
            for k, row in sorted(model.people.items())
            if test(row)
        ]
        return [(k, model.people[k]["n"]) for k in model.write_each(found)]

    return Step(
        f"update Person set {{ n: $.m + ({add}), m: $.n }} where {text} returning {{ id, n }}", run
    )


def _delete(random_: random.Random) -> Step:
    text, test = make_test(random_)
    key = random_.choice("abcdefgh")

    def run(model: Model) -> list[tuple[Any, ...]]:
        gone = sorted(k for k, row in model.people.items() if test(row) and k == key)
        model.remove(set(gone))
        return [(k,) for k in gone]

    return Step(f'delete Person where k = "{key}" and {text} returning {{ k }}', run)


def _matched_update(random_: random.Random) -> Step:
    bound = random_.randint(0, 6)

    def run(model: Model) -> list[tuple[Any, ...]]:
        found = []
        for edge in model.edges:
            other = model.people[edge["to"]]
            if other["n"] is not None and other["n"] >= bound:
                found.append((edge["from"], {"m": other["n"]}))
        model.write_each(found)
        return []

    return Step(
        f"match {{ $p: Person $p knows $q $q.n >= {bound} }} update $p set {{ m: $q.n }}", run
    )


def _matched_insert(random_: random.Random) -> Step:
    key = random_.choice("abcdefgh")

    def run(model: Model) -> list[tuple[Any, ...]]:
        if key not in model.people:
            return []
        new = [
            {"from": k, "to": key, "w": row["n"]}
            for k, row in sorted(model.people.items())
            if k != key and row["n"] is not None and row["n"] > 6
        ]
        model.edges += new
        return []

    text = f'match {{ $q: Person {{ k: "{key}" }} $p: Person $p != $q $p.n > 6 }}'
    return Step(f"{text} insert Knows {{ from: $p, to: $q, w: $p.n }}", run)


def _absent(random_: random.Random) -> Step:
    key, n = random_.choice("abcdefgh"), random_.randint(0, 9)

    def run(model: Model) -> list[tuple[Any, ...]]:
        created = key not in model.people
        row = model.people.setdefault(key, {"n": n, "m": None})
        return [(key, created, row["n"])]

    return Step(
        f'insert Person {{ k: "{key}", n: {n} }} if absent returning {{ id, created, n }}', run
    )


def _upsert(random_: random.Random) -> Step:
    key = random_.choice("abcdefgh")

    def run(model: Model) -> list[tuple[Any, ...]]:
        created = key not in model.people
        row = model.people.setdefault(key, {"n": None, "m": None})
        row["n"] = (row["n"] or 0) + 1
        return [(key, created, row["n"])]

    text = f'upsert Person {{ k: "{key}" }} set {{ n: coalesce($.n, 0) + 1 }}'
    return Step(f"{text} returning {{ id, created, n }}", run)


def _matched_upsert(random_: random.Random) -> Step:
    """The far ends of edges get more, by what the near ends have and by how many the near ends know."""
    near, prefix = random_.choice("abcdefgh"), random_.choice(["", "", "z"])

    def run(model: Model) -> list[tuple[Any, ...]]:
        found = []
        for other in sorted({edge["to"] for edge in model.edges if edge["from"] == near}):
            known = len({edge["to"] for edge in model.edges if edge["from"] == near})
            old = model.people.get(prefix + other, {"n": None, "m": None})
            add = (model.people[near]["n"] or 0) + known
            found.append((prefix + other, {"n": (old["n"] or 0) + add, "m": old["n"]}))
        for key, _ in found:
            model.people.setdefault(key, {"n": None, "m": None})
        model.write_each(found)
        return []

    text = (
        f'match {{ $p: Person {{ k: "{near}" }} $p knows $q }} upsert Person {{ k: concat("{prefix}", $q.k) }} '
        "set { n: coalesce($.n, 0) + coalesce($p.n, 0) + count { $p knows $x }, m: $.n }"
    )
    return Step(text, run)


def _unnest(random_: random.Random) -> Step:
    given = [
        {"k": random_.choice("abcdefgh"), "n": random_.choice([None, *range(4)])} for _ in range(3)
    ]

    def run(model: Model) -> list[tuple[Any, ...]]:
        images: dict[str, Row] = {}
        for one in given:
            image = {"n": one["n"], "m": None}
            if images.setdefault(one["k"], image) != image:
                raise Refused
        model.people |= images
        return [(one["k"], one["n"]) for one in given]

    text = "unnest $rows as $r insert Person { k: $r.k, n: $r.n } returning { id, n }"
    return Step(text, run, {"rows": given})


def _edges(random_: random.Random) -> Step:
    bound = random_.randint(0, 9)

    def run(model: Model) -> list[tuple[Any, ...]]:
        for edge in model.edges:
            if edge["w"] is not None and edge["w"] < bound and edge["from"] != "a":
                edge["w"] += 1
        return []

    return Step(f'update Knows set {{ w: $.w + 1 }} where w < {bound} and from != "a"', run)


def _rewire(random_: random.Random) -> Step:
    one, other = random_.choice("abcdefgh"), random_.choice("abcdefgh")

    def run(model: Model) -> list[tuple[Any, ...]]:
        if not {one, other} <= set(model.people):
            raise Refused
        there = [e for e in model.edges if (e["from"], e["to"]) == (one, other)]
        if not there:
            model.edges.append({"from": one, "to": other, "w": 0})
        return [(not there,)]

    return Step(
        f'insert Knows {{ from: "{one}", to: "{other}", w: 0 }} if absent returning {{ created }}',
        run,
    )


def apply(graph: Graph, step: Step) -> list[tuple[Any, ...]]:
    """Run a mutation; give the rows that it returns."""
    declared = "$rows: [{ k: String, n: I64? }]" if step.params else ""
    try:
        done = graph.mutate(f"query m({declared}) {{ {step.text} }}", None, step.params)
    except (omnigraphdb.DataError, omnigraphdb.ReferentialError) as error:
        raise Refused from error
    return [tuple(row.values()) for row in done.rows]


def show(graph: Graph) -> tuple[dict[str, Row], list[tuple[Any, ...]]]:
    """All entities of a graph, as the model has them."""
    found = graph.query(
        "query q() { match { $p: Person } return { $p.k as k, $p.n as n, $p.m as m } }"
    )
    people = {row["k"]: {"n": row["n"], "m": row["m"]} for row in found.to_list()}
    edges = graph.query(
        "query q() { match { $p $e:knows $q } return { from($e) as a, to($e) as b, $e.w as w } }"
    )
    return people, sorted((tuple(row.values()) for row in edges.to_list()), key=str)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(1, 30), *(pytest.param(seed, 500, marks=pytest.mark.soak) for seed in range(2, 12))],
)
def test_statements_do_what_they_do_to_dictionaries(tmp_path: Path, seed: int, steps: int) -> None:
    random_, model = random.Random(seed), Model()
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    for _ in range(steps):
        step = make_step(random_)
        expected: list[tuple[Any, ...]] | None
        trial = Model(
            {k: dict(row) for k, row in model.people.items()}, [dict(e) for e in model.edges]
        )
        try:
            expected = step.run(trial)
            model = trial
        except Refused:
            expected = None
        try:
            actual: list[tuple[Any, ...]] | None = apply(graph, step)
        except Refused:
            actual = None
        assert actual == expected, step.text
        edges = sorted(((e["from"], e["to"], e["w"]) for e in model.edges), key=str)
        assert show(graph) == (model.people, edges), step.text
    assert_settled(graph)
    graph.close()
