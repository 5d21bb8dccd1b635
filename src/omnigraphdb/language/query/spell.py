"""Expressions, conditions and simple clauses as canonical text on one line."""

import re
from decimal import Decimal
from enum import IntEnum

from omnigraphdb.language.query.tokens import FUNCTIONS, RELATING
from omnigraphdb.language.query.tree import (
    AggregateExpr,
    AliasExpr,
    AllOf,
    AnyOf,
    Arithmetic,
    Between,
    Binding,
    BlockExpr,
    Bm25Expr,
    CallExpr,
    CaseExpr,
    Clause,
    Compare,
    Expr,
    Filter,
    HopBound,
    Hops,
    InList,
    IsNull,
    Item,
    ListExpr,
    LiteralExpr,
    Minus,
    NearestExpr,
    Negation,
    Not,
    NowExpr,
    Optional,
    OrderKey,
    Param,
    ParamType,
    PropertyExpr,
    PropertyMatch,
    RrfExpr,
    StarExpr,
    TextExpr,
    Traversal,
    VariableExpr,
)
from omnigraphdb.values import dataclass

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


_DECIMAL_CHARS_MAX = 25
"""Longer numbers have an exponent."""


def quote(text: str) -> str:
    """Spell a string literal."""
    return f'"{text.translate(_ESCAPED)}"'


def param(parameter: Param) -> str:
    """Spell a parameter: `$name: Type?`."""
    return f"${parameter.name.text}: {_param_type(parameter.type)}"


def _param_type(type_: ParamType) -> str:
    mark = "?" if type_.nullable else ""
    if type_.fields:
        listed = ", ".join(
            f"{field.name.text}: {_param_type(field.type)}" for field in type_.fields
        )
        return f"[{{ {listed} }}]{mark}"
    if type_.dimension is not None:
        return f"Vector({type_.dimension}){mark}"
    return f"[{type_.scalar}]{mark}" if type_.is_list else f"{type_.scalar}{mark}"


def binding(clause: Binding) -> str:
    """Spell a binding, `$v: Type`, without its block."""
    return f"${clause.variable.text}: {clause.type_name.text}"


def _hop_bound(bound: HopBound | None) -> str:
    if bound is None:
        return ""
    return str(bound) if isinstance(bound, int) else f"${bound.name}"


class _Rank(IntEnum):
    """The strength with which an expression holds together; a weaker part of a stronger one stands in brackets."""

    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    PRIMARY = 8

    @property
    def above(self) -> "_Rank":
        """The next stronger rank."""
        return _Rank(self + 1)


def _rank(expr: Expr) -> _Rank:
    match expr:
        case AnyOf():
            return _Rank.OR
        case AllOf():
            return _Rank.AND
        case Not():
            return _Rank.NOT
        case Compare() | IsNull() | InList() | Between():
            return _Rank.COMPARISON
        case Arithmetic(steps=((op, _), *_)):
            return _Rank.SUM if op in ("+", "-") else _Rank.PRODUCT
        case Minus():
            return _Rank.SIGN
        case LiteralExpr(value=int() | float() as value) if str(value).startswith("-"):
            return _Rank.SIGN
        case _:
            return _Rank.PRIMARY


