"""What differs between two states of a served graph."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from omnigraph.api.comparisons import Change, Diff, DiffPage
from omnigraph.api.results import Commit
from omnigraph.limits import CHANGES_PAGE_MAX
from omnigraph.remote import decode
from omnigraph.remote.arguments import refuse_local, spell_filters
from omnigraph.remote.checks import check_arguments
from omnigraph.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraph.api.drawings import DiffDrawing
    from omnigraph.api.types import Kinds, Ops


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
        pages = list(self._pages(self._server.path("diff"), query))
        changes = [
            decode.read_change(one, images=images) for page in pages for one in page["changes"]
        ]
        changes.sort(key=lambda change: (change.table_key, change.id))
        return Diff(
            base=pages[0]["from"],
            head=pages[0]["to"],
            changes=tuple(changes),
            engine=pages[0]["engine"],
            reason=pages[0]["reason"],
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
        pages = self._pages(self._server.path("diff"), query | {"limit": CHANGES_PAGE_MAX})
        first = next(pages)
        found = chain.from_iterable(page["changes"] for page in chain((first,), pages))
        return (decode.read_change(one, images=images) for one in found)

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
        return decode.read_diff_page(
            self._server.get(path, **query, **authored, **spell_filters(types, kinds, ops))
        )

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
        from omnigraph.remote.pictures import read_drawing

        query = {"base": str(base), "head": str(head), "type": types, "operation": ops}
        query |= {"property": properties, "actor": actors}
        most = {"limit_nodes": nodes_max, "limit_edges": edges_max}
        return read_drawing(self._server.get(self._server.path("diff", "graph"), **query, **most))
