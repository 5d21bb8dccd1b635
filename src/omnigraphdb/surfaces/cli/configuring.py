"""Commands about the configuration: config, profile, completion."""

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from omnigraphdb.errors import ConfigError
from omnigraphdb.surfaces.cli.address import Json
from omnigraphdb.surfaces.cli.completing import complete_profile
from omnigraphdb.surfaces.cli.config import (
    USER_FILE,
    Config,
    config_folder,
    load_config,
    project_file,
)
from omnigraphdb.surfaces.cli.output import (
    EXIT_FAILURE,
    note,
    print_columns,
    print_facts,
    say,
    say_json,
)
from omnigraphdb.surfaces.cli.terminal import Style, paint

BOUND = ("server", "cluster", "store")


def config_path(json: Json = False) -> None:
    """Show which configuration files there are.

    Example: omnigraphdb config path
    """
    user, project = config_folder(os.environ) / USER_FILE, project_file()
    if json:
        say_json({"user": str(user), "project": None if project is None else str(project)})
        return
    say(f"{user}{'' if user.is_file() else ' (not there)'}")
    if project is not None:
        say(str(project))


def config_show(json: Json = False) -> None:
    """Show the configuration: the project's file laid over the user's.

    Example: omnigraphdb config show --json
    """
    config = load_config(os.environ)
    if json:
        say_json({"files": list(map(str, config.files)), "values": config.values})
        return
    for path in config.files:
        note(f"from {path}")
    if config.values:
        import yaml

        say(yaml.safe_dump(dict(config.values), sort_keys=False, allow_unicode=True).rstrip())
    else:
        note("no configuration: every setting has its default")


def config_check(json: Json = False) -> None:
    """Check the configuration files; keys that mean nothing are reported.

    Example: omnigraphdb config check
    """
    config = load_config(os.environ)
    wrong = [*config.warnings, *_list_wrong_profiles(config)]
    if json:
        say_json({"files": list(map(str, config.files)), "problems": wrong})
    else:
        for line in wrong:
            say(line)
        say(f"{len(config.files)} files, {len(wrong)} problems")
    if wrong:
        raise typer.Exit(EXIT_FAILURE)


def _list_wrong_profiles(config: Config) -> list[str]:
    found = (_describe_profile(config, name).get("problem") for name in config.section("profiles"))
    return [str(one) for one in found if one]


def profile_list(json: Json = False) -> None:
    """List profiles: what each binds, and which one is active.

    Example: omnigraphdb profile list
    """
    config = load_config(os.environ)
    found = [_describe_profile(config, name) for name in config.section("profiles")]
    if json:
        say_json({"profiles": found})
        return
    print_columns(_profile_row(one) for one in found)
    if not found:
        note("no profiles are defined; add them under profiles: in omnigraph.yaml")


def profile_show(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The profile; the active one by default.", autocompletion=complete_profile
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what one profile binds.

    Example: omnigraphdb profile show dev
    """
    config = load_config(os.environ)
    chosen = name or os.environ.get("OMNIGRAPH_PROFILE")
    if chosen is None:
        raise typer.BadParameter("name a profile, or set OMNIGRAPH_PROFILE; none is active")
    config.profile(chosen)
    found = _describe_profile(config, chosen)
    if json:
        say_json(found)
        return
    print_facts({key: str(value) for key, value in found.items() if value is not None})


def _describe_profile(config: Config, name: str) -> dict[str, Any]:
    """The facts of a profile; one that binds nothing or too much has a problem instead of a target."""
    facts: dict[str, Any] = {"name": name, "active": name == os.environ.get("OMNIGRAPH_PROFILE")}
    try:
        bound = config.profile(name)
    except ConfigError as error:
        return facts | {"problem": str(error)}
    scope = next(key for key in BOUND if bound.get(key) is not None)
    facts |= {"scope": scope, "target": str(bound[scope])}
    facts |= _find_endpoint(config, scope, str(bound[scope]))
    default = bound.get("default_graph")
    return facts if default is None else facts | {"default_graph": str(default)}


def _find_endpoint(config: Config, scope: str, target: str) -> dict[str, str]:
    sections: Mapping[str, tuple[str, str]] = {
        "server": ("servers", "url"),
        "cluster": ("clusters", "root"),
    }
    if scope not in sections:
        return {}
    section, key = sections[scope]
    named = config.section(section).get(target)
    return {"endpoint": str(named[key])} if isinstance(named, Mapping) and key in named else {}


def _profile_row(one: Mapping[str, Any]) -> list[str]:
    mark = "*" if one["active"] else " "
    if "problem" in one:
        return [f"{mark} {one['name']}", paint("invalid", Style.BAD), str(one["problem"])]
    return [f"{mark} {one['name']}", str(one["scope"]), str(one["target"])]


# ---- completion


class Shell(StrEnum):
    """A shell that completes commands, or `install` for the one that is running."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    INSTALL = "install"


def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh, fish, powershell, or install.")],
) -> None:
    """Print the completion script of a shell, or install it.

    Example: omnigraphdb completion bash

    Example: omnigraphdb completion install
    """
    from typer._completion_shared import _get_shell_name, get_completion_script, install

    if shell is not Shell.INSTALL:
        script = get_completion_script(
            prog_name="omnigraphdb", complete_var="_OMNIGRAPHDB_COMPLETE", shell=str(shell)
        )
        say(script)
        return
    running = _get_shell_name()
    if running not in list(Shell):
        raise typer.BadParameter(
            f"completion cannot be installed for {running or 'this shell'}; name one of bash, zsh, fish or powershell, "
            "and add what it prints to the shell's own configuration"
        )
    installed, path = install(shell=running, prog_name="omnigraphdb")
    say(f"{installed} completes omnigraphdb from {path}; start a new shell to use it")
