"""Sidecars as earlier releases wrote them, put on disk by hand."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import OperationId
from omnigraphdb.storage.values import TableAt


def forge_sidecar(
    graph: Graph,
    writer_kind: str,
    at: TableAt,
    *,
    key: str,
    schema_version: int = 2,
    branch: str | None = None,
    pin: Mapping[str, Any] | None = None,
    **facts: Any,
) -> OperationId:
    """Arm an operation that pins one table where it stands and means to move it by one version."""
    operation = OperationId(graph._engine.runtime.new_id())
    body = {
        "schema_version": schema_version,
        "operation_id": operation,
        "started_at": "2025-01-01T00:00:00.000000",
        "branch": branch,
        "actor_id": "bo",
        "writer_kind": writer_kind,
        "tables": [
            {
                "table_key": key,
                "table_path": graph._engine.store.root.at(at.path),
                "expected_version": at.version,
                "post_commit_pin": at.version + 1,
                **({"table_branch": at.branch} if at.branch else {}),
                **(pin or {}),
            }
        ],
        **facts,
    }
    folder = Path(graph.uri) / "__recovery"
    folder.mkdir(exist_ok=True)
    (folder / f"{operation}.json").write_text(json.dumps(body))
    return operation
