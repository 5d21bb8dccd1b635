"""`omnigraphdb shell`: opens a graph and runs what is typed, or what a pipe brings."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.surfaces.cli.address import Actor, Branch, Store, Uri, choose_graph, open_store
from omnigraphdb.surfaces.cli.formats import TEXTS, Format
from omnigraphdb.surfaces.cli.output import note

if TYPE_CHECKING:
    from omnigraphdb.surfaces.cli.shell.session import Session


def shell(
    uri: Uri = None,
    branch: Branch = "main",
    at: Annotated[
        str | None, typer.Option("--at", help="Read this commit or version instead of now.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", "-f", help="How rows are printed.")
    ] = Format.TABLE,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every write.")] = False,
    actor: Actor = None,
    store: Store = None,
) -> None:
    """Type queries, mutations and commands, or send them through a pipe.

    Example: omnigraphdb shell people.omni

    Example: echo 'match { $p: Person } return { $p.name }' | omnigraphdb shell people.omni
    """
    from omnigraphdb.surfaces.cli.shell.session import Session

    if form not in TEXTS:
        raise typer.BadParameter(
            f"--format {form} is for files, and a shell prints rows: it takes {', '.join(TEXTS)}"
        )
    with open_store(choose_graph(uri, store), read_only=read_only, actor=actor) as graph:
        session = Session(graph, branch=branch, form=form)
        if branch != "main":
            session.choose_branch(branch)
        if at is not None:
            session.choose_point(at)
        code = _run_interactively(session) if sys.stdin.isatty() else _run_pipe(session)
    raise typer.Exit(code)


def _run_pipe(session: "Session") -> int:
    """Run everything that comes in; the exit code is that of the first statement that failed."""
    from omnigraphdb.surfaces.cli.shell.statements import cut_statements

    failed = 0
    for statement in cut_statements((line.rstrip("\r\n") for line in sys.stdin), "stdin"):
        code = session.run(statement)
        failed = failed or code
        if session.over:
            break
    return failed


def _run_interactively(session: "Session") -> int:
    from omnigraphdb.surfaces.cli.shell.prompt import open_prompt
    from omnigraphdb.surfaces.cli.shell.statements import cut_statements

    session.ask_before_writing(_confirm)
    note(f"{session.graph.uri}: .help lists commands, Ctrl-D leaves")
    ask = open_prompt(session, _history_file(), color=not os.environ.get("NO_COLOR"))
    while not session.over:
        text = _ask_once(ask)
        if text is None:
            break
        for statement in cut_statements(text.split("\n")):
            session.run(statement)
    return 0


def _ask_once(ask: Callable[[], str]) -> str | None:
    try:
        return ask()
    except KeyboardInterrupt:
        return ""
    except EOFError:
        return None


def _confirm(question: str) -> bool:
    return typer.confirm(question, default=False, err=True)


def _history_file() -> Path:
    from omnigraphdb.surfaces.cli.config import config_folder

    return config_folder(os.environ) / "shell_history"
