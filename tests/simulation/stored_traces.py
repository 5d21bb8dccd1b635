"""Traces of the model as lines of text: made by Quint, stored in `traces/`, one file for each instance.

`w1=AB; take w1 w1, prepare w1, arm w1, send_table w1, …`: who writes which tables, then the actions. Each of them has its
name, whose it is, and what it is about. `python -m tests.simulation.stored_traces` makes the files again, with npm.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.simulation import models
from tests.simulation.models import HERE, Instance, find_broken, install_quint

FOLDER: Final = HERE / "traces"
SEED: Final = 1
_SAMPLES_EACH: Final = 16
"""Of so many random traces the longest one is taken."""
_LEFT: Final = ("take", "prepare", "arm", "die")
"""What a writer did that left its sidecar."""
_ENDING: Final = frozenset({"finish", "disarm", "stop", "withdraw", "run_out", "die"})
"""Actions after which a client may have nothing to do, and which are not the end of what it does."""
_LOOKING: Final = frozenset({"finish", "disarm"})
"""Actions that leave it at the sidecar where the locks are lost."""
_RETRIED: Final = frozenset({"send_restore", "give_way", "repin"})
"""Actions of a recoverer that gathers anew when somebody moved what it had seen."""
_UNSEEN: Final = {"ARMS": ("prepare", "arm"), "RECORDS": ("decide", "note")}
"""Actions that make no request where a guard is taken away."""
_OVER: Final = ("idle", "done")

_State = Mapping[str, Any]


@dataclass(frozen=True)
class Action:
    """An action of the model.

    `about` is the table whose request arrives (`swap` for the manifest's), or whose operation somebody takes.
    """

    name: str
    client: str
    about: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.client, self.about)))


@dataclass(frozen=True)
class Trace:
    """A trace of the model: the tables of each writer, and the actions in order."""

    tables: Mapping[str, str]
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        writers = " ".join(f"{name}={tables}" for name, tables in self.tables.items())
        return f"{writers}; {', '.join(map(str, self.actions))}"


@dataclass(frozen=True)
class Source:
    """An instance whose traces drive the code, and how many of them are stored."""

    instance: Instance
    count: int
    broken: str = ""
    """The invariant that each trace breaks; without one, guards stand."""
    mutant: str = ""
    """The same guard in the code."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return "-".join((self.instance.name, *self.instance.without)).replace(" ", "_")


WHOLE: Final = (
    Source(models.SMALL, 30),
    Source(models.WRITERS, 40),
    Source(models.APART, 40),
    Source(models.DEATHS, 45),
    Source(models.TRIO, 45),
)
# OCCUPIES is not here: a late version past a pin is undone by the next write, so that nothing stays blocked for the judge.
# No mutant takes CONDITIONAL away.
BROKEN: Final = (
    Source(models.SLEEPERS.lacking("CAREFUL"), 1, "free", "withdrawn_without_locks"),
    Source(models.SMALL.lacking("LOOKS", "CAREFUL"), 1, "free", "locks_never_looked_at"),
    Source(models.APART.lacking("SWAP"), 1, "kept", "blind_swap"),
    Source(models.DEATHS.lacking("ARMS"), 1, "free", "no_sidecar"),
    Source(models.LONE_TABLE.lacking("RECORDS"), 1, "honest", "decision_not_recorded"),
    Source(models.TRIO.lacking("PLACED", "CURRENT"), 1, "kept", "restore_over_anything"),
)


# ---- lines


def read_traces(path: Path) -> list[Trace]:
    """Read the traces of a file, one a line; a line that begins with `#` says where the next ones come from."""
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return [_parse(line) for line in lines]


def _parse(line: str) -> Trace:
    writers, _, actions = line.partition("; ")
    tables = dict(writer.split("=") for writer in writers.split())
    return Trace(tables, tuple(Action(*action.split()) for action in actions.split(", ")))


def list_files(names: str) -> list[Path]:
    """List the files of traces with these names or paths, or of all whole models."""
    if not names:
        return [FOLDER / f"{source.name}.txt" for source in WHOLE]
    return [FOLDER / name if "/" in name else FOLDER / f"{name}.txt" for name in names.split(",")]


# ---- the Informal Trace Format


def read_itf(path: Path, instance: Instance) -> Trace:
    """Read a trace as `quint run --mbt --out-itf` writes it, after what the writers did that died before."""
    states = [_read_state(state) for state in json.loads(path.read_text())["states"]]
    actions = [
        Action(name, writer, writer if name == "take" else "")
        for writer in instance.left
        for name in _LEFT
    ]
    for before, after in pairwise(states):
        action = _action_of(before, after, instance)
        if action is not None:
            actions.append(action)
    return Trace(instance.tables, tuple(_list_seen(actions)))


def _list_seen(actions: Sequence[Action]) -> Iterator[Action]:
    """List the actions without each look of a recoverer that sleeps right after: its next one is at its locks."""
    for number, action in enumerate(actions):
        then = next((one for one in actions[number + 1 :] if one.client == action.client), None)
        if action.name != "gather" or then is None or then.name != "run_out":
            yield action


def _read_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Read the variables of a state under their own names, without those of the modules; and what led to it."""
    names = (name if name.startswith("mbt::") else name.rpartition("::")[2] for name in state)
    return {name: _decode(of) for name, of in zip(names, state.values(), strict=True)}


def _action_of(before: _State, after: _State, instance: Instance) -> Action | None:
    """Name what happened between two states; None for what the store does not see."""
    name, picks = after["mbt::actionTaken"], after["mbt::nondetPicks"]
    if name == "arrive":
        request = picks["r"]
        return Action(name, request["by"], request["table"] or "swap")
    # The picks of other branches of the choice are there too, without a value.
    client = picks["p"] if name == "run_out" else picks.get("r") or picks["w"]
    if name == "take":
        return Action(name, client, picks["op"] if picks.get("r") else client)
    if any(name in _UNSEEN.get(guard, ()) for guard in instance.without):
        return None
    has_locks = "LOOKS" in instance.without or _has_locks(before, client, instance)
    if name == "gather" and not has_locks:
        # It looks at its locks before it does anything.
        return None
    phase = after["processes"][client]["phase"]
    if name in ("repin", "roll_forward") and before["swaps"] == after["swaps"] and phase != "idle":
        return None
    if name in _RETRIED and phase == "held":
        # It looks again; where it goes then is known by the next actions.
        return None
    if name == "send_restore" and phase == "waits" and "PLACED" in instance.without:
        # Lance looks for the newest version itself, so that its client stands before that.
        return Action("begin_restore", client)
    is_over = phase in _OVER and name not in _ENDING
    return Action("leave" if is_over or (name in _LOOKING and not has_locks) else name, client)


def _has_locks(state: _State, client: str, instance: Instance) -> bool:
    tables = instance.tables.get(state["processes"][client]["op"], "")
    is_holder = all(state["lease"][table] == client for table in tables)
    return client not in state["stale"] and is_holder


def _decode(value: Any) -> Any:
    """A value of the Informal Trace Format, as Python has it."""
    match value:
        case {"#bigint": text}:
            return int(text)
        case {"#set": members}:
            return [_decode(member) for member in members]
        case {"#map": pairs}:
            return {_decode(key): _decode(of) for key, of in pairs}
        case {"tag": tag, "value": of}:
            return _decode(of) if tag == "Some" else None
        case dict():
            return {key: _decode(of) for key, of in value.items()}
        case list():
            return [_decode(member) for member in value]
    return value


# ---- made by Quint


def draw_traces(quint: Path, source: Source, seed: int, count: int) -> list[Trace]:
    """Draw the longest of many random traces; or, of an instance without a guard, traces that break what it guards."""
    if source.broken:
        drawn = [_draw_broken(quint, source, seed + number) for number in range(count)]
    else:
        drawn = [*_draw(quint, source, seed, 2 * count, _SAMPLES_EACH * count)]
    return list({str(trace): trace for trace in drawn}.values())[:count]


def _draw_broken(quint: Path, source: Source, seed: int) -> Trace:
    (trace,) = _draw(quint, source, seed, 1, models.SAMPLES)
    return trace


def _draw(quint: Path, source: Source, seed: int, count: int, samples: int) -> Iterator[Trace]:
    instance = source.instance.for_traces()
    expected = [source.broken] if source.broken else []
    with TemporaryDirectory() as name:
        folder = Path(name)
        broken = find_broken(
            quint, folder, instance, *expected, samples=samples, seed=seed, traces=count
        )
        assert broken == expected, f"{instance} with the seed {seed} breaks {broken}"
        for number in range(count):
            yield read_itf(folder / f"trace_{number}.itf.json", instance)


def store_traces(quint: Path, source: Source) -> None:
    """Make the file of an instance again."""
    drawn = draw_traces(quint, source, SEED, source.count)
    header = f"# {source.instance}, from the seed {SEED}"
    text = "\n".join((header, *map(str, drawn), ""))
    (FOLDER / f"{source.name}.txt").write_text(text)


def main() -> None:
    """Make all files again."""
    quint = install_quint()
    assert quint is not None, "the models run on node: npm is not installed"
    FOLDER.mkdir(exist_ok=True)
    for source in (*WHOLE, *BROKEN):
        store_traces(quint, source)
        print(f"{source.name}: {source.count} traces", flush=True)


if __name__ == "__main__":
    main()
