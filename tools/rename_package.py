"""Rename the package `omnigraph` to `omnigraphdb` in a tree of sources; run twice, it changes nothing.

`python tools/rename_package.py [ROOT]` moves `src/omnigraph` and rewrites every text file. A branch that began before the
rename runs it first and is rebased then. Words that are stored or sent keep their spelling: keys and actors `omnigraph:…`,
headers `Omnigraph-…`, metrics `omnigraph_…`, resources `omnigraph://`, `format("omnigraph")`, variables `OMNIGRAPH_…`,
`omnigraph.yaml`. The product stays OmniGraph.
"""

import re
import sys
from pathlib import Path
from typing import Final

OLD: Final = "omnigraph"
NEW: Final = "omnigraphdb"

KEPT_PATHS: Final = re.compile(
    r"(^|/)(\.git|\.venv|node_modules|fixtures|ui/dist|images|quint)/"
    r"|tools/rename_package\.py$|(^|/)package(-lock)?\.json$|requirements\.lock$|tests/unit/test_package_name\.py$"
)
"""Files that no rename may touch: graphs of earlier releases, built and foreign files, and this script."""

KEPT: Final = re.compile(
    r"""format\(\s*["']omnigraph["']"""  # Spark's name of the source
    r"""|USING\ omnigraph"""
    r"""|omnigraph://"""
    r"""|omnigraph:(?=[a-z_"'`*{…\\<]|$)"""  # stored keys and actors
    r"""|omnigraph-(?!server\b)"""  # headers, files of changes, threads
    r"""|omnigraph\.yaml"""
    r"""|_FACTS\ =\ b"omnigraph"|metadata\(\{"omnigraph\""""  # metadata of Arrow answers
    r"""|NAME:\ Final\ =\ "omnigraph"|(?:ADVICE|MOMENTS\)|parse_location\(options),\ "omnigraph\""""  # Spark
    r"""|(?<=return\ Server\(\n\ \ \ \ \ \ \ \ )"omnigraph\""""  # the name that agents see
    r"""|(?<=class=\\")omnigraph|(?<=class=")omnigraph|(?<![~/"'`])\.omnigraph(?=[\ .,{:>])""",  # CSS
    re.VERBOSE,
)
WORD: Final = re.compile(r"(?<![A-Za-z0-9_])omnigraph(?![A-Za-z0-9_])|_OMNIGRAPH_COMPLETE")


def rename_text(text: str) -> str:
    """Rename the package in a text, but for the words that are stored or sent."""
    parts = []
    end = 0
    for match in KEPT.finditer(text):
        parts += [_rename_words(text[end : match.start()]), match.group()]
        end = match.end()
    return "".join([*parts, _rename_words(text[end:])])


def _rename_words(text: str) -> str:
    return WORD.sub(
        lambda word: word.group().replace(OLD, NEW).replace("OMNIGRAPH", "OMNIGRAPHDB"), text
    )


def rename_tree(root: Path) -> int:
    """Rename the package below a folder; give the number of files that changed."""
    package = root / "src" / OLD
    if package.is_dir():
        package.rename(root / "src" / NEW)
    changed = 0
    for path in sorted(root.rglob("*")):
        if (
            not path.is_file()
            or path.is_symlink()
            or KEPT_PATHS.search(path.relative_to(root).as_posix())
        ):
            continue
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        renamed = rename_text(text)
        if renamed != text:
            path.write_bytes(renamed.encode())
            changed += 1
    return changed


if __name__ == "__main__":
    top = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    sys.stdout.write(f"{rename_tree(top)} files changed\n")
