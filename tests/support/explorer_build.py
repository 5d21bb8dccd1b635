"""After a build: record what it was made from, and list the licences of what is in it."""

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
UI = ROOT / "ui"
BUILT = ROOT / "src" / "omnigraphdb" / "surfaces" / "ui" / "dist"
LEFT_OUT = frozenset({"node_modules", "LICENCES.md"})


def digest_sources() -> str:
    """The digest of every source of the page, by path."""
    found = hashlib.sha256()
    for path in sorted(UI.rglob("*")):
        inner = path.relative_to(UI)
        if path.is_file() and not LEFT_OUT & set(inner.parts):
            found.update(f"{inner.as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()


def list_licences() -> str:
    """The packages in the page and their licences."""
    lock = json.loads((UI / "package-lock.json").read_text())
    lines = ["# Packages in the page, and their licences", ""]
    for place, facts in sorted(lock["packages"].items()):
        if place and not facts.get("dev") and not facts.get("optional"):
            name = place.rpartition("node_modules/")[2]
            lines.append(f"* {name} {facts['version']}: {facts.get('license', 'unknown')}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (UI / "LICENCES.md").write_text(list_licences())
    (BUILT / "sources.txt").write_text(digest_sources() + "\n")
