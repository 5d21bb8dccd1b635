"""The acceptance lists of the server and of policies: every row has its test, and the description lists the routes that are wanted."""

import json
from pathlib import Path

import pytest

from omnigraphdb.surfaces.mcp.tools import BUILT_IN
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
READS, POLICY, MCP = "test_http_reads.py", "test_http_policy.py", "test_mcp.py"
ENGINE, RULES = "../engine/test_policy.py", "../unit/policy/test_decisions.py"
TRAPS = {
    "names with a slash": (f"{READS}::test_a_name_with_a_slash_is_one_segment",),
    "no defaults of a framework": (
        f"{GATES}::test_every_refusal_is_the_same_document",
        f"{GATES}::test_head_is_not_answered_by_get",
    ),
    "a condition on a plain route": (f"{WRITES}::test_a_conditional_write_needs_its_header",),
    "no page without a limit": (f"{READS}::test_commits_come_in_pages_only_when_a_limit_is_given",),
    "a stored query without a body": (f"{WRITES}::test_stored_queries_run_by_name",),
    "a commit that is none": (f"{READS}::test_a_commit_that_cannot_be_found_is_404",),
    "keys that are always there": (
        "test_http_openapi.py::test_results_have_the_shapes_that_the_wire_declares",
        f"{WRITES}::test_loads_take_lines_in_a_document_or_as_they_are",
    ),
    "the commit of a write": (f"{WRITES}::test_a_write_answers_with_its_commit",),
    "pages inside a commit": (f"{READS}::test_pages_of_the_feed_may_end_inside_a_commit",),
    "exports at a time": (
        f"{EXPORTS}::test_a_reader_who_leaves_frees_the_slot",
        f"{READS}::test_an_export_is_the_load_format",
    ),
    "blobs and dates": (
        f"{READS}::test_every_record_of_the_load_is_in_the_export",
        f"{WRITES}::test_a_date_may_be_a_number_of_days",
    ),
    "names of operations": ("test_http_openapi.py::test_operations_have_stable_names",),
    "tools": (
        "test_http_acceptance.py::test_the_built_in_tools_are_those_that_are_wanted",
        f"{MCP}::test_an_actor_sees_the_tools_that_it_may_use",
        "test_mcp_sessions.py::test_a_stored_query_says_whether_it_is_a_tool_and_what_the_tool_is_called",
    ),
    "kinds and scopes of policies": (
        f"{RULES}::test_wrong_files_are_refused",
        f"{RULES}::test_a_rule_without_a_scope_speaks_of_every_branch",
    ),
    "deprecated routes": (f"{WRITES}::test_deprecated_routes_work_and_name_their_successors",),
    "readiness and request ids": (
        f"{GATES}::test_a_server_that_drains_is_not_ready",
        f"{GATES}::test_the_request_id_is_echoed_or_made",
    ),
}
OF_POLICIES = {
    1: (f"{ENGINE}::test_a_writer_asks_before_it_writes",),
    2: (
        f"{POLICY}::test_a_denied_write_is_403_and_changes_no_byte",
        f"{POLICY}::test_who_may_writes",
        "../properties/test_policy_parity.py::test_every_gate_decides_the_same",
    ),
    3: (f"{RULES}::test_wrong_files_are_refused",),
    4: (f"{ENGINE}::test_the_right_to_fork_is_asked_only_when_a_branch_is_made",),
    5: (f"{POLICY}::test_a_merge_lands_and_its_branch_stays_without_the_right_to_delete",),
    6: (
        f"{RULES}::test_removing_all_rules_denies_everything",
        f"{ENGINE}::test_any_checker_guards_and_a_broken_one_lets_nothing_through",
    ),
    7: (f"{ENGINE}::test_any_checker_guards_and_a_broken_one_lets_nothing_through",),
}
NAMED = [
    *ROWS.values(),
    f"{POLICY}::test_seventeen_writes_of_one_actor_leave_room_for_another",
    *(one for tests in (*TRAPS.values(), *OF_POLICIES.values()) for one in tests),
]
TOOLS = (
    "health snapshot query schema_get branches_list tags_list graphs_list commits_list commits_get commits_changes changes_poll mutate "
    "load branches_create branches_delete branches_merge tags_create tags_delete"
)
OF_SERVER = {"GET /healthz", "GET /readyz", "GET /openapi.json", "GET /metrics", "GET /graphs"}
OF_GRAPH = {
    "GET /snapshot", "POST /query", "GET /schema", "GET /branches", "GET /commits", "GET /commits/{commit}",
    "GET /commits/{commit}/changes", "GET /diff", "GET /changes", "POST /changes/baseline", "POST /export",
    "GET /blob", "HEAD /blob", "GET /queries", "POST /mutate", "POST /mutate/if-graph-commit", "POST /load",
    "POST /load/ndjson", "POST /branches", "DELETE /branches/{branch}", "POST /branches/merge",
    "POST /branches/merge/preview", "POST /schema/plan", "POST /schema/apply", "POST /queries/{name}",
    "POST /queries/{name}/if-graph-commit", "POST /read", "POST /change", "POST /ingest",
}  # fmt: skip
EXPLORER = {
    "POST /lint", "POST /complete", "GET /schema/graph", "GET /entity", "GET /entity/history", "GET /neighbours", "GET /paths",
    "GET /log/graph",
    "GET /diff/graph", "GET /index_status", "GET /doctor", "GET /recoveries", "GET /cleanup/preview",
}  # fmt: skip
CONDITIONAL = {"POST /branches/merge/if-graph-commit", "POST /schema/apply/if-graph-commit"}
NAMES_OF_COMMITS = {"GET /tags", "POST /tags", "DELETE /tags/{tag}", "GET /branches/{branch}"}
MAINTENANCE = {
    "GET /describe", "GET /operation/{key}", "POST /indexes", "POST /optimize", "POST /cleanup", "POST /repair",
}  # fmt: skip
ADDED = {
    *MAINTENANCE,
    "GET /jobs", "GET /table", "POST /query/explain", "POST /mcp", *CONDITIONAL, *EXPLORER, *NAMES_OF_COMMITS,
}  # fmt: skip
"""Routes beside the list: long work, whole types, plans, writes that insist on a head, the protocol of agents, which describes itself, what the explorer asks, tags and heads one at a time, and maintenance."""


@pytest.mark.parametrize("named", NAMED)
def test_every_row_has_its_test(named: str) -> None:
    file, _, name = named.partition("::")
    assert f"def {name}(" in (HERE / file).read_text(encoding="utf-8")


def test_the_description_lists_every_wanted_route_and_no_other() -> None:
    paths = json.loads(OPENAPI.read_text(encoding="utf-8"))["paths"]
    listed = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    prefix = "/graphs/{graph_id}"
    nested = {one.replace(prefix, "") for one in listed if prefix in one}
    flat = {one for one in listed if prefix not in one}
    assert nested - ADDED == OF_GRAPH
    assert flat - ADDED == OF_GRAPH | OF_SERVER


def test_the_built_in_tools_are_those_that_are_wanted() -> None:
    assert [one.name for one in BUILT_IN] == TOOLS.split()
