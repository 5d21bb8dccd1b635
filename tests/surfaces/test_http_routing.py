"""Routes are found by path and method; a name may be spelt as a part of a path, or as its place in the description."""

import pytest

from omnigraphdb.errors import MethodNotAllowed, NotFound
from omnigraphdb.surfaces.http.routes import ROUTES
from omnigraphdb.surfaces.http.routing import Route, Router

ROUTER = Router(ROUTES, flat=True, graphs=("g",))
NAMES = {
    "{branch}": "branch",
    "{commit}": "commit",
    "{key}": "key",
    "{name}": "name",
    "{tag}": "tag",
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda one: one.operation)
def test_a_name_may_be_spelt_as_its_place(route: Route) -> None:
    found = ROUTER.find(route.method, route.segments)
    assert found.route is route
    assert found.names == {NAMES[one]: one for one in route.segments if one in NAMES}


@pytest.mark.parametrize("name", ["merge", "{branch}", "if-graph-commit", "."])
def test_a_method_decides_between_a_name_and_a_word(name: str) -> None:
    nested = ROUTER.find("DELETE", ("graphs", "g", "branches", name))
    assert nested.route.operation == "deleteBranch"
    assert nested.names == {"branch": name}
    assert ROUTER.find("POST", ("branches", "merge")).route.operation == "mergeBranches"


def test_a_refused_method_names_those_of_every_route_of_the_path() -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        ROUTER.find("PUT", ("branches", "merge"))
    assert list(caught.value.allowed) == ["DELETE", "GET", "POST"]


@pytest.mark.parametrize("path", [("",), ("graphs", "g"), ("branches", ""), ("branches", "a", "b")])
def test_an_empty_name_and_a_longer_path_are_no_route(path: tuple[str, ...]) -> None:
    with pytest.raises(NotFound):
        ROUTER.find("DELETE", path)


def test_a_server_of_several_graphs_says_where_their_routes_are() -> None:
    nested = Router(ROUTES, flat=False, graphs=("a", "b"))
    with pytest.raises(NotFound) as caught:
        nested.find("GET", ("snapshot",))
    assert "/graphs/{graph_id}" in str(caught.value.hint)
    with pytest.raises(NotFound) as caught:
        nested.find("GET", ("snapshots",))
    assert "/openapi.json" in str(caught.value.hint)
