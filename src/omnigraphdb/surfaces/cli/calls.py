"""A call as it was typed: flags for the whole command line, words of earlier releases, words of later ones."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import typer

from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.surfaces.cli.terminal import Color, OutputSettings
from omnigraphdb.values import dataclass

GLOBAL_FLAGS: Mapping[str, str] = {
    "--server NAME|URL": "Use a served graph: a server of the configuration, or an address.",
    "--graph ID": "Which graph of the server.",
    "--profile NAME": "Take the graph from a profile of the configuration.",
    "--policy FILE": "Ask this policy before writing; OMNIGRAPH_POLICY_FILE does the same.",
    "--color auto|always|never": "When to print colours; auto: to a terminal, unless NO_COLOR is set.",
    "-q, --quiet": "Leave out the target, hints and progress; never warnings or errors.",
    "--no-progress": "Show no progress bars; OMNIGRAPH_PROGRESS=0 does the same.",
    "--pager": "Show results on a terminal through $PAGER.",
    "--log-level error|warn|info|debug": "Which log lines go to stderr. [default: warn]",
    "--debug": "Show the traceback of an error; OMNIGRAPH_DEBUG=1 does the same.",
}
"""Flags that stand before or after any command, and what they mean."""

_TAKING = ("--profile", "--policy", "--server", "--graph", "--color", "--log-level")
_SWITCHES = ("--quiet", "-q", "--no-progress", "--pager", "--debug")
_TEXTS = frozenset({"-e", "--query-string", "--param", "--params", "--message", "--key"})
_LEADING_TAKING = frozenset({"--store", "--uri", "--as"})
_LEADING = frozenset({"--json", "--yes", "-y"})
_LEVELS = ("error", "warn", "info", "debug")

_FORMER = {"read": "query", "change": "mutate", "check": "lint"}
_COMPLETION = {
    "--install-completion": ("completion", "install"),
    "--show-completion": ("completion",),
}
_GONE = {
    "run": "a write is published directly; look at it with `omnigraphdb commit list`",
    "--alias": "run an alias with `omnigraphdb alias NAME`",
    "--target": "name a graph with --store or --profile",
}
_LATER = ("cluster", "embed", "queries")
_LATER_FLAGS = ("--cluster",)
_JSON_FORMATS = ("json", "jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The command to run, how to print, and remarks about deprecated words in the call."""

    arguments: tuple[str, ...]
    manner: OutputSettings
    debug: bool = False
    profile: str | None = None
    policy: str | None = None
    server: str | None = None
    graph: str | None = None
    log_level: str = "warn"
    remarks: tuple[str, ...] = ()


def expects_json(typed: Sequence[str]) -> bool:
    """Whether the caller reads JSON, so that errors are printed as JSON too."""
    return "--json" in typed or any(
        (word in ("--format", "-f") and value in _JSON_FORMATS)
        or word in [f"--format={form}" for form in _JSON_FORMATS]
        for word, value in pairwise([*typed, ""])
    )


def read_call(typed: Sequence[str]) -> Call:
    """Take the global flags out of a call, and put the command before its own flags."""
    words, taken = _take_flags(typed)
    arguments, remarks = _replace_former(_order(words))
    _refuse_absent(arguments)
    return Call(
        arguments=tuple(arguments),
        manner=OutputSettings(
            quiet="--quiet" in taken or "-q" in taken,
            color=Color(_choose("--color", taken.get("--color", Color.AUTO), tuple(Color))),
            progress="--no-progress" not in taken,
            pager="--pager" in taken,
            as_json=expects_json(typed),
        ),
        debug="--debug" in taken,
        profile=taken.get("--profile"),
        policy=taken.get("--policy"),
        server=taken.get("--server"),
        graph=taken.get("--graph"),
        log_level=_choose("--log-level", taken.get("--log-level", "warn"), _LEVELS),
        remarks=tuple(remarks),
    )


