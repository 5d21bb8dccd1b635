"""Values that only surfaces put together, spelled in the shapes of answers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraphdb.api.wire.answers import (
    EntityChange,
    ImageOutput,
)

if TYPE_CHECKING:
    from omnigraphdb.engine.history.changes import Change, ChangeBlock
    from omnigraphdb.engine.history.entity import EntityHistory


def spell_block(block: "ChangeBlock") -> dict[str, Any]:
    """Spell what a commit changed, with the rows before and after."""
    token = {} if block.next_page_token is None else {"next_page_token": block.next_page_token}
    cause = block.to_dict()["cause"]
    return {"cause": cause, "changes": [spell_change(one) for one in block.changes], **token}


def spell_history(history: "EntityHistory") -> dict[str, Any]:
    """Spell the changes of one entity, with its rows before and after."""
    changes = [one.to_dict() | {"change": spell_change(one.change)} for one in history.changes]
    return history.to_dict() | {"changes": changes}


def spell_change(change: "Change") -> EntityChange:
    """Spell one changed entity with its rows."""
    sides = {"before": change.before, "after": change.after}
    is_edge = change.endpoints is not None
    images = {side: _spell_image(row, is_edge) for side, row in sides.items() if row is not None}
    return {
        "kind": change.kind.value,
        "type": {"id": change.type_id, "name": change.type_name},
        "id": change.id,
        "op": change.op.value,
        "properties": list(change.properties),
        "table_version": change.table_version,
        "manifest_version": change.manifest_version,
        **images,  # type: ignore[typeddict-item]
    }


def _spell_image(row: Mapping[str, Any], is_edge: bool) -> ImageOutput:
    identity = ("id", "src", "dst") if is_edge else ("id",)
    image: ImageOutput = {"properties": {k: v for k, v in row.items() if k not in identity}}
    if is_edge:
        image["endpoints"] = {"from": row["src"], "to": row["dst"]}
    return image
