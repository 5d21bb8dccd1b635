"""The versions that driver and executors share: the objects of tasks travel sealed, and open only where versions agree."""

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle

from omnigraphdb.packages import DISTRIBUTION

PACKAGES: Final = (DISTRIBUTION, "pylance", "pyarrow")
"""Packages that tasks use; functions are pickled by name, so driver and executors need the same versions."""

DIFFER: Final = "executors and driver differ: "
"""The beginning of the error of an executor with other versions."""

ADVICE: Final = "install the same Python and the same versions on every worker"

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]


def read_versions() -> dict[str, str]:
    """Read the versions in this process; `none` for a package that is not installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return versions


def make_difference_finder() -> Callable[[], list[str]]:
    """Make a function that names the differences between the versions where it runs and the versions here."""
    expected, prefix = read_versions(), "host "

    # A nested function is pickled by value: an executor without our package must still be able to report that.
    def find_differences() -> list[str]:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415
        from platform import node  # noqa: PLC0415

        differences = []
        for name, expected_version in expected.items():
            try:
                installed = version(name)
            except PackageNotFoundError:
                installed = "none"
            if installed != expected_version:
                differences.append(
                    f"{prefix}'{node()}' has {name} {installed}, expected {expected_version}"
                )
        return differences

    return find_differences


def _make_opener() -> Callable[[bytes], Any]:
    """Make a function that unpickles an object sealed here; where versions differ, it refuses and names the host."""
    find, prefix, advice = make_difference_finder(), DIFFER, ADVICE

    def open_sealed(payload: bytes) -> Any:
        from pickle import loads  # noqa: PLC0415

        differences = find()
        if differences:
            raise RuntimeError(
                f"{prefix}{'; '.join(differences)}; nothing was committed; hint: {advice}"
            )
        return loads(payload)

    return open_sealed


def seal_task(task: Task) -> Task:
    """Wrap a task so that an executor with other versions refuses it before anything of ours is unpickled there."""
    opener, payload = _make_opener(), cloudpickle.dumps(task)

    def run(batches: Batches) -> Batches:
        opened: Task = opener(payload)
        return opened(batches)

    return run


class Sealed:
    """An object of a data source, which Spark takes to executors: it is pickled sealed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_opener(), (cloudpickle.dumps(_State(type(self), self.__dict__)),)


class _State:
    """The content of a sealed object; it is pickled as the call that makes the object again."""

    def __init__(self, kind: type, values: dict[str, Any]) -> None:
        self.kind, self.values = kind, values

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.kind, self.values)


def _restore(kind: type, values: dict[str, Any]) -> Any:
    restored: Any = object.__new__(kind)
    restored.__dict__.update(values)
    return restored
