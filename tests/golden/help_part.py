"""The help of every command and group, to the letter."""

from pathlib import Path

from omnigraphdb.surfaces.cli.tree import GROUPS, list_commands
from tests.golden.forms import IN_ORDER, Entries
from tests.golden.terminal import Terminal


def record(folder: Path) -> Entries:
    """Record what `--help` prints at a width of 100 columns."""
    terminal = Terminal(folder)
    calls = [(), *((group,) for group in GROUPS), *list_commands()]
    entries: Entries = {}
    for words in calls:
        outcome = terminal.run(*words, "--help")
        assert (outcome.code, outcome.err) == (0, ""), (words, outcome)
        lines = [line.rstrip() for line in outcome.out.splitlines()]
        entries[" ".join(("omnigraphdb", *words))] = {IN_ORDER: lines}
    return entries
