"""What the package is made of, for reading: sizes, import knots and the walk of a write."""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.support.walks import WALKS, run_walk

SOURCES = Path(__file__).parents[2] / "src"
SHOWN = 12

Modules = Mapping[str, Path]
Imports = Mapping[str, set[str]]


# ---- reading the sources


def find_modules() -> Modules:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def find_imports(modules: Modules) -> Imports:
    """The modules of the package that a module imports anywhere in its text: at the top, in functions, by name."""
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        named = set(_named(ast.parse(path.read_text()), modules))
        found[name] = named - {name}
    return found


def _named(tree: ast.Module, modules: Modules) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(source), names=names):
                for one in names:
                    whole = f"{source}.{one.name}"
                    if whole in modules or source in modules:
                        yield whole if whole in modules else source
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name in modules)
            case ast.Constant(value=str(text)) if text in modules and "." in text:
                yield text


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """Every function of a file with its length in lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            yield length, f"{path.relative_to(SOURCES)}:{node.lineno} {node.name}"


# ---- what follows from them


def find_importers(imports: Imports) -> Imports:
    """The modules that import each module; a package that only repeats names of its own modules does not count."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, used in imports.items():
        for one in used:
            if not one.startswith(f"{name}."):
                found[one].add(name)
    return found


def find_circles(imports: Imports) -> list[list[str]]:
    """Groups of modules that import one another, by Tarjan's algorithm; packages count as their own text."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        stack.append(name)
        for other in imports.get(name, ()):
            if other not in numbers:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], numbers[other])
        if lowest[name] == numbers[name]:
            at = stack.index(name)
            circles.append(stack[at:])
            del stack[at:]

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    for name in imports:
        if name not in numbers:
            visit(name)
    sys.setrecursionlimit(limit)
    return [circle for circle in circles if len(circle) > 1]


def find_shared_names(modules: Modules) -> dict[str, list[str]]:
    """File names that several modules of one layer have."""
    by_layer: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in modules:
        parts = name.split(".")
        if len(parts) > 2 and modules[name].name != "__init__.py":
            by_layer[parts[1], parts[-1]].append(name)
    return {
        f"{layer}: {file}": names for (layer, file), names in by_layer.items() if len(names) > 1
    }


# ---- the report


def main() -> None:
    """Print it."""
    modules = find_modules()
    imports = find_imports(modules)
    _print_sizes(modules)
    _print_knots(modules, imports)
    _print_walks()


def _print_sizes(modules: Modules) -> None:
    lines = {name: path.read_text().count("\n") for name, path in modules.items()}
    found = sorted((one for path in modules.values() for one in functions(path)), reverse=True)
    lengths = sorted(length for length, _ in found)
    print(f"{len(modules)} modules, {sum(lines.values())} lines, {len(found)} functions")
    print(
        f"lines per module: mean {sum(lines.values()) / len(lines):.0f}, median {median(lines.values()):.0f}"
    )
    print(
        f"lines per function: median {median(lengths):.0f}, p95 {lengths[int(len(lengths) * 0.95)]}"
    )
    layers = Counter[str]()
    count = Counter[str]()
    for name, size in lines.items():
        layer = name.split(".")[1] if "." in name else name
        layers[layer] += size
        count[layer] += 1
    _print_rows(
        "layers: lines (modules)",
        ((n, f"{name} ({count[name]})") for name, n in layers.most_common()),
    )
    _print_rows(
        "largest modules", sorted(((n, name) for name, n in lines.items()), reverse=True)[:SHOWN]
    )
    _print_rows("longest functions", found[:SHOWN])


def _print_knots(modules: Modules, imports: Imports) -> None:
    importers = find_importers(imports)
    single = sorted(name for name in modules if len(importers.get(name, ())) == 1)
    print(f"\n{len(single)} modules with one importer")
    print("\n".join(f"      {name} <- {next(iter(importers[name]))}" for name in single))
    fan_in = sorted(((len(found), name) for name, found in importers.items()), reverse=True)
    fan_out = sorted(((len(found), name) for name, found in imports.items()), reverse=True)
    _print_rows("most imported", fan_in[:SHOWN])
    _print_rows("most importing", fan_out[:SHOWN])
    circles = find_circles(imports)
    print(f"\n{len(circles)} import circles, imports inside functions included")
    print("\n".join("      " + " ".join(circle) for circle in circles))
    shared = find_shared_names(modules)
    print(f"{len(shared)} file names that several modules of one layer have")
    print("\n".join(f"      {name}: {', '.join(found)}" for name, found in sorted(shared.items())))


def _print_walks() -> None:
    print("\nwalks: functions and files entered, storage left out; with storage")
    for name in WALKS:
        trace = run_walk(name)
        outside, whole = trace.functions(storage=False), trace.functions()
        print(
            f"{name:>10}: {len(outside):4d} functions in {len({path for path, _ in outside}):3d} files;"
            f" {len(whole):4d} in {len({path for path, _ in whole}):3d}"
        )


def _print_rows(title: str, rows: Iterator[tuple[int, str]] | list[tuple[int, str]]) -> None:
    print(f"\n{title}")
    print("\n".join(f"{n:5d} {name}" for n, name in rows))


if __name__ == "__main__":
    main()
