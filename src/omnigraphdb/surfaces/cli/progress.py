"""How far a long command is: a bar on a terminal, a line every ten seconds elsewhere."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from omnigraphdb.surfaces.cli.output import note
from omnigraphdb.surfaces.cli.terminal import has_color, is_terminal, shows_progress

if TYPE_CHECKING:
    from pyarrow import Buffer
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from omnigraphdb.pipeline.progress import OnProgress, Progress

BAR_AFTER_SECONDS = 0.5
"""A command that ends sooner shows no bar, and does not load what draws one."""
BAR_EVERY_SECONDS = 0.1
LINE_EVERY_SECONDS = 10.0


@contextmanager
def watch(verb: str) -> "Iterator[OnProgress | None]":
    """Give the function that a long call tells its progress to; None where nobody looks."""
    if not shows_progress():
        yield None
        return
    watcher = _Watcher(verb)
    show = watcher.draw if is_terminal(sys.stderr) else watcher.print_lines
    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield watcher.tell
    finally:
        watcher.stop()
        thread.join()


class _Watcher:
    """Holds what was told last; a thread of its own shows it, so that long phases move too."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._latest: Progress | None = None
        self._over = threading.Event()
        self._started = perf_counter()

    def tell(self, progress: "Progress") -> None:
        """Take note of how far the work is."""
        self._latest = progress

    def stop(self) -> None:
        """End what is shown."""
        self._over.set()

    def print_lines(self) -> None:
        """Print a line from time to time."""
        while not self._over.wait(LINE_EVERY_SECONDS):
            seconds = perf_counter() - self._started
            note(f"{self._verb}: {self._describe()}, {seconds:.0f} s so far")

    def _describe(self) -> str:
        found = self._latest
        return "working" if found is None else f"{found.phase}, {count_progress(found)}"

    def draw(self) -> None:
        """Draw a bar, where the work takes long enough."""
        if self._over.wait(BAR_AFTER_SECONDS):
            return
        with _open_bars() as (bars, task):
            while not self._over.wait(BAR_EVERY_SECONDS):
                self._update(bars, task)

    def _update(self, bars: "Bars", task: "TaskID") -> None:
        found = self._latest
        if found is None:
            return
        seconds = max(perf_counter() - self._started, 0.001)
        rate = f"{found.rows / seconds:,.0f} rows/s" if found.rows else ""
        bars.update(
            task,
            description=f"{self._verb}: {found.phase}",
            completed=found.done,
            total=found.total,
            count=count_progress(found),
            rate=rate,
        )


def count_progress(progress: "Progress") -> str:
    """How much is done, in words."""
    if progress.total is None:
        return f"{progress.done:,} {progress.unit}"
    return f"{progress.done:,} of {progress.total:,} {progress.unit}"


@contextmanager
def _open_bars() -> "Iterator[tuple[Bars, TaskID]]":
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True, no_color=not has_color(sys.stderr))
    shown = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Bars(*shown, console=console, transient=True, expand=True) as bars:
        yield bars, bars.add_task("working", total=None, count="", rate="")


def track_lines(
    lines: "Iterator[Buffer]", total: int, tell: "OnProgress | None"
) -> "Iterator[Buffer]":
    """The same lines; tell after each piece how many of them there were."""
    if tell is None:
        yield from lines
        return
    from omnigraphdb.pipeline.progress import Progress, Unit

    done = size = 0
    for text in lines:
        yield text
        done, size = done + text.to_pybytes().count(b"\n"), size + text.size
        tell(Progress("write", done, total, Unit.ROWS, done, size))
