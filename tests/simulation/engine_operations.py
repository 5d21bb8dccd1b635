"""What clients of the engine ask for, as data: each write also says what it makes of a plain graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.errors import HistoryReclaimed
from omnigraphdb.ids import MAIN

SCHEMA: Final = """
node Account { k: String @key  n: I64  l: String  seen: String?  mail: String? @unique }
node Vault { k: String @key  n: I64  l: String  seen: String? }
edge Holds: Account -> Vault @card(0..1)
"""

Row = tuple[Any, ...]
Plain = Mapping[str, Mapping[str, Row]]
"""What a branch shows: the rows of each type by their keys; an edge is known by its ends."""


@dataclass(frozen=True)
class Reply:
    """What a client was given: the commit that its write made, or the one that its read saw."""

    commit: str | None = None
    rows: Any = None
    replayed: bool = False
    seen: "Reply | None" = None
    """What was read first, where a write was decided on a read."""


class Refused(Exception):
    """A write that the plain graph refuses as well."""


@dataclass(frozen=True)
class Operation:
    """One call of a client on a branch; `wait` is how long the client waits before."""

    branch: str = MAIN
    wait: float = 0.0
    key: str | None = field(default=None, kw_only=True)
    """An idempotency key, if the call has one."""

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        """Make the call; a commit that it makes has the name as its message."""
        raise NotImplementedError


# ---- plain graphs


def read_plain(snapshot: Snapshot) -> Plain:
    """Read all that a state shows."""
    plain: dict[str, dict[str, Row]] = {}
    for name, columns in (("Account", ("n", "l", "seen", "mail")), ("Vault", ("n", "l", "seen"))):
        rows = snapshot.table(name).to_pylist()
        plain[name] = {row["k"]: tuple(row[column] for column in columns) for row in rows}
        assert len(plain[name]) == len(rows), f"a key of {name} shows twice"
    ends = [(row["src"], row["dst"]) for row in snapshot.table("Holds").to_pylist()]
    plain["Holds"] = {f"{source} {target}": (source, target) for source, target in ends}
    assert len(plain["Holds"]) == len(ends), "an edge shows twice"
    return plain


def _put(plain: Plain, type_name: str, rows: Mapping[str, Row]) -> Plain:
    return {**plain, type_name: {**plain[type_name], **rows}}


def _add(plain: Plain, type_name: str, key: str, n: int) -> Plain:
    row = plain[type_name][key]
    return _put(plain, type_name, {key: (row[0] + n, *row[1:])})


def _hold(plain: Plain, source: str, target: str) -> Plain:
    """Add an edge, with the rules of the schema."""
    if source not in plain["Account"] or target not in plain["Vault"]:
        raise Refused("an end of the edge is missing")
    if any(ends[0] == source for ends in plain["Holds"].values()):
        raise Refused("the account holds a vault already")
    return _put(plain, "Holds", {f"{source} {target}": (source, target)})


# ---- writes of rows


@dataclass(frozen=True)
class Mutation(Operation):
    """A mutation, and what it makes of a plain graph."""

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        return self._mutate(graph, name)

    def _mutate(self, graph: Graph, name: str, if_commit: str | None = None) -> Reply:
        text, params = self.spell(name)
        done = graph.mutate(
            text,
            params,
            branch=self.branch,
            message=name,
            if_commit=if_commit,
            idempotency_key=self.key,
        )
        commit = None if done.commit is None else done.commit.id
        return Reply(commit, [dict(row) for row in done.rows], done.replayed)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        """The text of the query and its parameters."""
        raise NotImplementedError

    def on(self, plain: Plain) -> Plain:
        """Apply the write to a plain graph."""
        raise NotImplementedError


@dataclass(frozen=True)
class Open(Mutation):
    """Insert an account, a vault, and the edge between them."""

    name: str = field(kw_only=True)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        text = """query m($k: String) {
            insert Account { k: $k, n: 0, l: "" }
            insert Vault { k: $k, n: 0, l: "" }
            insert Holds { from: $k, to: $k } }"""
        return text, {"k": self.name}

    def on(self, plain: Plain) -> Plain:
        opened = _put(plain, "Account", {self.name: (0, "", None, None)})
        opened = _put(opened, "Vault", {self.name: (0, "", None)})
        return _hold(opened, self.name, self.name)


@dataclass(frozen=True)
class Transfer(Mutation):
    """Move an amount between two nodes of one or of two types, if the source has it."""

    source: tuple[str, str] = field(kw_only=True)
    target: tuple[str, str] = field(kw_only=True)
    amount: int = field(kw_only=True)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        text = f"""query m($source: String, $target: String, $amount: I64) {{
            match {{
              $s: {self.source[0]} {{ k: $source }}  $t: {self.target[0]} {{ k: $target }}
              $s.n >= $amount
            }}
            update $t set {{ n: $t.n + $amount }}
            update {self.source[0]} set {{ n: $.n - $amount }} where k = $source and n >= $amount }}"""
        return text, {"source": self.source[1], "target": self.target[1], "amount": self.amount}

    def on(self, plain: Plain) -> Plain:
        source = plain[self.source[0]].get(self.source[1])
        if source is None or self.target[1] not in plain[self.target[0]] or source[0] < self.amount:
            return plain
        return _add(_add(plain, *self.target, self.amount), *self.source, -self.amount)


@dataclass(frozen=True)
class Append(Mutation):
    """Append a number to the lists of several nodes; the answer has them all."""

    accounts: tuple[str, ...] = field(kw_only=True)
    vaults: tuple[str, ...] = ()
    number: int = field(kw_only=True)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        statements = [
            f"update {type_name} set {{ l: concat($.l, $v) }} where k in ${param}"
            f' returning {{ "{type_name}" as type, k, l }}'
            for type_name, param, keys in (
                ("Account", "accounts", self.accounts),
                ("Vault", "vaults", self.vaults),
            )
            if keys
        ]
        text = "query m($v: String, $accounts: [String], $vaults: [String]) { %s }"
        values = {"accounts": list(self.accounts), "vaults": list(self.vaults)}
        return text % " ".join(statements), {"v": f"{self.number},", **values}

    def on(self, plain: Plain) -> Plain:
        for type_name, keys in (("Account", self.accounts), ("Vault", self.vaults)):
            for key in keys:
                n, numbers, *more = plain[type_name][key]
                row = (n, f"{numbers}{self.number},", *more)
                plain = _put(plain, type_name, {key: row})
        return plain


@dataclass(frozen=True)
class Decide(Append):
    """Read the lists of several nodes, and append only if nobody wrote since."""

    pause: float = field(kw_only=True)

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        seen = Look(self.branch, accounts=self.accounts).run(graph, name, wait)
        wait(self.pause)
        done = self._mutate(graph, name, if_commit=seen.commit)
        return Reply(done.commit, done.rows, seen=seen)


@dataclass(frozen=True)
class Watch(Mutation):
    """Append a number to the list of one node, beside the list of another one that the match reads."""

    source: tuple[str, str] = field(kw_only=True)
    target: tuple[str, str] = field(kw_only=True)
    number: int = field(kw_only=True)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        text = f"""query m($source: String, $target: String, $v: String) {{
            match {{ $s: {self.source[0]} {{ k: $source }}  $t: {self.target[0]} {{ k: $target }} }}
            update $t set {{ l: concat($t.l, $v), seen: $s.l }} returning {{ l, seen }} }}"""
        return text, {"source": self.source[1], "target": self.target[1], "v": f"{self.number},"}

    def on(self, plain: Plain) -> Plain:
        seen = plain[self.source[0]][self.source[1]][1]
        n, numbers, _, *more = plain[self.target[0]][self.target[1]]
        row = (n, f"{numbers}{self.number},", seen, *more)
        return _put(plain, self.target[0], {self.target[1]: row})


@dataclass(frozen=True)
class Hold(Mutation):
    """Add an edge between two nodes that may be gone, from an account that may have one."""

    source: str = field(kw_only=True)
    target: str = field(kw_only=True)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        text = "query m($a: String, $b: String) { insert Holds { from: $a, to: $b } }"
        return text, {"a": self.source, "b": self.target}

    def on(self, plain: Plain) -> Plain:
        return _hold(plain, self.source, self.target)


@dataclass(frozen=True)
class Mail(Mutation):
    """Give an account a value that no other may have."""

    account: str = field(kw_only=True)
    mail: str = field(kw_only=True)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        text = "query m($k: String, $m: String) { update Account set { mail: $m } where k = $k }"
        return text, {"k": self.account, "m": self.mail}

    def on(self, plain: Plain) -> Plain:
        rows = plain["Account"]
        if self.account not in rows:
            return plain
        if any(row[3] == self.mail for key, row in rows.items() if key != self.account):
            raise Refused("another account has this mail")
        return _put(plain, "Account", {self.account: (*rows[self.account][:3], self.mail)})


@dataclass(frozen=True)
class Close(Mutation):
    """Delete a vault, with the edges that lead to it, or an account, with its edge."""

    type_name: str = field(kw_only=True)
    node: str = field(kw_only=True)

    def spell(self, name: str) -> tuple[str, dict[str, Any]]:
        return f"query m($k: String) {{ delete {self.type_name} where k = $k }}", {"k": self.node}

    def on(self, plain: Plain) -> Plain:
        end = 0 if self.type_name == "Account" else 1
        rows = {key: row for key, row in plain[self.type_name].items() if key != self.node}
        edges = {key: ends for key, ends in plain["Holds"].items() if ends[end] != self.node}
        return {**plain, self.type_name: rows, "Holds": edges}


# ---- reads


@dataclass(frozen=True)
class Read(Operation):
    """A read, and what it is of a plain graph."""

    def of(self, plain: Plain) -> Any:
        """Read a plain graph."""
        raise NotImplementedError


@dataclass(frozen=True)
class Look(Read):
    """Read the lists of several accounts by one query."""

    accounts: tuple[str, ...] = field(kw_only=True)

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        text = """query q($keys: [String]) {
            match { $a: Account  $a.k in $keys } return { $a.k as k, $a.l as l } order { k } }"""
        result = graph.query(text, {"keys": list(self.accounts)}, branch=self.branch)
        return Reply(result.commit, {row["k"]: row["l"] for row in result.rows})

    def of(self, plain: Plain) -> Any:
        rows = plain["Account"]
        return {key: rows[key][1] for key in sorted(self.accounts) if key in rows}


@dataclass(frozen=True)
class Audit(Read):
    """Read everything, at the head of a branch; some time later, the same state again."""

    pause: float | None = field(default=None, kw_only=True)

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        snapshot = graph.snapshot(branch=self.branch)
        plain = read_plain(snapshot)
        if self.pause is not None:
            wait(self.pause)
            try:
                again = read_plain(graph.snapshot(branch=self.branch, at=snapshot.commit))
            except HistoryReclaimed:
                return Reply(snapshot.commit, plain)
            assert again == plain, f"{snapshot.commit} shows {again}, and showed {plain}"
        return Reply(snapshot.commit, plain)

    def of(self, plain: Plain) -> Any:
        return plain


# ---- branches


@dataclass(frozen=True)
class Fork(Operation):
    """Make a branch of another."""

    source: str = field(default=MAIN, kw_only=True)

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        graph.branch_create(self.branch, from_branch=self.source)
        return Reply()


@dataclass(frozen=True)
class Drop(Operation):
    """Delete a branch."""

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        graph.branch_delete(self.branch)
        return Reply()


@dataclass(frozen=True)
class Join(Operation):
    """Merge one branch into another."""

    source: str = field(kw_only=True)

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        done = graph.merge(self.source, into=self.branch, message=name)
        return Reply(None if done.commit is None else done.commit.id, str(done.outcome))


# ---- upkeep


@dataclass(frozen=True)
class Upkeep(Operation):
    """Maintenance, of one of several kinds; it changes no row."""

    kind: str = field(kw_only=True)

    def run(self, graph: Graph, name: str, wait: Callable[[float], None]) -> Reply:
        match self.kind:
            case "optimize":
                graph.optimize()
            case "indexes":
                graph.ensure_indices(branch=self.branch)
            case "cleanup":
                graph.cleanup(keep=1, confirm=True)
            case "tag":
                graph.tag(f"tag-{name}")
            case "doctor":
                graph.doctor()
            case "repair":
                graph.repair(confirm=True)
            case _:
                raise AssertionError(self.kind)
        return Reply()


UPKEEP: Final = ("optimize", "indexes", "cleanup", "tag", "doctor", "repair")
