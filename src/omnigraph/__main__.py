"""`python -m omnigraph`, and the script `omnigraph`, are the command line; `omnigraph-server` is one command of it."""

import sys

from omnigraph.surfaces.cli.process import begin


def run() -> None:
    """Run the command line as this process."""
    begin()
    # What is loaded from here on is loaded as `begin` says.
    from omnigraph.surfaces.cli.main import main  # noqa: PLC0415

    main()


def run_server() -> None:
    """Run `omnigraph serve` as this process."""
    sys.argv[1:1] = ["serve"]
    run()


if __name__ == "__main__":
    run()
