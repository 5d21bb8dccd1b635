"""A command of the command line: how the words after it become values, and how it shows its help."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.surfaces.cli.help import bare_type, describe_command

_PLAIN: dict[Any, Callable[[str], Any]] = {str: str, Path: Path}


class Command(TyperCommand):
    """A command that reads its own texts, paths and choices, and refuses an empty one.

    Typer would read them by pydantic, which takes longer to load than a small command takes to run.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, and the flag for help."""
        return _set_conversion(super().get_params(ctx))

    def get_help(self, ctx: Any) -> str:
        """The text that `--help` prints."""
        own = [one for one in self.get_params(ctx) if one.name != "help"]
        return describe_command(ctx.command_path, self.help or "", own)


class Group(TyperGroup):
    """A group of commands, whose own options are read in the same way."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, and the flag for help."""
        return _set_conversion(super().get_params(ctx))


def _set_conversion(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if not isinstance(parameter.get_runtime_param, partial):
            parameter.get_runtime_param = partial(_Conversion, parameter.get_runtime_param)
    return parameters


class _Conversion:
    """Reads the value of one parameter; typer reads what is neither text, path, choice nor whole number."""

    def __init__(self, typers: Callable[[], Any]) -> None:
        self._typers = typers

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read a value that was given, or a default."""
        kind = param.type_descriptor.annotation
        many = param.multiple or param.nargs == -1
        one_kind = bare_type(kind)
        if value is None:
            return [] if many else None
        _refuse_empty(list(value) if many else [value], param, ctx)
        if isinstance(one_kind, type) and issubclass(one_kind, StrEnum):
            choose = partial(_choose, one_kind, param=param, ctx=ctx)
            return [choose(one) for one in value] if many else choose(value)
        read = _PLAIN.get(get_args(kind)[0] if get_origin(kind) is list else kind)
        if read is not None:
            return [read(one) for one in value] if many else read(value)
        if one_kind is int and not many:
            return _read_number(value, param=param, ctx=ctx)
        if isinstance(kind, type) and isinstance(value, kind):
            return value
        return self._typers().coerce(value, param=param, ctx=ctx)


def _choose(choices: type[StrEnum], given: str, *, param: Any, ctx: Any) -> StrEnum:
    """One of the values that an option takes."""
    try:
        return choices(given)
    except ValueError:
        near = suggestion(did_you_mean(given, map(str, choices)))
        *first, last = choices
        known = f"{', '.join(first)} or {last}"
        raise typer.BadParameter(
            f"it takes {known}, not '{given}'{near}", ctx=ctx, param=param
        ) from None


def _read_number(given: Any, *, param: Any, ctx: Any) -> int:
    """A whole number that is not below the least that an option takes."""
    least = param.type_descriptor.parameter_info.min
    try:
        number = int(given)
    except ValueError:
        raise typer.BadParameter(
            f"it is a whole number, not '{given}'", ctx=ctx, param=param
        ) from None
    if least is not None and number < least:
        raise typer.BadParameter(f"it is {least} or more, not {number}", ctx=ctx, param=param)
    return number


def _refuse_empty(given: list[Any], param: Any, ctx: Any) -> None:
    """Refuse an empty word; as a path it would be the working directory."""
    if "" in given:
        raise typer.BadParameter(
            "it is empty, like a shell variable that was never set; nothing was done",
            ctx=ctx,
            param=param,
        )
