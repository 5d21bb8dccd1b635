"""The `omnigraphdb` command: reads a call, runs it, and makes errors to sentences and exit codes."""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

import typer

from omnigraphdb.errors import OmniError, OmniWarning, did_you_mean, suggestion
from omnigraphdb.surfaces.cli.address import choose_server
from omnigraphdb.surfaces.cli.calls import Call, expects_json, read_call
from omnigraphdb.surfaces.cli.help import name_parameter
from omnigraphdb.surfaces.cli.output import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    close_streams,
    note,
    open_streams,
    report,
    report_usage,
    say,
    warn,
)
from omnigraphdb.surfaces.cli.terminal import choose_manner, paged
from omnigraphdb.surfaces.cli.tree import build_app, find_help, require_command

_COMPLETING = "_OMNIGRAPHDB_COMPLETE"


def main() -> None:
    """Run the command line; print errors as text and give an exit code, never a traceback."""
    open_streams()
    warnings.showwarning = _show_warning
    if _COMPLETING in os.environ:
        _complete()
        return
    try:
        code = _run_typed(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe left; nothing more can be said.
        code = close_streams()
    except OSError as error:
        note(f"error: the result could not be printed: {error.strerror}; what was done stands")
        close_streams()
        code = EXIT_FAILURE
    sys.exit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,  # noqa: ARG001 - the signature of the standard library
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """Print a warning of ours as one sentence; those of packages below are for their developers."""
    if issubclass(category, OmniWarning):
        warn(str(message))


def _run_typed(typed: Sequence[str]) -> int:
    try:
        call = read_call(typed)
    except typer.BadParameter as error:
        report_usage(error.message, None, as_json=expects_json(typed))
        return EXIT_USAGE
    choose_manner(call.manner)
    if call.profile is not None:
        os.environ["OMNIGRAPH_PROFILE"] = call.profile
    if call.policy is not None:
        os.environ["OMNIGRAPH_POLICY_FILE"] = call.policy
    try:
        choose_server(call.server, call.graph, call.arguments)
    except typer.BadParameter as error:
        report_usage(error.message, None, as_json=call.manner.as_json)
        return EXIT_USAGE
    if call.log_level != "warn":
        _set_log_level(call.log_level)
    for remark in call.remarks:
        note(remark)
    with paged():
        return _run(call)


def _run(call: Call) -> int:
    try:
        text = find_help(call.arguments)
        if text is not None:
            say(text)
            return 0
        require_command(call.arguments)
        app = build_app(call.arguments[0])
        code = app(args=list(call.arguments), prog_name="omnigraphdb", standalone_mode=False)
    except OmniError as error:
        if call.debug or os.environ.get("OMNIGRAPH_DEBUG"):
            raise
        return report(error, as_json=call.manner.as_json)
    except typer.TyperException as error:
        report_usage(*_explain_call(error), as_json=call.manner.as_json)
        return EXIT_USAGE
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


def _explain_call(error: Any) -> tuple[str, str | None]:
    """What is wrong with a call in one sentence, and the command whose help says more."""
    context = getattr(error, "ctx", None)
    command = None if context is None else context.command_path
    if hasattr(error, "possibilities"):
        return _explain_option(error.option_name, context), command
    if isinstance(error, typer.BadParameter) and error.message:
        where = error.param_hint or (name_parameter(error.param) if error.param else None)
        return f"{where}: {error.message}" if where else error.message, command
    if getattr(error, "param", None) is not None:
        return f"{name_parameter(error.param)} is missing", command
    if context is not None and error.format_message().startswith("Got unexpected extra"):
        return _explain_extra(error.format_message(), context), command
    return error.format_message().rstrip("."), command


def _explain_extra(message: str, context: Any) -> str:
    """Why a word is too many: it is often the graph or a file where a flag is wanted."""
    options = {option for one in context.command.get_params(context) for option in one.opts}
    words = message.partition(" (")[2].rpartition(")")[0].removeprefix("s) (")
    told = f"`{context.command_path}` does not take '{words}'"
    if "--data" in options:
        return f"{told}; give files with --data"
    takes_graph = any(one.name == "uri" for one in context.command.get_params(context))
    if "--store" in options and not takes_graph:
        return f"{told}; {context.info_name} takes the graph as --store"
    return told


def _explain_option(name: str, context: Any) -> str:
    if name == "--as":
        return "--as names the actor of a write, and this command writes nothing"
    known = [option for one in context.command.get_params(context) for option in one.opts]
    near = suggestion(did_you_mean(name, known))
    return f"`{context.command_path}` has no option {name}{near}"


def _set_log_level(name: str) -> None:
    import logging

    logging.basicConfig(format="%(message)s")
    logging.getLogger("omnigraphdb").setLevel(name.upper().replace("WARN", "WARNING"))


def _complete() -> None:
    """Answer a shell that asks how a word may go on."""
    from typer._completion_classes import completion_init

    completion_init()
    build_app()(prog_name="omnigraphdb")
