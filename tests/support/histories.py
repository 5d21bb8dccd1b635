"""Histories nobody chose, of a small graph: writes, loads, merges, schema changes and maintenance, step by step."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit
from omnigraphdb.errors import ConflictError

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

KEYS = "abcdefg"
TEXTS = ("red rope", "ropes and knots", "a quiet harbour", "knot", "", None)
NUMBERS = (0, 1, 2, 2_000_000_000, -5, None)
POINTS = ((0.0, 0.0), (1.0, 0.5), (-2.0, 3.0), None)

Draw = Callable[[st.SearchStrategy[Any]], Any]
"""How a step draws: `data.draw` of a test."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """What things are called at one time; only `mark` may be used again for something else."""

    person: str = "Person"
    team: str = "Team"
    knows: str = "Knows"
    name: str = "name"
    age: str = "age"
    mark: str | None = "mark"
    marks: int = 1
    """How many properties were called by the name of the mark so far."""
    extras: tuple[str, ...] = ()
    tool: bool = True
    """Whether there are tools, with the edges that lead to them."""
    used: int = 0

    def schema(self, before: "Words | None" = None) -> str:
        """The schema in these words; `before` gives what was called otherwise."""
        old = before or self

        def named(kind: str) -> str:
            now, then = getattr(self, kind), getattr(old, kind)
            return now if now == then else f'{now} @rename_from("{then}")'

        def property_(kind: str, type_: str) -> str:
            now, then = getattr(self, kind), getattr(old, kind)
            return f"{now}: {type_}" + ("" if then in (now, None) else f' @rename_from("{then}")')

        edge = named("knows").removeprefix(self.knows)
        mark = "" if self.mark is None else property_("mark", "String?")
        more = "  ".join(f"{name}: I64?" for name in self.extras)
        tools = "node Tool implements Noted { key: String @key }" if self.tool else ""
        uses = f"edge Uses: {self.person} -> Tool" if self.tool else ""
        return f"""
        interface Noted {{ note: String? }}
        node {named("person")} {{
          key: String @key  {property_("name", "String? @index")}  {property_("age", "I32? @index")}
          {mark}  sig: Vector(2)? @index  {more}
        }}
        node {named("team")} implements Noted {{ key: String @key }}
        {tools}
        edge {self.knows}: {self.person} -> {self.person}{edge} {{ since: I32? }}
        edge MemberOf: {self.person} -> {self.team}
        {uses}
        """

    @property
    def word(self) -> str:
        """The edge as a query spells it."""
        return self.knows[0].lower() + self.knows[1:]

    def changed(self, kind: str) -> "Words":
        """Other words: a rename, a property more or one less."""
        fresh = self.used + 1
        match kind:
            case "extra":
                return replace(self, extras=(*self.extras, f"extra{fresh}"), used=fresh)
            case "drop":
                return replace(self, mark=None, used=fresh)
            case "tool":
                return replace(self, tool=False, used=fresh)
            case "revive":
                return replace(self, mark="mark", marks=self.marks + 1, used=fresh)
            case "person" | "team" | "knows":
                return replace(self, **{kind: f"{kind.title()}{fresh}"}, used=fresh)  # type: ignore[arg-type]
            case _:
                return replace(self, **{kind: f"{kind}{fresh}"}, used=fresh)  # type: ignore[arg-type]


def questions(words: Words) -> dict[str, str]:
    """What is asked at every commit, in the words of one time."""
    p, w = f"$p: {words.person}", words.word
    body = {
        "all": f"match {{ {p} }} return {{ $p, $p.{words.name}, $p.{words.age}, $p.sig }} order {{ $p.key }}",
        "equal": f"match {{ {p} {{ {words.age}: 2 }} }} return {{ $p }} order {{ $p.key }}",
        "range": f"match {{ {p}  1 <= $p.{words.age} }} return {{ $p, $p.{words.age} }} order {{ $p.key }}",
        "search": f'match {{ {p}  search($p.{words.name}, "knots") }} return {{ $p }} order {{ $p.key }}',
        "relevance": f"match {{ {p} }} return {{ $p }} "
        f'order {{ bm25($p.{words.name}, "red rope") }} limit 3',
        "nearest": f"match {{ {p} }} return {{ $p }} order {{ nearest($p.sig, [0.5, 0.5]) }} limit 3",
        "edges": f"match {{ {p}  $p $k:{w} $f }} return {{ $p, $f, $k.since, $f.{words.age} }} "
        "order { $p.key, $f.key, $k.since }",
        "reach": f"match {{ {p}  $p {w}{{1,3}} $f }} return {{ $p.key, count($f) as n }}",
        "lonely": f"match {{ {p}  not {{ $p memberOf $_ }} }} return {{ $p }} order {{ $p.key }}",
        "teams": f"match {{ {p}  $p memberOf $t }} return {{ $t.key, $t.note, max($p.{words.age}) as m }}",
        "blocks": f"match {{ {p}  count {{ $p {w} $f }} > 0 or exists {{ $p memberOf $_ }} }} return {{ $p as p, "
        f"count {{ $p {w} $f }} as n, sum($k.since) {{ $p $k:{w} $_ }} as s }} order {{ p }}",
        "stages": f"match {{ $p $k:{w} $f }} with {{ $p, $f, $k.since as s }} order {{ s desc, id($f) }} limit 1 per $p "
        f"return distinct {{ $p as p, $f as f, s + $f.{words.age} as t }} order {{ p }}",
        "union": f"match {{ {p} }} return {{ lower($p.{words.name}) as n }} "
        f"union match {{ $t: {words.team} }} return {{ coalesce($t.note, $t.key) as n }} order {{ n }}",
        "any": f"match {{ {p}  $p $e:-- $x  $x != $p }} return {{ $p as p, $x as x, from($e) as f, to($e) as t }} "
        "order { p, x, f, t }",
        "star": f"match {{ {p} }} return {{ $p.* }} order {{ $p.key }}",
        "whole": f"match {{ {p}  $p $k:{w} $f }} return {{ entity($k) as k, entity($f) as f }} order {{ id($k) }}",
        "noted": "match { $x: Noted } return { $x as x, $x.note as n, exists { $x -- $y } as e } order { x, n }",
        "kinds": f"match {{ {p}  $p $e:-- $x }} return {{ $p as p, count(distinct type($e)) as e, count(distinct type($x)) as x }} "
        "order { p }",
        "walked": f"match {{ {p}  $p $v:{w}{{1,3}} $f }} return {{ $p as p, $f as f, hops($v) as h, edges($v) as e }} order {{ p, f }}",
        "case": f'match {{ {p}  $p.{words.age} between 0 and 5 or $p.{words.name} matches "^r" }} return distinct {{ '
        f"case when $p.{words.age} is null then -1 else $p.{words.age} % 2 end as c, length($p.{words.name}) as l }} order {{ c, l }}",
        "having": f"match {{ {p}  optional {{ $p {w} $f }} }} return {{ $p as p, count(distinct $f) as n, collect($f.{words.age}) as c, "
        f"percentile($f.{words.age}, 0.5) as m }} having {{ n < 3 }} order {{ p }} offset 1",
    }
    if words.mark is not None:
        body["marked"] = (
            f'match {{ {p}  $p.{words.mark} starts_with "m" }} return {{ $p, $p.{words.mark} }} '
            "order { $p.key }"
        )
    return {name: f"query q() {{ {text} }}" for name, text in body.items()}


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a commit answered while it was the newest, and the words of that time."""

    commit: Commit
    words: Words
    answers: dict[str, list[tuple[Any, ...]]]
    table: list[dict[str, Any]]
    records: list[dict[str, Any]]

    def is_about(self, question: str, words: Words) -> bool:
        """Whether a question in the words of now is about what it was about then, not about another mark."""
        is_same = self.words.mark is not None and self.words.marks == words.marks
        return question != "marked" or is_same

    def answered(self, words: Words) -> dict[str, list[tuple[Any, ...]]]:
        """What the questions of then answer still: all but one whose name means another property by now."""
        taken = self.words.marks != words.marks and self.words.mark == words.mark
        return {name: rows for name, rows in self.answers.items() if name != "marked" or not taken}


