"""A session of commands: what each prints on stdout and stderr, and its exit code."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import omnigraphdb
from omnigraphdb.surfaces.cli.tree import list_commands
from tests.golden.command_lines import LEFT_OUT, LINES
from tests.golden.forms import Entries, split_lines
from tests.golden.server import serve_graph
from tests.golden.terminal import Outcome, Terminal
from tests.golden.world import (
    ADD,
    AGE,
    FRIENDS,
    GROWN,
    NAMES,
    PEOPLE,
    POLICY,
    POLICY_CASES,
    SCHEMA,
    write_queries,
)

_WIDE: Final = re.compile(r" {2,}|-{3,}|─{3,}")
_SERVER_POLICY: Final = """\
version: 1
kind: server
groups: { owners: [ada] }
rules:
  - id: lists
    allow: { actors: { group: owners }, actions: [graph_list] }
"""


def record(folder: Path) -> Entries:
    """Record the session; every command has a right and a wrong call, or a reason why not."""
    served = folder / "served"
    served.mkdir()
    (served / "server.yaml").write_text(_SERVER_POLICY, encoding="utf-8")
    with serve_graph(served, "--server-policy", str(served / "server.yaml")) as server:
        write_files(folder, server.url)
        entries = dict(_run_lines(Terminal(folder), folder))
    _require_every_command(entries)
    return entries


def write_files(folder: Path, url: str) -> None:
    """Write what the command lines name."""
    lines = [json.dumps(one) for one in PEOPLE]
    config = {
        "operator": {"actor": "ada"},
        "servers": {"prod": {"url": url}},
        "profiles": {"dev": {"store": str(folder / "g")}},
        "aliases": {
            "friends": {"store": str(folder / "g"), "file": str(folder / "people.gq")}
            | {"query": "friends", "args": ["who"]}
        },
    }
    more = {"type": "Person", "data": {"name": "Dan", "age": 3}}
    edge = {"edge": "Knows", "from": "Ada", "to": "Ivy", "data": {"id": "k9"}}
    bad = [{"type": "Persn", "data": {}}, {"type": "Person", "data": {"name": "X", "age": 999}}]
    files: Mapping[str, str] = {
        "home/config.yaml": json.dumps(config),
        "unknown.yaml": json.dumps(config | {"nothing": 1}),
        "people.pg": SCHEMA,
        "grown.pg": GROWN,
        "other.pg": SCHEMA.replace("age: I32?", "age: I64?"),
        "broken.pg": "node person { }",
        "people.gq": f"{NAMES}\n{FRIENDS}\n{ADD}\n{AGE}\n",
        "broken.gq": "query q() { match { $p: Per } return { $p } }",
        "untidy.gq": "query   q() {match{$p:Person} return {$p.name}}",
        "people.jsonl": "\n".join(lines),
        "more.jsonl": json.dumps(more),
        "edges.jsonl": json.dumps(edge),
        "bad.jsonl": "\n".join(map(json.dumps, bad)),
        "rows.csv": "name,age\nUma,3\nVic,\n",
        "policy.yaml": POLICY,
        "broken.yaml": "version: 1\nrules: 5\n",
        "cases.yaml": POLICY_CASES,
        "shell.txt": f"{NAMES};\n.help\n.branch\n",
        "wrong.txt": ".nothing\nquery q() {;\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_queries(folder / "queries")


def _run_lines(terminal: Terminal, folder: Path) -> Iterator[tuple[str, Any]]:
    words = {"names": NAMES}
    names: set[str] = set()
    for line in LINES.splitlines():
        mark, _, call = line.partition(" ")
        if mark == "!":
            changed, other = call.split(" < ")
            shutil.copy(folder / other, folder / changed)
            continue
        if "{first}" in call or "{head}" in call:
            words |= _find_commits(folder / "g")
        typed = _split_call(call, words)
        stdin = ""
        if "<" in typed:
            at = typed.index("<")
            stdin = (folder / typed[at + 1]).read_text(encoding="utf-8")
            typed = typed[:at]
        for flags in {"=": (["--json"], []), "+": (["--json"],), "-": ([],)}[mark]:
            name = " ".join([call.replace("{names}", "…"), *flags])
            while name in names:
                name += " (again)"
            names.add(name)
            yield name, _describe(terminal.run(*typed, *flags, stdin=stdin))


def _split_call(call: str, words: Mapping[str, str]) -> list[str]:
    """The words of a call; names in braces are replaced after the words are known, since their texts have spaces."""
    typed = shlex.split(call)
    for name, text in words.items():
        typed = [word.replace(f"{{{name}}}", text) for word in typed]
    return typed


def _find_commits(place: Path) -> dict[str, str]:
    with omnigraphdb.open(place, read_only=True) as graph:
        commits = graph.commits()
    return {"head": commits[0].id, "first": commits[-2].id}


def _describe(outcome: Outcome) -> dict[str, Any]:
    return {"exit": outcome.code, "out": _read_out(outcome.out), "err": _narrow(outcome.err)}


def _read_out(text: str) -> Any:
    """The document, or the text; columns are as wide as ages and ids are long."""
    if text.startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError:
            lines = text.splitlines()
            if all(line.startswith("{") for line in lines):
                return {"lines": [json.loads(line) for line in lines]}
    return _narrow(text)


def _narrow(text: str) -> Any:
    lines = [_WIDE.sub(lambda match: match[0][:2], line).rstrip() for line in text.splitlines()]
    return split_lines("\n".join(lines))


def _require_every_command(entries: Entries) -> None:
    for words in list_commands():
        call = " ".join(words)
        codes = {one["exit"] for name, one in entries.items() if f"{name} ".startswith(f"{call} ")}
        if call not in LEFT_OUT:
            assert 0 in codes, f"`{call}` has no right call"
        assert codes - {0} or words in _NEVER_WRONG, f"`{call}` has no wrong call"


_NEVER_WRONG: Final = {("version",), ("config", "path"), ("config", "show"), ("profile", "list")}
"""Commands that take nothing."""
