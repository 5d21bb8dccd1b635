"""Rights: which actions on which branches a call needs, for the engine and for the doors that serve others alike.

A writer that copies rows reads the branch that it takes them from: the engine asks for both rights. Reads are asked for at
doors that serve others, since who holds the files can read them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from omnigraphdb.ids import MAIN
from omnigraphdb.values import dataclass


class CallKind(StrEnum):
    """Every kind of call that a policy decides about."""

    READ = "read"
    EXPORT = "export"
    COMPARE = "compare"
    PREVIEW_MERGE = "preview_merge"
    MUTATE = "mutate"
    LOAD = "load"
    ASSIGN = "assign"
    TAG = "tag"
    CREATE_BRANCH = "create_branch"
    DELETE_BRANCH = "delete_branch"
    MERGE = "merge"
    APPLY_SCHEMA = "apply_schema"
    INVOKE_QUERY = "invoke_query"
    MAINTAIN = "maintain"
    CHANGE_POLICY = "change_policy"
    LIST_GRAPHS = "list_graphs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One action, and the branches or the stored query that it is about."""

    action: str
    branch: str | None = None
    target: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RightRule:
    """A right that a verb needs; its branches are names of arguments of the call."""

    action: str
    branch: str | None = None
    target: str | None = None
    query: str | None = None
    served_only: bool = False
    """Whether only doors that serve others ask for it."""
    when: str | None = None
    """The case in which it is asked for, in words; None: always."""

    def apply(self, arguments: Mapping[str, str | None]) -> Right | None:
        """Make the right that a call needs; None when the call has not an argument that the rule is about."""
        names = {"branch": self.branch, "target": self.target, "query": self.query}
        values = {kind: arguments.get(name) for kind, name in names.items() if name is not None}
        if None in values.values():
            return None
        return Right(action=self.action, **values)


_READ_SERVED: Final = RightRule(action="read", branch="branch", served_only=True)
_CHANGE: Final = RightRule(action="change", branch="branch")

RULES: Final[Mapping[CallKind, tuple[RightRule, ...]]] = {
    CallKind.READ: (_READ_SERVED,),
    CallKind.EXPORT: (RightRule(action="export", branch="branch", served_only=True),),
    CallKind.COMPARE: (
        RightRule(action="read", branch="base", served_only=True),
        RightRule(action="read", branch="head", served_only=True),
    ),
    CallKind.PREVIEW_MERGE: (
        RightRule(action="read", branch="source", served_only=True),
        RightRule(action="read", branch="target", served_only=True),
    ),
    CallKind.MUTATE: (
        _CHANGE,
        RightRule(
            action="read", branch="returned", served_only=True, when="the mutation returns rows"
        ),
    ),
    CallKind.LOAD: (
        RightRule(
            action="branch_create", branch="base", target="made", when="the load makes its branch"
        ),
        RightRule(action="read", branch="base", when="the load names a branch to begin from"),
        _CHANGE,
    ),
    CallKind.ASSIGN: (_CHANGE,),
    CallKind.TAG: (
        _CHANGE,
        RightRule(
            action="read",
            branch="author",
            served_only=True,
            when="the call names a point in history, which the branch that made it shows",
        ),
    ),
    CallKind.CREATE_BRANCH: (
        RightRule(action="branch_create", branch="source", target="target"),
        RightRule(action="read", branch="author"),
    ),
    CallKind.DELETE_BRANCH: (
        RightRule(action="branch_delete", target="target"),
        RightRule(
            action="read",
            branch="merged_into",
            served_only=True,
            when="the call names a branch that has to have its commits",
        ),
    ),
    CallKind.MERGE: (
        RightRule(action="branch_merge", branch="source", target="target"),
        RightRule(action="read", branch="source"),
        RightRule(action="read", branch="target", served_only=True),
    ),
    CallKind.APPLY_SCHEMA: (RightRule(action="schema_apply", target="main"),),
    CallKind.INVOKE_QUERY: (RightRule(action="invoke_query", query="query"),),
    CallKind.MAINTAIN: (RightRule(action="maintain"), _READ_SERVED),
    CallKind.CHANGE_POLICY: (RightRule(action="policy_change"),),
    CallKind.LIST_GRAPHS: (RightRule(action="graph_list", served_only=True),),
}
"""The rights of each verb; the first one is that of the verb itself, by which routes and tools are listed."""


def required_rights(verb: CallKind, *, served: bool, **arguments: str | None) -> tuple[Right, ...]:
    """List the rights that a call needs; `served`: at a door that serves others, which asks for reads too."""
    named = {"main": MAIN, **arguments}
    rights = (rule.apply(named) for rule in RULES[verb] if served or not rule.served_only)
    return tuple(right for right in rights if right is not None)


def list_actions(verb: CallKind) -> tuple[str, ...]:
    """List the actions that every call of a verb needs at a door that serves others."""
    return tuple(dict.fromkeys(rule.action for rule in RULES[verb] if rule.when is None))