@dataclass
class History:
    """A graph with everything it ever said."""

    graph: Graph
    words: Words = field(default_factory=Words)
    memories: list[Memory] = field(default_factory=list)

    @classmethod
    def begun(cls, uri: str) -> "History":
        return cls(omnigraphdb.init(uri, Words().schema()))

    def ask(self, words: Words, **at: Any) -> dict[str, list[tuple[Any, ...]]]:
        return ask(self.graph, words, **at)

    def remember(self) -> None:
        """Keep what the newest commit of main answers."""
        newest = self.graph.commits(limit=1)[0]
        if self.memories and self.memories[-1].commit.id == newest.id:
            return
        self.memories.append(
            Memory(
                commit=newest,
                words=self.words,
                answers=self.ask(self.words),
                table=rows_of(self.graph, self.words.person),
                records=list(self.graph.export()),
            )
        )

    def check(self, graph: Graph | None = None) -> None:
        """Every commit answers as it did, in the words of its time and, where they fit, in those of now."""
        asked = graph or self.graph
        for memory in self.memories:
            then = ask(asked, memory.words, at=memory.commit)
            answered = memory.answered(self.words)
            assert {name: then[name] for name in answered} == answered
            assert rows_of(asked, memory.words.person, at=memory.commit) == memory.table
            assert list(asked.export(at=memory.commit)) == memory.records
            now = ask(asked, self.words, at=memory.commit)
            about = [name for name in now if memory.is_about(name, self.words)]
            assert [now[name] for name in about] == [memory.answers[name] for name in about]

    # ---- steps

    def step(self, name: str, draw: Draw) -> None:
        """Do one thing, and see that every earlier commit answers as before."""
        self.advance(name, draw)
        self.check()

    def advance(self, name: str, draw: Draw) -> None:
        """Do one thing, and keep what the newest commit answers."""
        _STEPS[name](self, draw)
        self.remember()


