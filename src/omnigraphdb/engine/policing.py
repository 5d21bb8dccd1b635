"""Storage of a policy in the graph: replaced as a whole, in one swap of main; every version stays."""

from contextlib import suppress

from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import NotFoundError
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.change import Change
from omnigraphdb.manifest.migrate import load_migrated
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import PolicyVersion, graph_branch


def list_versions(engine: Engine) -> tuple[PolicyVersion, ...]:
    """Read every version of the policy, oldest first."""
    return engine.manifest.current(MAIN).policies


def find_newest(
    engine: Engine, *, fresh: bool = True, is_checked_later: bool = False
) -> PolicyVersion | None:
    """Find the version that holds: the newest, since another process may have replaced it.

    For a distant store, the last state that this process saw serves if the answer need not be `fresh`. It also serves for a
    graph without a policy if `is_checked_later`: a write under another policy is refused when it becomes visible.
    """
    state = engine.manifest.heads.get(MAIN)
    may_be_old = not fresh or (is_checked_later and state is not None and not state.policies)
    if state is None or not (engine.store.root.is_distant and may_be_old):
        state = engine.manifest.current(MAIN)
    return state.policies[-1] if state.policies else None


def replace_policy(
    engine: Engine, text: str | None, expected: int, actor: str | None
) -> PolicyVersion:
    """Make the next version; refuse if the newest version is not the expected one."""
    engine.require_writable("policy set")
    if not expected:
        _shut_out_earlier_releases(engine)
    version = PolicyVersion(
        number=expected + 1, text=text, created_at=engine.runtime.now_us(), actor=actor
    )
    publish(engine.manifest, Change(branch=MAIN, policy=version))
    return version


def _shut_out_earlier_releases(engine: Engine) -> None:
    """Migrate every branch to a form that releases without policies refuse, before there is a policy to be skipped."""
    for name in engine.manifest.rows.branches():
        # No process writes to a branch that is deleted meanwhile.
        with suppress(NotFoundError):
            load_migrated(engine.manifest, graph_branch(name))
