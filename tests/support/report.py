"""Sizes of the package, for reading: the largest files and the longest functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
SHOWN = 12


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """Every function of a file with its length in lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            yield (
                (node.end_lineno or node.lineno) - node.lineno + 1,
                f"{path}:{node.lineno} {node.name}",
            )


def main() -> None:
    files = sorted(SOURCES.rglob("*.py"))
    lines = sorted(((p.read_text().count("\n"), str(p)) for p in files), reverse=True)
    found = sorted((one for p in files for one in functions(p)), reverse=True)
    lengths = sorted(length for length, _ in found)
    print(f"{len(files)} files, {sum(n for n, _ in lines)} lines, {len(found)} functions")
    print(
        f"functions: median {lengths[len(lengths) // 2]}, p95 {lengths[int(len(lengths) * 0.95)]}"
    )
    for title, rows in (("largest files", lines), ("longest functions", found)):
        print(f"\n{title}")
        print("\n".join(f"{n:5d} {name}" for n, name in rows[:SHOWN]))


if __name__ == "__main__":
    main()
