"""Why the query parser is stuck: one rule per case, and the first rule that knows the case gives the finding."""

from collections.abc import Callable

from lark import Token

from omnigraphdb.errors import did_you_mean, suggestion
from omnigraphdb.language.diagnostics import Diagnostic, finding, first_finding, show_text
from omnigraphdb.language.query.codes import QueryCode
from omnigraphdb.language.query.explain_outside import (
    explain_character,
    explain_header,
    explain_open_comment,
    explain_open_string,
    explain_outside,
    explain_query_head,
    explain_still_open,
)
from omnigraphdb.language.query.state import HOPS, Stuck, is_call
from omnigraphdb.language.query.tokens import FUNCTIONS, span_of
from omnigraphdb.language.query.wording import render_token
from omnigraphdb.limits import NESTING_MAX

Rule = Callable[[Stuck], Diagnostic | None]


def explain(stuck: Stuck) -> Diagnostic:
    """Say why the token does not fit, and what would."""
    return first_finding(_RULES, stuck) or _report_unexpected(stuck)


def report_depth(token: Token) -> Diagnostic:
    """The finding for a block nested past the bound."""
    return finding(
        QueryCode.NESTING,
        span_of(token),
        f"blocks are nested more than {NESTING_MAX} deep",
        expected=f"at most {NESTING_MAX} levels of '{{', '(', '[' and 'not'",
    )


def _report_unexpected(stuck: Stuck) -> Diagnostic:
    where = f" inside '{stuck.owner}'" if stuck.owner and stuck.owner != HOPS else ""
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        f"unexpected {render_token(stuck.token)}{where}",
        expected=stuck.expected(),
    )


# ---- bodies


def _explain_body(stuck: Stuck) -> Diagnostic | None:
    """A body that is empty, begins wrongly, or both reads and writes."""
    if {"_MATCH", "INSERT"} <= stuck.accepted and "RBRACE" not in stuck.accepted:
        what = (
            "is empty" if stuck.token == "}" else f"cannot begin with {render_token(stuck.token)}"
        )
        return stuck.refuse(
            QueryCode.BODY,
            f"the body of query '{show_text(stuck.state.query or '')}' {what}",
            label="a query reads (match, return) or writes (insert, upsert, update, delete)",
            expected="'match', 'unnest', 'insert', 'upsert', 'update' or 'delete'",
        )
    unnests = stuck.state.before.type == "UNNEST"
    reads_then_writes = stuck.kind in ("INSERT", "UPSERT", "UPDATE", "DELETE") and not unnests
    writes_then_reads = stuck.kind == "_RETURN" and "INSERT" in stuck.accepted
    if not reads_then_writes and not writes_then_reads:
        return None
    return stuck.refuse(
        QueryCode.BODY,
        f"query '{show_text(stuck.state.query or '')}' both reads and writes, at {render_token(stuck.token)}",
        label="a query reads or writes, never both: make two queries",
        expected=stuck.expected(),
    )


_BLOCKS = {
    "match": "a match needs at least one clause",
    "return": "a return needs at least one item",
    "order": "an order needs at least one key; leave it out to have none",
    "not": "a not block needs at least one clause",
    "optional": "an optional block needs at least one clause",
    "exists": "an exists block needs at least one clause",
    "count": "a count block needs at least one clause",
    "having": "a having needs at least one condition; leave it out to have none",
    "set": "an update assigns at least one property",
    "returning": "a returning needs at least one item, such as id; leave it out to have none",
}


def _explain_empty_block(stuck: Stuck) -> Diagnostic | None:
    """A block that must hold something."""
    if stuck.token != "}" or stuck.state.previous != "{" or stuck.owner == HOPS:
        return None
    label = _BLOCKS.get(stuck.owner, "an insert assigns at least one property")
    return stuck.refuse(
        QueryCode.EMPTY_BLOCK,
        f"the block of '{stuck.owner}' is empty",
        label=label,
        expected=stuck.expected(),
    )


_AFTER_MATCH = {"_RETURN", "_WITH", "INSERT", "UPSERT", "UPDATE", "DELETE"}
_PARTS = {"_MATCH", "_WITH", "_RETURN", "_HAVING", "_ORDER", "_LIMIT", "_OFFSET"}


def _explain_clause_order(stuck: Stuck) -> Diagnostic | None:
    """A part of a read that is missing, repeated or misplaced."""
    if "_WITH" in stuck.accepted and stuck.accepted <= _AFTER_MATCH:
        message = (
            f"expected 'return {{ … }}' after the match block, found {render_token(stuck.token)}"
        )
    elif stuck.kind in _PARTS and stuck.state.previous.type != "LBRACE":
        message = f"{render_token(stuck.token)} cannot stand here"
    else:
        return None
    return stuck.refuse(
        QueryCode.CLAUSE_ORDER,
        message,
        label="match, return, having, order, limit: in this order, each at most once",
        expected=stuck.expected(),
    )


# ---- pieces


def _explain_vector_list(stuck: Stuck) -> Diagnostic | None:
    """A parameter that is a list of vectors."""
    if stuck.token != "Vector" or stuck.owner != "[":
        return None
    return stuck.refuse(
        QueryCode.PARAMETER_TYPE,
        "there is no list of vectors",
        expected="a list of scalars such as [String], or one Vector(n)",
    )


