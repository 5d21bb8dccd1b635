"""The policies of a graph: who may do what."""

from pathlib import Path

from omnigraphdb.api.arguments import count_of, rules_of
from omnigraphdb.api.guard import Guard
from omnigraphdb.api.results import KeptPolicy
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.handle import Handle
from omnigraphdb.errors import NotFound


class Policies(Handle):
    """The policies of a graph: who may do what."""

    @property
    def guard(self) -> Guard:
        """Decides what actors may do: by the policy that the handle was opened with, and by that of the graph."""
        self._opened.require_open()
        return self._guard

    def policy(self, version: int | None = None) -> KeptPolicy | None:
        """The policy that the graph keeps, or an earlier version of it; None when it keeps none.

        Example:
            >>> graph.policy() is None
            True
        """
        from omnigraphdb.engine.policing import list_versions

        versions = [KeptPolicy.of(one) for one in list_versions(self._engine)]
        if version is None:
            return versions[-1] if versions and versions[-1].text is not None else None
        wanted = count_of("version", version, least=1)
        found = next((one for one in versions if one.version == wanted), None)
        if found is None:
            raise NotFound("policy version", str(version), known=[str(v.version) for v in versions])
        return found

    def set_policy(self, policy: str | Path | None, *, actor: str | None = None) -> KeptPolicy:
        """Keep a policy in the graph, or with None no longer; every handle asks it, whoever opened the graph.

        Where the graph keeps a policy already, only actors with `policy_change` replace it. A policy that gives this
        right to nobody is refused.

        Example:
            >>> rules = '''
            ... version: 1
            ... groups: { owners: [ada] }
            ... rules:
            ...   - id: owners
            ...     allow: { actors: { group: owners }, actions: [change, policy_change] }
            ... '''
            >>> graph.set_policy(rules).version
            1
            >>> graph.on("review").mutate("query q() { delete Person where age > 200 }", actor="eve")
            Traceback (most recent call last):
            omnigraphdb.errors.input.PolicyDenied: denied: ...
            >>> graph.set_policy(None, actor="ada").text is None
            True
        """
        from omnigraphdb.engine.policing import list_versions, replace_policy
        from omnigraphdb.policy.kept import read_kept

        given = rules_of(policy)
        text = None if given is None else read_kept(given)
        versions = list_versions(self._engine)
        by = self._authorize(CallKind.CHANGE_POLICY, actor).actor
        expected = versions[-1].number if versions else 0
        return KeptPolicy.of(replace_policy(self._engine, text, expected, by))
