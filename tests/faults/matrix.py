"""Every row of the fault matrix and the test that holds it; a writer without its rows fails the suite."""

from typing import Final

WRITES, REFUSALS, FORKS = "test_writes.py", "test_refusals.py", "test_forks.py"
SCHEMA, MERGE, MAINTENANCE = "test_schema_apply.py", "test_merge.py", "test_maintenance.py"
BRANCHES, SIDECARS, INTERRUPTED = "test_branches.py", "test_sidecars.py", "test_interrupted.py"
KEYS = "test_keys.py"
OPTIMIZE = "../engine/maintenance/test_optimize.py"
CLEANUP, INDICES = "../engine/maintenance/test_cleanup.py", "../engine/maintenance/test_indexes.py"
GENESIS, MIGRATE = "../engine/manifest/test_genesis.py", "../engine/manifest/test_migrate.py"

_FAILED = f"{WRITES}::test_a_failed_write_is_whole_or_absent"
_KILLED = f"{WRITES}::test_a_killed_write_is_whole_or_absent"
_MERGE = f"{MERGE}::test_a_merge_that_fails_anywhere_is_whole_or_absent"
_BACK = f"{SCHEMA}::test_a_change_that_fails_before_its_files_are_staged_is_taken_back_and_can_be_repeated"
_FORWARD = (
    f"{SCHEMA}::test_a_change_that_fails_after_its_files_are_staged_is_completed_by_the_next_open"
)
_MAINTENANCE = f"{MAINTENANCE}::test_an_interrupted_run_is_settled_by_the_next_open"
_AGAIN = f"{INTERRUPTED}::test_r2_r3_r4_a_recovery_that_dies_again_and_again_ends_as_it_began"
_UNREADABLE = (
    f"{SIDECARS}::test_i4_i5_a_sidecar_that_cannot_be_understood_stops_writers_and_not_readers"
)
_CLEANED = (
    "test_cleanup.py::test_a_killed_cleanup_touches_nothing_visible_and_is_finished_by_the_next"
)
_NAME_AGAIN = f"{BRANCHES}::test_c2_c3_a_deleted_name_can_be_taken_again_whatever_was_left"

