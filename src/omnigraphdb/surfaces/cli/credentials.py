"""Tokens of servers: where they are looked for, and the file that keeps them."""

import configparser
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from omnigraphdb.errors import ConfigError, shorten
from omnigraphdb.surfaces.cli.config import config_folder, load_config
from omnigraphdb.surfaces.cli.output import remark, say, say_json

FILE = "credentials"


def find_url(server: str, environment: Mapping[str, str]) -> str:
    """The address of a server: itself, or what the configuration says of its name."""
    if server.startswith(("http://", "https://")):
        return server
    config = load_config(environment)
    if server not in config.section("servers") and (":" in server or "/" in server):
        raise ConfigError(
            f"'{shorten(server)}' is neither an address nor the name of a server; nothing was done",
            hint="an address begins with http:// or https://",
        )
    url = config.named("servers", "server", server).get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ConfigError(f"server '{server}' has no url in the configuration; nothing was done")
    return url


def find_token(url: str, environment: Mapping[str, str]) -> str | None:
    """The token for an address: that of the server which owns it, else the one for all; a token of another server is never sent."""
    name = _find_owner(url, environment)
    if name is not None:
        variable = f"OMNIGRAPH_TOKEN_{name.upper().replace('-', '_')}"
        found = environment.get(variable, "").strip() or _read(environment).get(
            name, "token", fallback=""
        )
        if found.strip():
            return found.strip()
    return environment.get("OMNIGRAPH_BEARER_TOKEN", "").strip() or None


def _find_owner(url: str, environment: Mapping[str, str]) -> str | None:
    """The server with the longest address that is this one, or that this one goes on from with a slash."""
    servers = load_config(environment).section("servers")
    owned = {
        name: str(one.get("url", "")).rstrip("/")
        for name, one in servers.items()
        if isinstance(one, Mapping)
    }
    bare = url.rstrip("/")
    fitting = [n for n, at in owned.items() if at and (bare == at or bare.startswith(f"{at}/"))]
    return max(fitting, key=lambda name: len(owned[name]), default=None)


def _path(environment: Mapping[str, str]) -> Path:
    return config_folder(environment) / FILE


def _read(environment: Mapping[str, str]) -> configparser.RawConfigParser:
    """Read the file of tokens; one that others may read is refused."""
    found, path = configparser.RawConfigParser(), _path(environment)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return found
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"others may read the tokens in '{path}'; it was not used", hint=f"chmod 600 {path}"
        )
    try:
        found.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        # The text of the error could repeat a token.
        raise ConfigError(f"'{path}' holds no tokens that can be read; nothing was done") from error
    return found


def _write(found: configparser.RawConfigParser, environment: Mapping[str, str]) -> None:
    """Replace the file in one step; only its owner may read it."""
    path = _path(environment)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{FILE}.{os.getpid()}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        found.write(stream)
    os.replace(partial, path)


def login(
    name: Annotated[str, typer.Argument(help="The server, as the configuration names it.")],
    token: Annotated[
        str | None, typer.Option("--token", help="The token; better typed, or piped in.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Keep the token of a server.

    Example: omnigraphdb login prod < token.txt
    """
    given = (token if token is not None else _ask_token()).strip()
    if not given:
        raise typer.BadParameter("the token is blank; nothing was kept", param_hint="--token")
    found = _read(os.environ)
    if not found.has_section(name):
        found.add_section(name)
    found.set(name, "token", given)
    _write(found, os.environ)
    if name not in load_config(os.environ).section("servers"):
        remark(
            f"note: no server '{name}' is in the configuration; its url goes under servers.{name}"
        )
    if json:
        say_json({"server": name, "logged_in": True})
    else:
        say(f"logged in to {name}")


def _ask_token() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Token", hide_input=True, err=True))
    return sys.stdin.readline()


def logout(
    name: Annotated[str, typer.Argument(help="The server, as the configuration names it.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Forget the token of a server.

    Example: omnigraphdb logout prod
    """
    found = _read(os.environ)
    if found.remove_section(name):
        _write(found, os.environ)
    if json:
        say_json({"server": name, "logged_in": False})
    else:
        say(f"logged out of {name}")
