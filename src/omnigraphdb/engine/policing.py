"""Keeping a policy in the graph: replaced as a whole, in one swap of main; every version stays."""

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

    Where a look takes a request, a graph is taken as this process last saw it if the answer need not be `fresh`, and if a
    graph without a policy is only asked for a write that is refused when it becomes visible under another policy.
    """
    known = engine.manifest.heads.get(MAIN)
    may_be_old = not fresh or (is_checked_later and known is not None and not known.policies)
    if known is None or not (engine.store.root.is_distant and may_be_old):
        known = engine.manifest.current(MAIN)
    return known.policies[-1] if known.policies else None


def replace_policy(
    engine: Engine, text: str | None, expected: int, actor: str | None
) -> PolicyVersion:
    """Make the next version; refuses when another than the expected one is the newest."""
    engine.require_writable("policy set")
    if not expected:
        _shut_out_earlier_releases(engine)
    made = PolicyVersion(
        number=expected + 1, text=text, created_at=engine.runtime.now_us(), actor=actor
    )
    publish(engine.manifest, Change(branch=MAIN, policy=made))
    return made


def _shut_out_earlier_releases(engine: Engine) -> None:
    """Bring every branch to the shape that releases without policies refuse, before there is a policy to be skipped."""
    for name in engine.manifest.rows.branches():
        # A branch that is deleted meanwhile is written to by nobody.
        with suppress(NotFoundError):
            load_migrated(engine.manifest, graph_branch(name))
