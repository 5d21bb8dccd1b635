"""Why the parser is stuck, in words that help: the first rule that knows the case speaks."""

from collections.abc import Callable

from lark import Token

from omnigraph.language.diagnostics import Diagnostic, finding, first_finding
from omnigraph.language.query import around, within
from omnigraph.language.query.codes import QueryCode
from omnigraph.language.query.place import HOPS
from omnigraph.language.query.stuck import Stuck
from omnigraph.language.query.tokens import span_of
from omnigraph.language.query.wording import render_token
from omnigraph.limits import NESTING_MAX

Rule = Callable[[Stuck], Diagnostic | None]


def explain(stuck: Stuck) -> Diagnostic:
    """Say why the token does not fit, and what would."""
    return first_finding(_RULES, stuck) or _report_unexpected(stuck)


def too_deep(token: Token) -> Diagnostic:
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


_RULES: tuple[Rule, ...] = (
    around.open_string,
    around.open_comment,
    around.report_still_open,
    around.header,
    around.outside,
    within.arguments,
    around.character,
    around.query_head,
    within.body,
    within.nearest_direction,
    within.vector_list,
    within.list_item,
    within.block_value,
    within.pattern_in_condition,
    within.edge_not,
    within.among,
    within.where,
    within.hops,
    within.empty_block,
    within.clause_order,
    within.unknown_function,
)
