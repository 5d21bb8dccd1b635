"""What runs as Spark jobs: the runner, frames, queries and sessions; loading this package loads PySpark."""

from importlib.util import find_spec

from omnigraph.errors import ConfigError

if find_spec("pyspark") is None:
    raise ConfigError(
        "PySpark is not installed, so nothing can run on Spark; no changes were made",
        hint="install the extra: pip install 'omnigraph[spark]'",
    )
