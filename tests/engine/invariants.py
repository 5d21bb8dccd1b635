"""Which test observes which invariant of storage (ST), of the write path (WP), and of branches and history (BR).

A test is named by its file and function, a case of the conformance suite by its file and name.
"""

from collections.abc import Mapping

COUNTS: Mapping[str, int] = {"ST": 33, "WP": 34, "BR": 32}
"""How many invariants each list has, numbered from 1."""

_STORAGE = "tests/engine/storage/"
_MANIFEST = "tests/engine/manifest/"
_WRITES = "tests/engine/test_write_path.py::"
_LOADS = "tests/engine/test_load.py::"
_HISTORY = "tests/engine/test_branches_and_history.py::"
_MANY = "tests/engine/test_concurrency.py::"
_COST = "tests/cost/test_writes.py::"
_MAINTENANCE = "tests/engine/maintenance/"
_MERGE = "tests/engine/merge/"
_FAULTS = "tests/faults/"
_CASES = "tests/conformance/"

OBSERVED: Mapping[str, tuple[str, ...]] = {
    # ---- storage
    "ST-1": (
        _MANY + "test_keyed_inserts_of_different_ids_into_one_table_all_land",
        _MANY + "test_upserts_of_the_same_id_leave_one_row",
    ),
    "ST-2": (
        _STORAGE + "test_rows.py::test_the_same_key_from_the_same_version_has_one_winner",
        _STORAGE + "test_rows.py::test_writers_of_other_rows_both_land",
    ),
    "ST-3": (_HISTORY + "test_a_snapshot_returns_the_same_whatever_is_written_later",),
    "ST-4": (_HISTORY + "test_a_query_never_sees_one_table_before_and_one_after_a_commit",),
    "ST-5": (_HISTORY + "test_readers_never_see_one_of_a_pair",),
    "ST-6": (
        _MANIFEST
        + "test_genesis.py::test_genesis_is_one_commit_without_parent_and_actor_at_version_one",
    ),
    "ST-7": (_HISTORY + "test_history_lives_in_the_manifest_alone",),
    "ST-8": (
        _MANY + "test_threads_on_disjoint_tables_all_land",
        _MANY + "test_processes_on_disjoint_tables_all_land",
    ),
    "ST-9": (
        "tests/engine/test_old_history.py::test_a_migrated_branch_needs_its_old_history_no_more",
    ),
    "ST-10": (_MANIFEST + "test_genesis.py::test_of_concurrent_inits_exactly_one_succeeds",),
    "ST-11": (
        _MANIFEST
        + "test_genesis.py::test_an_init_that_fails_returns_its_error_and_leaves_no_schema_file",
    ),
    "ST-12": (_MANIFEST + "test_migrate.py::test_a_second_run_writes_nothing",),
    "ST-13": (
        _MANIFEST + "test_migrate.py::test_a_crash_after_the_backfill_leaves_only_the_stamps_to_do",
    ),
    "ST-14": (
        _MANIFEST
        + "test_migrate.py::test_a_failed_look_at_the_old_history_aborts_and_leaves_the_stamp",
    ),
    "ST-15": (
        _MANIFEST + "test_migrate.py::test_a_runner_overtaken_midway_succeeds_and_adds_nothing",
        _MANIFEST + "test_migrate.py::test_runners_at_the_same_moment_all_succeed",
    ),
    "ST-16": (
        _MANIFEST
        + "test_migrate.py::test_a_stamp_that_never_lands_is_contention_not_a_storage_error",
    ),
    "ST-17": (
        _MANIFEST
        + "test_migrate.py::test_a_branch_is_migrated_by_its_own_first_publish_and_main_is_left_alone",
    ),
    "ST-18": (
        _MANIFEST + "test_migrate.py::test_a_stamp_outside_what_we_know_is_refused_by_every_reader",
    ),
    "ST-19": (
        _MANIFEST + "test_publish.py::test_contention_while_loading_counts_as_a_lost_round",
        _MANIFEST + "test_migrate.py::test_the_publisher_retries_a_contended_migration",
    ),
    "ST-20": (
        _FAULTS
        + "test_forks.py::test_a_stray_fork_is_cleared_and_the_branch_starts_from_what_it_shows",
    ),
    "ST-21": (_FAULTS + "test_forks.py::test_k1_the_rival_of_a_first_writer_reads_again",),
    "ST-22": (
        _MANIFEST + "test_branches.py::test_a_create_that_fails_for_another_reason_deletes_nothing",
        _STORAGE + "test_forks.py::test_a_fork_from_a_version_that_is_not_there_creates_nothing",
    ),
    "ST-23": (
        _STORAGE + "objects/test_protocol.py::test_only_the_first_create_wins_and_leaves_its_text",
    ),
    "ST-24": (
        _STORAGE
        + "lance/test_tables.py::test_staging_moves_no_head_and_committing_moves_it_by_one",
    ),
    "ST-25": (
        _STORAGE + "lance/test_tables.py::test_a_merge_refuses_a_source_it_could_not_apply",
        _STORAGE + "lance/test_tables.py::test_nothing_to_append_is_refused",
        _STORAGE
        + "lance/test_tables.py::test_an_overwrite_replaces_everything_and_may_leave_nothing",
    ),
    "ST-26": (
        "tests/unit/test_import_layers.py::test_what_a_module_loads_lies_below_it",
        "tests/unit/test_lance_layer.py::test_heads_move_behind_the_known_doors_only",
    ),
    "ST-27": (
        _MAINTENANCE + "test_indexes.py::test_an_equality_on_an_indexed_number_asks_the_index",
        _WRITES + "test_predicates_of_updates_and_deletes_select_the_same_rows",
    ),
    "ST-28": (
        _MAINTENANCE + "test_indexes.py::test_rows_that_came_later_are_outside_until_optimize",
        _MAINTENANCE + "test_optimize.py::test_a_second_run_commits_nothing",
    ),
    "ST-29": (
        _MAINTENANCE
        + "test_indexes.py::test_a_vector_index_waits_for_a_vector_and_holds_up_no_other",
        _MAINTENANCE
        + "test_indexes.py::test_searches_find_the_same_rows_without_an_index_with_half_of_one_and_with_all",
    ),
    "ST-30": (_HISTORY + "test_a_reader_that_stays_open_sees_other_writers_at_once",),
    "ST-31": (
        _HISTORY + "test_a_name_that_is_deleted_and_made_again_shows_nothing_of_its_former_life",
    ),
    "ST-32": (_HISTORY + "test_a_reader_that_stays_open_sees_other_writers_at_once",),
    "ST-33": (_COST + "test_a_write_costs_at_commit_300_what_it_cost_at_commit_5",),
    # ---- the write path
    "WP-1": (_WRITES + "test_an_interrupted_write_is_healed_before_the_next_one_looks",),
    "WP-2": (_WRITES + "test_a_failing_statement_leaves_no_trace_and_the_next_write_works",),
    "WP-3": (
        _WRITES + "test_the_turn_of_a_table_is_held_from_before_the_sidecar_until_it_is_gone",
    ),
    "WP-4": (
        _WRITES + "test_a_write_of_several_statements_and_tables_is_one_version_and_one_commit",
    ),
    "WP-5": (_WRITES + "test_a_write_that_matches_nothing_publishes_nothing",),
    "WP-6": (_WRITES + "test_later_statements_see_earlier_ones_and_nothing_they_replaced",),
    "WP-7": (_WRITES + "test_an_edge_and_its_new_node_come_in_one_query_in_any_order",),
    "WP-8": (
        _WRITES + "test_a_mix_of_writes_and_deletes_is_refused_even_when_nothing_could_be_written",
        _COST + "test_a_mutation_that_mixes_writes_and_deletes_asks_for_a_policy_only",
    ),
    "WP-9": (_WRITES + "test_a_delete_that_was_overtaken_is_refused_and_removes_nothing",),
    "WP-10": (_WRITES + "test_a_delete_takes_edges_along_and_counts_everything_once",),
    "WP-11": (_MANY + "test_inserts_prepared_on_one_base_all_land",),
    "WP-12": (
        _MANY + "test_upserts_of_the_same_id_leave_one_row",
        _MANY + "test_appends_of_the_same_id_have_one_winner_and_typed_losers",
    ),
    "WP-13": (
        _MANY + "test_strict_updates_prepared_on_one_base_have_one_winner_per_round",
        _MANY + "test_strict_updates_of_several_processes_never_overwrite_one_another",
    ),
    "WP-14": (
        _FAULTS + "test_sidecars.py::test_drift_that_no_sidecar_explains_is_never_folded_in",
        _FAULTS
        + "test_sidecars.py::test_drift_that_no_sidecar_explains_is_never_folded_in_by_other_writers",
    ),
    "WP-15": (
        _MANIFEST
        + "test_publish.py::test_a_retry_takes_the_advanced_head_as_parent_and_keeps_its_commit_id",
    ),
    "WP-16": (
        "tests/substrate/test_lance_rows.py::test_a_staged_merge_forgets_its_keys_even_with_the_mark",
        _STORAGE + "lance/test_swaps.py::test_rivals_from_one_version_have_one_winner",
    ),
    "WP-17": (_MANIFEST + "test_publish.py::test_a_refused_publish_leaves_the_manifest_as_it_was",),
    "WP-18": (_MANIFEST + "test_publish.py::test_a_refused_publish_leaves_the_manifest_as_it_was",),
    "WP-19": (
        _MERGE + "test_scenarios.py::test_a_merge_is_prepared_again_when_its_target_advances",
        _FAULTS
        + "test_refusals.py::test_a_read_set_that_moved_at_the_last_moment_refuses_the_write",
    ),
    "WP-20": (
        "tests/unit/commit/test_locks.py::test_random_sets_of_turns_never_block_for_ever_and_never_overlap",
    ),
    "WP-21": (_WRITES + "test_a_refresh_never_stands_in_the_way_of_a_schema_change",),
    "WP-22": (
        _WRITES + "test_an_edge_only_write_leaves_the_nodes_with_their_parent",
        _FAULTS + "test_forks.py::test_only_the_tables_that_are_written_fork",
    ),
    "WP-23": (_WRITES + "test_a_cascade_on_a_fresh_branch_forks_nodes_and_edges",),
    "WP-24": (_LOADS + "test_a_broken_rule_in_any_mode_moves_no_table_and_the_next_load_works",),
    "WP-25": (
        _LOADS + "test_an_overwrite_interrupted_before_its_publish_is_completed_by_the_next_open",
    ),
    "WP-26": (
        _FAULTS
        + "test_schema_apply.py::test_a_killed_change_is_whole_or_absent_after_the_next_open",
    ),
    "WP-27": (
        _FAULTS
        + "test_schema_apply.py::test_a_change_that_fails_before_its_files_are_staged_is_taken_back_and_can_be_repeated",
    ),
    "WP-28": (
        "tests/engine/schema/test_apply.py::test_widening_an_enum_touches_no_table",
        "tests/engine/schema/test_apply.py::test_an_unsupported_change_names_its_code_and_the_rows_at_risk_and_touches_nothing",
    ),
    "WP-29": (
        _MAINTENANCE + "test_optimize.py::test_strict_updates_and_schema_changes_go_on_afterwards",
    ),
    "WP-30": (_MAINTENANCE + "test_optimize.py::test_a_second_run_commits_nothing",),
    "WP-31": (
        _MAINTENANCE + "test_optimize.py::test_a_writer_in_between_loses_nothing_and_stops_nothing",
        _MAINTENANCE + "test_optimize.py::test_a_base_that_moved_is_compacted_anew",
    ),
    "WP-32": (_MAINTENANCE + "test_optimize.py::test_every_earlier_commit_reads_as_before",),
    "WP-33": (_MAINTENANCE + "test_optimize.py::test_the_manifest_is_folded",),
    "WP-34": (_WRITES + "test_a_write_that_is_cancelled_anywhere_is_whole_or_absent",),
    # ---- branches and history
    "BR-1": (
        _HISTORY + "test_making_and_deleting_a_branch_is_no_commit_and_moves_no_table",
        _MANIFEST + "test_branches.py::test_branch_control_makes_no_commit_and_moves_no_table",
    ),
    "BR-2": (
        _MANIFEST + "test_branches.py::test_a_failed_create_leaves_the_name_free",
        _MANIFEST + "test_branches.py::test_files_without_a_ref_do_not_block_the_name",
        _FAULTS
        + "test_branches.py::test_c2_c3_a_deleted_name_can_be_taken_again_whatever_was_left",
    ),
    "BR-3": (_MANIFEST + "test_branches.py::test_concurrent_creates_do_not_mix_parents",),
    "BR-4": (_HISTORY + "test_a_branch_of_a_branch_starts_there_and_leaves_both_parents_alone",),
    "BR-5": (
        _HISTORY + "test_a_name_that_is_deleted_and_made_again_shows_nothing_of_its_former_life",
        _MAINTENANCE
        + "test_cleanup.py::test_a_branch_of_the_same_name_starts_fresh_without_any_cleanup",
    ),
    "BR-6": (_HISTORY + "test_a_deleted_branch_is_gone_even_when_its_files_could_not_be",),
    "BR-7": (
        _FAULTS + "test_branches.py::test_c8_the_next_write_discards_what_a_deleted_branch_left",
    ),
    "BR-8": (_WRITES + "test_one_handle_writes_and_reads_several_branches_in_turn",),
    "BR-9": (
        _MAINTENANCE
        + "test_cleanup.py::test_legitimate_forks_stay_and_an_orphan_on_a_live_branch_goes",
        _MAINTENANCE + "test_cleanup.py::test_a_fork_of_a_pending_write_is_never_a_candidate",
    ),
    "BR-10": (
        _HISTORY + "test_commits_tell_who_did_what_on_which_branch",
        _MANIFEST
        + "test_branches.py::test_a_commit_of_a_branch_is_invisible_on_main_and_carries_its_author",
    ),
    "BR-11": (_HISTORY + "test_commits_of_handles_that_take_turns_form_one_chain",),
    "BR-12": (_HISTORY + "test_commits_tell_who_did_what_on_which_branch",),
    "BR-13": (_HISTORY + "test_every_version_answers_with_its_own_truth",),
    "BR-14": (_HISTORY + "test_the_versions_of_a_branch_are_not_those_of_main",),
    "BR-15": (_HISTORY + "test_a_snapshot_returns_the_same_whatever_is_written_later",),
    "BR-16": (
        _MERGE + "test_feed.py::test_changes_can_be_chosen_by_type_kind_and_operation",
        _CASES + "history.yaml::diff_of_types",
    ),
    "BR-17": (_HISTORY + "test_the_first_write_of_a_branch_is_told_as_the_update_it_is",),
    "BR-18": (
        _CASES + "history.yaml::equal_states_have_no_diff",
        _CASES + "history.yaml::diff_sees_null_and_empty_text",
        _MERGE + "test_values.py::test_equal_blobs_written_again_are_no_change",
    ),
    "BR-19": (_CASES + "history.yaml::diff_shows_cascaded_edges_with_their_ends",),
    "BR-20": (_CASES + "history.yaml::diff_lists_inserts_updates_and_deletes",),
    "BR-21": (
        _MERGE
        + "test_scenarios.py::test_disjoint_edits_merge_and_every_commit_keeps_its_own_truth",
    ),
    "BR-22": (_MERGE + "test_scenarios.py::test_merges_back_and_forth_converge",),
    "BR-23": (
        _MERGE + "test_scenarios.py::test_the_source_advancing_during_a_merge_is_not_included",
        _MERGE + "test_scenarios.py::test_a_merge_is_prepared_again_when_its_target_advances",
    ),
    "BR-24": (_MERGE + "test_scenarios.py::test_what_was_merged_outlives_the_branch",),
    "BR-25": (
        _MERGE + "test_scenarios.py::test_an_edge_to_a_node_the_other_side_removed_is_an_orphan",
    ),
    "BR-26": (_MERGE + "test_scenarios.py::test_rules_broken_by_combining_name_table_and_rows",),
    "BR-27": (_MERGE + "test_values.py::test_only_changed_rows_get_a_new_version",),
    "BR-28": (
        _MERGE
        + "test_values.py::test_an_append_only_fast_forward_joins_nothing_and_holds_no_delta",
    ),
    "BR-29": (_MERGE + "test_memory.py::test_eight_thousand_wide_vectors_merge_in_bounded_memory",),
    "BR-30": (_MERGE + "test_values.py::test_blobs_vectors_and_the_rest_come_through",),
    "BR-31": (
        _HISTORY + "test_an_export_of_any_branch_makes_an_identical_graph",
        _LOADS + "test_every_source_of_records_gives_the_same_graph",
    ),
    "BR-32": (
        _HISTORY + "test_an_export_of_any_branch_makes_an_identical_graph",
        _LOADS + "test_every_source_of_records_gives_the_same_graph",
    ),
}

WAITING: Mapping[str, str] = {}
"""Invariants of operations that are not there yet, with the operation they wait for."""
