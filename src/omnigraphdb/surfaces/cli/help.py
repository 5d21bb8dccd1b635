"""The help of a command: what it does, how it is called, its options with their defaults, examples."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from textwrap import wrap
from types import UnionType
from typing import Any, get_args, get_origin

from omnigraphdb.surfaces.cli.calls import GLOBAL_FLAGS
from omnigraphdb.surfaces.cli.terminal import Style, columns, paint

COLUMNS_MAX = 110
"""Help is no wider than this: longer lines are hard to read."""
NAMES_MAX = 26
"""Names that are longer than this stand on a line of their own."""
EXAMPLE = "Example:"

Record = tuple[str, str]


def summary(function: Callable[..., Any]) -> str:
    """What a command does, in one line."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def split_help(text: str) -> tuple[str, list[str]]:
    """Split the text of a command into what it says and its examples."""
    said, *examples = text.split(EXAMPLE)
    return said.strip(), [" ".join(one.split()) for one in examples]


def describe_app(about: str, tasks: Mapping[str, Mapping[str, str]]) -> str:
    """The help of the whole command line: its commands by what they are for, and the global flags."""
    width = max(len(name) for commands in tasks.values() for name in commands)
    parts = [about, _usage("omnigraphdb COMMAND [OPTIONS]")]
    parts += [_section(task, _align(commands.items(), width)) for task, commands in tasks.items()]
    flags = [
        *GLOBAL_FLAGS.items(),
        ("-v, --version", "Show the version."),
        ("-h, --help", "Show this text, or the help of a command."),
    ]
    parts.append(_section("Options, before or after the command", _align(flags)))
    parts.append("`omnigraphdb COMMAND --help` shows the options of a command, with examples.")
    return "\n\n".join(parts)


def describe_group(words: str, about: str, commands: Mapping[str, str]) -> str:
    """The help of a group of commands."""
    parts = [
        about,
        _usage(f"{words} COMMAND [OPTIONS]"),
        _section("Commands", _align(commands.items())),
    ]
    return "\n\n".join([*parts, f"`{words} COMMAND --help` shows the options of a command."])


def describe_command(words: str, text: str, parameters: Sequence[Any]) -> str:
    """The help of one command."""
    said, examples = split_help(text)
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name != "argument" and not one.hidden]
    parts = ["\n\n".join(_fill(one) for one in said.split("\n\n"))]
    parts.append(_usage(" ".join([words, *map(_render_argument, arguments), "[OPTIONS]"])))
    if arguments:
        parts.append(
            _section("Arguments", _align([(_name(one), _explain(one)) for one in arguments]))
        )
    parts.append(_section("Options", _align([_record(one) for one in options])))
    parts.append(_section("Examples", [f"  {one}" for one in examples]))
    return "\n\n".join([*parts, "Options of every command: `omnigraphdb --help`."])


# ---- parameters


def _record(option: Any) -> Record:
    names = sorted((*option.opts, *option.secondary_opts), key=lambda one: one.startswith("--"))
    value = "" if option.is_flag else f" {_value(option)}"
    return f"{', '.join(names)}{value}", _explain(option)


def _render_argument(argument: Any) -> str:
    """An argument in the line that shows how a command is called."""
    name = f"{_name(argument)}…" if argument.nargs != 1 else _name(argument)
    return name if argument.required else f"[{name}]"


def name_parameter(parameter: Any) -> str:
    """An argument or option as messages name it."""
    if parameter.param_type_name == "argument":
        return _name(parameter)
    return str(max(parameter.opts, key=len))


def _name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.strip("_").upper())


def _value(option: Any) -> str:
    """What an option takes, as one word."""
    if option.metavar:
        return str(option.metavar)
    kind = bare_type(option.type_descriptor.annotation)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return "|".join(kind)
    return {int: "N", Path: "FILE"}.get(kind, _name(option))


def bare_type(annotation: Any) -> Any:
    """The type of one value: of a list its members', of an optional value the value's."""
    if get_origin(annotation) in (list, UnionType):
        return bare_type(next(one for one in get_args(annotation) if one is not type(None)))
    return annotation


def _explain(parameter: Any) -> str:
    facts = [f"env: {parameter.envvar}"] if parameter.envvar else []
    if parameter.required:
        facts.append("required")
    elif parameter.default not in (None, False, "") and parameter.default != []:
        facts.append(f"default: {parameter.default}")
    return " ".join([parameter.help or "", *([f"[{', '.join(facts)}]"] if facts else [])]).strip()


# ---- layout


def _width() -> int:
    return min(columns(), COLUMNS_MAX)


def _fill(text: str) -> str:
    return "\n".join(wrap(" ".join(text.split()), _width()))


def _usage(line: str) -> str:
    return f"{paint('Usage:', Style.STRONG)} {line}"


def _section(title: str, lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join([paint(f"{title}:", Style.STRONG), *lines])


def _align(records: Any, width: int | None = None) -> Iterator[str]:
    """Names in one column, meanings in the next."""
    rows = list(records)
    found = [len(name) for name, _ in rows if len(name) <= NAMES_MAX]
    first = width or max(found, default=NAMES_MAX)
    for name, meaning in rows:
        lines = wrap(meaning, max(20, _width() - first - 4)) or [""]
        if len(name) > first:
            yield f"  {paint(name, Style.NAME)}"
        else:
            yield f"  {paint(name, Style.NAME)}{' ' * (first - len(name))}  {lines.pop(0)}".rstrip()
        yield from (" " * (first + 4) + line for line in lines)
