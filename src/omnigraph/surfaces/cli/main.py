"""The `omnigraph` command: its tree of commands, and how errors become exit codes."""

import os
import sys
from collections.abc import Sequence
from copy import copy
from importlib.util import find_spec
from typing import Any

import typer

from omnigraph import __version__
from omnigraph.errors import OmniError
from omnigraph.surfaces.cli import (
    data,
    demo,
    history,
    maintenance,
    merging,
    recovering,
    schemas,
    texts,
)
from omnigraph.surfaces.cli.address import Json
from omnigraph.surfaces.cli.calls import Call, read_call
from omnigraph.surfaces.cli.commands import Command, Group
from omnigraph.surfaces.cli.output import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    close_streams,
    note,
    open_streams,
    report,
    report_usage,
    say,
    say_json,
)
from omnigraph.surfaces.cli.shell import command as shell

app = typer.Typer(
    name="omnigraph",
    cls=Group,
    help="A typed, versioned property graph over the Lance columnar format.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    # Plain help: rich, which would draw boxes around it, takes longer to load than everything else.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
schema = typer.Typer(cls=Group, help="Show, plan and change schemas.", no_args_is_help=True)
branch = typer.Typer(cls=Group, help="Create, list and delete branches.", no_args_is_help=True)
commit = typer.Typer(cls=Group, help="Look at the history.", no_args_is_help=True)
recovery = typer.Typer(cls=Group, help="List and recover interrupted writes.", no_args_is_help=True)
changes = typer.Typer(cls=Group, help="Follow the change feed.", no_args_is_help=True)
index = typer.Typer(cls=Group, help="Look at and build indexes.", no_args_is_help=True)
for group, name in (
    (schema, "schema"),
    (branch, "branch"),
    (commit, "commit"),
    (recovery, "recovery"),
    (index, "index"),
    (changes, "changes"),
):
    app.add_typer(group, name=name)

app.command("init", cls=Command)(data.init)
app.command("load", cls=Command)(data.load)
app.command("query", cls=Command)(data.query)
app.command("mutate", cls=Command)(data.mutate)
app.command("export", cls=Command)(data.export)
app.command("snapshot", cls=Command)(data.snapshot)
app.command("shell", cls=Command)(shell.shell)
app.command("optimize", cls=Command)(maintenance.optimize)
app.command("cleanup", cls=Command)(maintenance.cleanup)
app.command("repair", cls=Command)(maintenance.repair)
app.command("doctor", cls=Command)(recovering.doctor)
app.command("relocate", cls=Command)(recovering.relocate)
app.command("demo", cls=Command)(demo.demo)
app.command("lint", cls=Command)(texts.lint)
app.command("fmt", cls=Command)(texts.fmt)
schema.command("show", cls=Command)(schemas.show)
schema.command("plan", cls=Command)(schemas.plan)
schema.command("apply", cls=Command)(schemas.apply)
branch.command("create", cls=Command)(history.branch_create)
branch.command("list", cls=Command)(history.branch_list)
branch.command("delete", cls=Command)(history.branch_delete)
commit.command("list", cls=Command)(history.commit_list)
commit.command("show", cls=Command)(history.commit_show)
commit.command("changes", cls=Command)(merging.commit_changes)
branch.command("merge", cls=Command)(merging.branch_merge)
app.command("diff", cls=Command)(merging.diff)
changes.command("poll", cls=Command)(merging.changes_poll)
changes.command("baseline", cls=Command)(merging.changes_baseline)
index.command("status", cls=Command)(maintenance.index_status)
index.command("build", cls=Command)(maintenance.index_build)
recovery.command("list", cls=Command)(recovering.recovery_list)
recovery.command("run", cls=Command)(recovering.recovery_run)
recovery.command("discard", cls=Command)(recovering.recovery_discard)


@app.command("version", cls=Command)
def version(json: Json = False) -> None:
    """Print the version, and the storage format it writes.

    Example: omnigraph version --json
    """
    from omnigraph.manifest.stamp import CURRENT

    if json:
        from importlib.metadata import version as installed

        packages = {name: installed(name) for name in ("pylance", "pyarrow")}
        spoken = sys.version.partition(" ")[0]
        say_json(
            {"version": __version__, "internal_schema_version": CURRENT, "python": spoken}
            | packages
            | {"pyspark": installed("pyspark") if find_spec("pyspark") else None}
        )
        return
    say(f"omnigraph {__version__}\ninternal-schema {CURRENT}")


# ---- running


def main() -> None:
    """Run the command line; print errors as text and give an exit code, never a traceback."""
    open_streams()
    call = read_call(sys.argv[1:])
    if call.profile is not None:
        os.environ["OMNIGRAPH_PROFILE"] = call.profile
    for remark in call.remarks:
        note(remark)
    try:
        code = _run(call)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe left; nothing more can be said.
        code = close_streams()
    except OSError as error:
        note(f"error: the result could not be printed: {error.strerror}; what was done stands")
        close_streams()
        code = EXIT_FAILURE
    sys.exit(code)


def _run(call: Call) -> int:
    try:
        code = _select_app(call.arguments)(args=list(call.arguments), standalone_mode=False)
    except OmniError as error:
        if call.debug or os.environ.get("OMNIGRAPH_DEBUG"):
            raise
        return report(error, as_json=call.as_json)
    except typer.TyperException as error:
        report_usage(error.format_message(), as_json=call.as_json)
        return _wrong_call(error)
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except SystemExit as stop:
        # Typer answers a closed pipe by an exit of its own.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        raise
    if code == EXIT_INTERRUPTED:
        note("interrupted")
    return code if isinstance(code, int) else 0


def _select_app(arguments: Sequence[str]) -> typer.Typer:
    """Keep only the command or group that a call names: Typer reads the signatures of all commands it has.

    Two small commands stay, because Typer takes an app with one command for that command.
    """
    named = arguments[0] if arguments else None
    groups = [one for one in app.registered_groups if one.name == named]
    if not groups and all(one.name != named for one in app.registered_commands):
        return app
    selected = copy(app)
    kept = (named, "fmt", "version")
    selected.registered_commands = [one for one in app.registered_commands if one.name in kept]
    selected.registered_groups = groups
    return selected


def _wrong_call(error: Any) -> int:
    """Print what is wrong with a call, as typer words it."""
    error.show()
    return EXIT_USAGE
