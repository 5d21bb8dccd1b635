"""Commits that merges brought: rows of a branch's ancestry beside its own history."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.ids import CommitId
from omnigraphdb.manifest.records import KEY, MANIFEST_SCHEMA, GraphCommit, ObjectType, encode
from omnigraphdb.manifest.table_history import rows_of

COMMIT_COLUMNS: Final = (KEY, "table_branch", "table_version", "metadata")
"""The columns that a commit is decoded from; a lost commit has an id and nothing else."""

_KNOWN: Final = pa.array(
    [
        ObjectType.GRAPH_COMMIT.value,
        ObjectType.MERGED_COMMIT.value,
        ObjectType.LOST_COMMIT.value,
    ]
)
_PREFIXES: Final = f"^(?:{ObjectType.MERGED_COMMIT}|{ObjectType.LOST_COMMIT}):"
_OF_ONE_BRANCH: Final = r',\s*"(?:(?:operation_id|batch_id|batch_request|group)"\s*:\s*(?:"(?:[^"\\]|\\.)*"|null)|pins"\s*:\s*\{[^}]*\})'
"""Facts that stay on the branch of a commit: deduplication, recovery and reads of its state look at one branch."""

COMMIT_SCHEMA: Final = pa.schema([MANIFEST_SCHEMA.field(name) for name in COMMIT_COLUMNS])
NO_COMMITS: Final = COMMIT_SCHEMA.empty_table()
NO_ROWS: Final = MANIFEST_SCHEMA.empty_table()


# ---- commits that a branch knows


def ancestor_rows(rows: pa.Table) -> pa.Table:
    """Return every commit that manifest rows know, by commit id: own, merged and lost commits."""
    # One pass over the rows: a plain merge does this for both sides.
    commits = rows.select(list(COMMIT_COLUMNS)).filter(pc.is_in(rows["object_type"], _KNOWN))
    combined = commits.combine_chunks()
    ids = pc.replace_substring_regex(combined[KEY], _PREFIXES, "")
    return combined.set_column(0, combined.schema.field(0), ids)


def merged_commits(rows: pa.Table) -> pa.Table:
    """Return the commits that merges brought, by commit id."""
    commits = rows_of(rows, ObjectType.MERGED_COMMIT, COMMIT_COLUMNS)
    ids = pc.replace_substring_regex(commits[KEY], _PREFIXES, "")
    return commits.set_column(0, commits.schema.field(0), ids)


def commit_rows(commits: Iterable[GraphCommit]) -> pa.Table:
    """Lay out commits in the form of `ancestor_rows`."""
    return encode(commits).select(list(COMMIT_COLUMNS))


def lost_rows(ids: Iterable[CommitId]) -> pa.Table:
    """Lay out commits that are known by name only, in the form of `ancestor_rows`."""
    return pa.Table.from_pylist([{KEY: commit} for commit in ids], schema=COMMIT_SCHEMA)


# ---- commits that a merge brings


def find_merged_commits(source: pa.Table, target: pa.Table) -> pa.Table:
    """Pick the commits of the source that the target lacks, without facts that stay on their own branch.

    A commit that the target only knows as lost is brought.
    """
    is_lost = pc.is_null(source["metadata"])
    target_ids = target.filter(pc.is_valid(target["metadata"]))[KEY]
    merged_commits = source.filter(pc.invert(pc.or_(is_lost, _is_in(source[KEY], target_ids))))
    lost = source.filter(pc.and_(is_lost, pc.invert(_is_in(source[KEY], target[KEY]))))
    facts = pc.replace_substring_regex(merged_commits["metadata"], _OF_ONE_BRANCH, "")
    position = merged_commits.schema.get_field_index("metadata")
    merged_commits = merged_commits.set_column(
        position, merged_commits.schema.field(position), facts
    )
    return pa.concat_tables([merged_commits, lost])


def _is_in(values: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_in(values, value_set=others.combine_chunks())


def encode_merged_commits(commits: pa.Table, existing: pa.Table) -> pa.Table:
    """Lay out brought commits as manifest rows, as far as a branch does not know them yet."""
    fresh = find_merged_commits(commits, existing)
    is_lost = pc.is_null(fresh["metadata"])
    kinds = pc.if_else(is_lost, ObjectType.LOST_COMMIT.value, ObjectType.MERGED_COMMIT.value)
    facts = {name: fresh[name] for name in COMMIT_COLUMNS}
    facts[KEY] = pc.binary_join_element_wise(kinds, fresh[KEY], ":")
    facts["object_type"] = kinds
    facts["table_key"] = pa.repeat("", fresh.num_rows)
    return pa.table(
        [
            facts.get(field.name, pa.nulls(fresh.num_rows, field.type)).cast(field.type)
            for field in MANIFEST_SCHEMA
        ],
        schema=MANIFEST_SCHEMA,
    )
