"""`python -m omnigraphdb`, and the script `omnigraphdb`, are the command line; `omnigraphdb-server` is one command of it."""

import sys

from omnigraphdb.surfaces.cli.process import begin


def run() -> None:
    """Run the command line as this process."""
    begin()
    # Modules that are loaded from here on are loaded as `begin` arranged.
    from omnigraphdb.surfaces.cli.main import main  # noqa: PLC0415

    main()


def run_server() -> None:
    """Run `omnigraphdb serve` as this process."""
    sys.argv[1:1] = ["serve"]
    run()


if __name__ == "__main__":
    run()