def _take_flags(typed: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split a call into words of the command and global flags, wherever they stand before `--`."""
    words: list[str] = []
    taken: dict[str, str] = {}
    place = 0
    while place < len(typed):
        word = typed[place]
        name, equals, value = word.partition("=")
        if word == "--":
            return [*words, *typed[place:]], taken
        if word in _SWITCHES:
            taken[word] = ""
        elif name in _TAKING:
            if not equals:
                place += 1
                value = typed[place] if place < len(typed) else ""
            taken[name] = _require_value(name, value)
        elif word in _TEXTS:
            # The next word is a text of the user's, whatever it looks like.
            words += typed[place : place + 2]
            place += 1
        else:
            words.append(word)
        place += 1
    return words, taken


def _require_value(flag: str, value: str) -> str:
    if not value:
        raise typer.BadParameter(f"{flag} takes a value; nothing was done")
    return value


def _choose(flag: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        near = suggestion(did_you_mean(value, choices))
        raise typer.BadParameter(
            f"{flag} takes {', '.join(choices)}, not '{value}'{near}; nothing was done"
        )
    return value


def _order(words: Sequence[str]) -> list[str]:
    """Put flags that stand before a command, or between it and its sub-command, behind both."""
    before, rest = _split(words)
    between, after = _split(rest[1:]) if rest else ([], [])
    end = after.index("--") if "--" in after else len(after)
    return [*rest[:1], *after[:end], *before, *between, *after[end:]]


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split words into the flags that they begin with, and the rest."""
    place = 0
    while place < len(words):
        name, equals, _ = words[place].partition("=")
        if name in _LEADING or (name in _LEADING_TAKING and equals):
            place += 1
        elif name in _LEADING_TAKING:
            place += 2
        else:
            break
    return list(words[:place]), list(words[place:])


# ---- words of earlier and later releases


def _replace_former(words: list[str]) -> tuple[list[str], list[str]]:
    """Replace deprecated words; gives the call of today, and one remark for each word."""
    first, rest = (words[0], words[1:]) if words else ("", [])
    if first in ("-v", "--version"):
        return ["version", *rest], []
    if first in _COMPLETION:
        return [*_COMPLETION[first], *rest], []
    if first in _FORMER:
        return [_FORMER[first], *rest], [_say_former(first, _FORMER[first])]
    if first == "query" and rest[:1] in (["lint"], ["check"]) and "--schema" in rest:
        return ["lint", *rest[1:]], [_say_former(f"query {rest[0]}", "lint")]
    if first == "schema" and rest[:1] == ["get"]:
        return ["schema", "show", *rest[1:]], []
    if first == "export" and "--jsonl" in rest:
        kept = [word for word in rest if word != "--jsonl"]
        return ["export", *kept], [_say_former("export --jsonl", "export")]
    if first == "ingest":
        more = [*_default_flag("--mode", "merge", rest), *_default_flag("--from", "main", rest)]
        return ["load", *rest, *more], [_say_former("ingest", "load --from main --mode merge")]
    return words, []


def _say_former(old: str, new: str) -> str:
    return f"warning: `omnigraphdb {old}` is deprecated; it is now `omnigraphdb {new}`"


def _default_flag(flag: str, value: str, words: Sequence[str]) -> list[str]:
    there = any(word == flag or word.startswith(f"{flag}=") for word in words)
    return [] if there else [flag, value]


def _refuse_absent(words: Sequence[str]) -> None:
    """Refuse words that were removed, and words that no release knows yet."""
    named = [word.partition("=")[0] for word in words[:1]] + [
        word.partition("=")[0] for word in words[1:] if word.startswith("--")
    ]
    gone = next((word for word in named if word in _GONE), None)
    if gone is not None:
        raise typer.BadParameter(f"`{gone}` was removed: {_GONE[gone]}")
    command = next((word for word in words[:1] if word in _LATER), None)
    if command is not None:
        raise typer.BadParameter(
            f"`omnigraphdb {command}` is not in this release; nothing was done"
        )
    flag = next((word for word in named if word in _LATER_FLAGS), None)
    if flag is not None:
        raise typer.BadParameter(
            f"{flag} is not in this release; name one graph by its path, by --store or by --profile"
        )
