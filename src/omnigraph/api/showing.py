"""A page that shows a graph: what callers hold of it, and how the surface that serves it is found."""

from importlib import import_module
from typing import Any, Protocol

from omnigraph.errors import ConfigError


class ShownGraph(Protocol):
    """A page that is served until it is closed; a notebook shows it in a frame."""

    url: str

    def close(self) -> None:
        """End the server; the graph stays open."""

    def _repr_html_(self) -> str: ...


def show(graph: Any, *, write: bool, height: int) -> ShownGraph:
    """Serve the page of a graph from a thread of this process."""
    try:
        notebook = import_module("omnigraph.surfaces.http.notebook")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the page needs the package '{error.name}'; nothing was started",
            hint="install it with `pip install 'omnigraph[server]'`",
        ) from error
    found: ShownGraph = notebook.show(graph, write=write, height=height)
    return found
