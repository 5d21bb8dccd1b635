"""Packages that OmniGraph works with and does not bring along."""

from importlib import import_module
from types import ModuleType

from omnigraph.errors import ConfigError


def load_package(name: str, what: str) -> ModuleType:
    """Load a package that a call needs; the error for a missing one says what needs it and how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != name:
            raise
        raise ConfigError(
            f"{what} needs the package '{name}', which is not installed; nothing was read",
            hint=f"pip install {name}",
        ) from error
