"""The command that shows a graph in a browser."""

import os
from typing import Annotated

import typer

from omnigraphdb.packages import install_command
from omnigraphdb.surfaces.cli.address import Store, Uri, choose_graph
from omnigraphdb.surfaces.cli.output import say


def ui(
    uri: Uri = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let the page write: create branches, merge.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 picks a free one.")
    ] = 0,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Folder of stored queries.")
    ] = None,
    store: Store = None,
) -> None:
    """Show a graph, its history and its changes in a browser.

    Only this machine can see the page, and it is read-only unless `--write` is given.

    Example: omnigraphdb ui people.omni
    """
    from omnigraphdb.errors import ConfigError

    place = choose_graph(uri, store)
    try:
        from omnigraphdb.surfaces.http.options import DEFAULT_GRAPH, Options, read_hosts
        from omnigraphdb.surfaces.http.serving import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the page needs the package '{error.name}'; nothing was started",
            hint=f"install it with `{install_command('server')}`",
        ) from error

    def announce(address: str) -> None:
        page = f"http://{address}/ui/g/{DEFAULT_GRAPH}/@main/start"
        say(f"{page}   (Ctrl+C ends it)")
        if open_page:
            _open_browser(page)

    options = Options(
        graphs={DEFAULT_GRAPH: place},
        single=True,
        port=port,
        unauthenticated=True,
        read_only=not write,
        queries=queries,
        hosts=read_hosts(None, os.environ),
        log_level="warn",
    )
    raise typer.Exit(serve(options, os.environ, announce))


def _open_browser(page: str) -> None:
    """Open a page where there is a browser; elsewhere the printed address is enough."""
    import webbrowser

    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.name == "nt":
        webbrowser.open(page)
