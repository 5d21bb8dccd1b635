"""The tree of commands: what each is for, and the function that runs it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import typer

from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.surfaces.cli.commands import Command, Group
from omnigraphdb.surfaces.cli.help import describe_app, describe_group, summary

ABOUT = "A typed, versioned property graph over the Lance columnar format."

GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "branch": (
        "Create, list, show, merge and delete branches.",
        {
            "create": "history.branch_create",
            "list": "history.branch_list",
            "show": "history.branch_show",
            "merge": "merging.branch_merge",
            "delete": "history.branch_delete",
        },
    ),
    "commit": (
        "List and show commits, and what they changed.",
        {
            "list": "history.commit_list",
            "show": "history.commit_show",
            "changes": "differences.commit_changes",
        },
    ),
    "blob": (
        "Read the bytes of one Blob property.",
        {"get": "blobs.get", "stat": "blobs.stat"},
    ),
    "tag": (
        "Create, list and delete names of commits.",
        {
            "create": "tagging.tag_create",
            "list": "tagging.tag_list",
            "delete": "tagging.tag_delete",
        },
    ),
    "changes": (
        "Follow the change feed.",
        {"poll": "feeds.changes_poll", "baseline": "feeds.changes_baseline"},
    ),
    "schema": (
        "Show, plan, change and propose schemas.",
        {
            "show": "schemas.show",
            "plan": "schemas.plan",
            "apply": "schemas.apply",
            "infer": "schemas.infer",
        },
    ),
    "policy": (
        "Check, test and explain policies, and keep one in a graph.",
        {
            "validate": "policies.validate",
            "test": "policies.run_tests",
            "explain": "policies.explain",
            "matrix": "policies.matrix",
            "set": "policies.keep",
            "show": "policies.show",
        },
    ),
    "index": (
        "Show and build indexes.",
        {"status": "maintenance.index_status", "build": "maintenance.index_build"},
    ),
    "recovery": (
        "List and recover interrupted writes.",
        {
            "list": "recovering.recovery_list",
            "run": "recovering.recovery_run",
            "discard": "recovering.recovery_discard",
        },
    ),
    "config": (
        "Show and check the configuration files.",
        {
            "path": "configuring.config_path",
            "show": "configuring.config_show",
            "check": "configuring.config_check",
        },
    ),
    "graphs": ("List the graphs of a server.", {"list": "looking.graphs_list"}),
    "profile": (
        "List and show profiles of the configuration.",
        {"list": "configuring.profile_list", "show": "configuring.profile_show"},
    ),
}
"""Groups of commands: what they are about, and where their commands are."""

COMMANDS: Mapping[str, str] = {
    "init": "data.init",
    "load": "data.load",
    "mutate": "querying.mutate",
    "query": "querying.query",
    "alias": "querying.alias",
    "export": "data.export",
    "snapshot": "data.snapshot",
    "describe": "looking.describe",
    "analyze": "analyzing.analyze",
    "status": "looking.status",
    "jobs": "looking.jobs",
    "shell": "shell.command.shell",
    "diff": "differences.diff",
    "history": "histories.history",
    "operation": "tagging.operation",
    "lint": "texts.lint",
    "fmt": "texts.fmt",
    "optimize": "maintenance.optimize",
    "cleanup": "maintenance.cleanup",
    "repair": "maintenance.repair",
    "doctor": "recovering.doctor",
    "relocate": "recovering.relocate",
    "completion": "configuring.completion",
    "serve": "serving.serve",
    "ui": "exploring.ui",
    "mcp": "agents.mcp",
    "login": "credentials.login",
    "logout": "credentials.logout",
    "demo": "demo.demo",
    "version": "version.version",
}
"""Commands of one word, and where they are: a module is loaded when its command is called."""

TASKS: Mapping[str, Sequence[str]] = {
    "Write": ("init", "load", "mutate"),
    "Read": ("query", "shell", "ui", "describe", "status", "analyze", "export", "snapshot", "blob"),
    "History": ("branch", "commit", "tag", "diff", "history", "changes", "operation"),
    "Schema": ("schema", "lint", "fmt"),
    "Maintenance": (
        "jobs",
        "optimize",
        "index",
        "cleanup",
        "doctor",
        "recovery",
        "repair",
        "relocate",
    ),
    "Local": (
        "serve",
        "mcp",
        "login",
        "logout",
        "graphs",
        "policy",
        "alias",
        "profile",
        "config",
        "completion",
        "demo",
        "version",
    ),
}
"""What people want to do, and the commands for it."""


def find_help(words: Sequence[str]) -> str | None:
    """The help of the whole, or of a group, where a call asks for it or stops there."""
    match list(words):
        case [] | ["-h" | "--help", *_]:
            return describe_app(ABOUT, {task: _summaries(names) for task, names in TASKS.items()})
        case [group] | [group, "-h" | "--help", *_] if group in GROUPS:
            about, commands = GROUPS[group]
            inner = {name: summary(find_function(run)) for name, run in commands.items()}
            return describe_group(f"omnigraphdb {group}", about, inner)
    return None


def _summaries(names: Sequence[str]) -> dict[str, str]:
    return {
        name: GROUPS[name][0] if name in GROUPS else summary(find_function(COMMANDS[name]))
        for name in names
    }


def find_function(place: str) -> Callable[..., None]:
    """The function that runs a command, loaded from its module."""
    module, _, name = place.rpartition(".")
    found: Callable[..., None] = getattr(import_module(f"omnigraphdb.surfaces.cli.{module}"), name)
    return found


def require_command(words: Sequence[str]) -> None:
    """Refuse a call whose first words name no command."""
    first, second = words[0], words[1] if len(words) > 1 else ""
    if first not in COMMANDS and first not in GROUPS:
        _refuse(first, "omnigraphdb", (*GROUPS, *COMMANDS))
    if first in GROUPS and second not in GROUPS[first][1]:
        _refuse(second, f"omnigraphdb {first}", GROUPS[first][1])


def _refuse(word: str, above: str, known: Sequence[str] | Mapping[str, Any]) -> None:
    if not word:
        raise typer.BadParameter("a command is missing: the word is empty; nothing was done")
    near = suggestion(did_you_mean(word, known)) or f"; `{above} --help` lists them"
    what = "option" if word.startswith("-") else "command"
    raise typer.BadParameter(f"`{above}` has no {what} '{word}'{near}")


def build_app(named: str | None = None) -> typer.Typer:
    """The commands for typer: all of them, or only the command or group that a call names, which is faster."""
    app = typer.Typer(
        name="omnigraphdb",
        cls=Group,
        help=ABOUT,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Plain help: rich, which would draw boxes around it, takes longer to load than everything else.
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # Typer takes an app with one command for that command.
    app.callback()(_do_nothing)
    for name, run in COMMANDS.items():
        if named in (None, name):
            app.command(name, cls=Command)(find_function(run))
    for name, (about, commands) in GROUPS.items():
        if named in (None, name):
            app.add_typer(_build_group(about, commands), name=name)
    return app


def _build_group(about: str, commands: Mapping[str, str]) -> typer.Typer:
    group = typer.Typer(cls=Group, help=about)
    group.callback()(_do_nothing)
    for name, run in commands.items():
        group.command(name, cls=Command)(find_function(run))
    return group


def _do_nothing() -> None:
    pass


def list_commands() -> Iterator[tuple[str, ...]]:
    """Every command by the words that call it."""
    yield from ((name,) for name in COMMANDS)
    yield from ((group, name) for group, (_, inner) in GROUPS.items() for name in inner)
