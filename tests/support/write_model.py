"""A graph as plain dictionaries: what writes do to it, and which of its rules they break."""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

SCHEMA = """
node Person { k: String @key  n: I32?  mail: String?  kind: enum(a, b)?  @range(n, 0..9)  @unique(mail) }
node Note { text: String }
edge Knows: Person -> Person { w: I32? }
edge Wrote: Person -> Note @card(0..2) { w: I32? }
"""
NODES = {"Person": ("k", "n", "mail", "kind"), "Note": ("text",)}
EDGES = {"Knows": ("Person", "Person"), "Wrote": ("Person", "Note")}
RANGE, KINDS, WROTE_MAX = (0, 9), ("a", "b"), 2
OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Row = dict[str, Any]
CONSTRAINT, REFERENCE, KEY = "constraint_error", "referential_error", "key_conflict"


class Refused(Exception):
    """What the graph must refuse, by kind."""


@dataclass
class Model:
    """Every entity by type and id; edges carry `src` and `dst` among their values."""

    rows: dict[str, dict[str, Row]] = field(
        default_factory=lambda: {name: {} for name in (*NODES, *EDGES)}
    )
    made: int = 0

    def copy(self) -> "Model":
        return deepcopy(self)

    def fresh(self) -> str:
        """A stand-in for an id that the graph makes up."""
        self.made += 1
        return f"made-{self.made}"

    # ---- rules, over the final state

    def check(
        self, appended: Iterable[tuple[str, str]] = (), before: "Model | None" = None
    ) -> None:
        """Raise the kind of the first rule that is broken, in the order the graph checks them."""
        people = self.rows["Person"].values()
        if any(p["n"] is not None and not RANGE[0] <= p["n"] <= RANGE[1] for p in people):
            raise Refused(CONSTRAINT)
        if any(p["kind"] is not None and p["kind"] not in KINDS for p in people):
            raise Refused(CONSTRAINT)
        if before is not None and any(key in before.rows[name] for name, key in appended):
            raise Refused(KEY)
        mails = Counter(p["mail"] for p in people if p["mail"] is not None)
        if any(n > 1 for n in mails.values()):
            raise Refused(CONSTRAINT)
        for name, (source, target) in EDGES.items():
            for edge in self.rows[name].values():
                if edge["src"] not in self.rows[source] or edge["dst"] not in self.rows[target]:
                    raise Refused(REFERENCE)
        if any(
            n > WROTE_MAX for n in Counter(e["src"] for e in self.rows["Wrote"].values()).values()
        ):
            raise Refused(CONSTRAINT)

    # ---- mutations

    def insert(self, name: str, values: Row) -> None:
        if name in NODES:
            row = {column: values.get(column) for column in NODES[name]}
            self.rows[name][values["k"] if name == "Person" else self.fresh()] = row
        else:
            self.rows[name][self.fresh()] = {"w": None} | values

    def update(self, where: tuple[str, str, Any], values: Row) -> int:
        found = self.matching("Person", where)
        for key in found:
            self.rows["Person"][key].update(values)
        return len(found)

    def matching(self, name: str, where: tuple[str, str, Any]) -> list[str]:
        column, op, value = where
        return [
            key
            for key, row in self.rows[name].items()
            if row[column] is not None and OPERATORS[op](row[column], value)
        ]

    def delete(self, name: str, keys: Iterable[str]) -> Counter[str]:
        """Remove entities and the edges of removed nodes; counts what went."""
        gone = Counter[str]()
        for key in keys:
            if self.rows[name].pop(key, None) is not None:
                gone["nodes" if name in NODES else "edges"] += 1
        for edge, (source, target) in EDGES.items():
            for key, row in list(self.rows[edge].items()):
                lost = (source == name and row["src"] not in self.rows[name]) or (
                    target == name and row["dst"] not in self.rows[name]
                )
                if name in NODES and lost:
                    del self.rows[edge][key]
                    gone["edges"] += 1
        return gone

    # ---- loads

    def load(self, records: list[dict[str, Any]], mode: str) -> None:
        """Load records that have an id each; raises what the graph must refuse."""
        given: dict[str, list[tuple[str, Row]]] = {}
        for record in records:
            name, key, row = entity(record)
            given.setdefault(name, []).append((key, row))
        before = self.copy()
        for name in sorted(given, key=lambda one: f"{'node' if one in NODES else 'edge'}:{one}"):
            repeated = len({key for key, _ in given[name]}) < len(given[name])
            if repeated and name == "Person":
                raise Refused(CONSTRAINT)
            if repeated and mode != "merge":
                raise Refused(KEY)
        for name, rows in given.items():
            if mode == "overwrite":
                self.rows[name] = {}
            self.rows[name] |= dict(rows)
        appended = [(name, key) for name, rows in given.items() for key, _ in rows]
        self.check(appended if mode == "append" else (), before)


def entity(record: Mapping[str, Any]) -> tuple[str, str, Row]:
    """Type, id and values of a record in the load format."""
    data = dict(record.get("data") or {})
    if "type" in record:
        name = record["type"]
        key = data.pop("id", None) or data["k"]
        return name, key, {column: data.get(column) for column in NODES[name]}
    name = record["edge"]
    key = data.pop("id")
    return name, key, {"src": record["from"], "dst": record["to"], "w": data.get("w")}


def model_of(records: Iterable[Mapping[str, Any]]) -> Model:
    """The model of an export."""
    model = Model()
    for record in records:
        name, key, row = entity(record)
        model.rows[name][key] = row
    return model


def refused(work: Callable[[], None]) -> str | None:
    """The kind of refusal that a step of the model ends in, if it does."""
    try:
        work()
    except Refused as refusal:
        return str(refusal)
    return None
