"""What every part of a served graph's handle needs: the server, the branch, and what requests spell alike."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from omnigraphdb.api.arguments import id_of
from omnigraphdb.api.results import Commit
from omnigraphdb.api.texts import source_of
from omnigraphdb.api.verbs.argument import check_arguments, list_arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Verb
from omnigraphdb.catalog.model import Catalog
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.remote import forms
from omnigraphdb.remote.answers import Form, Value
from omnigraphdb.remote.arguments import CONDITION, FIRST_PAGE, explain_absence, spell_params
from omnigraphdb.remote.checks import check_arguments as check_methods
from omnigraphdb.remote.transport import Transport
from omnigraphdb.remote.verb_requests import check_call, send_verb
from omnigraphdb.values import replace

if TYPE_CHECKING:
    from omnigraphdb.api.types import EntityId

_Arguments = TypeVar("_Arguments")
_Result = TypeVar("_Result")


@check_methods
class Handle(Calls):
    """The server of a graph, the branch of its handle, and the parts that its requests share."""

    def __init__(self, transport: Transport, *, branch: str = MAIN) -> None:
        self._server = transport
        self._branch = branch

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._server.shown + self._server.prefix

    @property
    def catalog(self) -> Catalog:
        """The types of the schema."""
        return self._server.get(self._server.path("schema"), forms.CATALOG)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from omnigraphdb.api.graph import Graph

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

    def _pages(
        self,
        path: str,
        form: Form[Value],
        query: dict[str, Any],
        find_next: Callable[[Value], str | None],
    ) -> Iterator[Value]:
        """Read page after page; a page that was read already ends in a refusal, not in a circle."""
        tokens: set[str] = set()
        while True:
            answer = self._server.ask("GET", path, params=query)
            page = answer.document(form)
            yield page
            token = find_next(page)
            if token is None:
                return
            if token in tokens:
                raise answer.refuse("its next page is one that was read already")
            tokens.add(token)
            query = {name: text for name, text in query.items() if name not in FIRST_PAGE}
            query["page_token"] = token

    def _call(
        self, verb: Verb[_Arguments, _Result], asked: _Arguments, call: Call | None = None
    ) -> _Result:
        """Send the request of a verb, once its arguments are of their kinds."""
        asked = self._spell_ids(self._name_branch(check_arguments(asked)))
        answer = send_verb(self._server, verb, asked, call or Call())
        return answer.document(forms.form_value(verb.load_result()))

    def _check(self, verb: Verb[_Arguments, Any], asked: _Arguments, call: Call) -> _Arguments:
        """Give the arguments of a call as they are sent; refuse those of other kinds, and those that no request has."""
        asked = self._name_branch(check_arguments(asked))
        check_call(verb, asked, call)
        return asked

    def _name_branch(self, asked: _Arguments) -> _Arguments:
        """Name the branch of the handle where a call names none."""
        listed: Any = list_arguments(type(asked))
        own = {
            argument.name: self._branch
            for argument in listed
            if argument.is_own_branch and getattr(asked, argument.name) is None
        }
        return replace(asked, **own)  # type: ignore[type-var]

    def _spell_ids(self, asked: _Arguments) -> _Arguments:
        """Spell each id that is the value of a key as text."""
        listed: Any = list_arguments(type(asked))
        ids = {
            argument.name: self._id_of(getattr(asked, argument.of), getattr(asked, argument.name))
            for argument in listed
            if argument.of is not None
        }
        return replace(asked, **ids) if ids else asked  # type: ignore[type-var]

    def _write(
        self,
        path: tuple[str, ...],
        form: Form[Value],
        body: dict[str, Any],
        if_commit: str | Commit | None,
        headers: dict[str, str],
        *,
        writes: bool = True,
    ) -> Value:
        named = self._server.path(*path)
        if if_commit is not None:
            named = self._server.path(*path, "if-graph-commit")
            headers = {CONDITION: str(if_commit), **headers}
        return self._server.post(named, form, body, headers=headers, writes=writes)

    def _query_body(
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
