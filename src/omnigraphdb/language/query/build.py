"""From the pieces of the grammar to the tree; the parser calls one method per completed rule."""

import re
from typing import Any, Literal, cast

from lark import Token

from omnigraphdb.language.query.tokens import span_of
from omnigraphdb.language.query.tree import (
    AggregateExpr,
    AggregateName,
    AliasExpr,
    AllOf,
    AnyOf,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Binding,
    BlockExpr,
    Bm25Expr,
    CallExpr,
    CaseExpr,
    Clause,
    Compare,
    Comparison,
    Delete,
    Expr,
    Filter,
    HopBound,
    Hops,
    InList,
    Insert,
    IsNull,
    Item,
    ListExpr,
    LiteralExpr,
    LiteralForm,
    Matched,
    Minus,
    Name,
    NearestExpr,
    Negation,
    Not,
    NowExpr,
    Option,
    Optional,
    OrderKey,
    Param,
    ParamType,
    PropertyExpr,
    PropertyMatch,
    Query,
    QueryFile,
    Read,
    RrfExpr,
    Stage,
    StarExpr,
    Statement,
    TextExpr,
    TextFunction,
    Traversal,
    Unnest,
    Update,
    Upsert,
    VariableExpr,
)
from omnigraphdb.language.source import Span
from omnigraphdb.values import dataclass, replace

ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_DIGITS_MAX = 20

Ranking = NearestExpr | Bm25Expr
Bound = LiteralExpr | VariableExpr


def unquote(text: str) -> str:
    """Return the value of a quoted string; an unknown escape, refused elsewhere, becomes its letter."""
    return _ESCAPE.sub(lambda match: ESCAPES.get(match[1], match[1]), text[1:-1])


def whole(text: str) -> int:
    """Return the value of a written integer; of a number that is refused elsewhere, only its first digits."""
    return int(text.lstrip("0")[:_DIGITS_MAX] or "0")


