"""Findings for a token that does not fit: one rule per case; the first rule that knows the case gives the finding."""

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
from omnigraphdb.language.query.state import HOPS, SyntaxFailure, is_call
from omnigraphdb.language.query.tokens import FUNCTIONS, span_of
from omnigraphdb.language.query.wording import render_token
from omnigraphdb.limits import NESTING_MAX

Rule = Callable[[SyntaxFailure], Diagnostic | None]


def explain(fault: SyntaxFailure) -> Diagnostic:
    """Explain why the token does not fit, with the tokens that would."""
    return first_finding(_RULES, fault) or _report_unexpected(fault)


def report_depth(token: Token) -> Diagnostic:
    """Build the finding for a block nested past the bound."""
    return finding(
        QueryCode.NESTING,
        span_of(token),
        f"blocks are nested more than {NESTING_MAX} deep",
        expected=f"at most {NESTING_MAX} levels of '{{', '(', '[' and 'not'",
    )


def _report_unexpected(fault: SyntaxFailure) -> Diagnostic:
    where = f" inside '{fault.owner}'" if fault.owner and fault.owner != HOPS else ""
    return fault.refuse(
        QueryCode.UNEXPECTED,
        f"unexpected {render_token(fault.token)}{where}",
        expected=fault.expected(),
    )


# ---- bodies


def _explain_body(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a body that is empty, begins wrongly, or both reads and writes."""
    if {"_MATCH", "INSERT"} <= fault.accepted and "RBRACE" not in fault.accepted:
        what = (
            "is empty" if fault.token == "}" else f"cannot begin with {render_token(fault.token)}"
        )
        return fault.refuse(
            QueryCode.BODY,
            f"the body of query '{show_text(fault.state.query or '')}' {what}",
            label="a query reads (match, return) or writes (insert, upsert, update, delete)",
            expected="'match', 'unnest', 'insert', 'upsert', 'update' or 'delete'",
        )
    unnests = fault.state.before.type == "UNNEST"
    reads_then_writes = fault.kind in ("INSERT", "UPSERT", "UPDATE", "DELETE") and not unnests
    writes_then_reads = fault.kind == "_RETURN" and "INSERT" in fault.accepted
    if not reads_then_writes and not writes_then_reads:
        return None
    return fault.refuse(
        QueryCode.BODY,
        f"query '{show_text(fault.state.query or '')}' both reads and writes, at {render_token(fault.token)}",
        label="a query reads or writes, never both: make two queries",
        expected=fault.expected(),
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


def _explain_empty_block(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain an empty block where a block must hold something."""
    if fault.token != "}" or fault.state.previous != "{" or fault.owner == HOPS:
        return None
    label = _BLOCKS.get(fault.owner, "an insert assigns at least one property")
    return fault.refuse(
        QueryCode.EMPTY_BLOCK,
        f"the block of '{fault.owner}' is empty",
        label=label,
        expected=fault.expected(),
    )


_AFTER_MATCH = {"_RETURN", "_WITH", "INSERT", "UPSERT", "UPDATE", "DELETE"}
_PARTS = {"_MATCH", "_WITH", "_RETURN", "_HAVING", "_ORDER", "_LIMIT", "_OFFSET"}


def _explain_clause_order(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a part of a read that is missing, repeated or misplaced."""
    if "_WITH" in fault.accepted and fault.accepted <= _AFTER_MATCH:
        message = (
            f"expected 'return {{ … }}' after the match block, found {render_token(fault.token)}"
        )
    elif fault.kind in _PARTS and fault.state.previous.type != "LBRACE":
        message = f"{render_token(fault.token)} cannot stand here"
    else:
        return None
    return fault.refuse(
        QueryCode.CLAUSE_ORDER,
        message,
        label="match, return, having, order, limit: in this order, each at most once",
        expected=fault.expected(),
    )


# ---- pieces


def _explain_vector_list(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a parameter that is a list of vectors."""
    if fault.token != "Vector" or fault.owner != "[":
        return None
    return fault.refuse(
        QueryCode.PARAMETER_TYPE,
        "there is no list of vectors",
        expected="a list of scalars such as [String], or one Vector(n)",
    )


def _explain_where(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a `where` that is missing or holds no condition."""
    state, token = fault.state, fault.token
    if "_WHERE" in fault.accepted and fault.owner != HOPS:
        message, label = "a 'where' is needed", "it says which entities are meant"
    elif state.previous.type == "_WHERE":
        message = f"expected a condition after 'where', found {render_token(token)}"
        label = "properties stand alone: where name = … and age > …"
    else:
        return None
    return fault.refuse(
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


def _explain_unknown_function(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a call of a function that does not exist."""
    token = fault.token
    if not is_call(token, fault.following[0]) or fault.kind != "WORD":
        return None
    near = did_you_mean(token, FUNCTIONS)
    return fault.refuse(
        QueryCode.FUNCTION,
        f"there is no function {render_token(token)}{suggestion(near)}",
        expected=f"one of {', '.join(FUNCTIONS)}",
    )


def _explain_arguments(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain an argument that a function does not take."""
    if fault.owner not in FUNCTIONS:
        return None
    return fault.refuse(
        QueryCode.FUNCTION,
        f"unexpected {render_token(fault.token)} in the arguments of {fault.owner}(…)",
        expected=fault.expected(),
        fix=_SIGNATURES[fault.owner],
    )


def _explain_hops(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain hop bounds that are not two numbers."""
    if fault.owner != HOPS:
        return None
    low = show_text(fault.state.previous) if fault.state.previous.type == "INT" else "1"
    return fault.refuse(
        QueryCode.HOPS,
        f"hop bounds are written {{min,max}}, found {render_token(fault.token)}",
        label="two whole numbers or parameters, and what chooses among paths: {1,8 by weight}",
        expected=fault.expected(),
        fix=f"{{{low},{low}}}",
    )


def _explain_pattern_in_condition(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain a traversal inside a condition."""
    state = fault.state
    if fault.kind not in ("WORD", "ANY_EDGE") or state.previous.type != "VARIABLE":
        return None
    if state.before.type not in ("NOT", "_AND", "_OR", "GROUP"):
        return None
    return fault.refuse(
        QueryCode.UNEXPECTED,
        f"a condition compares values, and {render_token(fault.token)} begins a traversal",
        label="a traversal is a clause of its own; without a match of it: not { … }",
        expected=fault.expected(),
    )


def _explain_edge_not(fault: SyntaxFailure) -> Diagnostic | None:
    """Explain `not` where an edge word is needed."""
    if fault.kind != "NOT" or fault.state.previous.type not in ("VARIABLE", "EDGE_OPEN", "_COLON"):
        return None
    return fault.refuse(
        QueryCode.UNEXPECTED,
        "'not' cannot be an edge word",
        label="a pattern that must not match is not { … }",
        expected=fault.expected(),
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
