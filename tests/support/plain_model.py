"""A plain graph, and writes that can be done to it and to a real one alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

SCHEMA: Final = """
node Person { k: String @key  n: I32? }
node City { k: String @key  n: I32? }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""

Nodes = frozenset[tuple[str, int | None]]
Edges = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Plain:
    """What a branch shows. Edges are a multiset: their ids are made up."""

    people: Nodes = frozenset()
    cities: Nodes = frozenset()
    knows: Edges = ()
    lives: Edges = ()

    @property
    def names(self) -> list[str]:
        """The people, sorted."""
        return sorted(k for k, _ in self.people)


def read_branch(graph: Graph, branch: str, at: str | None = None) -> Plain:
    """Read a branch of a real graph, now or at a commit."""
    nodes: dict[str, set[tuple[str, int | None]]] = {"Person": set(), "City": set()}
    edges: dict[str, list[tuple[str, str]]] = {"Knows": [], "LivesIn": []}
    for entity in graph.export(branch=branch, at=at):
        if "type" in entity:
            nodes[entity["type"]].add((entity["data"]["k"], entity["data"]["n"]))
        else:
            edges[entity["edge"]].append((entity["from"], entity["to"]))
    return Plain(
        people=frozenset(nodes["Person"]),
        cities=frozenset(nodes["City"]),
        knows=tuple(sorted(edges["Knows"])),
        lives=tuple(sorted(edges["LivesIn"])),
    )


class Write(Protocol):
    """A change that a plain graph and a real one can both make."""

    def to(self, graph: Graph, branch: str, key: str | None = None) -> str | None:
        """Make the change on a real graph, once for each idempotency key; give its commit."""
        ...

    def on(self, plain: Plain) -> Plain:
        """Apply the change to the plain graph."""
        ...


def _name(commit: Commit | None) -> str | None:
    return None if commit is None else commit.id


def _put(nodes: Nodes, changed: Iterable[tuple[str, int | None]]) -> Nodes:
    fresh = dict(changed)
    return frozenset({(k, n) for k, n in nodes if k not in fresh} | set(fresh.items()))


def _with(edges: Edges, *more: tuple[str, str]) -> Edges:
    return tuple(sorted((*edges, *more)))


@dataclass(frozen=True, slots=True)
class Settle:
    """Insert a person, a city and the edge between them: three tables, both nodes upserts."""

    person: str
    city: str
    n: int

    def to(self, graph: Graph, branch: str, key: str | None = None) -> str | None:
        """Make the change on a real graph, once for each idempotency key; give its commit."""
        made = graph.mutate(
            """query m($p: String, $c: String, $n: I32) {
                 insert Person { k: $p, n: $n }
                 insert City { k: $c, n: $n }
                 insert LivesIn { from: $p, to: $c } }""",
            {"p": self.person, "c": self.city, "n": self.n},
            branch=branch,
            idempotency_key=key,
        )
        return _name(made.commit)

    def on(self, plain: Plain) -> Plain:
        """Apply the change to the plain graph."""
        return replace(
            plain,
            people=_put(plain.people, [(self.person, self.n)]),
            cities=_put(plain.cities, [(self.city, self.n)]),
            lives=_with(plain.lives, (self.person, self.city)),
        )


@dataclass(frozen=True, slots=True)
class Befriend:
    """Insert an edge between two people: one table, and two ends that must be there."""

    one: str
    other: str

    def to(self, graph: Graph, branch: str, key: str | None = None) -> str | None:
        """Make the change on a real graph, once for each idempotency key; give its commit."""
        made = graph.mutate(
            "query m($a: String, $b: String) { insert Knows { from: $a, to: $b } }",
            {"a": self.one, "b": self.other},
            branch=branch,
            idempotency_key=key,
        )
        return _name(made.commit)

    def on(self, plain: Plain) -> Plain:
        """Apply the change to the plain graph."""
        return replace(plain, knows=_with(plain.knows, (self.one, self.other)))


@dataclass(frozen=True, slots=True)
class Age:
    """Update a person and every city: two tables, both strict; nobody of that name is no change."""

    person: str
    n: int

    def to(self, graph: Graph, branch: str, key: str | None = None) -> str | None:
        """Make the change on a real graph, once for each idempotency key; give its commit."""
        made = graph.mutate(
            """query m($p: String, $n: I32) {
                 update Person set { n: $n } where k = $p
                 update City set { n: $n } where n < $n }""",
            {"p": self.person, "n": self.n},
            branch=branch,
            idempotency_key=key,
        )
        return _name(made.commit)

    def on(self, plain: Plain) -> Plain:
        """Apply the change to the plain graph."""
        known = [(self.person, self.n)] if self.person in plain.names else []
        older = [(k, self.n) for k, n in plain.cities if n is not None and n < self.n]
        return replace(plain, people=_put(plain.people, known), cities=_put(plain.cities, older))


@dataclass(frozen=True, slots=True)
class Leave:
    """Delete a person, and with them their edges of both types."""

    person: str

    def to(self, graph: Graph, branch: str, key: str | None = None) -> str | None:
        """Make the change on a real graph, once for each idempotency key; give its commit."""
        made = graph.mutate(
            "query m($p: String) { delete Person where k = $p }",
            {"p": self.person},
            branch=branch,
            idempotency_key=key,
        )
        return _name(made.commit)

    def on(self, plain: Plain) -> Plain:
        """Apply the change to the plain graph."""
        return replace(
            plain,
            people=frozenset((k, n) for k, n in plain.people if k != self.person),
            knows=tuple(edge for edge in plain.knows if self.person not in edge),
            lives=tuple(edge for edge in plain.lives if edge[0] != self.person),
        )


@dataclass(frozen=True, slots=True)
class Load:
    """Load people, cities and edges in one of the three modes."""

    mode: "Mode"
    people: tuple[tuple[str, int], ...]
    cities: tuple[tuple[str, int], ...]
    knows: Edges = ()
    lives: Edges = ()

    def to(self, graph: Graph, branch: str, key: str | None = None) -> str | None:
        """Make the change on a real graph, once for each idempotency key; give its commit."""
        made = graph.load(list(self._records()), mode=self.mode, branch=branch, idempotency_key=key)
        return _name(made.commit)

    def _records(self) -> Iterable[Mapping[str, Any]]:
        for type_, nodes in (("Person", self.people), ("City", self.cities)):
            for k, n in nodes:
                yield {"type": type_, "data": {"k": k, "n": n}}
        for edge, pairs in (("Knows", self.knows), ("LivesIn", self.lives)):
            for source, target in pairs:
                yield {"edge": edge, "from": source, "to": target}

    def on(self, plain: Plain) -> Plain:
        """Apply the change to the plain graph."""
        if self.mode == "overwrite":
            return Plain(
                frozenset(self.people), frozenset(self.cities), _with(self.knows), _with(self.lives)
            )
        return Plain(
            _put(plain.people, self.people),
            _put(plain.cities, self.cities),
            _with(plain.knows, *self.knows),
            _with(plain.lives, *self.lives),
        )


@dataclass(frozen=True, slots=True)
class Maintain:
    """Maintain the tables: whatever becomes of it, nothing shows."""

    verb: str

    def to(self, graph: Graph, branch: str, key: str | None = None) -> str | None:
        """Maintain a real graph; maintenance takes no key and makes no commit."""
        del key
        if self.verb == "optimize":
            graph.optimize()
        else:
            graph.ensure_indices(branch=branch)
        return None

    def on(self, plain: Plain) -> Plain:
        """Apply the change to the plain graph."""
        return plain
