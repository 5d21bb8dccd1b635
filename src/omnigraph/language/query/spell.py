"""Expressions, conditions and simple clauses as canonical text on one line."""

from collections.abc import Sequence
from decimal import Decimal

from omnigraph.language.query.tree import (
    AggregateExpr,
    AliasExpr,
    AllOf,
    Among,
    AnyOf,
    Binding,
    Bm25Expr,
    Compare,
    Condition,
    Expr,
    IsNull,
    Item,
    LiteralExpr,
    NearestExpr,
    Not,
    NowExpr,
    OrderKey,
    Param,
    ParamType,
    Predicate,
    PropertyExpr,
    PropertyMatch,
    RrfExpr,
    TextExpr,
    Traversal,
    VariableExpr,
)
from omnigraph.values import dataclass

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def quote(text: str) -> str:
    """A string literal."""
    return f'"{text.translate(_ESCAPED)}"'


def param(one: Param) -> str:
    """`$name: Type?`."""
    return f"${one.name.text}: {_param_type(one.type)}"


def _param_type(type_: ParamType) -> str:
    mark = "?" if type_.nullable else ""
    if type_.dimension is not None:
        return f"Vector({type_.dimension}){mark}"
    return f"[{type_.scalar}]{mark}" if type_.is_list else f"{type_.scalar}{mark}"


def binding(one: Binding) -> str:
    """`$v: Type`, without its block."""
    return f"${one.variable.text}: {one.type_name.text}"


def traversal(one: Traversal) -> str:
    """`$a $e:edge{1,3} $b`."""
    edge = f"<{one.edge.text}>" if one.undirected else one.edge.text
    variable = f"${one.edge_variable.text}:" if one.edge_variable else ""
    hops = ""
    if one.hops:
        hops = f"{{{one.hops.low},{'' if one.hops.high is None else one.hops.high}}}"
    return f"${one.left.text} {variable}{edge}{hops} ${one.right.text}"


@dataclass(frozen=True, slots=True)
class Speller:
    """Spells trees; numbers get an exponent only where the file allows one."""

    extended: bool

    # ---- expressions

    def expr(self, one: Expr) -> str:
        """An expression."""
        match one:
            case LiteralExpr():
                return self.literal(one)
            case VariableExpr():
                return f"${one.name}"
            case PropertyExpr():
                return f"${one.variable}.{one.property}"
            case AliasExpr():
                return one.name
            case NowExpr():
                return "now()"
            case AggregateExpr():
                return self._call(one.function, one.argument)
            case TextExpr():
                return self._call(one.function, one.field, one.query, one.distance)
            case NearestExpr():
                return self._call("nearest", one.field, one.query)
            case Bm25Expr():
                return self._call("bm25", one.field, one.query)
            case RrfExpr():
                return self._call("rrf", one.first, one.second, one.k)

    def literal(self, one: LiteralExpr) -> str:
        """A literal."""
        match one.value:
            case None:
                return "null"
            case bool():
                return "true" if one.value else "false"
            case int():
                return str(one.value)
            case float():
                return self._decimal(one.value)
            case tuple():
                return f"[{', '.join(self.literal(item) for item in one.value)}]"
            case str():
                text = quote(one.value)
                return text if one.form == "string" else f"{one.form}({text})"

    def _decimal(self, value: float) -> str:
        shortest = repr(value)
        if self.extended and "e" in shortest:
            return shortest
        text = format(Decimal(shortest), "f")
        return text if "." in text else f"{text}.0"

    def _call(self, function: str, *arguments: Expr | None) -> str:
        spelled = (self.expr(one) for one in arguments if one is not None)
        return f"{function}({', '.join(spelled)})"

    # ---- conditions

    def filter(self, condition: Condition) -> str:
        """A condition as a clause; in parentheses where it would read as a traversal."""
        text = self.condition(condition)
        return f"({text})" if _reads_as_traversal(condition) else text

    def condition(self, one: Condition) -> str:
        """A condition."""
        match one:
            case Compare():
                return f"{self.expr(one.left)} {one.op} {self.expr(one.right)}"
            case IsNull():
                return f"{self.expr(one.operand)} is {'not ' if one.negated else ''}null"
            case Among():
                return f"{self.expr(one.operand)} in {self.expr(one.choices)}"
            case AllOf():
                return self._joined(" and ", one.parts, (AllOf, AnyOf))
            case AnyOf():
                return self._joined(" or ", one.parts, (AnyOf,))
            case Not():
                return f"not {self._part(one.part, (AllOf, AnyOf))}"
            case TextExpr():
                return self.expr(one)

    def _joined(
        self, word: str, parts: Sequence[Condition], weaker: tuple[type[Condition], ...]
    ) -> str:
        return word.join(self._part(part, weaker) for part in parts)

    def _part(self, part: Condition, weaker: tuple[type[Condition], ...]) -> str:
        text = self.condition(part)
        return f"({text})" if isinstance(part, weaker) else text

    # ---- pieces of blocks

    def pair(self, one: PropertyMatch) -> str:
        """`name: value`."""
        return f"{one.name.text}: {self.expr(one.value)}"

    def item(self, one: Item) -> str:
        """`expr as alias`."""
        return self.expr(one.expr) + (f" as {one.alias.text}" if one.alias else "")

    def key(self, one: OrderKey) -> str:
        """`expr desc`."""
        return self.expr(one.expr) + (f" {one.direction}" if one.direction else "")

    def predicate(self, one: Predicate) -> str:
        """`property op value`."""
        return f"{one.property.text} {one.op} {self.expr(one.value)}"


def _reads_as_traversal(condition: Condition) -> bool:
    """Whether the text would begin like `$a contains $b`."""
    if isinstance(condition, AllOf | AnyOf):
        first = condition.parts[0]
        # A part that is joined itself stands in parentheses already.
        return not isinstance(first, AllOf | AnyOf) and _reads_as_traversal(first)
    if isinstance(condition, Compare) and condition.op in ("contains", "starts_with"):
        return isinstance(condition.left, VariableExpr) and isinstance(
            condition.right, VariableExpr
        )
    return (
        isinstance(condition, Among)
        and isinstance(condition.operand, VariableExpr)
        and isinstance(condition.choices, VariableExpr)
    )