def _explain_where(stuck: Stuck) -> Diagnostic | None:
    """A `where` that is missing or holds no condition."""
    state, token = stuck.state, stuck.token
    if "_WHERE" in stuck.accepted and stuck.owner != HOPS:
        message, label = "a 'where' is needed", "it says which entities are meant"
    elif state.previous.type == "_WHERE":
        message = f"expected a condition after 'where', found {render_token(token)}"
        label = "properties stand alone: where name = … and age > …"
    else:
        return None
    return stuck.refuse(
        QueryCode.WHERE, message, label=label, expected="'where' and a condition on the properties"
    )


_SIGNATURES = {
    "now": "now()",
    "count": "count($v) or count(distinct $v.property)",
    "sum": "sum($v.property)",
    "avg": "avg($v.property)",
    "min": "min($v.property)",
    "max": "max($v.property)",
    "collect": "collect($v.property)",
    "stddev": "stddev($v.property)",
    "percentile": "percentile($v.property, 0.5)",
    "coalesce": 'coalesce($v.property, "otherwise")',
    "lower": "lower($v.property)",
    "upper": "upper($v.property)",
    "trim": "trim($v.property)",
    "length": "length($v.property)",
    "substring": "substring($v.property, 1, 3)",
    "replace": 'replace($v.property, "old", "new")',
    "concat": 'concat($v.property, "!")',
    "abs": "abs($v.property)",
    "round": "round($v.property) or round($v.property, 2)",
    "floor": "floor($v.property)",
    "ceil": "ceil($v.property)",
    "year": "year($v.property)",
    "month": "month($v.property)",
    "day": "day($v.property)",
    "date_trunc": 'date_trunc("month", $v.property)',
    "duration": 'duration("P1D")',
    "size": "size($v.property)",
    "first": "first($v.property)",
    "last": "last($v.property)",
    "id": "id($v)",
    "type": "type($v)",
    "from": "from($e)",
    "to": "to($e)",
    "entity": "entity($v)",
    "hops": "hops($path)",
    "nodes": "nodes($path)",
    "edges": "edges($path)",
    "search": 'search($v.property, "text")',
    "match_text": 'match_text($v.property, "text")',
    "fuzzy": 'fuzzy($v.property, "text") or fuzzy($v.property, "text", 1)',
    "nearest": "nearest($v.property, $query)",
    "bm25": 'bm25($v.property, "text")',
    "rrf": "rrf(a, b) or rrf(a, b, 60), where a and b are nearest(…) or bm25(…)",
    "date": 'date("2026-02-14")',
    "datetime": 'datetime("2026-02-14T08:00:00Z")',
}


def _explain_unknown_function(stuck: Stuck) -> Diagnostic | None:
    """A call of a function that does not exist."""
    token = stuck.token
    if not is_call(token, stuck.following[0]) or stuck.kind != "WORD":
        return None
    near = did_you_mean(token, FUNCTIONS)
    return stuck.refuse(
        QueryCode.FUNCTION,
        f"there is no function {render_token(token)}{suggestion(near)}",
        expected=f"one of {', '.join(FUNCTIONS)}",
    )


def _explain_arguments(stuck: Stuck) -> Diagnostic | None:
    """An argument that a function does not take."""
    if stuck.owner not in FUNCTIONS:
        return None
    return stuck.refuse(
        QueryCode.FUNCTION,
        f"unexpected {render_token(stuck.token)} in the arguments of {stuck.owner}(…)",
        expected=stuck.expected(),
        fix=_SIGNATURES[stuck.owner],
    )


def _explain_hops(stuck: Stuck) -> Diagnostic | None:
    """Hop bounds that are not two numbers."""
    if stuck.owner != HOPS:
        return None
    low = show_text(stuck.state.previous) if stuck.state.previous.type == "INT" else "1"
    return stuck.refuse(
        QueryCode.HOPS,
        f"hop bounds are written {{min,max}}, found {render_token(stuck.token)}",
        label="two whole numbers or parameters, and what chooses among paths: {1,8 by weight}",
        expected=stuck.expected(),
        fix=f"{{{low},{low}}}",
    )


def _explain_pattern_in_condition(stuck: Stuck) -> Diagnostic | None:
    """A traversal inside of a condition."""
    state = stuck.state
    if stuck.kind not in ("WORD", "ANY_EDGE") or state.previous.type != "VARIABLE":
        return None
    if state.before.type not in ("NOT", "_AND", "_OR", "GROUP"):
        return None
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        f"a condition compares values, and {render_token(stuck.token)} begins a traversal",
        label="a traversal is a clause of its own; without a match of it: not { … }",
        expected=stuck.expected(),
    )


def _explain_edge_not(stuck: Stuck) -> Diagnostic | None:
    """`not` where an edge word is needed."""
    if stuck.kind != "NOT" or stuck.state.previous.type not in ("VARIABLE", "EDGE_OPEN", "_COLON"):
        return None
    return stuck.refuse(
        QueryCode.UNEXPECTED,
        "'not' cannot be an edge word",
        label="a pattern that must not match is not { … }",
        expected=stuck.expected(),
    )


# ---- in the order they are asked

_RULES: tuple[Rule, ...] = (
    explain_open_string,
    explain_open_comment,
    explain_still_open,
    explain_header,
    explain_outside,
    _explain_arguments,
    explain_character,
    explain_query_head,
    _explain_body,
    _explain_vector_list,
    _explain_pattern_in_condition,
    _explain_edge_not,
    _explain_where,
    _explain_hops,
    _explain_empty_block,
    _explain_clause_order,
    _explain_unknown_function,
)
