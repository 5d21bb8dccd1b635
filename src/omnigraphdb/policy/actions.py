"""The subjects of a policy: actions, and the branches or the query that a request names."""

from enum import StrEnum
from typing import Self

from omnigraphdb.values import dataclass


class PolicyKind(StrEnum):
    """The scope of a policy: one graph, or the server itself."""

    GRAPH = "graph"
    SERVER = "server"


class PolicyAction(StrEnum):
    """Everything that a rule can allow."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"
    MAINTAIN = "maintain"
    POLICY_CHANGE = "policy_change"
    ADMIN = "admin"
    GRAPH_LIST = "graph_list"

    @property
    def resource_kind(self) -> PolicyKind:
        """The kind of resource that the action is done to."""
        return PolicyKind.SERVER if self is PolicyAction.GRAPH_LIST else PolicyKind.GRAPH

    @property
    def uses_branch_scope(self) -> bool:
        """Whether a rule may bound the branch that is read or written."""
        return self in (PolicyAction.READ, PolicyAction.EXPORT, PolicyAction.CHANGE)

    @property
    def uses_target_branch_scope(self) -> bool:
        """Whether a rule may bound the branch that is made, merged into or dropped."""
        return self in (
            PolicyAction.SCHEMA_APPLY,
            PolicyAction.BRANCH_CREATE,
            PolicyAction.BRANCH_DELETE,
            PolicyAction.BRANCH_MERGE,
        )

    @property
    def uses_queries(self) -> bool:
        """Whether a rule may bound the stored queries."""
        return self is PolicyAction.INVOKE_QUERY


class BranchScope(StrEnum):
    """Which branches a rule speaks of."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceScope:
    """The resources of a request: branches, or a stored query; never the actor."""

    branch_name: str | None = None
    target_name: str | None = None
    query_name: str | None = None

    @classmethod
    def graph(cls) -> Self:
        """Scope a request to the graph as a whole."""
        return cls()

    @classmethod
    def branch(cls, name: str) -> Self:
        """Scope a request to one branch, read or written."""
        return cls(branch_name=name)

    @classmethod
    def target_branch(cls, name: str) -> Self:
        """Scope a request to a branch that is changed as a whole, or deleted."""
        return cls(target_name=name)

    @classmethod
    def transition(cls, source: str, target: str) -> Self:
        """From one branch to another: a fork, or a merge."""
        return cls(branch_name=source, target_name=target)

    @classmethod
    def query(cls, name: str) -> Self:
        """Scope a request to one stored query."""
        return cls(query_name=name)
