"""Algorithms over one projection of a snapshot: integer arrays in, one value per node out; loading this loads scipy."""

from importlib.util import find_spec

from omnigraph.errors import ConfigError

if find_spec("scipy") is None:
    raise ConfigError(
        "graph algorithms need the package scipy, which is not installed; nothing was computed",
        hint="install the extra: pip install 'omnigraph[analytics]'",
    )
