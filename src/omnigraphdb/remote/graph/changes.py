"""The change feed of a served graph, and the baseline that it follows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from omnigraphdb.api.comparisons import (
    Baseline,
    BaselineStream,
    ChangeBlock,
    ChangePage,
    ChangeStream,
    FeedPage,
)
from omnigraphdb.api.results import Commit
from omnigraphdb.api.verbs.history import SHOW_COMMIT, CommitShow
from omnigraphdb.engine.history.feed import write_lines
from omnigraphdb.limits import CHANGES_PAGE, CHANGES_PAGE_MAX
from omnigraphdb.remote import forms
from omnigraphdb.remote.answers import Answer
from omnigraphdb.remote.arguments import SNAPSHOT, refuse_local, spell_filters, spell_start
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.handle import Handle

if TYPE_CHECKING:
    from omnigraphdb.api.types import Kinds, Ops

RESUME = "omnigraph-resume-cursor"


@check_arguments
class Changes(Handle):
    """The change feed of a served graph, and the baseline that it follows."""

    def commit_changes(
        self,
        id: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = True,
        limit: int | None = None,
        page_token: str | None = None,
        **local: object,
    ) -> ChangeBlock:
        """What one commit changed against its first parent; with `limit` one page, and `next_page_token` names the next."""
        refuse_local(local)
        path = self._server.path("commits", str(id), "changes")
        query = spell_filters(types, kinds, ops) | {"limit": limit, "page_token": page_token}
        pages = self._pages(path, forms.form_block(images=images), query, _find_next)
        shown = list(pages if limit is None else islice(pages, 1))
        changes = chain.from_iterable(page["changes"] for page in shown)
        return ChangeBlock(
            commit=self._show(shown[0]["cause"]["graph_commit_id"]),
            changes=tuple(changes),
            next_page_token=shown[-1].get("next_page_token"),
        )

    def change_page(
        self,
        *,
        branch: str | None = None,
        cursor: str | None = None,
        start: str = "now",
        page_token: str | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
    ) -> FeedPage:
        """Read one page of the change feed; it may end inside a commit."""
        # A page continues at its token; a cursor replaces the start.
        places = {"page_token": page_token, "cursor": cursor, "start": start}
        place = next(name for name, text in places.items() if text is not None)
        body = self._server.get(
            self._server.path("changes"),
            forms.form_feed(images=True),
            branch=self._branch_of(branch),
            limit=limit,
            **{place: places[place]},
            **spell_filters(types, kinds, ops),
        )
        blocks = (
            ChangeBlock(commit=self._show(one["cause"]["graph_commit_id"]), changes=one["changes"])
            for one in body["blocks"]
        )
        return FeedPage(
            blocks=tuple(blocks),
            next_page_token=body.get("next_page_token"),
            cursor=body.get("cursor"),
            caught_up=body.get("caught_up"),
            engine=body["engine"],
            reason=body["reason"],
        )

    def changes(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
    ) -> ChangePage:
        """Read the change feed: whole commits, oldest first, after a cursor or commit; `limit` counts changes."""
        room = CHANGES_PAGE if limit is None else limit
        query: dict[str, Any] = {"branch": self._branch_of(branch)}
        query |= (
            {"limit": min(room, CHANGES_PAGE_MAX)}
            | spell_start(since)
            | spell_filters(types, kinds, ops)
        )
        last: dict[str, Any] = {}
        blocks: list[ChangeBlock] = []
        parts = self._list_parts(query, last, images=images)
        for commit, parts_of in groupby(parts, lambda one: one["cause"]["graph_commit_id"]):
            if room <= 0:
                # The commit before this one is whole: its id says where to go on.
                return ChangePage(
                    blocks=tuple(blocks),
                    cursor=str(blocks[-1].commit.id),
                    caught_up=False,
                    engine=last["engine"],
                    reason=last["reason"],
                )
            blocks.append(self._join_block(commit, parts_of))
            room -= len(blocks[-1].changes)
        return ChangePage(
            blocks=tuple(blocks),
            cursor=last["cursor"],
            caught_up=bool(last["caught_up"]),
            engine=last["engine"],
            reason=last["reason"],
        )

    def changes_stream(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        **local: object,
    ) -> Iterator[ChangeStream]:
        """The change feed up to now, commit by commit; read the changes of a commit before you ask for the next one."""
        refuse_local(local)
        query = {"branch": self._branch_of(branch), "limit": CHANGES_PAGE_MAX}
        query |= spell_start(since) | spell_filters(types, kinds, ops)
        last: dict[str, Any] = {}
        parts = self._list_parts(query, last, images=images)
        for commit, parts_of in groupby(parts, lambda one: one["cause"]["graph_commit_id"]):
            yield ChangeStream(
                commit=self._show(commit),
                # The id of a whole commit says where to go on.
                cursor=commit,
                changes=chain.from_iterable(part["changes"] for part in parts_of),
                engine=last["engine"],
                reason=last["reason"],
            )

    def _show(self, id: str) -> Commit:
        return self._call(SHOW_COMMIT, CommitShow(id=id))

    def _list_parts(
        self, query: dict[str, Any], last: dict[str, Any], *, images: bool
    ) -> Iterator[Any]:
        """List the blocks of the feed, page by page, and put the facts of the present page into `last`."""
        form = forms.form_feed(images=images)
        for page in self._pages(self._server.path("changes"), form, query, _find_next):
            last.update(page)
            yield from page["blocks"]

    def _join_block(self, commit: str, parts: Iterable[Any]) -> ChangeBlock:
        """Put the parts of a commit together that came in several pages."""
        changes = list(chain.from_iterable(part["changes"] for part in parts))
        changes.sort(key=lambda change: (change.table_key, change.id))
        return ChangeBlock(commit=self._show(commit), changes=tuple(changes))

    def baseline(
        self,
        out: str | Path,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Baseline:
        """Write every entity to a file in the load format, and give the cursor of the first change after it."""
        end: dict[str, str] = {}
        lines = self._read_baseline(branch, types, end)
        next(lines)
        records = write_lines(Path(out), lines)
        commit = self._show(end["snapshot_commit_id"])
        return Baseline(commit=commit, cursor=end["resume_cursor"], records=records)

    def baseline_stream(
        self, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> BaselineStream:
        """Every entity in the load format as lines, and the cursor of the first change after it."""
        lines = self._read_baseline(branch, types, {})
        answer: Answer = next(lines)
        commit, cursor = answer.read(_read_places, answer.headers)
        return BaselineStream(commit=commit, cursor=cursor, lines=lines)

    def _read_baseline(
        self, branch: str | None, types: Sequence[str] | None, end: dict[str, str]
    ) -> Iterator[Any]:
        """Give the answer of a baseline, then its lines while they arrive; the record at its end goes into `end`."""
        body = {
            "branch": self._branch_of(branch),
            "type_names": None if types is None else [*types],
        }
        path = self._server.path("changes", "baseline")
        with self._server.stream("POST", path, body=body) as found:
            yield found
            last: dict[str, Any] = {}
            held: Sequence[bytes] = ()
            for lines, records in found.lines():
                if held or len(lines) > 1:
                    yield pa.py_buffer(b"\n".join((*held, *lines[:-1])) + b"\n")
                held, last = lines[-1:], records[-1]
            end |= found.check(_End, last)["baseline"]


def _read_places(headers: Mapping[str, str]) -> tuple[str, str]:
    return headers[SNAPSHOT], headers[RESUME]


def _find_next(page: Mapping[str, Any]) -> str | None:
    token: str | None = page.get("next_page_token")
    return token


class _Places(TypedDict):
    """The commit of a baseline, and where the feed goes on after it."""

    snapshot_commit_id: str
    resume_cursor: str


class _End(TypedDict):
    """The last record of a baseline."""

    baseline: _Places
