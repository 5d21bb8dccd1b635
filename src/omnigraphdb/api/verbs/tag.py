"""The tags of a graph: names for commits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraphdb.api.arguments import Reference, point_of
from omnigraphdb.api.results import Tag, TagDeleted, TagList
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import OwnBranch, Point, Text, arg, arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Endpoint, Method, Tool, Verb
from omnigraphdb.ids import MAIN

if TYPE_CHECKING:
    from omnigraphdb.api.verbs.handle import Handle


@arguments
class TagsList:
    """The tags to list: all."""


def _run_list(graph: "Handle", _asked: TagsList, call: Call) -> TagList:
    from omnigraphdb.manifest.tags import list_tags

    tags = map(Tag.of, list_tags(graph._engine.manifest.current(MAIN)))
    return TagList(tags=tuple(tag for tag in tags if call.may_show(tag.branch)))


LIST_TAGS = Verb(
    arguments=TagsList,
    result="omnigraphdb.api.results:TagList",
    run=_run_list,
    kind=CallKind.READ,
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="List the tags, by name",
    endpoint=Endpoint(method=Method.GET, path="/tags", operation="listTags"),
    tool=Tool(
        name="tags_list",
        description="List the tags: names of commits, which stand wherever a commit does.",
        pages="tags",
    ),
)


@arguments
class TagCreate:
    """A commit to name."""

    name: Text = arg("The tag.")
    at: Point = arg("A commit, a manifest version or a tag; the head by default.", default=None)
    branch: OwnBranch = arg("The branch; main by default.", default=None)


def _scope_create(graph: "Handle", asked: TagCreate) -> Mapping[str, str | None]:
    branch = graph._target(asked.branch, "tag create")
    author = None if asked.at is None else graph._find_author(branch, asked.at)
    return {"branch": branch, "author": author}


def _run_create(graph: "Handle", asked: TagCreate, call: Call) -> Tag:
    from omnigraphdb.engine.tagging import create_tag

    branch = graph._target(asked.branch, "tag create")
    return Tag.of(
        create_tag(graph._engine, asked.name, point_of(asked.at), branch, call.options.actor)
    )


CREATE_TAG = Verb(
    arguments=TagCreate,
    result="omnigraphdb.api.results:Tag",
    run=_run_create,
    kind=CallKind.TAG,
    scope=_scope_create,
    summary="Name a commit",
    endpoint=Endpoint(
        method=Method.POST, path="/tags", operation="createTag", input="TagCreateInput"
    ),
    writes=True,
    tool=Tool(
        name="tags_create",
        description="Name a commit, the head of a branch by default; cleanup keeps its state.",
        idempotent=True,
    ),
)


@arguments
class TagDelete:
    """A tag to delete."""

    name: Text = arg("The tag.")


def _run_delete(graph: "Handle", asked: TagDelete, call: Call) -> TagDeleted:
    from omnigraphdb.engine.tagging import delete_tag

    actor = call.options.actor
    delete_tag(graph._engine, asked.name, actor)
    return TagDeleted(uri=graph.uri, name=asked.name, actor=actor)


DELETE_TAG = Verb(
    arguments=TagDelete,
    result="omnigraphdb.api.results:TagDeleted",
    run=_run_delete,
    kind=CallKind.TAG,
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="Free the name of a tag; its commit stays, until cleanup",
    endpoint=Endpoint(
        method=Method.DELETE, path="/tags/{tag}", operation="deleteTag", names={"tag": "name"}
    ),
    writes=True,
    tool=Tool(
        name="tags_delete",
        description="Free the name of a tag; its commit stays, until cleanup.",
        destructive=True,
        idempotent=True,
    ),
)

TAG_VERBS: tuple[Verb[Any, Any], ...] = (LIST_TAGS, CREATE_TAG, DELETE_TAG)


class TagVerbs(Calls):
    """The tags of a graph."""

    def tag(
        self,
        name: str,
        at: Reference | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
    ) -> Tag:
        """Name a commit, the head of a branch by default; the name stands wherever a commit does, and cleanup keeps its state.

        Example:
            >>> tagged = graph.tag("before-review", graph.commits()[0])
            >>> [tag.name for tag in graph.tags()]
            ['before-review']
        """
        asked = TagCreate(name=name, at=at, branch=branch)
        return self._call(CREATE_TAG, asked, Call(actor=actor))

    def tags(self) -> list[Tag]:
        """Every tag, by name.

        Example:
            >>> graph.tags()[0].commit == graph.commit("before-review").id
            True
        """
        return list(self._call(LIST_TAGS, TagsList()).tags)

    def tag_delete(self, name: str, *, actor: str | None = None) -> None:
        """Free the name of a tag; its commit stays, until cleanup.

        Example:
            >>> graph.tag_delete("before-review")
        """
        self._call(DELETE_TAG, TagDelete(name=name), Call(actor=actor))
