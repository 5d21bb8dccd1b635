"""What every part of the checker knows about the query at hand: variables in scope, parameters, findings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from omnigraph.catalog.model import Catalog
from omnigraph.compile.checked import Parameter, Variable, VariableKind
from omnigraph.language.diagnostics import Findings
from omnigraph.language.query import tree
from omnigraph.values import dataclass

ANONYMOUS = "_"


@dataclass(frozen=True, slots=True)
class Bound:
    """A variable in scope; None when its declaration was wrong and has been reported already."""

    variable: Variable | None
    nullable: bool = False


@dataclass(slots=True)
class Scope:
    """The names of one block, over those of the blocks around it."""

    parent: "Scope | None" = None
    names: dict[str, Bound] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    uses_outer: bool = False

    def find(self, name: str) -> Bound | None:
        """Look a name up here, then outside; a name found outside is remembered as used."""
        if name in self.names:
            return self.names[name]
        found = self.parent.find(name) if self.parent and name != ANONYMOUS else None
        if found is not None:
            self.uses_outer = True
            if found.variable is not None:
                self.outer.add(found.variable.name)
        return found

    def is_edge(self, name: str) -> bool:
        """Whether the name stands for an edge here."""
        found = self.find(name)
        return (
            found is not None
            and found.variable is not None
            and found.variable.kind is VariableKind.EDGE
        )

    def holds(self, name: str) -> bool:
        """Whether the name belongs to this block itself."""
        return name in self.names

    def visible(self) -> Iterator[str]:
        """Every name a clause here may use."""
        yield from self.names
        if self.parent is not None:
            yield from self.parent.visible()


@dataclass(slots=True)
class Namer:
    """Gives every variable of a query a name of its own."""

    introduced: Counter[str]
    last: Counter[str] = field(default_factory=Counter)

    def anonymous(self) -> str:
        """Make up a name for `$_`."""
        return self._fresh("")

    def local(self, name: str, inside: Counter[str]) -> str:
        """Name a variable of a `not` block: its own name, unless another block uses that too."""
        return name if self.introduced[name] == inside[name] else self._fresh(name)

    def _fresh(self, base: str) -> str:
        while True:
            self.last[base] += 1
            name = f"{base}_{self.last[base]}"
            if name not in self.introduced:
                return name


def list_introductions(clauses: Iterable[tree.Clause]) -> Counter[str]:
    """Count how often each name stands where a variable may be introduced, nested blocks included."""
    found: Counter[str] = Counter()
    for clause in clauses:
        match clause:
            case tree.Binding():
                found[clause.variable.text] += 1
            case tree.Traversal():
                names = (clause.left, clause.right, clause.edge_variable)
                found.update(name.text for name in names if name is not None)
            case tree.Negation() | tree.Optional():
                found += list_introductions(clause.clauses)
            case tree.Filter():
                pass
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of one check: schema, parameters, findings, names, and the dialect."""

    catalog: Catalog
    params: Mapping[str, Parameter]
    findings: Findings
    namer: Namer
    variables: dict[str, Variable]
    extended: bool = False
