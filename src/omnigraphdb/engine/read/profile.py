"""Profile of a run: rows, milliseconds and access path per operator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Protocol, TypeVar

from omnigraphdb.compile.plan.explain import render_operator
from omnigraphdb.compile.plan.operators import Operator, Project
from omnigraphdb.compile.plan.visit import list_inputs
from omnigraphdb.display import count_of
from omnigraphdb.values import dataclass


class Counted(Protocol):
    """A table of rows between two operators."""

    @property
    def rows(self) -> int: ...


T = TypeVar("T", bound=Counted)


@dataclass(slots=True)
class Measured:
    """Measurements of one operator: its rows, its time including its inputs, and notes on its access path."""

    rows: int = 0
    seconds: float = 0.0
    notes: dict[str, None] = field(default_factory=dict)


class Profile:
    """The measurements of one run; the measurements of an operator that runs several times add up."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._measured: dict[int, Measured] = {}
        self._running: list[Measured] = []

    def of(self, operator: Operator) -> Measured:
        """Return the measurements of an operator."""
        return self._measured.setdefault(id(operator), Measured())

    def note(self, text: str) -> None:
        """Add a note to the operator that is running."""
        if self._running:
            self._running[-1].notes[text] = None

    @contextmanager
    def running(self, operator: Operator) -> Iterator[Measured]:
        """Time a block for an operator."""
        measured = self.of(operator)
        self._running.append(measured)
        start = self._clock()
        try:
            yield measured
        finally:
            measured.seconds += self._clock() - start
            self._running.pop()

    def measure_tables(self, operator: Operator, tables: Iterator[T]) -> Iterator[T]:
        """Count and time the tables of an operator as they are consumed."""
        while True:
            with self.running(operator) as measured:
                table = next(tables, None)
            if table is None:
                return
            measured.rows += table.rows
            yield table

    def own_seconds(self, operator: Operator) -> float:
        """Compute the time of an operator without its inputs."""
        below = sum(self.of(child).seconds for child in list_inputs(operator))
        return max(self.of(operator).seconds - below, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of an explained plan; rows and milliseconds are None unless the plan ran."""

    operator: str
    depth: int
    rows: int | None = None
    milliseconds: float | None = None
    notes: tuple[str, ...] = ()


def steps_of(root: Project, profile: Profile) -> tuple[Step, ...]:
    """List the operators of a plan from the result down, each with its measurements."""
    return tuple(_steps(root, profile, 0))


def _steps(operator: Operator, profile: Profile, depth: int) -> Iterator[Step]:
    measured = profile.of(operator)
    yield Step(
        operator=render_operator(operator),
        depth=depth,
        rows=measured.rows,
        milliseconds=profile.own_seconds(operator) * 1000,
        notes=tuple(measured.notes),
    )
    for child in list_inputs(operator):
        yield from _steps(child, profile, depth + 1)


def render(steps: tuple[Step, ...]) -> str:
    """Draw steps as a tree; a step that ran has rows and milliseconds."""
    return "\n".join(map(_draw_step, steps))


def _draw_step(step: Step) -> str:
    measured = (
        []
        if step.rows is None
        else [f"{count_of(step.rows, 'row')}, {step.milliseconds or 0:.2f} ms"]
    )
    notes = "; ".join([*measured, *step.notes])
    indent = f"{'   ' * (step.depth - 1)}└─ " if step.depth else ""
    return f"{indent}{step.operator}" + (f"  [{notes}]" if notes else "")
