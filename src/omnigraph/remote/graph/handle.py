"""What every part of a served graph's handle needs: the server, the branch, and what requests spell alike."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from omnigraph.api.arguments import id_of
from omnigraph.api.results import Commit
from omnigraph.api.texts import schema_of, source_of
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.resolve.schema import compile_schema
from omnigraph.errors import UserInputError
from omnigraph.ids import MAIN
from omnigraph.manifest.names import branch_name
from omnigraph.remote.arguments import FIRST_PAGE, explain_absence, spell_params
from omnigraph.remote.checks import check_arguments
from omnigraph.remote.transport import Transport

if TYPE_CHECKING:
    from omnigraph.api.types import EntityId

CONDITION = "Omnigraph-If-Graph-Commit"


@check_arguments
class Handle:
    """What every part of a served graph's handle needs: the server, the branch, and what requests spell alike."""

    def __init__(self, transport: Transport, *, branch: str = MAIN) -> None:
        self._server = transport
        self._branch = branch

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._server.shown + self._server.prefix

    @property
    def schema_source(self) -> str:
        """The schema text."""
        return str(self._server.get(self._server.path("schema"))["schema_source"])

    @property
    def catalog(self) -> Catalog:
        """The types of the schema."""
        return compile_schema(schema_of(self.schema_source))

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from omnigraph.api.graph import Graph

            known = not name.startswith("_") and hasattr(Graph, name)
            raise AttributeError(explain_absence(name) if known else f"RemoteGraph has no '{name}'")

    def __repr__(self) -> str:
        return f"<RemoteGraph {self.uri} on {self._branch}>"

    def _branch_of(self, branch: str | None) -> str:
        """The branch that a call is about: the one it names, else that of the handle."""
        return self._branch if branch is None else branch_name(branch, "a call of a server")

    def _id_of(self, type_name: str, id: "EntityId") -> str:
        """The id of an entity; what is no text is the value of a key, which the schema spells."""
        return id if isinstance(id, str) else id_of(self.catalog.table(type_name), id)

    def _target(self, branch: str | None, at: str | int | Commit | None) -> dict[str, Any]:
        return {"branch": self._branch_of(branch)} if at is None else {"snapshot": str(at)}

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[Any]:
        """Read page after page."""
        page = self._server.get(path, **query)
        yield page
        while "next_page_token" in page:
            kept = {name: text for name, text in query.items() if name not in FIRST_PAGE}
            page = self._server.get(path, **kept, page_token=page["next_page_token"])
            yield page

    def _write(
        self,
        path: tuple[str, ...],
        body: dict[str, Any],
        if_commit: str | Commit | None,
        headers: dict[str, str],
    ) -> Any:
        if if_commit is None:
            return self._server.post(self._server.path(*path), body, headers=headers)
        conditional = self._server.path(*path, "if-graph-commit")
        return self._server.post(conditional, body, headers={CONDITION: str(if_commit), **headers})

    def _call(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None,
        params: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        if isinstance(name, Mapping):
            if params is not None:
                raise UserInputError("parameters were given twice; no changes were made")
            name, params = None, name
        text = source_of(source).text
        return {"query": text, "name": name, "params": spell_params(params)}
