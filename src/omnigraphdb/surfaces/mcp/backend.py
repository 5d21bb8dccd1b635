"""What answers tools: a graph at hand, or a server; both run verbs, and the operations of the HTTP routes that are no verbs yet."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from omnigraphdb.api.verbs.verb import Verb
from omnigraphdb.policy.actions import PolicyAction
from omnigraphdb.values import dataclass

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One operation of the HTTP interface, without HTTP."""

    operation: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    message: str | None = None
    """What the commit of a write says."""


def spell_query(arguments: Mapping[str, Any]) -> dict[str, list[str]]:
    """Spell arguments for a query string: every value as texts."""
    return {
        name: [_spell_text(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in arguments.items()
    }


def _spell_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What a tool needs: an action on some branch, or with one stored query; a change where `writes`."""

    action: PolicyAction
    writes: bool = False
    query: str | None = None


class Backend(Protocol):
    """Runs verbs and operations for one actor."""

    @property
    def actor(self) -> str | None:
        """Who asks."""
        ...

    def run_verb(self, verb: Verb[A, Any], asked: A, message: str | None = None) -> dict[str, Any]:
        """Run a verb and give its answer in JSON form; a refusal is raised in our errors."""
        ...

    def run(self, request: Request) -> dict[str, Any]:
        """Do an operation; a refusal is raised in our errors."""
        ...

    def may(self, tool: str, needs: Sequence[Right]) -> bool:
        """Whether the actor has the rights of a tool, on some branch."""
        ...

    def list_queries(self) -> Sequence[Mapping[str, Any]]:
        """The stored queries that may be tools, as the catalog of the HTTP interface describes them."""
        ...