def ask(graph: Graph, words: Words, **at: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The answers to all questions."""
    return {
        name: [
            _without_names(row) if name in _OPEN else tuple(row.values())
            for row in graph.query(text, **at).rows
        ]
        for name, text in questions(words).items()
    }


_OPEN = frozenset({"star", "whole", "walked"})
"""What shows all properties, under the names of the words that ask, in an order that a schema gives."""


def _without_names(value: Any) -> tuple[Any, ...]:
    """The values of a row without the names of properties, also inside of it."""
    if isinstance(value, dict):
        return tuple(sorted((_without_names(one) for one in value.values()), key=repr))
    if isinstance(value, list):
        return tuple(_without_names(one) for one in value)
    return (value,)


def rows_of(graph: Graph, type_name: str, **at: Any) -> list[dict[str, Any]]:
    """A table as it is stored, by id."""
    return sorted(graph.table(type_name, **at).to_pylist(), key=lambda row: str(row["id"]))


# ---- what may happen


def _person(history: History, draw: Draw, key: str) -> dict[str, Any]:
    words = history.words
    data = {
        "key": key,
        words.name: draw(st.sampled_from(TEXTS)),
        words.age: draw(st.sampled_from(NUMBERS)),
        "sig": draw(st.sampled_from(POINTS)),
    }
    if words.mark is not None:
        data[words.mark] = draw(st.sampled_from(["m1", "m2", "x", None]))
    return {"type": words.person, "data": data}


def _records(history: History, draw: Draw, keys: list[str]) -> Iterator[dict[str, Any]]:
    words = history.words
    yield from (_person(history, draw, key) for key in keys)
    pairs = draw(st.lists(st.tuples(*[st.sampled_from(keys)] * 2), min_size=1, max_size=4))
    for near, far in pairs:
        since = draw(st.sampled_from(NUMBERS))
        yield {"edge": words.knows, "from": near, "to": far, "data": {"since": since}}


def _append(history: History, draw: Draw) -> None:
    """New people, under keys nobody has."""
    people = history.graph.snapshot().tables()[f"node:{history.words.person}"]
    keys = [f"n{people}{place}{len(history.memories)}" for place in range(draw(st.integers(1, 3)))]
    history.graph.load(list(_records(history, draw, keys)), mode="append")


def _load(mode: "Mode") -> Callable[[History, Draw], None]:
    def step(history: History, draw: Draw) -> None:
        keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
        team = {
            "type": history.words.team,
            "data": {"key": "t", "note": draw(st.sampled_from(TEXTS))},
        }
        member = {"edge": "MemberOf", "from": keys[0], "to": "t", "data": {}}
        records = [*_records(history, draw, keys), team, member]
        if history.words.tool:
            records.append({"type": "Tool", "data": {"key": "w", "note": "rope"}})
            records.append({"edge": "Uses", "from": keys[-1], "to": "w", "data": {}})
        history.graph.load(records, mode=mode)

    return step


def _insert(history: History, draw: Draw) -> None:
    words, key = history.words, draw(st.sampled_from(KEYS))
    text = (
        f"query m($k: String, $n: I32) {{ insert {words.person} {{ key: $k, {words.age}: $n }} }}"
    )
    history.graph.mutate(text, {"k": key, "n": draw(st.sampled_from([0, 1, 2]))})


def _update(history: History, draw: Draw) -> None:
    words, key = history.words, draw(st.sampled_from(KEYS))
    text = (
        f"query m($k: String, $n: I32, $t: String) {{ update {words.person} "
        f"set {{ {words.age}: $n, {words.name}: $t }} where key = $k }}"
    )
    values = {"n": draw(st.integers(0, 9)), "t": draw(st.sampled_from(["red rope", "knots"]))}
    history.graph.mutate(text, {"k": key} | values)


def _delete(history: History, draw: Draw) -> None:
    key = draw(st.sampled_from(KEYS))
    text = f"query m($k: String) {{ delete {history.words.person} where key = $k }}"
    history.graph.mutate(text, {"k": key})


def _delete_edges(history: History, draw: Draw) -> None:
    key = draw(st.sampled_from(KEYS))
    text = f"query m($k: String) {{ delete {history.words.knows} where from = $k }}"
    history.graph.mutate(text, {"k": key})


def _merge(history: History, draw: Draw) -> None:
    """Write on a branch, perhaps on main too, and merge; a conflict writes nothing."""
    graph = history.graph
    graph.branch_create("side")
    side = History(graph.on("side"), history.words)
    for one in draw(st.lists(st.sampled_from([_insert, _update, _delete]), min_size=1, max_size=2)):
        one(side, draw)
    there = graph.commits(branch="side", limit=1)[0]
    said = ask(graph, history.words, branch="side")
    if draw(st.booleans()):
        _update(history, draw)
        history.remember()
    with suppress(ConflictError):
        graph.merge("side")
    assert ask(graph, history.words, branch="side", at=there) == said
    history.check()
    graph.branch_delete("side")


_NEEDS_MARK = {"drop": True, "mark": True, "revive": False}
_ONCE = frozenset({"tool"})


def _schema(kind: str) -> Callable[[History, Draw], None]:
    def step(history: History, draw: Draw) -> None:
        if kind in _NEEDS_MARK and _NEEDS_MARK[kind] != (history.words.mark is not None):
            return
        if kind in _ONCE and not getattr(history.words, kind):
            return
        changed = history.words.changed(kind)
        history.graph.schema_apply(changed.schema(history.words))
        history.words = changed

    return step


def _indices(history: History, draw: Draw) -> None:
    history.graph.ensure_indices()


def _optimize(history: History, draw: Draw) -> None:
    history.graph.optimize()


def _cleanup(history: History, draw: Draw) -> None:
    """Everything is younger than the retention, so that nothing that can be asked for may go."""
    history.graph.cleanup(older_than=timedelta(days=7), confirm=True)


def _reopen(history: History, draw: Draw) -> None:
    history.graph.close()
    history.graph = omnigraphdb.open(history.graph.uri)


_STEPS: dict[str, Callable[[History, Draw], None]] = {
    "insert": _insert,
    "update": _update,
    "delete": _delete,
    "delete edges": _delete_edges,
    "append": _append,
    "merge load": _load("merge"),
    "overwrite": _load("overwrite"),
    "merge": _merge,
    "rename a property": _schema("age"),
    "rename a text": _schema("name"),
    "rename a type": _schema("person"),
    "rename the far type": _schema("team"),
    "rename an edge": _schema("knows"),
    "add a property": _schema("extra"),
    "rename before a drop": _schema("mark"),
    "drop a property": _schema("drop"),
    "use the name again": _schema("revive"),
    "drop a type": _schema("tool"),
    "index": _indices,
    "optimize": _optimize,
    "cleanup": _cleanup,
    "reopen": _reopen,
}
STEPS = tuple(_STEPS)
