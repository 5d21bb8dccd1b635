"""What answers tools: a graph at hand, or a server; both speak in the operations of the HTTP routes."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from omnigraphdb.policy.actions import PolicyAction
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One operation of the HTTP interface, without HTTP."""

    operation: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    message: str | None = None
    """What the commit of a write says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What a tool needs: an action on some branch, or with one stored query; a change where `writes`."""

    action: PolicyAction
    writes: bool = False
    query: str | None = None


class Backend(Protocol):
    """Answers operations for one actor."""

    @property
    def actor(self) -> str | None:
        """Who asks."""
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
