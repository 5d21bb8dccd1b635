"""The distribution of OmniGraph, and packages that it works with and does not bring along."""

from importlib import import_module
from types import ModuleType
from typing import Final

from omnigraphdb.errors import ConfigError

DISTRIBUTION: Final = "omnigraphdb"
"""The name that installs OmniGraph; hints and checks of versions take it from here."""

_EXTRAS: Final = {"cedarpy": "policy", "pyspark": "spark", "scipy": "analytics"}
"""Packages that an extra of OmniGraph installs, in the versions it works with."""


def load_package(name: str, what: str, *, state: str = "nothing was read") -> ModuleType:
    """Load a package that a call needs; the error for a missing package names the call and the command that installs it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != name:
            raise
        raise ConfigError(
            f"{what} needs the package '{name}', which is not installed; {state}",
            hint=install_command(_EXTRAS[name]) if name in _EXTRAS else f"pip install {name}",
        ) from error


def install_command(extra: str) -> str:
    """Give the command that installs OmniGraph with an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
