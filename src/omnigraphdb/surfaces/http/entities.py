"""The route of the commits that changed one entity."""

from dataclasses import replace

from omnigraphdb.api.wire import spell_history
from omnigraphdb.engine.history.entity import EntityHistory
from omnigraphdb.engine.history.pages import check_page_size
from omnigraphdb.surfaces.http.calls import Call, Param
from omnigraphdb.surfaces.http.reads import read_point
from omnigraphdb.surfaces.http.replies import Reply, reply_json

CHANGES = 100
"""Changes of an answer, unless the caller asks for another number."""
NAMED = (
    Param(name="type", required=True, text="The type of the entity."),
    Param(name="id", required=True, text="Its id, or the value of its key."),
    Param(name="branch", text="The branch; main by default."),
    Param(name="at", text="A commit or a manifest version of the branch."),
)


def history(call: Call) -> Reply:
    """List the commits that changed an entity, the newest first."""
    found = call.place.graph.history(
        call.needed("type"),
        call.needed("id"),
        branch=call.text("branch"),
        at=read_point(call.text("at")),
        limit=check_page_size(call.count("limit") or CHANGES),
    )
    return reply_json(spell_history(_hide_unreadable(call, found)))


def _hide_unreadable(call: Call, found: EntityHistory) -> EntityHistory:
    """Leave out commits of branches that the actor may not read, as if a merge had no history."""
    branches = {one.commit.branch for one in found}
    readable = {name for name in branches if call.may_read(name)}
    shown = tuple(one for one in found if one.commit.branch in readable)
    return replace(found, changes=shown)
