"""One block of a pattern while it is being checked, and how it gains variables."""

from collections import Counter
from dataclasses import field

from omnigraph.compile.check.context import ANONYMOUS, Bound, Context, Scope
from omnigraph.compile.checked import (
    Bind,
    Condition,
    Hop,
    Pattern,
    Variable,
    VariableKind,
)
from omnigraph.language.query import tree
from omnigraph.values import dataclass


@dataclass(slots=True)
class Block:
    """What has been understood of a block so far.

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
    optionals: list[Pattern] = field(default_factory=list)

    def nested(self, *, inside: Counter[str] | None, optional: bool) -> "Block":
        """Open a block inside this one."""
        return Block(scope=Scope(parent=self.scope), inside=inside, optional=optional)

    def pattern(self) -> Pattern:
        """What the block came to."""
        return Pattern(
            variables=tuple(self.variables),
            outer=frozenset(self.scope.outer),
            binds=(*self.binds.values(), *self._implicit_binds()),
            hops=tuple(self.hops),
            conditions=tuple(self.conditions),
            negations=tuple(self.negations),
            optionals=tuple(self.optionals),
        )

    def _implicit_binds(self) -> list[Bind]:
        """Scan the source of every group of hops that nothing else ties down."""
        own = {variable.name: variable.type_name for variable in self.variables}
        groups = _Groups()
        for hop in self.hops:
            groups.join(hop.left, hop.right)
        tied = {groups.of(n) for n in groups.names if n in self.binds or n not in own}
        found = []
        for hop in self.hops:
            group = groups.of(hop.left)
            if group not in tied:
                tied.add(group)
                found.append(Bind(variable=hop.left, type_name=own[hop.left]))
        return found


@dataclass(slots=True)
class _Groups:
    """Names that hops connect, each group known by one of its members."""

    names: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """The member that stands for the group of a name."""
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
    return name if block.inside is None else context.namer.local(name, block.inside)


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
