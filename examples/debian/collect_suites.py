"""Read the package indexes that this machine's apt has, and write packages and dependencies of every suite as Parquet.

python examples/debian/collect_suites.py FOLDER [--sample PACKAGES]
"""

import argparse
import re
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HELPER = "/usr/lib/apt/apt-helper"
KINDS = {"Depends": "depends", "Pre-Depends": "pre_depends", "Recommends": "recommends"}
"""Fields that name other packages, from the strongest to the weakest."""

_NAME = re.compile(r"([a-z0-9][a-z0-9.+-]*)(?::\w+)?\s*(?:\(([^)]*)\))?")

Stanza = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: its packages, and the packages that each of them names."""

    name: str
    stanzas: Mapping[str, Stanza]

    @property
    def packages(self) -> pa.Table:
        """The packages as rows of the schema."""
        rows = [_package(stanza) for _, stanza in sorted(self.stanzas.items())]
        return pa.Table.from_pylist(rows, schema=PACKAGES)

    def list_dependencies(self, known: Iterable[str]) -> pa.Table:
        """The dependencies on known packages; names that only other packages provide are left out."""
        names = frozenset(known)
        rows = [
            row
            for _, stanza in sorted(self.stanzas.items())
            for row in _list_dependencies(stanza)
            if row["to"] in names
        ]
        return pa.Table.from_pylist(rows, schema=DEPENDS)


PACKAGES = pa.schema(
    [
        ("name", pa.string()),
        ("version", pa.string()),
        ("section", pa.string()),
        ("priority", pa.string()),
        ("size_kb", pa.int64()),
        ("summary", pa.string()),
    ]
)
DEPENDS = pa.schema(
    [
        ("id", pa.string()),
        ("from", pa.string()),
        ("to", pa.string()),
        ("kind", pa.string()),
        ("range", pa.string()),
        ("alternative", pa.bool_()),
    ]
)


def _package(stanza: Stanza) -> dict[str, object]:
    size = stanza.get("Installed-Size")
    return {
        "name": stanza["Package"],
        "version": stanza["Version"],
        "section": stanza.get("Section"),
        "priority": stanza.get("Priority"),
        "size_kb": None if size is None else int(size),
        "summary": stanza.get("Description"),
    }


def _list_dependencies(stanza: Stanza) -> Iterator[dict[str, object]]:
    """One row for each package that is named, by the strongest field that names it."""
    source, seen = stanza["Package"], set()
    for field, kind in KINDS.items():
        for group in stanza.get(field, "").split(","):
            choices = [found for part in group.split("|") if (found := _NAME.match(part.strip()))]
            for choice in choices:
                if choice[1] != source and choice[1] not in seen:
                    seen.add(choice[1])
                    yield {
                        "id": f"{source} > {choice[1]}",
                        "from": source,
                        "to": choice[1],
                        "kind": kind,
                        "range": choice[2],
                        "alternative": len(choices) > 1,
                    }


# ---- reading


def read_suites() -> list[Suite]:
    """Read every suite that the apt of this machine has fetched, the one with most packages first."""
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE)\t$(FILENAME)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, Stanza]] = {}
    for line in listing.stdout.splitlines():
        name, _, path = line.partition("\t")
        stanzas = found.setdefault(name, {})
        text = subprocess.run(
            [HELPER, "cat-file", path], capture_output=True, text=True, check=True
        )
        for stanza in parse_stanzas(text.stdout):
            # An index may hold several versions of a package, the newest first.
            stanzas.setdefault(stanza["Package"], stanza)
    suites = [Suite(name, stanzas) for name, stanzas in found.items() if stanzas]
    return sorted(suites, key=lambda suite: -len(suite.stanzas))


def parse_stanzas(text: str) -> Iterator[dict[str, str]]:
    """Parse the stanzas of an index; only the first line of a field is of interest."""
    for part in text.split("\n\n"):
        fields = (line.split(": ", 1) for line in part.splitlines() if line[:1].strip())
        stanza = {pair[0]: pair[1] for pair in fields if len(pair) == 2}
        if "Package" in stanza:
            yield stanza


def choose_sample(suites: Sequence[Suite], count: int) -> frozenset[str]:
    """Choose packages that later suites renew, then what they depend on, until there are enough."""
    base, later = suites[0], suites[1:]
    waiting = deque(
        sorted({name for suite in later for name in suite.stanzas if name in base.stanzas})
    )
    chosen: dict[str, None] = {}
    while waiting and len(chosen) < count:
        name = waiting.popleft()
        if name in base.stanzas and name not in chosen:
            chosen[name] = None
            waiting.extend(str(row["to"]) for row in _list_dependencies(base.stanzas[name]))
    return frozenset(chosen)


# ---- writing


def write_suites(
    folder: Path, suites: Sequence[Suite], sample: frozenset[str] | None = None
) -> None:
    """Write two files for each suite; dependencies lead to packages of the first suite or of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        stanzas = {n: s for n, s in suite.stanzas.items() if sample is None or n in sample}
        kept = Suite(suite.name, stanzas)
        known = {*(suites[0].stanzas if sample is None else sample), *stanzas}
        for what, table in (
            ("packages", kept.packages),
            ("depends", kept.list_dependencies(known)),
        ):
            pq.write_table(table, folder / f"{suite.name}-{what}.parquet", compression="zstd")


def main() -> None:
    """Collect the suites of this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, metavar="PACKAGES")
    given = parser.parse_args()
    suites = read_suites()
    sample = None if given.sample is None else choose_sample(suites, given.sample)
    write_suites(given.folder, suites, sample)
    print(f"{', '.join(suite.name for suite in suites)} in {given.folder}")


if __name__ == "__main__":
    main()
