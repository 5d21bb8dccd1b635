"""The acceptance list of the server: every row has its test, and the description lists the routes that are wanted."""

import json
from pathlib import Path

import pytest

from tests.support.reference import OPENAPI

HERE = Path(__file__).parent
WRITES, GATES, EXPORTS = "test_http_writes.py", "test_http_gates.py", "test_http_exports.py"
ROWS = {
    1: f"{WRITES}::test_every_insert_of_many_threads_is_there_or_was_refused",
    2: f"{WRITES}::test_of_two_updates_of_one_row_one_is_refused",
    3: f"{GATES}::test_no_header_and_no_field_changes_the_actor",
    4: f"{WRITES}::test_a_server_killed_inside_a_write_leaves_it_whole_or_absent",
    5: f"{WRITES}::test_a_server_heals_itself_after_a_failed_publish",
    6: f"{WRITES}::test_the_seventeenth_write_of_an_actor_is_refused",
    7: f"{EXPORTS}::test_a_large_export_streams_in_bounded_memory",
    8: "test_http_acceptance.py::test_the_description_lists_every_wanted_route_and_no_other",
    9: f"{GATES}::test_tokens_without_a_policy_may_only_read",
    10: "test_cli_server.py::test_a_read_prints_the_same",
}
OF_SERVER = {"GET /healthz", "GET /readyz", "GET /openapi.json", "GET /metrics", "GET /graphs"}
OF_GRAPH = {
    "GET /snapshot", "POST /query", "GET /schema", "GET /branches", "GET /commits", "GET /commits/{commit}",
    "GET /commits/{commit}/changes", "GET /diff", "GET /changes", "POST /changes/baseline", "POST /export",
    "GET /blob", "HEAD /blob", "GET /queries", "POST /mutate", "POST /mutate/if-graph-commit", "POST /load",
    "POST /load/ndjson", "POST /branches", "DELETE /branches/{branch}", "POST /branches/merge",
    "POST /branches/merge/preview", "POST /schema/plan", "POST /schema/apply", "POST /queries/{name}",
    "POST /queries/{name}/if-graph-commit", "POST /read", "POST /change", "POST /ingest",
}  # fmt: skip
ADDED = {"GET /jobs", "POST /query/explain", "POST /mcp"}
"""Routes beside the list: long work, plans, and the protocol of agents, which describes itself."""


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_its_test(row: int) -> None:
    file, _, name = ROWS[row].partition("::")
    assert f"def {name}(" in (HERE / file).read_text(encoding="utf-8")


def test_the_description_lists_every_wanted_route_and_no_other() -> None:
    paths = json.loads(OPENAPI.read_text(encoding="utf-8"))["paths"]
    listed = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    prefix = "/graphs/{graph_id}"
    nested = {one.replace(prefix, "") for one in listed if prefix in one}
    flat = {one for one in listed if prefix not in one}
    assert nested - ADDED == OF_GRAPH
    assert flat - ADDED == OF_GRAPH | OF_SERVER
