"""The tables of the reference pages that are made from the code; run as a module to write them anew."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, TypeGuard

import typer

from omnigraphdb import api, errors, limits
from omnigraphdb.api import graph, opening, snapshot, verbs
from omnigraphdb.api.rights import RULES, list_actions
from omnigraphdb.catalog.diff.codes import REGISTRY
from omnigraphdb.compile.codes import CHECK_CODES
from omnigraphdb.language.query.codes import MEANINGS
from omnigraphdb.surfaces.cli.help import split_help
from omnigraphdb.surfaces.cli.output import exit_code
from omnigraphdb.surfaces.cli.tree import build_app
from omnigraphdb.surfaces.http.app import ROUTES_DESCRIBED
from omnigraphdb.surfaces.http.openapi import describe_api
from omnigraphdb.surfaces.http.routing import Route
from tests.support.query_grammar import show_grammar

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
OPENAPI = REFERENCE / "openapi.json"
REGION = re.compile(r"(<!-- made from the code: ([^>]+) -->\n).*?(<!-- end -->)", re.S)

Row = tuple[str, ...]


def table(head: Row, rows: Iterator[Row]) -> str:
    """Draw a Markdown table."""
    drawn = [head, tuple("---" for _ in head), *(tuple(map(_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in drawn)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _first_sentence(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0]


# ---- errors


def error_classes(group: type[errors.OmniError]) -> list[type[errors.OmniError]]:
    """The public classes of a group, the group itself first."""
    found = [
        one
        for _, one in inspect.getmembers(errors, inspect.isclass)
        if issubclass(one, group) and not one.__name__.startswith("_")
    ]
    return sorted(found, key=lambda one: (one is not group, one.__name__))


def advise(error: type[errors.OmniError]) -> str:
    """The step that an error asks for: the second part of the docstring of its class, else the hint that each of its errors has."""
    _, _, advice = (inspect.getdoc(error) or "").partition("\n\n")
    if not advice:
        tree = ast.parse(textwrap.dedent(inspect.getsource(error)))
        hints = [one.value for one in ast.walk(tree) if _is_hint(one)]
        advice = next((str(one.value) for one in hints if isinstance(one, ast.Constant)), "")
    return advice[:1].lower() + advice[1:].removesuffix(".")


def _is_hint(node: ast.AST) -> TypeGuard[ast.keyword | ast.Assign]:
    match node:
        case ast.keyword(arg="hint") | ast.Assign(targets=[ast.Name(id="hint")]):
            return True
    return False


def _errors(group: str) -> str:
    def rows() -> Iterator[Row]:
        for one in error_classes(getattr(errors, group)):
            code = str(exit_code(one.__new__(one)))
            yield f"`{one.__name__}`", f"`{one.kind}`", code, _first_sentence(one), advise(one)

    return table(("Class", "`kind`", "Exit", "Meaning", "Do"), rows())


def _query_codes() -> str:
    return table(("Code", "Meaning"), ((f"`{code}`", text) for code, text in MEANINGS.items()))


def _check_codes() -> str:
    rows = ((f"`{code}`", *texts) for code, texts in CHECK_CODES.items())
    return table(("Code", "Meaning", "Expected"), rows)


def _migration_codes() -> str:
    rows = ((f"`{one.code}`", str(one.tier), one.meaning, one.instead) for one in REGISTRY.values())
    return table(("Code", "Tier", "Change", "Instead"), rows)


# ---- limits


def limit_reasons() -> dict[str, str]:
    """Every limit with the text below it."""
    body = ast.parse(Path(limits.__file__).read_text(encoding="utf-8")).body
    return {
        ast.unparse(value.targets[0]): ast.literal_eval(reason.value)
        for value, reason in pairwise(body)
        if isinstance(value, ast.Assign) and isinstance(reason, ast.Expr)
    }


def _limits() -> str:
    rows = (
        (f"`{name}`", f"{getattr(limits, name):,}", reason)
        for name, reason in limit_reasons().items()
    )
    return table(("Limit", "Value", "Reason"), rows)


# ---- Python


def _call(function: Callable[..., Any]) -> str:
    """A call as it is written: names and defaults, without types."""
    given = inspect.signature(function).parameters.values()
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in given if one.name != "self"]
    return f"`{function.__name__}{inspect.Signature(bare)}`"


def list_members(holder: type) -> dict[str, Any]:
    """The public names of a class and of the parts it is put together from, in the order of the parts."""
    modules = (holder.__module__, verbs.__name__)
    members: dict[str, Any] = {}
    for part in _list_parts(holder):
        if part.__module__.startswith(modules):
            members |= {n: m for n, m in vars(part).items() if n not in members and n[0] != "_"}
    return members


def _list_parts(holder: type) -> list[type]:
    """List a class and its bases as they are written down; a base of several comes after the last of them."""
    parts = [holder, *(part for base in holder.__bases__ for part in _list_parts(base))]
    return list(dict.fromkeys(reversed(parts)))[::-1]


def public_members(holder: type) -> dict[str, Any]:
    """The public methods and properties of a class, as they stand in it."""
    return {
        name: member
        for name, member in list_members(holder).items()
        if inspect.isfunction(member) or isinstance(member, property)
    }


def _members(holder: type) -> str:
    rows = (
        (f"`{name}`" if isinstance(member, property) else _call(member), _first_sentence(member))
        for name, member in public_members(holder).items()
    )
    return table(("Call", "Meaning"), rows)


def _functions(*functions: Callable[..., Any]) -> str:
    return table(("Call", "Meaning"), ((_call(one), _first_sentence(one)) for one in functions))


def result_classes() -> list[type]:
    """The values that calls return: dataclasses that the modules of the handle define or export with a wire form."""
    found: dict[str, type] = {}
    for info in walk_packages(api.__path__, f"{api.__name__}."):
        module = import_module(info.name)
        found |= {
            one.__name__: one
            for one in vars(module).values()
            if is_dataclass(one)
            and info.name.partition("api.verbs.")[1] == ""
            and inspect.isclass(one)
            and (one.__module__ == info.name or hasattr(one, "to_dict"))
        }
    return [one for name, one in sorted(found.items()) if not name.startswith("_")]


def _results() -> str:
    rows = (
        (f"`{one.__name__}`", ", ".join(_attributes(one)), _first_sentence(one))
        for one in result_classes()
    )
    return table(("Class", "Attributes", "Meaning"), rows)


def _attributes(holder: type) -> list[str]:
    """The fields of a value, then what it computes from them."""
    computed = [n for n, one in public_members(holder).items() if isinstance(one, property)]
    return [f"`{name}`" for name in (*(one.name for one in fields(holder)), *computed)]


# ---- command line


def commands() -> dict[str, Any]:
    """Every command by the words that call it."""
    return dict(_below(typer.main.get_command(build_app()), ()))


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner: Mapping[str, Any] | None = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(words), command
        return
    for name, one in inner.items():
        yield from _below(one, (*words, name))


def _commands() -> str:
    return "\n".join(_command(words, command) for words, command in commands().items())


def _command(words: str, command: Any) -> str:
    meaning, examples = split_help(command.help or "")
    text = f"### omnigraphdb {words}\n\n{' '.join(meaning.split())}\n"
    shown = [one for one in command.params if one.name != "help"]
    if shown:
        rows = ((_names(one), _default(one), str(one.help or "")) for one in shown)
        text += "\n" + table(("Option", "Default", "Meaning"), rows)
    if examples:
        text += "\n```\n" + "\n".join(examples) + "\n```\n"
    return text


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    return "" if default in (None, "", False, ()) or default == [] else f"`{default}`"


# ---- pages


# ---- routes


def describe_served() -> str:
    """The description of a server of one graph with tokens, as JSON."""
    described = describe_api(ROUTES_DESCRIBED, flat=True, secured=True)
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


def _routes() -> str:
    def rows() -> Iterator[Row]:
        for route in ROUTES_DESCRIBED:
            place = route.path if route.of_server else f"P{route.path}"
            action = ", ".join(f"`{one}`" for one in _list_actions(route)) or _word_open(route)
            statuses = ", ".join(str(one) for one in sorted(set(route.statuses)))
            named = f"`{route.method} {place}`"
            yield named, f"`{route.operation}`", action, route.summary, statuses

    return table(("Route", "Operation", "Who may", "What it does", "Other statuses"), rows())


def _list_actions(route: Route) -> tuple[str, ...]:
    return () if route.verb is None else list_actions(route.verb)


def _word_open(route: Route) -> str:
    return "everyone with a token" if route.needs_token else "everyone"


def _rights() -> str:
    """The rights of each kind of call, as the one function says that decides for the engine and for servers."""

    def rows() -> Iterator[Row]:
        for verb, rules in RULES.items():
            for rule in rules:
                about = [f"of `{one}`" for one in (rule.branch,) if one is not None]
                about += [f"to `{rule.target}`"] if rule.target is not None else []
                about += [f"`{rule.query}`"] if rule.query is not None else []
                asked_by = "servers" if rule.served_only else "engine, servers"
                right = " ".join((f"`{rule.action}`", *about))
                yield f"`{verb}`", right, asked_by, rule.when or "always"

    return table(("Call", "Right", "Asked by", "When"), rows())


def made(name: str) -> str:
    """The text of a region, by its name."""
    kind, _, rest = name.partition(" ")
    match kind:
        case "errors":
            return _errors(rest)
        case "members":
            return _members({"Graph": graph.Graph, "Snapshot": snapshot.Snapshot}[rest])
    return _WHOLE[name]()


_WHOLE: Mapping[str, Callable[[], str]] = {
    "query grammar": show_grammar,
    "query codes": _query_codes,
    "check codes": _check_codes,
    "migration codes": _migration_codes,
    "limits": _limits,
    "functions": lambda: _functions(opening.init, opening.open, opening.relocate),
    "results": _results,
    "commands": _commands,
    "routes": _routes,
    "rights": _rights,
}


def renewed(text: str) -> str:
    """A page with its regions made anew."""
    return REGION.sub(lambda found: f"{found[1]}{made(found[2])}{found[3]}", text)


def main() -> None:
    """Write the regions of every reference page anew."""
    for page in sorted(REFERENCE.glob("*.md")):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
    OPENAPI.write_text(describe_served(), encoding="utf-8")


if __name__ == "__main__":
    main()
