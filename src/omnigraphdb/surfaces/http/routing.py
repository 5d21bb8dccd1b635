"""Routes: which method and path call which handler, and what the gates and the description need to know of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, TypeVar

from omnigraphdb.api.rights import CallKind, list_actions
from omnigraphdb.errors import MethodNotAllowed, NotFound, OmniError
from omnigraphdb.policy.actions import PolicyAction
from omnigraphdb.surfaces.http.calls import Call, Param
from omnigraphdb.surfaces.http.gate import Ask
from omnigraphdb.surfaces.http.hiding import hide_unreadable
from omnigraphdb.surfaces.http.replies import JSON, Reply, Stream
from omnigraphdb.values import dataclass

Handler = Callable[[Call], Reply | Stream]
R = TypeVar("R")
_Found = dict[str, tuple["Route", Mapping[str, str]]]
"""Routes of a path by method, with the names that the path gives."""


class BodyKind(StrEnum):
    """What a route reads as its body."""

    NONE = "none"
    JSON = "json"
    OPTIONAL_JSON = "optional json"
    """Nothing and `null` are an empty object."""
    LINES = "lines"
    """JSON lines as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route; paths are relative to the graph unless `of_server`."""

    method: str
    path: str
    operation: str
    summary: str
    handler: Handler
    verb: CallKind | None = None
    """What the route does in the eyes of a policy; None: everyone may."""
    asks: Callable[[Call], Iterable[Ask]] | None = None
    """The rights of the verb that are asked for when the branches of the request are known."""
    of_server: bool = False
    needs_token: bool = False
    """Who asks needs a token as soon as there are tokens, and the handler decides what it may see."""
    writes: bool = False
    loads: bool = False
    """The larger bound of bodies holds."""
    body_kind: BodyKind = BodyKind.NONE
    body: Any = None
    params: tuple[Param, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Texts of the names in the path, where the description does not know them."""
    conditional: bool = False
    keyed: bool = True
    """Whether a write may have an idempotency key."""
    answer: Any = None
    media: tuple[str, ...] = (JSON,)
    statuses: tuple[int, ...] = ()
    successor: str | None = None
    """The route that replaces this deprecated one."""
    look_up: Callable[[Call], Reply | None] | None = None
    """Answers at once, in the loop of the server, what is in memory; None for anything that takes a thread."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The path in parts; those in braces take any text."""
        return tuple(self.path.split("/")[1:])

    @property
    def action(self) -> PolicyAction | None:
        """The right that is asked for before the body is read."""
        return None if self.verb is None else PolicyAction(list_actions(self.verb)[0])

    def answer_call(self, call: Call) -> Reply | Stream:
        """Ask the gate about the branches of the request, then answer it; no refusal shows what may not be read."""
        return self.run_allowed(call, self.handler)

    def run_allowed(self, call: Call, run: Callable[[Call], R]) -> R:
        """Ask the gate about the branches of the request, then run a function; no refusal shows what may not be read."""
        try:
            for ask in () if self.asks is None else self.asks(call):
                call.require(ask)
            return run(call)
        except OmniError as error:
            shown = call.hide_address(hide_unreadable(error, call.may_read, call.written_branch))
            if shown is error:
                raise
            raise shown from error

    def with_handler(self, handler: Handler) -> "Route":
        """The same route, answered by another function."""
        return replace(self, handler=handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A route, the names in its path, and the graph that the path names; None for that of flat routes."""

    route: Route
    names: Mapping[str, str]
    graph_id: str | None

    @property
    def template(self) -> str:
        """The path of the route, as the description spells it."""
        return self.route.path if self.graph_id is None else "/graphs/{graph_id}" + self.route.path


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Iterable[Route], *, flat: bool, graphs: Iterable[str]) -> None:
        self._flat = flat
        self._of_server: dict[tuple[str, ...], dict[str, Route]] = {}
        self._of_graph: dict[tuple[str, ...], dict[str, Route]] = {}
        self._plain: dict[tuple[str, bytes], Match] = {}
        """The routes of served graphs without names in their paths, by method and path as they are sent."""
        ids = (*([None] if flat else ()), *graphs)
        for route in routes:
            table = self._of_server if route.of_server else self._of_graph
            table.setdefault(route.segments, {})[route.method] = route
            if "{" not in route.path:
                for id in (None,) if route.of_server else ids:
                    match = Match(route=route, names={}, graph_id=id)
                    path = route.path if id is None else f"/graphs/{id}{route.path}"
                    self._plain[route.method, path.encode()] = match

    def find_plain(self, method: str, raw_path: bytes) -> Match | None:
        """Find the route of a path that is spelt as the description spells it; `find` knows the others."""
        return self._plain.get((method, raw_path))

    def find(self, method: str, path: tuple[str, ...]) -> Match:
        """Find the route of a path; an unknown path and an unknown method are refused."""
        if path in self._of_server:
            of_server: _Found = {name: (route, {}) for name, route in self._of_server[path].items()}
            return self._choose(method, of_server, None, path)
        if path[0] == "graphs" and len(path) > 2:
            rest, graph_id = path[2:], path[1]
        elif self._flat:
            rest, graph_id = path, None
        elif self._list_matching(path):
            raise _unknown(
                path, "each graph has its routes under /graphs/{graph_id}; name the graph"
            )
        else:
            raise _unknown(path)
        return self._choose(method, self._list_matching(rest), graph_id, path)

    def _list_matching(self, path: tuple[str, ...]) -> _Found:
        """The routes of a path by method: `DELETE /branches/merge` deletes a branch, `POST` merges one."""
        found: _Found = {}
        for pattern, methods in self._of_graph.items():
            names = _match(pattern, path)
            if names is not None:
                found |= {method: (route, names) for method, route in methods.items()}
        return found

    @staticmethod
    def _choose(method: str, found: _Found, graph_id: str | None, path: tuple[str, ...]) -> Match:
        if not found:
            raise _unknown(path)
        if method not in found:
            raise MethodNotAllowed(method, "/" + "/".join(path), sorted(found))
        route, names = found[method]
        return Match(route=route, names=names, graph_id=graph_id)


def _match(pattern: tuple[str, ...], path: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(path):
        return None
    names: dict[str, str] = {}
    for wanted, found in zip(pattern, path, strict=True):
        if wanted.startswith("{") and found:
            names[wanted[1:-1]] = found
        elif wanted != found:
            return None
    return names


def _unknown(path: tuple[str, ...], hint: str = "GET /openapi.json lists every route") -> NotFound:
    return NotFound("route", "/" + "/".join(path), hint=hint)
