"""A verb: its arguments, its rights, the function that runs it, and its places on the surfaces."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from importlib import import_module
from typing import Any, Generic, TypeVar

from omnigraphdb.api.rights import CallKind, Right, required_rights
from omnigraphdb.api.verbs.argument import Argument, list_arguments, write_body
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.values import dataclass, replace

A = TypeVar("A")
R = TypeVar("R")


class Method(StrEnum):
    """The method of a request."""

    GET = "GET"
    POST = "POST"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The request that asks for a verb; its path is relative to the graph."""

    method: Method
    path: str
    operation: str
    names: Mapping[str, str] = field(default_factory=dict)
    """Arguments in the path: the name in braces, and the argument."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the route decides."""
    input: str | None = None
    """The name of its body in the description; None without a body."""
    statuses: tuple[int, ...] = ()
    """Statuses beside those that every such request may have."""

    @property
    def has_body(self) -> bool:
        """Whether arguments are sent in a body, not in the query string."""
        return self.method is Method.POST


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The tool of agents that calls a verb; its arguments are those that a request sends."""

    name: str
    description: str
    destructive: bool = False
    idempotent: bool = False
    has_message: bool = False
    """Whether a call can say why: the message of its commit."""
    pages: str | None = None
    """The list of its answer that comes in pages."""
    facts: str | None = None
    """The list of its answer that has the facts of the entries of a page, by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb(Generic[A, R]):
    """A verb of a graph."""

    arguments: type[A]
    result: str
    """The class of its answer, as `module:Class`; it is loaded when it is needed."""
    run: Callable[[Any, A, Call], R]
    """Runs it on a graph at hand."""
    kind: CallKind
    """The rights that it needs."""
    scope: Callable[[Any, A], Mapping[str, str | None]]
    """Names the branches that its rights are about."""
    summary: str
    endpoint: Endpoint
    writes: bool = False
    keyed: bool = False
    """Whether a call may have an idempotency key."""
    conditional: bool = False
    """Whether it can depend on the head of its branch."""
    tool: Tool | None = None
    """The tool of agents that calls it; None: agents have none."""

    def preset(self, *, kind: CallKind, summary: str, endpoint: Endpoint) -> "Verb[A, R]":
        """The same verb as a read of its own, whose endpoint decides some arguments; agents have no tool of it."""
        return replace(
            self,
            kind=kind,
            summary=summary,
            endpoint=endpoint,
            writes=False,
            keyed=False,
            conditional=False,
            tool=None,
        )

    def list_sent(self) -> tuple[Argument, ...]:
        """List the arguments that a request sends, also in its path: not local ones, nor those that the endpoint decides."""
        return tuple(
            argument
            for argument in list_arguments(self.arguments)
            if not argument.is_local and argument.name not in self.endpoint.fixed
        )

    def spell(self, asked: A) -> tuple[dict[str, str], dict[str, Any]]:
        """Spell the arguments of a call for its request: the names in its path, and what it sends beside them as JSON."""
        endpoint = self.endpoint
        path = {name: str(getattr(asked, argument)) for name, argument in endpoint.names.items()}
        in_path = dict.fromkeys(endpoint.names.values())
        return path, write_body(asked, {**endpoint.fixed, **in_path})

    def load_result(self) -> type[R]:
        """Load the class of its answer."""
        module, _, name = self.result.partition(":")
        cls: type[R] = getattr(import_module(module), name)
        return cls

    def required_rights(self, graph: Any, asked: A, *, served: bool) -> tuple[Right, ...]:
        """List the rights that a call needs; `served`: at a door that serves others, which asks for reads too."""
        return required_rights(self.kind, served=served, **self.scope(graph, asked))


class Calls(ABC):
    """A graph that runs verbs: one at hand, or one that a server has."""

    @abstractmethod
    def _call(self, verb: Verb[A, R], asked: A, call: Call | None = None) -> R:
        """Run a verb."""


def run_verb(graph: Calls, verb: Verb[A, R], asked: A, call: Call | None = None) -> R:
    """Run a verb for a surface, which needs the whole answer."""
    return graph._call(verb, asked, call)
