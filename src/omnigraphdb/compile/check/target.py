"""The target of a statement: the type that it writes, and the names of that type that it may use."""

from collections.abc import Mapping

from omnigraphdb.catalog.model import EdgeType, NodeType, Property, TableType
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.check.context import Context
from omnigraphdb.compile.checked import VariableKind
from omnigraphdb.language.diagnostics import list_alternatives, nearest_name
from omnigraphdb.language.query import tree
from omnigraphdb.values import dataclass

ENDS: Mapping[str, str] = {"from": "src", "to": "dst"}
"""The words for the ends of an edge, and the columns that hold the ends."""

ID = PropertyType(scalar=Scalar.STRING)


@dataclass(frozen=True, slots=True)
class Target:
    """The type a statement writes."""

    table: TableType

    @property
    def name(self) -> str:
        """Its declared name."""
        return self.table.name

    @property
    def kind(self) -> VariableKind:
        """Node or edge."""
        return VariableKind.EDGE if isinstance(self.table, EdgeType) else VariableKind.NODE

    @property
    def properties(self) -> Mapping[str, Property]:
        """Its declared properties."""
        return self.table.properties

    @property
    def key(self) -> tuple[str, ...]:
        """The properties of its key; none for an edge."""
        return self.table.key_columns if isinstance(self.table, NodeType) else ()

    def type_of(self, name: str) -> PropertyType | None:
        """Return the type of a name that a statement may use: a property, or an end of an edge."""
        if name in ENDS and self.kind is VariableKind.EDGE:
            return ID
        declared = self.properties.get(name)
        return declared.type if declared else None

    def column_of(self, name: str) -> str:
        """Return the physical column behind a name."""
        return ENDS.get(name, name) if self.kind is VariableKind.EDGE else name

    def words(self) -> list[str]:
        """List every name that a statement may use."""
        ends = list(ENDS) if self.kind is VariableKind.EDGE else []
        return [*ends, *self.properties]


def find_target(name: tree.Name, context: Context) -> Target | None:
    """Find the type by its exact name; a node type wins over an edge type of that name."""
    catalog = context.catalog
    table = catalog.nodes.get(name.text) or catalog.edges.get(name.text)
    if table is not None:
        return Target(table)
    names = [*catalog.nodes, *catalog.edges]
    if name.text in catalog.interfaces:
        reason = "is an interface and has no entities; name a node type that implements it"
    else:
        reason = f"is not a type of this graph{list_alternatives(name.text, names, 'types')}"
    context.findings.report(
        "T10",
        name.span,
        f"'{name.text}' {reason}",
        fix=nearest_name(name.text, names),
        type_name=name.text,
    )
    return None


def find_type(name: tree.Name, target: Target, context: Context) -> PropertyType | None:
    """Return the type behind a name of the statement; an unknown name is reported."""
    type_ = target.type_of(name.text)
    if type_ is None:
        reason = list_alternatives(name.text, target.words(), "it has")
        fix = nearest_name(name.text, target.words())
        if name.text == "id":
            reason, fix = "; the id of an entity is not a property, it follows from the key", None
        if target.kind is VariableKind.EDGE and name.text in ENDS.values():
            written = next(word for word, column in ENDS.items() if column == name.text)
            reason, fix = f"; this end of an edge is written '{written}'", written
        context.findings.report(
            "T11",
            name.span,
            f"{target.kind} type '{target.name}' has no property '{name.text}'{reason}",
            fix=fix,
            type_name=target.name,
            property_name=name.text,
        )
    return type_
