"""`omnigraphdb version`."""

import sys
from importlib.util import find_spec

from omnigraphdb.surfaces.cli.address import Json
from omnigraphdb.surfaces.cli.output import say, say_json
from omnigraphdb.version import VERSION


def version(json: Json = False) -> None:
    """Show the version, and the storage format that it writes.

    Example: omnigraphdb version --json
    """
    from omnigraphdb.manifest.stamp import CURRENT

    if not json:
        say(f"omnigraphdb {VERSION}\ninternal-schema {CURRENT}")
        return
    from importlib.metadata import version as installed

    packages = {name: installed(name) for name in ("pylance", "pyarrow")}
    say_json(
        {
            "version": VERSION,
            "internal_schema_version": CURRENT,
            "python": sys.version.partition(" ")[0],
        }
        | packages
        | {"pyspark": installed("pyspark") if find_spec("pyspark") else None}
    )
