"""Every state in which a dead writer can leave a graph on an object store, opened and judged.

A writer runs once; a copy of the bucket after each of its durable writes is a crash state. A client that comes when the
leases have run out opens each copy. The copies that its recovery makes are crash states too.

`python -m tests.simulation.crash_states [KIND ...]` goes through all of them, `--renew` writes the golden files.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraphdb.errors import OmniError
from tests.simulation.bucket import DurableWrite
from tests.simulation.crash_judge import CrashState, Death, Judge, Verdict, make_judge
from tests.simulation.recordings import Recording, open_theatre
from tests.simulation.roles import Shape, shape_of
from tests.simulation.writer_kinds import KINDS, Kind

GOLDENS: Final = Path(__file__).parent / "goldens"
LEVELS_MAX: Final = 12
"""Recoveries that die one after the other before a search is arguments up; it ends much earlier."""


@dataclass(slots=True)
class Tally:
    """The number of states by level, those that were opened, and what was wrong."""

    states: int = 0
    in_recovery: int = 0
    opened: Counter[int] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        levels = " + ".join(str(self.opened[level]) for level in sorted(self.opened))
        return f"{self.states} states, {self.in_recovery} in recovery, {levels} opened, {len(self.broken)} broken"


def explore(judge: Judge, *, levels: int = LEVELS_MAX, every: int = 1) -> Tally:
    """Open all crash states of a writer, and those of its recoveries as long as they have a new shape.

    `every`: of the states of recoveries only each so-manieth. `levels`: so many deaths one after the other.
    """
    recording, tally = judge.recording, Tally(states=len(judge.recording.writes))
    states = _deaths(recording, recording.writes, ())
    # A version that recovery published is not that of the writer, though both have one shape.
    shapes: set[Shape] = set()
    for level in range(1, levels + 1):
        judged = [(s, v) for s in states if (v := _try_judge(judge, s, tally)) is not None]
        tally.opened[level] = len(judged)
        made = [d for s, v in judged for d in _deaths(recording, v.recovery, s.deaths)]
        if level == 1:
            tally.in_recovery = len(made)
            _require_order(recording, [verdict.is_visible for _, verdict in judged], tally)
        states = _pick_new(made, shapes)[::every]
        if not states:
            return tally
    if levels == LEVELS_MAX:
        tally.broken.append(f"recoveries leave new states after {levels} deaths")
    return tally


def _deaths(
    recording: Recording, writes: Sequence[DurableWrite], before: tuple[Death, ...]
) -> list[CrashState]:
    """The states that somebody leaves who dies after each of these writes."""
    return [
        CrashState(objects=write.after, deaths=(*before, Death(number, recording.role(write))))
        for number, write in enumerate(writes, 1)
    ]


def _pick_new(states: Sequence[CrashState], shapes: set[Shape]) -> list[CrashState]:
    """Pick the first state of each shape that was not there before, and note the shapes."""
    new: list[CrashState] = []
    for state in states:
        shape = shape_of(state.objects)
        if shape not in shapes:
            shapes.add(shape)
            new.append(state)
    return new


def _try_judge(judge: Judge, state: CrashState, tally: Tally) -> Verdict | None:
    try:
        return judge.judge(state)
    except (AssertionError, OmniError) as error:
        tally.broken.append(f"{judge.recording.kind.id} {state}: {type(error).__name__}: {error}")
        return None


def _require_order(recording: Recording, outcomes: Sequence[bool], tally: Tally) -> None:
    """The later a writer died, the more of it is done; one that ended was acknowledged (S1)."""
    if recording.before == recording.after or tally.broken:
        return
    if list(outcomes) != sorted(outcomes) or not outcomes[-1]:
        tally.broken.append(f"{recording.kind.id} shows after its writes as {outcomes}")


# ---- golden files


def golden_text(recording: Recording, in_recovery: int) -> str:
    """The durable writes of a kind, and the numbers of its crash states."""
    counts = f"{len(recording.writes)} states, {in_recovery} in recovery"
    return "\n".join((counts, *recording.roles, ""))


def golden_path(kind: Kind) -> Path:
    """Place the golden file of a kind."""
    return GOLDENS / f"{kind.id}.txt"


def main() -> int:
    """Go through the crash states of some kinds, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], metavar="KIND")
    parser.add_argument("--renew", action="store_true", help="write the golden files")
    parser.add_argument("--levels", type=int, default=LEVELS_MAX, help="deaths one after the other")
    parser.add_argument("--thorough", action="store_true", help="write in every way to each state")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    broken = 0
    with open_theatre() as theatre:
        for name in arguments.kinds or KINDS:
            began = time.perf_counter()
            recording = theatre.record(KINDS[name])
            judge = make_judge(recording, thorough=arguments.thorough)
            tally = explore(judge, levels=arguments.levels)
            print(f"{name}: {tally}; {time.perf_counter() - began:.1f} s", flush=True)
            print("\n".join(tally.broken[:10]), end="\n" if tally.broken else "", flush=True)
            broken += len(tally.broken)
            if arguments.renew and not tally.broken:
                golden_path(KINDS[name]).write_text(golden_text(recording, tally.in_recovery))
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
