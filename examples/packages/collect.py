"""Makes the data files of this example: reads the metadata of a folder of wheels and keeps what the graph needs.

pip download --no-deps --only-binary :all: --dest older flask==2.2.5 werkzeug==2.2.3 …
pip download --no-deps --only-binary :all: --dest newer flask werkzeug …
python examples/packages/collect.py older examples/packages/data/older.jsonl
python examples/packages/collect.py newer examples/packages/data/newer.jsonl
"""

import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?(?P<range>[^;()]*)\)?\s*(?:;(?P<when>.*))?"
)
EXTRA = re.compile(
    r"""\s*(?:and\s+)?\(?\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]\s*\)?(?:\s+and)?"""
)
SUMMARY_MAX = 120


def main() -> None:
    """Read a folder of wheels, write a file of records."""
    folder, out = map(Path, sys.argv[1:3])
    described = {_plain(one["Name"]): one for one in map(metadata, sorted(folder.glob("*.whl")))}
    records = [package(described[name]) for name in sorted(described)]
    for name in sorted(described):
        records += requirements(name, described[name], set(described))
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{out}: {len(described)} packages, {len(records) - len(described)} requirements")


def metadata(wheel: Path) -> Message:
    """The METADATA file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n)]
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def package(found: Message) -> dict[str, Any]:
    """One node."""
    topics = [c for c in found.get_all("Classifier", []) if c.startswith("Topic :: ")]
    return {
        "type": "Package",
        "data": {
            "name": _plain(found["Name"]),
            "version": found["Version"],
            "summary": (found["Summary"] or "")[:SUMMARY_MAX] or None,
            "license": license_of(found),
            "requires_python": found["Requires-Python"],
            "topics": sorted(topic.removeprefix("Topic :: ") for topic in topics),
        },
    }


def license_of(found: Message) -> str | None:
    """What a package says of its license: an expression, a short text, or a classifier."""
    short = found["License-Expression"] or found["License"]
    if short and len(short) <= SUMMARY_MAX and "\n" not in short:
        return str(short)
    said = [c for c in found.get_all("Classifier", []) if c.startswith("License :: ")]
    return said[0].rpartition(" :: ")[2] if said else None


def requirements(name: str, found: Message, known: set[str]) -> Iterator[dict[str, Any]]:
    """The edges of a package to others of the same folder."""
    seen: Counter[str] = Counter()
    for text in found.get_all("Requires-Dist", []):
        parts = REQUIREMENT.fullmatch(text.strip())
        if parts is None or _plain(parts["name"]) not in known:
            continue
        target, when = _plain(parts["name"]), parts["when"] or ""
        extra = EXTRA.search(when)
        end = f"{name}[{extra['extra']}]" if extra else name
        seen[f"{end} -> {target}"] += 1
        number = seen[f"{end} -> {target}"]
        yield {
            "edge": "Requires",
            "from": name,
            "to": target,
            "data": {
                "id": f"{end} -> {target}" + (f" ({number})" if number > 1 else ""),
                "range": parts["range"].strip() or None,
                "extra": extra["extra"] if extra else None,
                "when": EXTRA.sub("", when).strip() or None,
            },
        }


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
