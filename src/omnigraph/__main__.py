"""`python -m omnigraph`, and the script `omnigraph`, are the command line."""

from omnigraph.surfaces.cli.process import begin


def run() -> None:
    """Run the command line as this process."""
    begin()
    # What is loaded from here on is loaded as `begin` says.
    from omnigraph.surfaces.cli.main import main  # noqa: PLC0415

    main()


if __name__ == "__main__":
    run()
