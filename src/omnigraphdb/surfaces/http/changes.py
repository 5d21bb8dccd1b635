"""Routes of the change feed: what commits changed, and what differs between two states."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnigraphdb.api.wire import spell_block, spell_change
from omnigraphdb.engine.history.pages import check_page_size
from omnigraphdb.errors import UserInputError
from omnigraphdb.surfaces.http.calls import Call, Param
from omnigraphdb.surfaces.http.replies import Reply, Stream, encode_json, reply_json
from omnigraphdb.surfaces.http.streams import stream_lines

FILTERS = (
    Param(name="kind", repeatable=True, text="Only `node` or `edge`."),
    Param(name="type", repeatable=True, text="Only this type."),
    Param(name="op", repeatable=True, text="Only `insert`, `update` or `delete`."),
    Param(name="limit", kind=int, text="Changes of a page."),
    Param(name="page_token", text="Continue after an earlier page."),
)

AUTHORED = (
    Param(name="property", repeatable=True, text="Only updates of this property."),
    Param(name="actor", repeatable=True, text="Only what commits of this actor changed."),
)


def _read_filters(call: Call) -> dict[str, Any]:
    names = {"kinds": "kind", "types": "type", "ops": "op"}
    return {name: call.texts(param) for name, param in names.items()}


def commit_changes(call: Call) -> Reply:
    """Show what a commit changed against its first parent."""
    block = call.place.graph.commit_changes(
        call.path["commit"],
        **_read_filters(call),
        images=True,
        limit=check_page_size(call.count("limit")),
        page_token=call.text("page_token"),
        nodes_first=True,
    )
    return reply_json(spell_block(block))


def diff(call: Call) -> Reply:
    """Show what differs between two branches or commits."""
    base, head = call.needed("from"), call.needed("to")
    page = call.place.graph.diff_page(
        base,
        head,
        **_read_filters(call),
        properties=call.texts("property"),
        actors=call.texts("actor"),
        limit=call.count("limit"),
        page_token=call.text("page_token"),
        shows=call.may_read,
    )
    token = {} if page.next_page_token is None else {"next_page_token": page.next_page_token}
    return reply_json(
        {
            "from": page.diff.base,
            "to": page.diff.head,
            "changes": [spell_change(one) for one in page.diff.changes],
            "stats": page.stats.to_dict(),
            "engine": page.diff.engine,
            "reason": page.diff.reason,
            **token,
        }
    )


def poll_changes(call: Call) -> Reply:
    """Read the feed: commits of a branch, oldest first, in pages."""
    starts = [name for name in ("cursor", "start", "page_token") if call.text(name) is not None]
    if len(starts) > 1:
        raise UserInputError(f"'{starts[0]}' and '{starts[1]}' exclude each other")
    page = call.place.graph.change_page(
        branch=call.text("branch"),
        cursor=call.text("cursor"),
        start=call.text_or("start", "now"),
        page_token=call.text("page_token"),
        limit=call.count("limit"),
        shows=call.may_read,
        **_read_filters(call),
    )
    facts = {
        "next_page_token": page.next_page_token,
        "cursor": page.cursor,
        "caught_up": page.caught_up,
    }
    present = {name: value for name, value in facts.items() if value is not None}
    told = {"engine": page.engine, "reason": page.reason}
    return reply_json({"blocks": [spell_block(one) for one in page.blocks], **present, **told})


def baseline(call: Call) -> Stream:
    """Stream every entity, then the cursor from which the feed goes on."""
    body = call.body
    call.served.exports.take()
    try:
        found = call.place.graph.baseline_stream(
            branch=body.get("branch"), types=body.get("type_names")
        )
        last = {"snapshot_commit_id": found.commit, "resume_cursor": found.cursor}
        lines = _append_record(found.lines, {"baseline": last})
        answer = stream_lines(lines, found.commit, call.served.exports.give_back)
        return replace(answer, headers={**answer.headers, "omnigraph-resume-cursor": found.cursor})
    except BaseException:
        call.served.exports.give_back()
        raise


def _append_record(lines: Iterator[Any], record: dict[str, Any]) -> Iterator[Any]:
    """The lines, then a record that is sent only when everything before it was."""
    yield from lines
    yield encode_json(record) + b"\n"
