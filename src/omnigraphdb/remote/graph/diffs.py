"""What differs between two states of a served graph."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from omnigraphdb.api.comparisons import Change, Diff, DiffPage
from omnigraphdb.api.results import Commit
from omnigraphdb.limits import CHANGES_PAGE_MAX
from omnigraphdb.remote import forms
from omnigraphdb.remote.arguments import refuse_local, spell_filters
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraphdb.api.drawings import DiffDrawing
    from omnigraphdb.api.types import Kinds, Ops


@check_arguments
class Diffs(Handle):
    """What differs between two states of a served graph."""

    def diff(
        self,
        base: str | Commit,
        head: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        **local: object,
    ) -> Diff:
        """Entities that differ between two branches or commits, by table key, then id."""
        refuse_local(local)
        query = {"from": str(base), "to": str(head)} | spell_filters(types, kinds, ops)
        form = forms.form_diff(images=images)
        pages = list(self._pages(self._server.path("diff"), form, query, _find_next))
        changes = [one for page in pages for one in page.diff.changes]
        changes.sort(key=lambda change: (change.table_key, change.id))
        return Diff(
            base=pages[0].diff.base,
            head=pages[0].diff.head,
            changes=tuple(changes),
            engine=pages[0].diff.engine,
            reason=pages[0].diff.reason,
        )

    def diff_stream(
        self,
        base: str | Commit,
        head: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
    ) -> Iterator[Change]:
        """The changes of a `diff` one after the other, however many there are: nodes before edges, as a server pages them."""
        query = {"from": str(base), "to": str(head)} | spell_filters(types, kinds, ops)
        query |= {"limit": CHANGES_PAGE_MAX}
        form = forms.form_diff(images=images)
        pages = self._pages(self._server.path("diff"), form, query, _find_next)
        first = next(pages)
        return chain.from_iterable(page.diff.changes for page in chain((first,), pages))

    def diff_page(
        self,
        base: str,
        head: str,
        *,
        limit: int | None = None,
        page_token: str | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
    ) -> DiffPage:
        """One page of a `diff`, with the rows before and after, nodes before edges."""
        query = {"from": base, "to": head, "limit": limit, "page_token": page_token}
        authored = {"property": properties, "actor": actors}
        path = self._server.path("diff")
        form = forms.form_diff(images=True)
        return self._server.get(path, form, **query, **authored, **spell_filters(types, kinds, ops))

    def diff_drawing(
        self,
        base: str | Commit,
        head: str | Commit,
        *,
        types: Sequence[str] | None = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
        nodes_max: int = 2_000,
        edges_max: int = 10_000,
    ) -> "DiffDrawing":
        """A `diff` to be drawn: its counts, and the first changed nodes and edges with the nodes these hang on."""
        from omnigraphdb.remote.pictures import DRAWING

        query = {"base": str(base), "head": str(head), "type": types, "operation": ops}
        query |= {"property": properties, "actor": actors}
        most = {"limit_nodes": nodes_max, "limit_edges": edges_max}
        return self._server.get(self._server.path("diff", "graph"), DRAWING, **query, **most)


def _find_next(page: DiffPage) -> str | None:
    return page.next_page_token
