"""Keeping a policy in the graph: replaced as a whole, in one swap of main; every version stays."""

from omnigraph.engine.session.engine import Engine
from omnigraph.ids import MAIN
from omnigraph.manifest.change import Change
from omnigraph.manifest.publish import publish
from omnigraph.manifest.records import PolicyVersion


def list_versions(engine: Engine) -> tuple[PolicyVersion, ...]:
    """Read every version of the policy, oldest first."""
    return engine.manifest.current(MAIN).policies


def find_newest(engine: Engine, *, fresh: bool = True) -> PolicyVersion | None:
    """Find the version that holds.

    A graph without a policy is looked at as this process last saw it, which costs nothing; one with a policy as it is
    now, since another process may have replaced it. Where that is not `fresh`, nothing is asked of the store.
    """
    known = engine.manifest.heads.get(MAIN)
    if known is None or (fresh and known.policies):
        known = engine.manifest.current(MAIN)
    return known.policies[-1] if known.policies else None


def replace_policy(
    engine: Engine, text: str | None, expected: int, actor: str | None
) -> PolicyVersion:
    """Make the next version; refuses when another than the expected one is the newest."""
    engine.require_writable("policy set")
    made = PolicyVersion(
        number=expected + 1, text=text, created_at=engine.runtime.now_us(), actor=actor
    )
    publish(engine.manifest, Change(branch=MAIN, policy=made))
    return made