@dataclass(frozen=True, slots=True)
class Renderer:
    """A speller of trees; a block inside an expression is spelled clause by clause on one line."""

    # ---- expressions

    def expr(self, expr: Expr) -> str:
        """Spell an expression."""
        match expr:
            case LiteralExpr():
                return self.literal(expr)
            case VariableExpr():
                return f"${expr.name}"
            case PropertyExpr():
                return f"${expr.variable}.{expr.property}"
            case StarExpr():
                return f"${expr.variable}.*"
            case AliasExpr():
                return expr.name
            case NowExpr():
                return "now()"
            case ListExpr():
                return f"[{', '.join(map(self.expr, expr.items))}]"
            case AggregateExpr():
                return self._aggregate(expr)
            case TextExpr():
                return self._call(expr.function, expr.field, expr.query, expr.distance)
            case NearestExpr():
                return self._call("nearest", expr.field, expr.query)
            case Bm25Expr():
                return self._call("bm25", expr.field, expr.query)
            case RrfExpr():
                return self._call("rrf", expr.first, expr.second, expr.k)
            case CallExpr():
                return self._call(expr.function, *expr.arguments)
            case CaseExpr():
                return self._case(expr)
            case BlockExpr():
                return self._block(expr)
            case Arithmetic() | Minus():
                return self._arithmetic(expr)
            case Compare() | IsNull() | InList() | Between():
                return self._comparison(expr)
            case AllOf():
                return " and ".join(self._part(part, _Rank.AND.above) for part in expr.parts)
            case AnyOf():
                return " or ".join(self._part(part, _Rank.OR.above) for part in expr.parts)
            case Not():
                return f"not {self._part(expr.part, _Rank.NOT)}"

    def _part(self, part: Expr, rank_min: _Rank) -> str:
        """Spell a part of an expression, in brackets if it would fall apart."""
        text = self.expr(part)
        return f"({text})" if _rank(part) < rank_min else text

    def _aggregate(self, aggregate: AggregateExpr) -> str:
        argument = ("distinct " if aggregate.distinct else "") + self.expr(aggregate.argument)
        fraction = "" if aggregate.fraction is None else f", {self.expr(aggregate.fraction)}"
        return f"{aggregate.function}({argument}{fraction})"

    def _arithmetic(self, expr: Arithmetic | Minus) -> str:
        rank_min = _rank(expr).above
        if isinstance(expr, Arithmetic):
            steps = (f" {op} {self._part(part, rank_min)}" for op, part in expr.steps)
            return self._part(expr.first, rank_min) + "".join(steps)
        text = self._part(expr.operand, rank_min)
        # Two signs in a row are one token of another meaning.
        return f"-({text})" if text.startswith("-") else f"-{text}"

    def _comparison(self, comparison: Compare | IsNull | InList | Between) -> str:
        def render(part: Expr) -> str:
            return self._part(part, _Rank.COMPARISON.above)

        match comparison:
            case Compare():
                return f"{render(comparison.left)} {comparison.op} {render(comparison.right)}"
            case IsNull():
                return f"{render(comparison.operand)} is {'not ' if comparison.negated else ''}null"
            case InList():
                return f"{render(comparison.operand)} in {render(comparison.choices)}"
            case Between():
                return f"{render(comparison.operand)} between {render(comparison.low)} and {render(comparison.high)}"

    def _case(self, expr: CaseExpr) -> str:
        branches = (
            f"when {self.expr(test)} then {self.expr(result)}" for test, result in expr.branches
        )
        otherwise = () if expr.otherwise is None else (f"else {self.expr(expr.otherwise)}",)
        return " ".join(("case", *branches, *otherwise, "end"))

    # ---- blocks

    def _block(self, block: BlockExpr) -> str:
        head = block.kind if isinstance(block.kind, str) else self._aggregate(block.kind)
        if isinstance(block.kind, AggregateExpr) and _counts_matches(block.kind):
            head = "count"
        return f"{head} {{ {' '.join(map(self.clause, block.clauses))} }}"

    def clause(self, clause: Clause) -> str:
        """Spell a clause on one line."""
        match clause:
            case Binding():
                pairs = ", ".join(map(self.pair, clause.matches))
                return binding(clause) + (f" {{ {pairs} }}" if pairs else "")
            case Traversal():
                return self.traversal(clause)
            case Filter():
                return self.filter(clause.condition)
            case Negation():
                return f"not {{ {' '.join(map(self.clause, clause.clauses))} }}"
            case Optional():
                return f"optional {{ {' '.join(map(self.clause, clause.clauses))} }}"

    def traversal(self, traversal: Traversal) -> str:
        """Spell a traversal: `$a $e:edge{1,3} $b`."""
        words = "|".join(name.text for name in (traversal.edge, *traversal.others))
        edge = f"<{words}>" if traversal.undirected else words
        variable = f"${traversal.edge_variable.text}:" if traversal.edge_variable else ""
        hops = self._hops(traversal.hops) if traversal.hops else ""
        return f"${traversal.left.text} {variable}{edge}{hops} ${traversal.right.text}"

    def _hops(self, hops: Hops) -> str:
        parts = [f"{_hop_bound(hops.low)},{'*' if hops.unbounded else _hop_bound(hops.high)}"]
        if hops.by:
            parts.append(f"by {hops.by.text}")
        if hops.every:
            parts.append("all")
        elif hops.best is not None:
            parts.append(f"best {_hop_bound(hops.best)}")
        if hops.where is not None:
            parts.append(f"where {self.expr(hops.where)}")
        return f"{{{' '.join(parts)}}}"

    def literal(self, literal: LiteralExpr) -> str:
        """Spell a literal."""
        match literal.value:
            case None:
                return "null"
            case bool():
                return "true" if literal.value else "false"
            case int():
                return str(literal.value)
            case float():
                return self._decimal(literal.value)
            case tuple():
                return f"[{', '.join(self.literal(item) for item in literal.value)}]"
            case str():
                text = quote(literal.value)
                return text if literal.form == "string" else f"{literal.form}({text})"

    def _decimal(self, value: float) -> str:
        shortest = repr(value)
        text = format(Decimal(shortest), "f")
        if len(text) > _DECIMAL_CHARS_MAX:
            return shortest
        return text if "." in text else f"{text}.0"

    def _call(self, function: str, *arguments: Expr | None) -> str:
        texts = (self.expr(argument) for argument in arguments if argument is not None)
        return f"{function}({', '.join(texts)})"

    # ---- conditions

    def filter(self, condition: Expr) -> str:
        """Spell a condition as a clause; in brackets where it would read as another clause."""
        text = self.expr(condition)
        is_other = text.startswith("-") or _reads_as_traversal(condition) or _touches(text)
        return f"({text})" if is_other else text

    # ---- pieces of blocks

    def pair(self, pair: PropertyMatch) -> str:
        """Spell a pair: `name: value`."""
        return f"{pair.name.text}: {self.expr(pair.value)}"

    def item(self, item: Item) -> str:
        """Spell an item: `expr as alias`."""
        return self.expr(item.expr) + (f" as {item.alias.text}" if item.alias else "")

    def key(self, key: OrderKey) -> str:
        """Spell an order key: `expr desc`."""
        return self.expr(key.expr) + (f" {key.direction}" if key.direction else "")


