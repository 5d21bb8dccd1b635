"""Processes whose wall clock is wrong for everything in them, Rust included; the monotonic clock is right."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.store import S3Store

SOURCE: Final = Path(__file__).with_name("shifted_clock.c")
SECONDS: Final = "SHIFTED_CLOCK_SECONDS"
APART_SECONDS_MAX: Final = 5.0
"""How far a clock that is asked may be from the shifted one: machines are busy."""


def build_clock(directory: Path) -> Path:
    """Compile the library; skips where there is no compiler for C."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a process with another wall clock needs a compiler for C, and Linux")
    library = directory / "shifted_clock.so"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE)]
    subprocess.run([compiler, *options], check=True)
    return library


def shifted_environment(library: Path, seconds: int) -> dict[str, str]:
    """Give the environment of a process whose clock is ahead, or behind by a negative number."""
    return os.environ | {"LD_PRELOAD": str(library), SECONDS: str(seconds)}


def require_shift() -> None:
    """Assert, inside such a process, that Python, Lance and the client of the store have the wrong time."""
    expected = int(os.environ[SECONDS])
    for name, ahead in measure_clocks().items():
        assert abs(ahead - expected) < APART_SECONDS_MAX, f"{name} is {ahead} s ahead"


def measure_clocks() -> dict[str, float]:
    """Measure by how much each clock of this process is ahead of the kernel's, which dates files."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "now")
        file.touch()
        right = file.stat().st_mtime
        dataset = lance.write_dataset(pa.table({"n": [1]}), str(Path(directory, "rows.lance")))
        version = dataset.versions()[0]["timestamp"]
        assert isinstance(version, datetime)
    store = S3Store("bucket", access_key_id="test", secret_access_key="test", region="us-east-1")
    signed = obstore.sign(store, "GET", "key", timedelta(minutes=1))
    (moment,) = parse_qs(urlsplit(signed).query)["X-Amz-Date"]
    stamp = datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return {
        "time.time": time.time() - right,
        "datetime.now": datetime.now(tz=UTC).timestamp() - right,
        "lance": version.timestamp() - right,
        "obstore": stamp.timestamp() - right,
    }
