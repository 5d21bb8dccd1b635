"""A call as it was typed: flags before the command, words of earlier releases, how errors are printed."""

from collections.abc import Sequence
from itertools import pairwise

import typer

from omnigraph.values import dataclass

_WITH_VALUE = frozenset({"--store", "--uri", "--as"})
_ALONE = frozenset({"--quiet", "-q", "--json", "--yes", "-y"})
_FORMER = {"read": "query", "change": "mutate", "check": "lint"}
_GONE = {"run": "a write is published directly; look at it with `omnigraph commit list`"}
_JSON_FORMATS = ("json", "jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The command to run, and remarks about deprecated words in the call."""

    arguments: tuple[str, ...]
    as_json: bool
    debug: bool
    profile: str | None = None
    remarks: tuple[str, ...] = ()


def read_call(typed: Sequence[str]) -> Call:
    """Reorder a call: the command first, then its flags."""
    profile, words = _take_profile(typed)
    given = [word for word in words if word != "--debug"]
    leading, rest = _split(given)
    if rest[:1] in (["-v"], ["--version"]):
        rest = ["version", *rest[1:]]
    remarks: tuple[str, ...] = ()
    if rest and rest[0] in _FORMER:
        remarks = (f"`omnigraph {rest[0]}` is now `omnigraph {_FORMER[rest[0]]}`",)
        rest = [_FORMER[rest[0]], *rest[1:]]
    if rest and rest[0] == "ingest":
        remarks = ("`omnigraph ingest` is now `omnigraph load --from main --mode merge`",)
        rest = [
            "load",
            *rest[1:],
            *_unless("--mode", "merge", rest),
            *_unless("--from", "main", rest),
        ]
    if rest and rest[0] in _GONE:
        raise SystemExit(_refuse_removed(rest[0]))
    return Call(
        arguments=(*rest, *leading),
        as_json=_expects_json(given),
        debug=len(given) < len(words),
        profile=profile,
        remarks=remarks,
    )


def _take_profile(typed: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take `--profile NAME` out of a call: every command knows it, wherever it stands."""
    words = list(typed)
    for number, word in enumerate(words):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name != "--profile":
            continue
        if not equals and number + 1 < len(words):
            value = words[number + 1]
        if not value:
            raise SystemExit(_refuse_call("--profile takes the name of a profile"))
        return value, words[:number] + words[number + (1 if equals else 2) :]
    return None, words


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a call into the flags before the command, and the rest."""
    leading: list[str] = []
    place = 0
    while place < len(words):
        name, equals, _ = words[place].partition("=")
        if name in _ALONE or (name in _WITH_VALUE and equals):
            width = 1
        elif name in _WITH_VALUE:
            width = 2
        else:
            break
        leading += words[place : place + width]
        place += width
    return leading, list(words[place:])


def _unless(flag: str, value: str, words: Sequence[str]) -> list[str]:
    there = any(word == flag or word.startswith(f"{flag}=") for word in words)
    return [] if there else [flag, value]


def _refuse_removed(word: str) -> int:
    return _refuse_call(f"`omnigraph {word}` is gone: {_GONE[word]}")


def _refuse_call(reason: str) -> int:
    typer.echo(reason, err=True)
    return 2


def _expects_json(words: Sequence[str]) -> bool:
    if "--json" in words:
        return True
    following = pairwise([*words, ""])
    return any(
        (word in ("--format", "-f") and value in _JSON_FORMATS)
        or word in [f"--format={form}" for form in _JSON_FORMATS]
        for word, value in following
    )
