"""Random fault schedules on a local disk against a plain model.

`python -m tests.simulation.disk_schedules --seed 7 --steps 20` runs one with real files, real locks and real processes;
the other modules of this package simulate object stores.

Every step writes, branches or tends, interrupted at a random place, and then opens the graph again, interrupted
too now and then. An acknowledged step must show, an unacknowledged one must show wholly or not at all, and the
graph must be settled.
"""

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraphdb.api import opening as api
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Action, armed, skipping
from omnigraphdb.failpoints import error as failing
from omnigraphdb.runtime import SYSTEM
from tests.simulation.disk_faults import Chance, Drop, Fault, Fork, Step, Way
from tests.support.child import KILLED, run_child
from tests.support.plain_model import SCHEMA, Plain, read_branch

REFUSED: Final = 3
"""The exit code of a child whose step was refused."""

State = Mapping[str, Plain]
"""The content of each branch."""


class Died(BaseException):
    """The end of a thread of work: no handler of errors may see it."""


class Broken(AssertionError):
    """The graph does not show what it must."""


@dataclass(slots=True)
class Transcript:
    """What happened, one line per step; the same for the same seed."""

    lines: list[str] = field(default_factory=list)

    def add(self, step: Step, acknowledged: bool, visible: bool) -> None:
        """Note a step."""
        outcome = "acknowledged" if acknowledged else "failed"
        self.lines.append(f"{step} → {outcome}, {'visible' if visible else 'absent'}")


# ---- a run


def simulate(root: Path, seed: int, steps: int, *, kills: float = 0.0) -> Transcript:
    """Run one schedule on a new graph below `root`; raise `Broken` where the graph is not what it must be."""
    uri = str(root / f"graph-{seed}")
    graph = api.init(uri, SCHEMA)
    chance, transcript = Chance(seed, kills=kills), Transcript()
    state: State = {"main": Plain()}
    for _ in range(steps):
        step = chance.step(state)
        try:
            blocked = bool(graph.pending_recoveries())
            acknowledged = _try_step(graph, step)
            graph = _look_again(graph, step)
            shows = {branch.name: read_branch(graph, branch.name) for branch in graph.branches()}
            _require_whole(step, state, shows, acknowledged, blocked=blocked)
            _require_clean(graph, step)
        except (Broken, OmniError) as error:
            raise Broken(_story(seed, transcript, step, error)) from error
        transcript.add(step, acknowledged, shows == _after(step, state))
        state = shows
    return transcript


def _story(seed: int, transcript: Transcript, step: Step, error: Exception) -> str:
    lines = [f"seed {seed} breaks at step {len(transcript.lines) + 1}: {error}"]
    return "\n".join([*lines, *(f"  {line}" for line in transcript.lines), f"  {step}"])


def _try_step(graph: Graph, step: Step) -> bool:
    """Run a step that is interrupted; tell whether its caller saw success."""
    if step.fault is not None and step.fault.way is Way.KILL:
        code = run_child(_do_at, graph.uri, step, failpoints=_spec(step.fault))
        if code not in (0, KILLED, REFUSED):
            raise Broken(f"a child ended with {code}")
        return code == 0
    return _survives(lambda: _do(graph, step), step.fault)


def _do_at(uri: str, step: Step) -> None:
    with api.open(uri) as graph:
        try:
            _do(graph, step)
        except OmniError:
            sys.exit(REFUSED)


def _spec(fault: Fault) -> str:
    return f"{fault.point.value}=skip({fault.skip})+exit"


def _do(graph: Graph, step: Step) -> None:
    match step.act:
        case Fork(name=name, source=source):
            graph.branch_create(name, from_branch=source)
        case Drop(name=name):
            graph.branch_delete(name)
        case write:
            write.to(graph, step.branch)


def _survives(work: Callable[[], None], fault: Fault | None) -> bool:
    with _interrupt(fault):
        try:
            work()
        except (OmniError, Died):
            return False
    return True