MATRIX: Final[dict[str, str]] = {
    # 8.1 mutation and load
    **dict.fromkeys(("M1", "M2", "M3", "M4", "M6", "M7", "M10", "M11", "M13", "M15"), _FAILED),
    "M5": f"{REFUSALS}::test_m5_an_error_in_the_second_commit_leaves_the_first_to_recovery",
    "M8": f"{REFUSALS}::test_m8_rivals_who_keep_winning_leave_a_write_that_must_not_be_repeated",
    "M9": f"{REFUSALS}::test_m9_a_write_whose_half_was_published_by_another_is_completed",
    "M12": f"{WRITES}::test_m12_an_acknowledged_write_survives_a_death",
    "M14": f"{REFUSALS}::test_m14_a_recovery_for_nobody_names_nobody",
    "M16": "test_bulk_loads.py::test_a_load_of_two_commits_that_fails_is_whole_or_absent",
    # groups of mutations and loads
    **{f"G{n}": "test_groups.py::test_a_group_that_fails_is_whole_or_absent" for n in range(1, 13)},
    "G13": "test_groups.py::test_a_group_whose_versions_landed_in_part_is_taken_back",
    # 8.3 first-touch forks
    "K1": f"{FORKS}::test_k1_the_rival_of_a_first_writer_reads_again",
    "K3": f"{FORKS}::test_k3_a_stray_fork_that_cannot_be_cleared_stays_and_is_cleared_later",
    "K4": f"{FORKS}::test_k4_a_fork_whose_owner_cannot_be_looked_up_is_kept",
    "K5": f"{FORKS}::test_k5_files_of_a_fork_without_its_ref_are_cleared",
    **dict.fromkeys(("K2", "K6", "K7"), _KILLED),
    # 8.4 schema apply
    "S0": f"{SCHEMA}::test_a_killed_change_is_whole_or_absent_after_the_next_open",
    **dict.fromkeys(("S1", "S2", "S3", "S4"), _BACK),
    **dict.fromkeys(("S5", "S7", "S8", "S13"), _FORWARD),
    "S6": f"{SCHEMA}::test_a_change_whose_lease_is_lost_is_taken_back_at_once",
    "S9": f"{SCHEMA}::test_a_change_that_cannot_remove_its_intent_is_done",
    "S10": f"{SCHEMA}::test_a_load_waits_for_a_running_change_and_sees_the_new_types",
    "S11": f"{SCHEMA}::test_a_read_only_open_serves_the_old_schema_or_refuses_and_touches_nothing",
    "S12": "../unit/recovery/test_schema_files.py::test_each_row_of_the_table",
    # 8.5 branch merge
    "B0": f"{MERGE}::test_a_merge_in_conflict_leaves_no_trace",
    **dict.fromkeys(("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B11", "B14"), _MERGE),
    "B10": f"{MERGE}::test_rows_a_stranger_put_on_a_confirmed_merge_are_not_adopted",
    "B12": f"{MERGE}::test_an_old_record_without_confirmation_is_read_by_its_own_meaning",
    "B13": f"{MERGE}::test_a_merge_cannot_confirm_a_table_without_its_version",
    "B15": f"{MERGE}::test_a_second_crash_after_the_roll_back_does_not_lose_the_merge",
    # 8.6 index build, optimise
    **dict.fromkeys(("E1", "E2", "O1", "O2", "O4", "O5"), _MAINTENANCE),
    "E3": f"{MAINTENANCE}::test_an_interrupted_build_on_a_branch_leaves_main_alone",
    "E4": f"{MAINTENANCE}::test_nothing_to_do_leaves_no_intent_behind",
    "O3": f"{MAINTENANCE}::test_a_foreign_commit_between_two_of_ours_is_taken_back_and_the_run_succeeds",
    "O6": f"{INTERRUPTED}::test_o6_maintenance_waits_until_nothing_is_pending",
    # 8.7 branch control and cleanup
    "C1": f"{BRANCHES}::test_c1_a_branch_that_could_not_be_made_is_not_there",
    **dict.fromkeys(("C2", "C3"), _NAME_AGAIN),
    "C4": f"{CLEANUP}::test_one_failing_table_does_not_stop_the_others",
    **dict.fromkeys(
        ("C5", "C7"), f"{CLEANUP}::test_a_fork_that_cannot_be_judged_is_kept_and_goes_the_next_time"
    ),
    "C6": f"{CLEANUP}::test_a_branch_that_cannot_be_read_stops_everything_and_is_named_once",
    "C8": f"{BRANCHES}::test_c8_the_next_open_discards_what_a_deleted_branch_left",
    "C9": f"{BRANCHES}::test_c9_an_orphan_is_recorded_once_however_often_that_fails",
    **dict.fromkeys(("C10", "C11", "C12"), _CLEANED),
    # 8.8 sidecar I/O and parsing
    "I1": f"{SIDECARS}::test_i1_a_sidecar_that_cannot_be_written_stops_the_write",
    "I2": f"{SIDECARS}::test_i2_a_folder_that_cannot_be_listed_stops_writes_and_opens_until_it_can",
    "I3": f"{SIDECARS}::test_i3_drift_beside_a_folder_that_cannot_be_listed_names_both_ways_out",
    **dict.fromkeys(("I4", "I5"), _UNREADABLE),
    "I6": f"{SIDECARS}::test_i6_other_files_are_ignored",
    "I7": f"{SIDECARS}::test_i7_a_sidecar_that_vanishes_under_the_look_was_finished_by_its_owner",
    "I8": f"{SIDECARS}::test_i8_a_table_behind_its_pin_is_nobodys_to_settle",
    # 8.9 recovery interrupted
    "R1": f"{INTERRUPTED}::test_r1_two_opens_race_and_both_succeed",
    **dict.fromkeys(("R2", "R3", "R4"), _AGAIN),
    "R5": f"{INTERRUPTED}::test_r5_the_second_of_two_operations_on_one_table_sees_what_the_first_left",
    "R6": f"{INTERRUPTED}::test_r6_two_independent_operations_are_settled_oldest_first",
    "R7": f"{INTERRUPTED}::test_r7_a_goal_that_another_reached_is_recorded_with_the_commit_that_reached_it",
    "R8": f"{INTERRUPTED}::test_r8_a_refresh_waits_for_a_live_owner_and_finds_nothing_to_do",
    "R9": f"{INTERRUPTED}::test_r9_an_open_beside_a_live_owner_touches_nothing_of_it",
    "R10": f"{INTERRUPTED}::test_r10_what_must_be_rolled_back_waits_for_somebody_who_may",
    # 8.10 init and migration
    "ST-11": f"{GENESIS}::test_an_init_that_fails_returns_its_error_and_leaves_no_schema_file",
    "ST-13": f"{MIGRATE}::test_a_crash_after_the_backfill_leaves_only_the_stamps_to_do",
    "ST-14": f"{MIGRATE}::test_a_failed_look_at_the_old_history_aborts_and_leaves_the_stamp",
    "ST-16": f"{MIGRATE}::test_a_stamp_that_never_lands_is_contention_not_a_storage_error",
    "ST-17": "test_migration.py::test_a_killed_migration_is_completed_by_the_next_open",
    # requests with idempotency keys, and tags
    "N1": f"{KEYS}::test_n1_a_failed_request_is_repeated_by_the_same_handle",
    "N2": f"{KEYS}::test_n2_a_killed_request_is_repeated_by_another_process",
    "N3": f"{KEYS}::test_n3_an_open_handle_recovers_the_dead_writer_of_a_key_first",
    "N4": f"{KEYS}::test_n4_the_live_writer_of_a_key_is_waited_for",
    "N5": f"{KEYS}::test_n5_a_key_that_another_operation_published_is_not_published_again",
    "N6": f"{KEYS}::test_n6_a_tag_that_is_killed_is_there_or_not",
    "N7": f"{KEYS}::test_n7_a_policy_that_is_killed_is_the_old_one_or_the_new_one",
    # effects that come late, on object stores
    "L1": "test_sleeping_recoverers.py::test_a_restore_that_comes_late_undoes_no_acknowledged_write",
    "L2": "test_sleeping_recoverers.py::test_a_restore_of_what_is_not_visible_any_more_is_no_finished_one",
    # relocating a moved graph
    "P1": "test_relocate.py::test_relocating_that_is_broken_off_is_completed_by_the_next",
    # invariants
    "RC-1": "test_invariants.py::test_rc1_no_head_moves_without_an_intent_that_names_it",
    "RC-2": "test_invariants.py::test_rc2_recovery_never_publishes_a_part",
    "RC-3": "test_invariants.py::test_rc3_roll_forward_publishes_what_was_judged_and_nothing_that_came_later",
    "RC-4": "test_invariants.py::test_rc4_rc5_a_heal_restores_nothing_and_blocks_only_what_it_must",
    "RC-5": "test_invariants.py::test_rc4_rc5_a_heal_restores_nothing_and_blocks_only_what_it_must",
    "RC-6": "test_invariants.py::test_rc6_a_read_only_open_writes_nothing",
    "RC-7": "test_invariants.py::test_rc7_a_clean_open_makes_nothing",
    "RC-8": "../unit/recovery/test_classify.py::test_each_cell_of_the_table",
    "RC-9": "../simulation/test_disk_schedules.py::test_a_random_schedule_of_faults_leaves_whole_writes",
}

