"""The internal-schema stamp of a manifest, and the guard that every reader of one passes."""

from collections.abc import Mapping
from typing import Final

from omnigraphdb.errors import FormatVersion

STAMP: Final = "omnigraph:internal_schema_version"
"""Schema metadata key of the stamp; each branch carries its own."""

CURRENT: Final = 6
"""The shape this release writes."""

MIN_SUPPORTED: Final = 1
"""The oldest shape a migration still starts from."""

LINEAGE_IN_MANIFEST: Final = 4
"""From this stamp on, the history of a branch is in its manifest; before, in the legacy tables."""

_SUPPORTED: Final = f"{MIN_SUPPORTED} to {CURRENT}"


def stamp_of(metadata: Mapping[str, str]) -> int:
    """Read the stamp and refuse versions that this release does not understand; absent means 1."""
    raw = metadata.get(STAMP)
    if raw is None:
        return 1
    if not (raw.isascii() and raw.isdigit()):
        raise FormatVersion(
            raw,
            _SUPPORTED,
            f"'{raw}' is not a version at all, so nothing was read or written; "
            "restore the manifest from a backup",
        )
    return guard(int(raw))


def guard(stamp: int) -> int:
    """Let a supported stamp through."""
    if stamp > CURRENT:
        raise FormatVersion(
            stamp, _SUPPORTED, "nothing was read or written; upgrade omnigraphdb to open this graph"
        )
    if stamp < MIN_SUPPORTED:
        raise FormatVersion(
            stamp,
            _SUPPORTED,
            "nothing was read or written; migrate it with an older release of omnigraphdb first "
            "(export there, then init and load here)",
        )
    return stamp
