"""The state of the checker for one query: variables in scope, parameters and findings."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.compile.checked import (
    Bind,
    BlockValue,
    Condition,
    Field,
    Hop,
    ItemExpr,
    Operand,
    Parameter,
    Pattern,
    Variable,
    VariableKind,
)
from omnigraphdb.language.diagnostics import Findings
from omnigraphdb.language.query import tree
from omnigraphdb.values import dataclass

ANONYMOUS = "_"


@dataclass(frozen=True, slots=True)
class Bound:
    """A variable in scope; None when its declaration was wrong and has been reported already.

    `walked` stands for the edges of a path.
    """

    variable: Variable | None
    nullable: bool = False
    walked: Variable | None = None


@dataclass(slots=True)
class Scope:
    """The names of one block, over those of the blocks around it."""

    parent: "Scope | None" = None
    names: dict[str, Bound] = field(default_factory=dict)
    aliases: "dict[str, ItemExpr | None] | None" = None
    """The items of a result so far, None for an item with an error; no dictionary outside of results."""
    outer: set[str] = field(default_factory=set)
    scalars: "dict[str, Field] | None" = None
    """The values that a stage before leaves by name; None unless this is the scope that a stage left."""
    blocks: "list[BlockValue]" = field(default_factory=list)
    """The values of nested blocks that the expressions of this block use."""
    uses_outer: bool = False

    def find(self, name: str) -> Bound | None:
        """Look a name up here, then in the outer scopes; a name of an outer scope is recorded as used."""
        if name in self.names:
            return self.names[name]
        bound = self.parent.find(name) if self.parent and name != ANONYMOUS else None
        if bound is not None:
            self.uses_outer = True
            if bound.variable is not None:
                self.outer.add(bound.variable.name)
        return bound

    def find_scalar(self, name: str) -> "Field | None":
        """Look up a value that the stage before left; blocks inside do not see it."""
        left = self.parent.scalars if self.parent is not None else None
        return None if left is None else left.get(name)

    def is_edge(self, name: str) -> bool:
        """Whether the name stands for an edge here."""
        bound = self.find(name)
        return (
            bound is not None
            and bound.variable is not None
            and bound.variable.kind is VariableKind.EDGE
        )

    def find_path(self, name: str) -> Bound | None:
        """Look up a name that stands for a path here."""
        bound = self.find(name)
        return None if bound is None or bound.walked is None else bound

    def holds(self, name: str) -> bool:
        """Whether the name belongs to this block itself."""
        return name in self.names

    def visible(self) -> Iterator[str]:
        """List every name that a clause here may use."""
        yield from self.names
        if self.parent is not None:
            yield from self.parent.visible()


@dataclass(slots=True)
class Namer:
    """The names of the variables of a query; every variable gets a name of its own."""

    introduced: Counter[str]
    last: Counter[str] = field(default_factory=Counter)

    def block(self) -> str:
        """Make up a name for the value of a block; `#` keeps it apart from every column."""
        self.last["#"] += 1
        return f"#block{self.last['#']}"

    def anonymous(self) -> str:
        """Make up a name for `$_`."""
        return self.fresh("")

    def local(self, name: str, inside: Counter[str]) -> str:
        """Name a variable of a `not` block: its own name, unless another block uses that too."""
        return name if self.introduced[name] == inside[name] else self.fresh(name)

    def fresh(self, base: str) -> str:
        """Make up a name from another."""
        while True:
            self.last[base] += 1
            name = f"{base}_{self.last[base]}"
            if name not in self.introduced:
                return name


def list_introductions(clauses: Iterable[tree.Clause]) -> Iterator[str]:
    """List every name that stands where a variable may be introduced, nested blocks included."""
    for clause in clauses:
        match clause:
            case tree.Binding():
                yield clause.variable.text
            case tree.Traversal():
                yield clause.left.text
                yield clause.right.text
                if clause.edge_variable is not None:
                    yield clause.edge_variable.text
            case tree.Negation() | tree.Optional():
                yield from list_introductions(clause.clauses)
            case tree.Filter():
                yield from list_block_introductions((clause.condition,))


def list_block_introductions(exprs: Iterable[tree.Expr]) -> Iterator[str]:
    """List the names that the blocks inside expressions introduce."""
    for expr in exprs:
        if isinstance(expr, tree.BlockExpr):
            yield from list_introductions(expr.clauses)
        if parts := tree.list_parts(expr):
            yield from list_block_introductions(parts)


def aggregates_rows(expr: tree.Expr, scope: Scope) -> bool:
    """Whether an expression aggregates rows anywhere inside; an aggregate over the edges of a path is a value of its row."""
    if isinstance(expr, tree.AggregateExpr) and not find_aggregated_paths(expr, scope):
        return True
    parts = tree.list_parts(expr)
    return bool(parts) and any(aggregates_rows(part, scope) for part in parts)


def find_aggregated_paths(expr: tree.AggregateExpr, scope: Scope) -> dict[str, Bound]:
    """Return the paths whose edges an aggregate is about, by name."""
    leaves = tree.list_leaves(expr.argument)
    names = {leaf.variable for leaf in leaves if isinstance(leaf, tree.PropertyExpr)}
    paths = {name: scope.find_path(name) for name in sorted(names)}
    return {name: bound for name, bound in paths.items() if bound is not None}


CheckBlock = Callable[[tree.BlockExpr, "Scope", "Context"], Operand | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of one check: schema, parameters, findings, names, and the dialect."""

    catalog: Catalog
    params: Mapping[str, Parameter]
    findings: Findings
    namer: Namer
    variables: dict[str, Variable]
    check_block: CheckBlock
    """Checks a block inside an expression: patterns hold expressions, and expressions hold patterns."""
    open_forms: set[str] = field(default_factory=set)
    """The forms of the query that stand for all types or properties, as written: `$v.*`, `--`, an interface."""


