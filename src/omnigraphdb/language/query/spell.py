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
    """A string literal."""
    return f'"{text.translate(_ESCAPED)}"'


def param(one: Param) -> str:
    """`$name: Type?`."""
    return f"${one.name.text}: {_param_type(one.type)}"


def _param_type(type_: ParamType) -> str:
    mark = "?" if type_.nullable else ""
    if type_.fields:
        listed = ", ".join(f"{one.name.text}: {_param_type(one.type)}" for one in type_.fields)
        return f"[{{ {listed} }}]{mark}"
    if type_.dimension is not None:
        return f"Vector({type_.dimension}){mark}"
    return f"[{type_.scalar}]{mark}" if type_.is_list else f"{type_.scalar}{mark}"


def binding(one: Binding) -> str:
    """`$v: Type`, without its block."""
    return f"${one.variable.text}: {one.type_name.text}"


def _hop_bound(bound: HopBound | None) -> str:
    if bound is None:
        return ""
    return str(bound) if isinstance(bound, int) else f"${bound.name}"


class _Rank(IntEnum):
    """How strongly an expression holds together; a weaker part of a stronger one stands in brackets."""

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


def _rank(one: Expr) -> _Rank:
    match one:
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
class Speller:
    """Spells trees; a block inside an expression is spelled by what lays out clauses."""

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
            case StarExpr():
                return f"${one.variable}.*"
            case AliasExpr():
                return one.name
            case NowExpr():
                return "now()"
            case ListExpr():
                return f"[{', '.join(map(self.expr, one.items))}]"
            case AggregateExpr():
                return self._aggregate(one)
            case TextExpr():
                return self._call(one.function, one.field, one.query, one.distance)
            case NearestExpr():
                return self._call("nearest", one.field, one.query)
            case Bm25Expr():
                return self._call("bm25", one.field, one.query)
            case RrfExpr():
                return self._call("rrf", one.first, one.second, one.k)
            case CallExpr():
                return self._call(one.function, *one.arguments)
            case CaseExpr():
                return self._case(one)
            case BlockExpr():
                return self._block(one)
            case Arithmetic() | Minus():
                return self._arithmetic(one)
            case Compare() | IsNull() | InList() | Between():
                return self._comparison(one)
            case AllOf():
                return " and ".join(self._part(part, _Rank.AND.above) for part in one.parts)
            case AnyOf():
                return " or ".join(self._part(part, _Rank.OR.above) for part in one.parts)
            case Not():
                return f"not {self._part(one.part, _Rank.NOT)}"

    def _part(self, part: Expr, least: _Rank) -> str:
        """A part of an expression, in brackets if it would fall apart."""
        text = self.expr(part)
        return f"({text})" if _rank(part) < least else text

    def _aggregate(self, one: AggregateExpr) -> str:
        argument = ("distinct " if one.distinct else "") + self.expr(one.argument)
        fraction = "" if one.fraction is None else f", {self.expr(one.fraction)}"
        return f"{one.function}({argument}{fraction})"

    def _arithmetic(self, one: Arithmetic | Minus) -> str:
        least = _rank(one).above
        if isinstance(one, Arithmetic):
            steps = (f" {op} {self._part(part, least)}" for op, part in one.steps)
            return self._part(one.first, least) + "".join(steps)
        text = self._part(one.operand, least)
        # Two signs in a row are one token of another meaning.
        return f"-({text})" if text.startswith("-") else f"-{text}"

    def _comparison(self, one: Compare | IsNull | InList | Between) -> str:
        def spell(part: Expr) -> str:
            return self._part(part, _Rank.COMPARISON.above)

        match one:
            case Compare():
                return f"{spell(one.left)} {one.op} {spell(one.right)}"
            case IsNull():
                return f"{spell(one.operand)} is {'not ' if one.negated else ''}null"
            case InList():
                return f"{spell(one.operand)} in {spell(one.choices)}"
            case Between():
                return f"{spell(one.operand)} between {spell(one.low)} and {spell(one.high)}"

    def _case(self, one: CaseExpr) -> str:
        branches = (
            f"when {self.expr(test)} then {self.expr(result)}" for test, result in one.branches
        )
        otherwise = () if one.otherwise is None else (f"else {self.expr(one.otherwise)}",)
        return " ".join(("case", *branches, *otherwise, "end"))

    # ---- blocks

    def _block(self, one: BlockExpr) -> str:
        head = one.kind if isinstance(one.kind, str) else self._aggregate(one.kind)
        if isinstance(one.kind, AggregateExpr) and _counts_matches(one.kind):
            head = "count"
        return f"{head} {{ {' '.join(map(self.clause, one.clauses))} }}"

    def clause(self, one: Clause) -> str:
        """A clause on one line."""
        match one:
            case Binding():
                pairs = ", ".join(map(self.pair, one.matches))
                return binding(one) + (f" {{ {pairs} }}" if pairs else "")
            case Traversal():
                return self.traversal(one)
            case Filter():
                return self.filter(one.condition)
            case Negation():
                return f"not {{ {' '.join(map(self.clause, one.clauses))} }}"
            case Optional():
                return f"optional {{ {' '.join(map(self.clause, one.clauses))} }}"

    def traversal(self, one: Traversal) -> str:
        """`$a $e:edge{1,3} $b`."""
        words = "|".join(name.text for name in (one.edge, *one.others))
        edge = f"<{words}>" if one.undirected else words
        variable = f"${one.edge_variable.text}:" if one.edge_variable else ""
        hops = self._hops(one.hops) if one.hops else ""
        return f"${one.left.text} {variable}{edge}{hops} ${one.right.text}"

    def _hops(self, one: Hops) -> str:
        parts = [f"{_hop_bound(one.low)},{'*' if one.unbounded else _hop_bound(one.high)}"]
        if one.by:
            parts.append(f"by {one.by.text}")
        if one.every:
            parts.append("all")
        elif one.best is not None:
            parts.append(f"best {_hop_bound(one.best)}")
        if one.where is not None:
            parts.append(f"where {self.expr(one.where)}")
        return f"{{{' '.join(parts)}}}"

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
        text = format(Decimal(shortest), "f")
        if len(text) > _DECIMAL_CHARS_MAX:
            return shortest
        return text if "." in text else f"{text}.0"

    def _call(self, function: str, *arguments: Expr | None) -> str:
        spelled = (self.expr(one) for one in arguments if one is not None)
        return f"{function}({', '.join(spelled)})"

    # ---- conditions

    def filter(self, condition: Expr) -> str:
        """A condition as a clause; in brackets where it would read as something else."""
        text = self.expr(condition)
        is_other = text.startswith("-") or _reads_as_traversal(condition) or _touches(text)
        return f"({text})" if is_other else text

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


_CONTINUES = re.compile(rf"(?:query|{'|'.join(sorted(RELATING))})\b")
_CALLS = re.compile(rf"(?<![\w.$])(?:{'|'.join(sorted(FUNCTIONS))})\Z")


def _touches(text: str) -> bool:
    """Whether a clause begins with a name that would go on with the one before, or ends with one that calls the next."""
    return bool(_CONTINUES.match(text) or _CALLS.search(text))


def _counts_matches(one: AggregateExpr) -> bool:
    """Whether an aggregate over a block is written `count { … }`."""
    is_one = isinstance(one.argument, LiteralExpr) and one.argument.value == 1
    return one.function == "count" and is_one and not one.distinct


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
