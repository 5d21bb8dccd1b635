"""The environment of a measured process: what memory it takes must not depend on how many cores there are."""

import os
from typing import Final

TWO_CORES: Final = {
    "OMP_NUM_THREADS": "2",
    "ARROW_IO_THREADS": "2",
    "LANCE_CPU_THREADS": "2",
    "LANCE_IO_THREADS": "2",
    "TOKIO_WORKER_THREADS": "2",
    "RAYON_NUM_THREADS": "2",
    "MALLOC_ARENA_MAX": "2",
}


def two_cores() -> dict[str, str]:
    """This environment, as a machine of two cores would see it."""
    return os.environ | TWO_CORES
