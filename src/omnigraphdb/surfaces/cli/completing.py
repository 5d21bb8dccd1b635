"""How a word of a call may go on, beyond commands and options: branches, queries, profiles, aliases."""

import os
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

import typer


def silent(find: Callable[[Any], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """A completion that gives nothing where anything goes wrong: a person is typing."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        with suppress(Exception), open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
            return [one for one in find(ctx) if one.startswith(incomplete)]
        return []

    return complete


@silent
def complete_query(ctx: Any) -> Iterable[str]:
    """Queries of the file that the call names."""
    from omnigraphdb.api.texts import read_source
    from omnigraphdb.language.query.parse import parse_queries

    return [
        query.name.text
        for query in parse_queries(read_source(Path(ctx.params["query_file"]))).queries
    ]


@silent
def complete_alias(_: Any) -> Iterable[str]:
    """Aliases of the configuration."""
    return _section("aliases")


@silent
def complete_profile(_: Any) -> Iterable[str]:
    """Profiles of the configuration."""
    return _section("profiles")


def _section(name: str) -> Iterable[str]:
    from omnigraphdb.surfaces.cli.config import load_config

    return map(str, load_config(os.environ).section(name))
