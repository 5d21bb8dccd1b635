"""Tags: names of commits. A tag protects the versions that its commit shows from cleanup; its name can be freed again."""

from omnigraphdb.commit.locks import lock_key, manifest_key
from omnigraphdb.engine.history.compare import resolve_state
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import NotFound
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.manifest.change import Change
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import GraphCommit, Tag
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.tags import find_tag, list_tags, tag_name
from omnigraphdb.manifest.travel import At
from omnigraphdb.storage.locks.holders import Activity

_ACTIVITY = Activity("tag create")


def create_tag(
    engine: Engine, name: str, at: At | None, branch: BranchName, actor: str | None
) -> Tag:
    """Name the commit at a point of history; a name that another commit has is refused.

    The locks of its tables and of the manifest are held meanwhile: either cleanup came first and a version is missing,
    or it comes later and sees the tag.
    """
    engine.require_writable("tag create")
    valid_name = tag_name(name)
    state = engine.manifest.current(branch) if at is None else resolve_state(engine, at, branch)
    commit = _require_commit(state, branch)
    tag = Tag(
        name=valid_name,
        commit=commit.id,
        branch=commit.branch,
        created_at=engine.runtime.now_us(),
        actor=actor,
    )
    entries = state.snapshot.entries.values()
    keys = [lock_key(entry.table_key, entry.at.branch) for entry in entries]
    keys.append(manifest_key(state.image.branch))
    with engine.committer.locks.acquire(keys, _ACTIVITY):
        engine.manifest.require_version(state)
        for entry in entries:
            # Another process may have removed a version that is open here.
            engine.store.tables.forget(entry.at.path, entry.at.branch)
            engine.store.tables.open(entry.at)
        fail(Failpoint.TAG_CHECKED)
        published = publish(engine.manifest, Change(branch=MAIN, tag=tag))
    return find_tag(published.state, valid_name) or tag


def _require_commit(state: BranchState, branch: BranchName) -> GraphCommit:
    if state.head is None:
        raise NotFound("commit", f"of branch '{branch}'", hint="a tag names a commit")
    return state.head


def delete_tag(engine: Engine, name: str, actor: str | None) -> None:
    """Free a name; the commit stays."""
    engine.require_writable("tag delete")
    state = engine.manifest.current(MAIN)
    tag = find_tag(state, name)
    if tag is None:
        raise NotFound("tag", name, known=[existing.name for existing in list_tags(state)])
    freed = Tag(
        name=name,
        commit=None,
        branch=tag.branch,
        created_at=engine.runtime.now_us(),
        actor=actor,
    )
    publish(engine.manifest, Change(branch=MAIN, tag=freed))
