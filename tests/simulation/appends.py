"""Histories of appends to lists, in the JSON of Jepsen, and a checker that follows the commits.

A call is one transaction; so is a read together with the write that names its commit as `if_commit`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from omnigraphdb.api.results import Commit
from tests.simulation.engine_operations import Append, Decide, Look, Watch
from tests.simulation.engine_universe import Call, EngineUniverse
from tests.simulation.orders import NEVER, Placed, check_order
from tests.simulation.universe import Fate

_TYPES: Final = {Fate.ACKNOWLEDGED: "ok", Fate.REFUSED: "fail", Fate.UNKNOWN: "info"}


@dataclass(frozen=True)
class Transaction:
    """One transaction on a branch, as its client knows it."""

    name: str
    thread: str
    branch: str
    began: float
    ended: float
    """NEVER where nobody was told what became of it."""
    fate: Fate
    reads_before: Mapping[str, Sequence[int] | None]
    """The lists that it read, before its own appends; None where it got no answer."""
    appends: Mapping[str, int]
    reads_after: Mapping[str, Sequence[int] | None]
    """The lists that it was given after its own appends."""
    commit: str | None
    """The commit that it made or read, as its client was told."""

    def spell(self, *, is_answered: bool) -> list[list[Any]]:
        """Spell its operations as Jepsen does."""
        reads = [
            [
                ["r", f"{self.branch} {key}", numbers if is_answered else None]
                for key, numbers in part
            ]
            for part in (self.reads_before.items(), self.reads_after.items())
        ]
        appends = [["append", f"{self.branch} {key}", n] for key, n in self.appends.items()]
        return [*reads[0], *appends, *reads[1]]


def list_transactions(universe: EngineUniverse) -> list[Transaction]:
    """List the transactions of a universe."""
    return [
        _read_call(call)
        for call in universe.calls
        if isinstance(call.operation, Append | Look | Watch)
    ]


def _read_call(call: Call) -> Transaction:
    operation, answer = call.operation, call.answer
    before: dict[str, list[int] | None] = {}
    after: dict[str, list[int] | None] = {}
    appends: dict[str, int] = {}
    if isinstance(operation, Look | Decide):
        seen = answer.seen if isinstance(operation, Decide) else answer
        rows = {} if seen is None or seen.rows is None else seen.rows
        before = {f"Account {key}": _numbers(rows.get(key)) for key in operation.accounts}
    if isinstance(operation, Append):
        keys = [f"Account {key}" for key in operation.accounts]
        keys += [f"Vault {key}" for key in operation.vaults]
        appends = dict.fromkeys(keys, operation.number)
        texts = {f"{row['type']} {row['k']}": row["l"] for row in answer.rows or ()}
        after = {key: _numbers(texts.get(key)) for key in keys}
    if isinstance(operation, Watch):
        row = answer.rows[0] if answer.rows else {}
        target = " ".join(operation.target)
        before = {" ".join(operation.source): _numbers(row.get("seen"))}
        appends, after = {target: operation.number}, {target: _numbers(row.get("l"))}
    is_told = call.ended is not None and call.fate is not Fate.UNKNOWN
    return Transaction(
        name=call.name,
        thread=call.name.rpartition(".")[0],
        branch=operation.branch,
        began=call.began,
        ended=call.ended if is_told and call.ended is not None else NEVER,
        fate=call.fate,
        reads_before=before,
        appends=appends,
        reads_after=after,
        commit=answer.commit,
    )


def _numbers(text: str | None) -> list[int] | None:
    return None if text is None else [int(number) for number in text.split(",") if number]


# ---- along the commits


def check_appends(
    transactions: Sequence[Transaction], orders: Mapping[str, Sequence[Commit]]
) -> Iterator[str]:
    """Complain of a history that is not strictly serialisable in the order of the commits of each branch.

    Every list is put together once, commit by commit; each read must be the lists of one commit of its time.
    """
    for branch, commits in orders.items():
        own = [one for one in transactions if one.branch == branch]
        places = {commit.id: place for place, commit in enumerate(commits)}
        named = {commit.message: commit for commit in commits}
        placed: list[Placed] = []
        readers: defaultdict[int, list[tuple[Transaction, Mapping[str, Any]]]] = defaultdict(list)
        for one in own:
            commit = named.get(one.name) if one.appends else None
            if one.fate is Fate.REFUSED and commit is not None:
                yield f"{one.name} was refused, and is commit {commit.id}"
            if one.fate is Fate.ACKNOWLEDGED and one.commit not in places:
                yield f"{one.name} was acknowledged, and its commit {one.commit} is gone"
            place = places.get(one.commit or "") if commit is None else places[commit.id]
            if place is None:
                continue
            placed.append(Placed(one.name, one.began, one.ended, place, bool(one.appends)))
            readers[place].append((one, one.reads_after if one.appends else one.reads_before))
            if one.appends:
                readers[place - 1].append((one, one.reads_before))
        yield from check_order(placed)
        yield from _check_reads(commits, {one.name: one for one in own}, readers)


def _check_reads(
    commits: Sequence[Commit],
    transactions: Mapping[str, Transaction],
    readers: Mapping[int, Sequence[tuple[Transaction, Mapping[str, Any]]]],
) -> Iterator[str]:
    lists: defaultdict[str, list[int]] = defaultdict(list)
    for place, commit in enumerate(commits):
        writer = transactions.get(commit.message or "")
        for key, number in writer.appends.items() if writer is not None else ():
            lists[key].append(number)
        for reader, reads in readers.get(place, ()):
            for key, numbers in reads.items():
                if numbers is not None and numbers != lists[key]:
                    yield f"{reader.name} read {key} as {numbers}, at commit {place} it is {lists[key]}"


# ---- for other checkers


def write_history(transactions: Sequence[Transaction], path: Path) -> None:
    """Write a history as Jepsen does, one event a line; a process that got no answer does nothing more."""
    processes: dict[tuple[str, int], int] = {}
    unanswered: Counter[str] = Counter()
    moments: list[tuple[float, str, int, Transaction]] = []
    for one in sorted(transactions, key=lambda one: one.began):
        process = processes.setdefault((one.thread, unanswered[one.thread]), len(processes))
        moments.append((one.began, "invoke", process, one))
        moments.append((one.ended, _TYPES[one.fate], process, one))
        unanswered[one.thread] += one.fate is Fate.UNKNOWN
    with path.open("w") as lines:
        for index, (_, kind, process, one) in enumerate(sorted(moments, key=lambda one: one[0])):
            value = one.spell(is_answered=kind == "ok")
            event = {"index": index, "time": index, "type": kind, "process": process}
            lines.write(json.dumps({**event, "f": "txn", "value": value}) + "\n")
