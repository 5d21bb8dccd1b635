"""A page that shows a graph: what callers hold of it, and what to install when it cannot be served."""

from importlib import import_module
from typing import Any, Protocol

from omnigraphdb.errors import ConfigError
from omnigraphdb.packages import install_command


class ShownGraph(Protocol):
    """A page that is served until it is closed; a notebook shows it in a frame."""

    @property
    def url(self) -> str:
        """The address of the page."""

    def close(self) -> None:
        """End the server; the graph stays open."""

    def _repr_html_(self) -> str: ...


def show(graph: Any, *, write: bool, height: int) -> ShownGraph:
    """Serve the page of a graph from a thread of this process, through the door of the package."""
    try:
        found: ShownGraph = import_module("omnigraphdb").show(graph, write=write, height=height)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the page needs the package '{error.name}'; nothing was started",
            hint=f"install it with `{install_command('server')}`",
        ) from error
    return found
