"""Scratch files of loads that never ended: what their beacons no longer speak for."""

import json
import math
from collections.abc import Iterator

from omnigraph.engine.session.engine import Engine
from omnigraph.storage.layout import STAGING_DIR


def staging_loads(engine: Engine) -> tuple[str, ...]:
    """The loads that say they are writing files nobody refers to yet; a beacon that cannot be read counts."""
    now = engine.runtime.now_us()
    return tuple(path for path, expires in _beacons(engine) if expires > now)


def sweep_scratch(engine: Engine, age_us: int, *, dry_run: bool) -> tuple[str, ...]:
    """Remove the scratch files and beacons of loads that have been silent for so long; gives their operations."""
    cutoff = engine.runtime.now_us() - age_us
    # A beacon that still shines is never past, whatever age is asked for.
    silent = [path for path, expires in _beacons(engine) if expires < cutoff]
    if not dry_run:
        for path in silent:
            # The beacon goes last: as long as it is there, the files are found again.
            engine.store.objects.delete_prefix(path.removesuffix(".json"))
            engine.store.objects.delete(path)
    return tuple(path.removeprefix(f"{STAGING_DIR}/").removesuffix(".json") for path in silent)


def _beacons(engine: Engine) -> Iterator[tuple[str, float]]:
    for path in engine.store.objects.list(STAGING_DIR):
        text = engine.store.objects.read(path)
        if text is not None:
            yield path, _expiry(text)


def _expiry(text: str) -> float:
    try:
        return float(json.loads(text)["expires_us"])
    except (ValueError, LookupError, TypeError):
        return math.inf
