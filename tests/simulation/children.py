"""Universes in a process of their own, in which the engine has the locks of the simulation."""

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

_SECONDS_MAX: Final = 840.0


@dataclass(frozen=True)
class Verdict:
    """What a run printed, and whether the judge complained."""

    printed: str
    is_silent: bool

    @property
    def digest(self) -> str:
        """The digest of every request of every universe, in order."""
        return self.printed.splitlines()[-1].rpartition(", ")[2]


def simulate(arguments: str, hash_seed: int = 0) -> Verdict:
    """Run `python -m tests.simulation` with these arguments."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments.split()],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert " universes, " in ended.stdout, ended.stderr
    return Verdict(ended.stdout, ended.returncode == 0)
