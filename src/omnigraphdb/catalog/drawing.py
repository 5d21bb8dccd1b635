"""Schemas as people look at them: a table of properties for each type, or a Mermaid diagram."""

from collections.abc import Iterator, Sequence

from omnigraphdb.display import Grid, Report, count_of, quote_mermaid
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A type with its properties: name, type and rules of each; `ends` names the node types of an edge."""

    name: str
    properties: Sequence[tuple[str, str, str]]
    ends: tuple[str, str] | None = None
    note: str = ""
    """The promise of the type: interfaces of a node, cardinality of an edge."""

    @property
    def heading(self) -> str:
        """`node Person`, `edge Knows: Person → Person`."""
        kind = "node" if self.ends is None else "edge"
        ends = "" if self.ends is None else f": {self.ends[0]} → {self.ends[1]}"
        return f"{kind} {self.name}{ends}" + (f"  {self.note}" if self.note else "")


def make_sheet(shapes: Sequence[Shape]) -> Report:
    """Show the properties of every type."""
    edges = sum(shape.ends is not None for shape in shapes)
    types = f"{count_of(len(shapes) - edges, 'node type')}, {count_of(edges, 'edge type')}"
    return Report(title=f"Schema: {types}", grids=tuple(map(_make_grid, shapes)))


def _make_grid(shape: Shape) -> Grid:
    rows = shape.properties
    columns = ("property", "type", "rules") if rows else ()
    return Grid(columns=columns, rows=rows, caption=shape.heading, rows_max=len(rows))


def draw_mermaid(shapes: Sequence[Shape]) -> str:
    """Draw a class diagram: a box for each node type, an arrow for each edge type."""
    return "\n".join(_mermaid_lines(shapes))


def _mermaid_lines(shapes: Sequence[Shape]) -> Iterator[str]:
    yield "classDiagram"
    # A diagram has one space of names, and a name of a type may be a word of the diagram's language.
    boxes = {shape.name: f"n{at}" for at, shape in enumerate(shapes) if shape.ends is None}
    for shape in shapes:
        if shape.ends is None:
            box = boxes[shape.name]
            yield f"  class {box}[{quote_mermaid(shape.name)}]"
            yield from (f"  {box} : {_member(*property_)}" for property_ in shape.properties)
    for shape in shapes:
        if shape.ends is not None:
            label = ", ".join(
                [shape.name, *(_member(*property_) for property_ in shape.properties)]
            )
            source, target = (boxes[end] for end in shape.ends)
            yield f"  {source} --> {target} : {label}"


def _member(name: str, type_: str, rules: str) -> str:
    """Word an attribute of a class diagram, `+name String key`; brackets would make it a method."""
    plain = f"{name} {type_}{' ' + rules if rules else ''}"
    return plain.translate(_ATTRIBUTE)


_ATTRIBUTE = str.maketrans(
    {"(": "‹", ")": "›", "{": "‹", "}": "›", ":": "∶", ";": ",", "#": "♯", "~": "∼"}
)