@dataclass(frozen=True, slots=True)
class _Block:
    """The parts between two brackets, and their span."""

    parts: tuple[Any, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _Edge:
    names: tuple[Name, ...]
    undirected: bool


def _hop_bound(written: Bound) -> HopBound:
    if isinstance(written, VariableExpr):
        return written
    assert isinstance(written.value, int), "the grammar lets no other literal pass"
    return written.value


def _block(parts: tuple[Any, ...]) -> _Block:
    return _Block(parts[1:-1], _join_spans(parts[0], parts[-1]))


def _join_spans(first: Any, last: Any) -> Span:
    by_token, to_token = first.__class__ is Token, last.__class__ is Token
    return Span(
        first.start_pos if by_token else first.span.start,
        last.end_pos if to_token else last.span.end,
    )


def _name(token: Token) -> Name:
    return Name(token.value, span_of(token))


def _variable(token: Token) -> Name:
    return Name(token.value[1:], span_of(token))


def _chain_stages(
    matched: tuple[Clause, ...], parts: list[tuple[Stage, tuple[Clause, ...]]]
) -> tuple[tuple[Stage, ...], tuple[Clause, ...]]:
    """Give every stage the match before it; the clauses behind the last stage remain."""
    stages = []
    for stage, following in parts:
        stages.append(replace(stage, clauses=matched))
        matched = following
    return tuple(stages), matched


def _literal(
    form: LiteralForm, value: str | int | float | bool | None, *tokens: Token
) -> LiteralExpr:
    return LiteralExpr(form=form, value=value, span=_join_spans(tokens[0], tokens[-1]))


class TreeBuilder:
    """One method per rule of `query.lark`; it keeps no state, so that one parser serves all."""

    # ---- files and queries

    def file(self, header: Any, *queries: Query) -> QueryFile:
        return QueryFile(queries, extended=header is not None)

    def header(self, *words: Token) -> Token:
        return words[0]

    def query(self, keyword: Token, name: Token, params: tuple[Param, ...], *rest: Any) -> Query:
        *annotations, _, body, end = rest
        texts = {str(key): unquote(text) for key, text in annotations if key.type != "MCP"}
        exposure = next((options for key, options in annotations if key.type == "MCP"), None)
        return Query(
            name=_name(name),
            params=params,
            description=texts.get("@description"),
            instruction=texts.get("@instruction"),
            mcp=exposure,
            body=body,
            span=_join_spans(keyword, end),
        )

    def params(self, *parts: Any) -> tuple[Param, ...]:
        return parts[:-1]

    def param(self, variable: Token, type_: ParamType) -> Param:
        return Param(name=_variable(variable), type=type_, span=_join_spans(variable, type_))

    def scalar_type(self, scalar: Token, mark: Token | None) -> ParamType:
        span = _join_spans(scalar, mark or scalar)
        return ParamType(scalar=str(scalar), nullable=mark is not None, span=span)

    def list_type(self, start: Token, scalar: Token, end: Token, mark: Token | None) -> ParamType:
        span = _join_spans(start, mark or end)
        return ParamType(scalar=str(scalar), is_list=True, nullable=mark is not None, span=span)

    def vector_type(self, start: Token, size: Token, end: Token, mark: Token | None) -> ParamType:
        span = _join_spans(start, mark or end)
        return ParamType(dimension=whole(size), nullable=mark is not None, span=span)

    def records_type(
        self, start: Token, fields: _Block, end: Token, mark: Token | None
    ) -> ParamType:
        span = _join_spans(start, mark or end)
        return ParamType(is_list=True, fields=fields.parts, nullable=mark is not None, span=span)

    def fields(self, *parts: Any) -> _Block:
        return _block(parts)

    def field(self, name: Token, type_: ParamType) -> Param:
        return Param(name=_name(name), type=type_, span=_join_spans(name, type_))

    def mcp(self, name: Token, *parts: Any) -> tuple[Token, tuple[Option, ...]]:
        return name, parts[:-1]

    def option(self, name: Token, value: Token) -> Option:
        setting = unquote(value) if value.type == "STRING" else value.type == "TRUE"
        return Option(name=_name(name), value=setting, span=_join_spans(name, value))

    def annotation(self, name: Token, text: Token, _end: Token) -> tuple[Token, Token]:
        return name, text

    # ---- reading

    def union_of(self, first: Read, *rest: Any) -> Read:
        joined = tuple(zip(rest[::2], rest[1::2], strict=True))
        last = joined[-1][1]
        bare = [
            *joined[:-1],
            (joined[-1][0], replace(last, order=(), limit=None, offset=None)),
        ]
        return replace(
            first,
            union=tuple(bare),
            bounded=first if first.order or first.limit or first.offset else None,
            order=last.order,
            limit=last.limit,
            offset=last.offset,
            span=_join_spans(first, last),
        )

    def union(self, _word: Token, every: Token | None) -> bool:
        return every is not None

    def single(self, matched: tuple[Clause, ...], *rest: Any) -> Read:
        *parts, final = rest
        stages, clauses = _chain_stages(matched, parts)
        last = cast(Read, final)
        # Every query comes here, and `replace` takes several times as long as the constructor.
        return Read(
            clauses=clauses,
            items=last.items,
            distinct=last.distinct,
            having=last.having,
            order=last.order,
            limit=last.limit,
            offset=last.offset,
            stages=stages,
            span=last.span,
        )

    def matched(self, _start: Token, clauses: tuple[Clause, ...], _end: Token) -> Any:
        return clauses

    def stage(
        self,
        distinct: Token | None,
        items: _Block,
        having: _Block | None,
        order: _Block | None,
        paging: tuple[Bound | None, Bound | None] | None,
        per: tuple[Expr, ...] | None,
        matched: tuple[Clause, ...] | None,
    ) -> tuple[Stage, tuple[Clause, ...]]:
        limit, offset = paging or (None, None)
        stage = Stage(
            clauses=(),
            items=items.parts,
            distinct=distinct is not None,
            having=having.parts if having else (),
            order=order.parts if order else (),
            limit=limit,
            offset=offset,
            per=per or (),
            span=items.span,
        )
        return stage, matched or ()

    def per(self, *exprs: Expr) -> tuple[Expr, ...]:
        return exprs

    def final(
        self,
        distinct: Token | None,
        items: _Block,
        having: _Block | None,
        order: _Block | None,
        paging: tuple[Bound | None, Bound | None] | None,
    ) -> Read:
        limit, offset = paging or (None, None)
        return Read(
            clauses=(),
            items=items.parts,
            distinct=distinct is not None,
            having=having.parts if having else (),
            order=order.parts if order else (),
            limit=limit,
            offset=offset,
            span=items.span,
        )

    def clauses(self, *clauses: Clause) -> tuple[Clause, ...]:
        return clauses

    def optional(
        self, word: Token, _start: Token, clauses: tuple[Clause, ...], end: Token
    ) -> Optional:
        return Optional(clauses=clauses, span=_join_spans(word, end))

    def filter_clause(self, condition: Expr) -> Filter | Negation:
        if isinstance(condition, BlockExpr) and condition.kind == "not":
            return Negation(clauses=condition.clauses, span=condition.span)
        return Filter(condition=condition, span=condition.span)

    def binding(self, variable: Token, type_name: Token, matches: _Block | None) -> Binding:
        return Binding(
            variable=_variable(variable),
            type_name=_name(type_name),
            matches=matches.parts if matches else (),
            span=_join_spans(variable, matches or type_name),
        )

    def matches(self, *parts: Any) -> _Block:
        return _block(parts)

    def match(self, name: Token, value: Expr) -> PropertyMatch:
        return PropertyMatch(name=_name(name), value=value, span=_join_spans(name, value))

    def traversal(
        self, left: Token, variable: Token | None, edge: _Edge, hops: Hops | None, right: Token
    ) -> Traversal:
        return Traversal(
            left=_variable(left),
            edge=edge.names[0],
            right=_variable(right),
            others=edge.names[1:],
            edge_variable=_variable(variable) if variable else None,
            undirected=edge.undirected,
            hops=hops,
            span=_join_spans(left, right),
        )

    def directed(self, *words: Token) -> _Edge:
        return _Edge(tuple(map(_name, words)), undirected=False)

    def undirected(self, _start: Token, *words: Token) -> _Edge:
        return _Edge(tuple(map(_name, words[:-1])), undirected=True)

    def any_edge(self, sign: Token) -> _Edge:
        return _Edge((_name(sign),), undirected=False)

    def hops(
        self,
        start: Token,
        low: Bound,
        high: Bound | Token | None,
        by: Name | None,
        choice: Bound | Token | None,
        where: Expr | None,
        end: Token,
    ) -> Hops:
        return Hops(
            low=_hop_bound(low),
            high=None if high is None or isinstance(high, Token) else _hop_bound(high),
            unbounded=isinstance(high, Token),
            by=by,
            best=None if choice is None or isinstance(choice, Token) else _hop_bound(choice),
            every=isinstance(choice, Token),
            where=where,
            span=_join_spans(start, end),
        )

    def any_distance(self, star: Token) -> Token:
        return star

    def by(self, word: Token) -> Name:
        return _name(word)

    def best(self, bound: Bound) -> Bound:
        return bound

    def all_paths(self, word: Token) -> Token:
        return word

    def walked(self, condition: Expr) -> Expr:
        return condition

    # ---- conditions

    def any_of(self, *parts: Expr) -> AnyOf:
        return AnyOf(parts=parts, span=_join_spans(parts[0], parts[-1]))

    def all_of(self, *parts: Expr) -> AllOf:
        return AllOf(parts=parts, span=_join_spans(parts[0], parts[-1]))

    def negated(self, word: Token, part: Expr) -> Not:
        return Not(part=part, span=_join_spans(word, part))

    def group(self, _start: Token, expr: Expr, _end: Token) -> Expr:
        return expr

    def operator(self, token: Token) -> Token:
        return token

    def compare(self, left: Expr, op: Token, right: Expr) -> Compare:
        operator = cast(Comparison, str(op))
        return Compare(left=left, op=operator, right=right, span=_join_spans(left, right))

    def is_null(self, operand: Expr, end: Token) -> IsNull:
        return IsNull(operand=operand, negated=False, span=_join_spans(operand, end))

    def is_not_null(self, operand: Expr, _not: Token, end: Token) -> IsNull:
        return IsNull(operand=operand, negated=True, span=_join_spans(operand, end))

    def in_list(self, operand: Expr, choices: Expr) -> InList:
        return InList(operand=operand, choices=choices, span=_join_spans(operand, choices))

    def between(self, operand: Expr, low: Expr, high: Expr) -> Between:
        return Between(operand=operand, low=low, high=high, span=_join_spans(operand, high))

    # ---- operators and calls

    def arithmetic(self, first: Expr, *rest: Any) -> Arithmetic:
        steps = tuple(zip(map(str, rest[::2]), rest[1::2], strict=True))
        return Arithmetic(
            first=first,
            steps=cast(tuple[tuple[ArithmeticOperator, Expr], ...], steps),
            span=_join_spans(first, rest[-1]),
        )

    def minus(self, sign: Token, operand: Expr) -> Expr:
        span = _join_spans(sign, operand)
        match operand:
            case LiteralExpr(form="int" | "float", value=int() | float() as value):
                return replace(operand, value=-value, span=span)
            case _:
                return Minus(operand=operand, span=span)

    def call(self, word: Token, *rest: Any) -> CallExpr:
        *arguments, end = rest
        return CallExpr(function=str(word), arguments=tuple(arguments), span=_join_spans(word, end))

    def case(self, word: Token, *rest: Any) -> CaseExpr:
        *branches, otherwise, end = rest
        return CaseExpr(branches=tuple(branches), otherwise=otherwise, span=_join_spans(word, end))

    def branch(self, condition: Expr, result: Expr) -> tuple[Expr, Expr]:
        return condition, result

    def star(self, variable: Token, end: Token) -> StarExpr:
        return StarExpr(variable=variable[1:], span=_join_spans(variable, end))

    # ---- blocks

    def not_block(self, word: Token, _start: Token, clauses: Any, end: Token) -> BlockExpr:
        return BlockExpr(kind="not", clauses=clauses, span=_join_spans(word, end))

    def exists_block(self, word: Token, _start: Token, clauses: Any, end: Token) -> BlockExpr:
        return BlockExpr(kind="exists", clauses=clauses, span=_join_spans(word, end))

    def count_block(self, word: Token, _start: Token, clauses: Any, end: Token) -> BlockExpr:
        literal = LiteralExpr(form="int", value=1, span=span_of(word))
        counted = AggregateExpr(function="count", argument=literal, span=span_of(word))
        return BlockExpr(kind=counted, clauses=clauses, span=_join_spans(word, end))

    def aggregate_block(
        self, aggregate: AggregateExpr, _start: Token, clauses: Any, end: Token
    ) -> BlockExpr:
        return BlockExpr(kind=aggregate, clauses=clauses, span=_join_spans(aggregate, end))

    # ---- results

    def items(self, *parts: Any) -> _Block:
        return _block(parts)

    def item(self, expr: Expr, alias: Token | None) -> Item:
        name = _name(alias) if alias else None
        return Item(expr=expr, alias=name, span=_join_spans(expr, alias or expr))

    def having(self, *parts: Any) -> _Block:
        return _block(parts)

    def order(self, *parts: Any) -> _Block:
        return _block(parts)

    def key(self, expr: Expr, direction: Token | None = None) -> OrderKey:
        word = cast(Literal["asc", "desc"], str(direction)) if direction else None
        return OrderKey(expr=expr, direction=word, span=_join_spans(expr, direction or expr))

    def limit_first(self, limit: Bound, offset: Bound | None) -> tuple[Bound, Bound | None]:
        return limit, offset

    def offset_first(self, offset: Bound, limit: Bound | None) -> tuple[Bound | None, Bound]:
        return limit, offset

    def limit(self, bound: Bound) -> Bound:
        return bound

    def offset(self, bound: Bound) -> Bound:
        return bound

    # ---- expressions

    def alias(self, word: Token) -> AliasExpr:
        return AliasExpr(name=word.value, span=span_of(word))

    def variable(self, token: Token) -> VariableExpr:
        return VariableExpr(name=token.value[1:], span=span_of(token))

    def property_access(self, variable: Token, word: Token) -> PropertyExpr:
        return PropertyExpr(
            variable=variable.value[1:], property=word.value, span=_join_spans(variable, word)
        )

    def row_property(self, row: Token, word: Token) -> PropertyExpr:
        return PropertyExpr(variable="", property=str(word), span=_join_spans(row, word))

    def now(self, word: Token, end: Token) -> NowExpr:
        return NowExpr(span=_join_spans(word, end))

    def aggregate(
        self,
        word: Token,
        distinct: Token | None,
        argument: Expr,
        fraction: Expr | None,
        end: Token,
    ) -> AggregateExpr:
        return AggregateExpr(
            function=cast(AggregateName, str(word)),
            argument=argument,
            distinct=distinct is not None,
            fraction=fraction,
            span=_join_spans(word, end),
        )

    def text_call(self, word: Token, field: Expr, query: Expr, *rest: Any) -> TextExpr:
        *distance, end = rest
        return TextExpr(
            function=cast(TextFunction, str(word)),
            field=field,
            query=query,
            distance=distance[0] if distance else None,
            span=_join_spans(word, end),
        )

    def nearest(self, word: Token, field: PropertyExpr, query: Expr, end: Token) -> NearestExpr:
        return NearestExpr(field=field, query=query, span=_join_spans(word, end))

    def bm25(self, word: Token, field: Expr, query: Expr, end: Token) -> Bm25Expr:
        return Bm25Expr(field=field, query=query, span=_join_spans(word, end))

    def rrf(self, word: Token, first: Ranking, second: Ranking, *rest: Any) -> RrfExpr:
        *k, end = rest
        return RrfExpr(
            first=first, second=second, k=k[0] if k else None, span=_join_spans(word, end)
        )

    # ---- literals

    def string(self, token: Token) -> LiteralExpr:
        return _literal("string", unquote(token), token)

    def integer(self, token: Token) -> LiteralExpr:
        return _literal("int", whole(token), token)

    def decimal(self, token: Token) -> LiteralExpr:
        return _literal("float", float(token), token)

    def true(self, token: Token) -> LiteralExpr:
        return _literal("bool", True, token)

    def false(self, token: Token) -> LiteralExpr:
        return _literal("bool", False, token)

    def null(self, token: Token) -> LiteralExpr:
        return _literal("null", None, token)

    def date(self, word: Token, text: Token, end: Token) -> LiteralExpr:
        return _literal("date" if word == "date" else "datetime", unquote(text), word, end)

    def list(self, *parts: Any) -> LiteralExpr | ListExpr:
        block = _block(parts)
        if all(isinstance(part, LiteralExpr) for part in block.parts):
            return LiteralExpr(form="list", value=block.parts, span=block.span)
        return ListExpr(items=block.parts, span=block.span)

    # ---- writing

    def statements(self, *statements: Statement) -> tuple[Statement, ...]:
        return statements

    def matched_write(self, matched: tuple[Clause, ...], *rest: Any) -> Statement:
        *parts, last = rest
        statement = cast(Statement, last)
        stages, clauses = _chain_stages(matched, parts)
        start = matched[0].span if matched else statement.span
        origin = Matched(clauses=clauses, stages=stages, span=start)
        return replace(statement, origin=origin, span=_join_spans(origin, statement))

    def unnested_write(
        self, word: Token, parameter: Token, item: Token, statement: Statement
    ) -> Statement:
        origin = Unnest(
            parameter=_variable(parameter), item=_variable(item), span=_join_spans(word, item)
        )
        return replace(statement, origin=origin, span=_join_spans(word, statement))

    def insert(
        self,
        word: Token,
        type_name: Token,
        assignments: _Block,
        absent: Token | None,
        returning: _Block | None,
    ) -> Insert:
        return Insert(
            type_name=_name(type_name),
            assignments=assignments.parts,
            if_absent=absent is not None,
            returning=returning.parts if returning else (),
            span=_join_spans(word, returning or absent or assignments),
        )

    def upsert(
        self,
        word: Token,
        type_name: Token,
        key: _Block,
        assignments: _Block,
        returning: _Block | None,
    ) -> Upsert:
        return Upsert(
            type_name=_name(type_name),
            key=key.parts,
            assignments=assignments.parts,
            returning=returning.parts if returning else (),
            span=_join_spans(word, returning or assignments),
        )

    def update(
        self,
        word: Token,
        type_name: Token,
        assignments: _Block,
        where: Expr,
        returning: _Block | None,
    ) -> Update:
        return Update(
            target=_name(type_name),
            assignments=assignments.parts,
            where=where,
            returning=returning.parts if returning else (),
            span=_join_spans(word, returning or where),
        )

    def update_matched(
        self, word: Token, variable: Token, assignments: _Block, returning: _Block | None
    ) -> Update:
        return Update(
            target=_variable(variable),
            assignments=assignments.parts,
            returning=returning.parts if returning else (),
            span=_join_spans(word, returning or assignments),
        )

    def delete(
        self, word: Token, type_name: Token, where: Expr, returning: _Block | None
    ) -> Delete:
        return Delete(
            target=_name(type_name),
            where=where,
            returning=returning.parts if returning else (),
            span=_join_spans(word, returning or where),
        )

    def delete_matched(self, word: Token, variable: Token, returning: _Block | None) -> Delete:
        return Delete(
            target=_variable(variable),
            returning=returning.parts if returning else (),
            span=_join_spans(word, returning or variable),
        )

    def absent(self, _word: Token, end: Token) -> Token:
        return end

    def returning(self, items: _Block) -> _Block:
        return items

    def assignments(self, *parts: Any) -> _Block:
        return _block(parts)

    def assignment(self, name: Token, value: Expr) -> PropertyMatch:
        return PropertyMatch(name=_name(name), value=value, span=_join_spans(name, value))