NOT_APPLICABLE: Final[dict[str, str]] = {
    **dict.fromkeys(("D1", "D2", "D3"), "deletes are staged: there is no inline path"),
    "O7": "a run holds the turns of its tables to the end: no rival can pass it",
}

ROWS: Final[dict[str, int]] = {
    "M": 16,
    "G": 13,
    "D": 3,
    "K": 7,
    "E": 4,
    "C": 12,
    "I": 8,
    "R": 10,
    "N": 7,
    "L": 2,
    "RC-": 9,
}
"""Families that begin at 1, with the number of their rows."""

FROM_ZERO: Final[dict[str, int]] = {"S": 13, "B": 15}
OTHERS: Final = (
    "P1",
    "O1",
    "O2",
    "O3",
    "O4",
    "O5",
    "O6",
    "O7",
    "ST-11",
    "ST-13",
    "ST-14",
    "ST-16",
    "ST-17",
)

WRITERS: Final[dict[str, tuple[str, ...]]] = {
    "mutate": ("M", "G", "K", "N"),
    "load": ("M", "G", "K", "N"),
    "assign": ("M",),
    "schema_apply": ("S", "N"),
    "merge": ("B", "N"),
    "ensure_indices": ("E",),
    "optimize": ("O",),
    "cleanup": ("C",),
    "repair": ("O",),
    "branch_create": ("C", "N"),
    "branch_delete": ("C", "N"),
    "refresh": ("R",),
    "discard_recovery": ("I",),
    "relocate": ("P",),
    "tag": ("N",),
    "tag_delete": ("N",),
    "set_policy": ("N",),
}
"""The methods of a graph that change it, and the families of rows that hold each."""

READERS: Final = frozenset(
    {
        "baseline",
        "baseline_stream",
        "blob",
        "branch",
        "branches",
        "catalog",
        "change_page",
        "changes",
        "changes_frame",
        "changes_stream",
        "cleanup_preview",
        "close",
        "commit",
        "commit_changes",
        "commits",
        "describe",
        "diff",
        "diff_drawing",
        "diff_frame",
        "diff_page",
        "diff_stream",
        "doctor",
        "duckdb",
        "entity",
        "explain",
        "export",
        "export_files",
        "export_lines",
        "frames",
        "guard",
        "history",
        "index_status",
        "jobs",
        "log_drawing",
        "location",
        "neighbours",
        "show",
        "on",
        "operation",
        "path",
        "pending_recoveries",
        "policy",
        "project",
        "query",
        "query_frame",
        "read_only",
        "recoveries",
        "schema_plan",
        "schema_from",
        "schema_source",
        "snapshot",
        "stored_queries",
        "stream",
        "table",
        "tags",
        "to_networkx",
        "uri",
        "with_policy",
    }
)
