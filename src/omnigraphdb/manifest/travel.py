"""Time travel: resolve a commit, a manifest version or a moment to a branch state."""

from bisect import bisect_right
from contextlib import suppress
from datetime import datetime

from omnigraphdb.errors import HistoryReclaimed, NotFound, NotFoundError
from omnigraphdb.ids import MAIN, BranchName, CommitId, Version
from omnigraphdb.limits import COMMIT_STEPS_MAX
from omnigraphdb.manifest.lineage import ambiguous, commit_not_found, parse_moment
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import GraphCommit, lance_branch
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.tags import find_tag
from omnigraphdb.storage.layout import MANIFEST
from omnigraphdb.storage.values import MAIN_INCARNATION

At = str | int | datetime
"""A point in the history of a branch: a commit id or unique prefix, a tag, a manifest version, or a moment, also as text."""


def state_at(manifest: Manifest, branch: BranchName, at: At) -> BranchState:
    """Read the state at a point in the history of a branch."""
    if isinstance(at, int):
        return manifest.past(branch, Version(at))
    if isinstance(at, str):
        at = parse_moment(at) or at
    current = manifest.current(branch)
    if isinstance(at, datetime):
        commit = current.lineage.at_moment(at)
        if commit is None:
            raise NotFound(
                "state at",
                at.isoformat(),
                hint="the graph, or the branch, did not exist yet",
            )
    else:
        commit = current.lineage.find(at) or _find_tagged(manifest, current, at)
    return state_of(manifest, branch, commit)


def _find_tagged(manifest: Manifest, state: BranchState, name: str) -> GraphCommit:
    """Find the commit of a branch that a tag names."""
    tag = find_tag(manifest.current(MAIN), name)
    if tag is None:
        raise commit_not_found(name)
    commit = None if tag.commit is None else state.lineage.by_id.get(tag.commit)
    if commit is None:
        raise NotFound(
            "commit",
            name,
            hint=f"the tag names commit {tag.commit} of branch '{tag.branch}'; name that branch as well",
        )
    return commit


def state_of(manifest: Manifest, branch: BranchName, commit: GraphCommit) -> BranchState:
    """Read the state that a commit of a branch made visible.

    For the head that is the current state: maintenance since then changed no row, and cleanup keeps its tables.
    """
    try:
        current = manifest.current(branch)
    except NotFoundError as error:
        raise HistoryReclaimed(MANIFEST, commit.manifest_version, commit.id) from error
    if current.head is not None and current.head.id == commit.id:
        return current
    return past_state_of(manifest, commit)


def past_state_of(manifest: Manifest, commit: GraphCommit) -> BranchState:
    """Read the state in which a commit is found once it is not the head any more; it is searched for once."""
    return manifest.heads.past(commit.id, lambda: _find_whole_state(manifest, commit))


def _find_whole_state(manifest: Manifest, commit: GraphCommit) -> BranchState:
    """Find the first state that shows a commit, or the last, if cleanup removed tables of the first while that was the head."""
    first = _find_state_showing(manifest, commit)
    last = _find_last_state(manifest, commit, first)
    last_tables = {entry.at for entry in last.snapshot.entries.values()}
    replaced = {entry.at for entry in first.snapshot.entries.values()} - last_tables
    return first if all(manifest.has_table(at) for at in replaced) else last


def _find_last_state(manifest: Manifest, commit: GraphCommit, first: BranchState) -> BranchState:
    """Find the state before the next commit: maintenance may have made others since the first that shows a commit."""
    current = manifest.current(commit.branch)
    commits = current.lineage.commits if current.has_lineage else ()
    following = bisect_right(commits, first.version, key=lambda other: other.manifest_version)
    version = current.version
    if following < len(commits):
        version = Version(commits[following].manifest_version - 1)
    if version <= first.version:
        return first
    with suppress(HistoryReclaimed):
        last = manifest.past(commit.branch, version)
        if last.head is not None and last.head.id == commit.id:
            return last
    return first


def _find_state_showing(manifest: Manifest, commit: GraphCommit) -> BranchState:
    # The recorded version was chosen before the swap; a change of metadata may have taken it.
    for step in range(COMMIT_STEPS_MAX):
        version = Version(commit.manifest_version + step)
        try:
            state = manifest.past(commit.branch, version)
        except HistoryReclaimed:
            return _showing_later(manifest, commit)
        if not state.has_lineage or state.shows(commit.id) is not None:
            return state.before_rest_of_group(commit)
    raise HistoryReclaimed(MANIFEST, commit.manifest_version, commit.id)


def _showing_later(manifest: Manifest, commit: GraphCommit) -> BranchState:
    """Find a state with the same rows, if maintenance made one before the next commit: cleanup may have kept it."""
    versions = manifest.rows.versions(lance_branch(commit.branch))
    for past_version in versions:
        if past_version.version <= commit.manifest_version:
            continue
        # A version of an earlier branch of the name is not read.
        with suppress(HistoryReclaimed):
            state = manifest.past(commit.branch, past_version.version)
            if state.head is not None and state.head.id == commit.id:
                return state
            break
    raise HistoryReclaimed(MANIFEST, commit.manifest_version, commit.id)


def find_commit(manifest: Manifest, name: str) -> GraphCommit:
    """Find a commit on any branch, by id, by a prefix that is unique among all of them, or by a tag.

    When the branch of a commit is gone, the copy that a merge brought is the answer.
    """
    merged: dict[CommitId, GraphCommit] = {}
    commits: dict[CommitId, GraphCommit] = {}
    refs = manifest.rows.branches()
    incarnations = {MAIN: MAIN_INCARNATION} | {
        BranchName(ref): refs[ref].incarnation for ref in sorted(refs)
    }
    for branch, branch_incarnation in incarnations.items():
        try:
            state = manifest.current(branch, branch_incarnation, remember=branch == MAIN)
        except NotFoundError:
            if branch == MAIN:
                raise
            # The branch was deleted since the branches were listed.
            continue
        copy = state.merged.find(name)
        if copy is not None:
            merged[copy.id] = copy
        commit = state.lineage.find(name)
        if commit is not None:
            commits[commit.id] = commit
            if commit.id == name:
                return commit
    commits = merged | commits
    if not commits:
        tag = find_tag(manifest.current(MAIN), name)
        if tag is None or tag.commit is None:
            raise commit_not_found(name)
        return find_commit(manifest, tag.commit)
    if len(commits) > 1:
        raise ambiguous(name, commits.values())
    return next(iter(commits.values()))
