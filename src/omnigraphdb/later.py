"""Packages that are loaded when something of them is first used."""

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module; to check a schema or a query takes neither Arrow nor numpy, which take longer to load."""

    def __init__(self, name: str) -> None:
        self._module_name = name

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(import_module(self._module_name), name)
        # Kept here, so that the next use is an ordinary look at an attribute.
        setattr(self, name, attribute)
        return attribute