_CONTINUES = re.compile(rf"(?:query|{'|'.join(sorted(RELATING))})\b")
_CALLS = re.compile(rf"(?<![\w.$])(?:{'|'.join(sorted(FUNCTIONS))})\Z")


def _touches(text: str) -> bool:
    """Whether a clause begins with a name that continues the clause before, or ends with a name that calls the next."""
    return bool(_CONTINUES.match(text) or _CALLS.search(text))


def _counts_matches(aggregate: AggregateExpr) -> bool:
    """Whether an aggregate over a block is written `count { … }`."""
    is_one = isinstance(aggregate.argument, LiteralExpr) and aggregate.argument.value == 1
    return aggregate.function == "count" and is_one and not aggregate.distinct


def _reads_as_traversal(condition: Expr) -> bool:
    """Whether the text would begin like `$a contains $b`, or leave a bare variable before the next clause."""
    match condition:
        case VariableExpr():
            return True
        case AllOf(parts=(first, *_)) | AnyOf(parts=(first, *_)):
            # A part that is joined itself stands in brackets already.
            is_bare = isinstance(first, VariableExpr | AllOf | AnyOf)
            return not is_bare and _reads_as_traversal(first)
        case Compare(left=VariableExpr(), right=VariableExpr(), op=op):
            return op.isalpha() or "_" in op
        case InList(operand=VariableExpr(), choices=VariableExpr()):
            return True
        case _:
            return False