@contextmanager
def _interrupt(fault: Fault | None) -> Iterator[None]:
    if fault is None:
        yield
        return
    action: Action = skipping(_die, fault.skip)
    if fault.way is Way.ERROR:
        action = failing(fault.point, times=1, skip=fault.skip)
    with armed(fault.point, action):
        yield


def _die() -> None:
    raise Died


def _look_again(graph: Graph, step: Step) -> Graph:
    """Refresh the handle, or open another one, first as often as the step interrupts that."""
    if step.stays:
        graph.refresh()
        return graph
    graph.close()
    for fault in step.reopening:
        if fault.way is Way.KILL:
            run_child(_open_at, graph.uri, failpoints=_spec(fault))
        else:
            _survives(lambda: _open_at(graph.uri), fault)
    return api.open(graph.uri)


def _open_at(uri: str) -> None:
    api.open(uri).close()


# ---- what must hold


def _after(step: Step, state: State) -> State | None:
    """Apply a step to the state; None when the graph must refuse it."""
    match step.act:
        case Fork(name=name, source=source):
            return None if name in state else {**state, name: state[source]}
        case Drop(name=name):
            return {branch: plain for branch, plain in state.items() if branch != name}
        case write:
            return {**state, step.branch: write.on(state[step.branch])}


def _require_whole(
    step: Step, before: State, shows: State, acknowledged: bool, *, blocked: bool
) -> None:
    after = _after(step, before)
    if acknowledged and shows != after:
        raise Broken(f"an acknowledged step does not show: {_difference(after or before, shows)}")
    if not acknowledged and shows not in (before, after):
        raise Broken(f"a failed step shows in part: {_difference(before, shows)}")
    # A branch that others begin at cannot be deleted, and a pending write may prevent it. Both raise.
    may_refuse = blocked or after is None or isinstance(step.act, Drop)
    if not acknowledged and step.fault is None and not may_refuse:
        raise Broken("a step without a fault failed")


def _difference(expected: State, shows: State) -> str:
    names = sorted(expected.keys() | shows.keys())
    parts = (
        f"{name} expected {expected.get(name)}, shows {shows.get(name)}"
        for name in names
        if expected.get(name) != shows.get(name)
    )
    return "; ".join(parts)


def _require_clean(graph: Graph, step: Step) -> None:
    """Require a clean graph; a handle that stays open may leave to a later open what must be taken back."""
    # Branches may keep a fork that their deletion could not drop: the next write there, or cleanup, takes it.
    waived = {"orphan fork"}
    if step.stays and graph.pending_recoveries():
        waived |= {"pending recovery", "drift"}
    issues = [str(issue) for issue in graph.doctor() if issue.check not in waived]
    if issues:
        raise Broken(f"the graph is not settled: {issues}")


# ---- the command


def main(arguments: list[str] | None = None) -> int:
    """Run schedules from consecutive seeds, and say how many there were and how long they took."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.disk_schedules")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=10, help="steps of each schedule")
    parser.add_argument("--schedules", type=int, default=1, help="how many seeds to run")
    parser.add_argument("--kills", type=float, default=0.0, help="part of the faults that kill")
    parser.add_argument("--verbose", action="store_true", help="print every step")
    chosen = parser.parse_args(arguments)
    # Every fault is logged as the warning it is; here faults are the point.
    logging.disable(logging.WARNING)
    started = SYSTEM.monotonic()
    for seed in range(chosen.seed, chosen.seed + chosen.schedules):
        root = Path(tempfile.mkdtemp(prefix="omnigraph-disk-schedules-"))
        try:
            done = simulate(root, seed, chosen.steps, kills=chosen.kills)
        except Broken as error:
            sys.stdout.write(f"{error}\nthe graph is kept in {root}\n")
            return 1
        shutil.rmtree(root)
        if chosen.verbose:
            sys.stdout.write("".join(f"{line}\n" for line in (f"seed {seed}", *done.lines)))
    seconds = SYSTEM.monotonic() - started
    sys.stdout.write(f"{chosen.schedules} schedules of {chosen.steps} steps in {seconds:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