# ---- blocks
# One block of a pattern while it is being checked, and how it gains variables.


@dataclass(slots=True)
class Block:
    """The parts of a block that are checked so far.

    `inside` counts the names of the nearest `not` block around, None when there is none; `optional`
    tells that the variables introduced here may be missing.
    """

    scope: Scope = field(default_factory=Scope)
    inside: Counter[str] | None = None
    optional: bool = False
    variables: list[Variable] = field(default_factory=list)
    binds: dict[str, Bind] = field(default_factory=dict)
    hops: list[Hop] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    negations: list[Pattern] = field(default_factory=list)
    existences: list[Pattern] = field(default_factory=list)
    optionals: list[Pattern] = field(default_factory=list)
    walked: list[Variable] = field(default_factory=list)

    def nested(self, *, inside: Counter[str] | None, optional: bool) -> "Block":
        """Open a block inside this one."""
        return Block(scope=Scope(parent=self.scope), inside=inside, optional=optional)

    def pattern(self) -> Pattern:
        """Return the block as a pattern."""
        return Pattern(
            variables=tuple(self.variables),
            outer=frozenset(self.scope.outer),
            binds=(*self.binds.values(), *self._implicit_binds()),
            hops=tuple(self.hops),
            conditions=tuple(self.conditions),
            negations=tuple(self.negations),
            existences=tuple(self.existences),
            blocks=tuple(self.scope.blocks),
            optionals=tuple(self.optionals),
            walked=tuple(self.walked),
        )

    def _implicit_binds(self) -> list[Bind]:
        """Scan the source of every group of hops that nothing else ties down."""
        own = {variable.name: variable.type_name for variable in self.variables}
        groups = _Groups()
        for hop in self.hops:
            groups.join(hop.left, hop.right)
        tied = {groups.of(n) for n in groups.names if n in self.binds or n not in own}
        binds = []
        for hop in self.hops:
            group = groups.of(hop.left)
            if group not in tied:
                tied.add(group)
                binds.append(Bind(variable=hop.left, type_name=own[hop.left]))
        return binds


@dataclass(slots=True)
class _Groups:
    """Names that hops connect, each group known by one of its members."""

    names: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """Return the member that stands for the group of a name."""
        self.names.setdefault(name, name)
        while (above := self.names[name]) != name:
            self.names[name] = name = self.names[above]
        return name

    def join(self, left: str, right: str) -> None:
        """Make one group of two."""
        self.names[self.of(left)] = self.of(right)


def introduce(
    block: Block, name: tree.Name, kind: VariableKind, type_name: str, context: Context
) -> Variable:
    """Add a variable to the block; `$_` gets a name that no query can write."""
    anonymous = name.text == ANONYMOUS
    variable = Variable(
        name=_unique(block, name.text, context),
        kind=kind,
        type_name=type_name,
        anonymous=anonymous,
        nullable=block.optional,
    )
    if not anonymous:
        refuse_parameter(name, context)
        block.scope.names[name.text] = Bound(variable)
    block.variables.append(variable)
    context.variables[variable.name] = variable
    return variable


def _unique(block: Block, name: str, context: Context) -> str:
    if name == ANONYMOUS:
        return context.namer.anonymous()
    if block.inside is not None:
        return context.namer.local(name, block.inside)
    # A variable that a stage dropped is another one when it comes again.
    return context.namer.fresh(name) if name in context.variables else name


def introduce_walked(block: Block, edge_type: str, context: Context) -> Variable:
    """Add a variable for the edges of a walk, which stands for each of them in turn."""
    name = context.namer.anonymous()
    variable = Variable(
        name=name,
        kind=VariableKind.EDGE,
        type_name=edge_type,
        anonymous=True,
        nullable=block.optional,
    )
    block.walked.append(variable)
    context.variables[name] = variable
    return variable


def refuse_parameter(name: tree.Name, context: Context) -> None:
    """Report a variable that is called like a parameter."""
    if name.text in context.params:
        context.findings.report(
            "T32",
            name.span,
            f"'${name.text}' is a parameter of this query and cannot be a variable of its pattern too",
            label="rename one of the two",
        )


def poison(block: Block, name: tree.Name | None) -> None:
    """Remember that a name was meant to be bound here, so that its uses are not errors of their own."""
    if name is not None and name.text != ANONYMOUS and block.scope.find(name.text) is None:
        block.scope.names[name.text] = Bound(None)
