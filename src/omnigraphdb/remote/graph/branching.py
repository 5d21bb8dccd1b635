"""The branches of a served graph, and their merges."""

from omnigraphdb.api.branches import Branch, Branches
from omnigraphdb.api.comparisons import MergeResult
from omnigraphdb.api.results import Commit
from omnigraphdb.errors import NotFound
from omnigraphdb.ids import MAIN
from omnigraphdb.remote import forms
from omnigraphdb.remote.arguments import refuse_local, spell_headers
from omnigraphdb.remote.checks import check_arguments
from omnigraphdb.remote.graph.handle import Handle


@check_arguments
class Branching(Handle):
    """The branches of a served graph, and their merges."""

    def branches(self, *, compare: bool = False) -> Branches:  # noqa: ARG002 - a server compares always
        """Main, then the others by name, each with its head."""
        return self._server.get(self._server.path("branches"), forms.BRANCHES)

    def branch(self, name: str) -> Branch:
        """One branch, with counts of commits ahead of and behind its parent."""
        listed = {one.name: one for one in self.branches()}
        if name not in listed:
            raise NotFound("branch", name, known=listed)
        return listed[name]

    def branch_create(
        self,
        name: str,
        *,
        from_branch: str = MAIN,
        idempotency_key: str | None = None,
        **local: object,
    ) -> Branch:
        """Create a branch at the head of another one."""
        refuse_local(local)
        body = {"name": name, "from": from_branch}
        path = self._server.path("branches")
        made = self._server.post(
            path, forms.BRANCH_CREATED, body, headers=spell_headers(idempotency_key)
        )
        return Branch(name=made["name"], head=None, parent=made["from"])

    def branch_delete(
        self, name: str, *, merged_into: str | None = None, idempotency_key: str | None = None
    ) -> None:
        """Delete a branch that no other branch depends on; with `merged_into`, only if that one has all its commits."""
        self._server.delete(
            self._server.path("branches", name),
            forms.BRANCH_DELETED,
            headers=spell_headers(idempotency_key),
            merged_into=merged_into,
        )

    def merge(
        self,
        source: str | Branch,
        *,
        into: str = MAIN,
        dry_run: bool = False,
        message: str | None = None,
        if_commit: str | Commit | None = None,
        idempotency_key: str | None = None,
        **local: object,
    ) -> MergeResult:
        """Apply the changes of one branch to another, in one commit; on conflicts all of them are raised together."""
        refuse_local(local)
        body = {"source": str(source), "target": into}
        if dry_run:
            path = self._server.path("branches", "merge", "preview")
            return self._server.post(path, forms.MERGE_PREVIEW, body, writes=False)
        headers = spell_headers(idempotency_key, message)
        return self._write(("branches", "merge"), forms.MERGE, body, if_commit, headers)
