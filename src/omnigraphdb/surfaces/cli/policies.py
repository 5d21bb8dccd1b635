"""Commands about policies: check a file, run its cases, ask why, draw the whole table; keep one in a graph."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.surfaces.cli.address import (
    Actor,
    Json,
    Store,
    Uri,
    announce,
    choose_graph,
    open_store,
)
from omnigraphdb.surfaces.cli.output import EXIT_FAILURE, note, say, say_json, warn

if TYPE_CHECKING:
    from omnigraphdb.policy import PolicyEngine

PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        envvar="OMNIGRAPH_POLICY_FILE",
        help="The file of rules, when no graph is named.",
    ),
]
GraphUri = Annotated[
    str | None,
    typer.Argument(help="The graph whose policy is meant: a path or s3://…", show_default=False),
]
Kind = Annotated[str, typer.Option("--kind", help="What the policy guards: graph or server.")]


def validate(
    uri: GraphUri = None,
    policy: PolicyFile = None,
    kind: Kind = "graph",
    store: Store = None,
    json: Json = False,
) -> None:
    """Check a policy, of a file or of a graph; every problem is listed.

    Example: omnigraphdb policy validate --policy policy.yaml
    """
    engine = _load(uri or store, policy, kind)
    rules = engine.rules
    if json:
        say_json(
            {
                "valid": True,
                "name": rules.name,
                "actors": len(rules.actors),
                "rules": len(rules.rules),
                "warnings": list(rules.warnings),
            }
        )
        return
    say(f"policy valid: {rules.name} [{len(rules.actors)} actors, {len(rules.rules)} rules]")


def run_tests(
    tests: Annotated[Path, typer.Option("--tests", help="The file of cases.")],
    uri: GraphUri = None,
    policy: PolicyFile = None,
    kind: Kind = "graph",
    store: Store = None,
    json: Json = False,
) -> None:
    """Decide every case of a file; fail when one comes out otherwise.

    Example: omnigraphdb policy test --policy policy.yaml --tests cases.yaml
    """
    from omnigraphdb.policy.cases import read_cases, run_cases

    cases = read_cases(tests)
    failures = run_cases(_load(uri or store, policy, kind), cases)
    if json:
        listed = [
            {
                "id": one.id,
                "expected": one.expected,
                "actual": one.actual,
                "rule": one.matched_rule_id,
            }
            for one in failures
        ]
        say_json({"cases": len(cases), "failures": listed})
    elif failures:
        for failure in failures:
            say(str(failure))
        note(f"policy tests failed: {len(failures)} of {len(cases)} cases")
    else:
        say(f"policy tests passed: {len(cases)} {'case' if len(cases) == 1 else 'cases'}")
    if failures:
        raise typer.Exit(EXIT_FAILURE)


def explain(
    actor: Annotated[str, typer.Option("--actor", help="Who asks.")],
    action: Annotated[str, typer.Option("--action", help="What is asked, as in rules.")],
    uri: GraphUri = None,
    policy: PolicyFile = None,
    branch: Annotated[
        str | None, typer.Option("--branch", help="The branch, or the source.")
    ] = None,
    target_branch: Annotated[
        str | None, typer.Option("--target-branch", help="The branch that is made or merged into.")
    ] = None,
    query: Annotated[str | None, typer.Option("--query", help="The stored query.")] = None,
    kind: Kind = "graph",
    store: Store = None,
    check: Annotated[bool, typer.Option("--check", help="Fail when it is denied.")] = False,
    json: Json = False,
) -> None:
    """Decide one request and say why.

    Example: omnigraphdb policy explain --policy policy.yaml --actor bob --action change --branch main
    """
    from omnigraphdb.errors import did_you_mean, suggestion
    from omnigraphdb.policy.actions import PolicyAction, ResourceScope

    known = [one.value for one in PolicyAction]
    if action not in known:
        near = suggestion(did_you_mean(action, known)) or f"; there are {', '.join(known)}"
        raise typer.BadParameter(f"unknown action '{action}'{near}", param_hint="--action")
    engine = _load(uri or store, policy, kind)
    asked = PolicyAction(action)
    scope = ResourceScope(branch_name=branch, target_name=target_branch, query_name=query)
    decision = engine.decide(actor, asked, scope)
    why = () if decision.allowed else tuple(engine.explain_denial(actor, asked, scope))
    request = {
        "actor": actor,
        "action": action,
        "branch": branch,
        "target_branch": target_branch,
        "query": query,
    }
    if json:
        say_json(decision.to_dict() | request | {"why": list(why)})
    else:
        facts = {"decision": "allow" if decision.allowed else "deny"} | request
        facts |= {"matched_rule": decision.matched_rule_id, "message": decision.message}
        for name, value in facts.items():
            if value is not None:
                say(f"{name}: {value}")
        for reason in why:
            say(f"  {reason}")
    if check and not decision.allowed:
        raise typer.Exit(EXIT_FAILURE)


def matrix(
    uri: GraphUri = None,
    policy: PolicyFile = None,
    branch: Annotated[
        list[str] | None, typer.Option("--branch", help="A branch to ask about; may be repeated.")
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Draw who may do what: actors by actions, for each branch.

    Example: omnigraphdb policy matrix --policy policy.yaml --branch main --branch draft
    """
    from omnigraphdb.policy.actions import PolicyAction
    from omnigraphdb.policy.grants import Grant, list_grants

    grants = list(list_grants(_load(uri or store, policy, "graph"), branch or ()))
    if json:
        listed = [
            {"actor": row.actor, "branch": row.branch}
            | {action.value: grant.value for action, grant in row.actions.items()}
            for row in grants
        ]
        say_json({"grants": listed})
        return
    granted = {one for row in grants for one, grant in row.actions.items() if grant != Grant.NO}
    shown = [one for one in PolicyAction if one in granted]
    rows = [["actor", "branch", *map(str, shown)]]
    rows += [[row.actor, row.branch, *(row.actions[one] for one in shown)] for row in grants]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def keep(
    uri: Uri = None,
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="The file of rules.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Keep no policy any more.")] = False,
    store: Store = None,
    actor: Actor = None,
    json: Json = False,
) -> None:
    """Keep a policy in the graph: everyone who opens it asks it before writing.

    Example: omnigraphdb policy set people.omni --from policy.yaml --as ada
    """
    if (file is None) is not remove:
        raise typer.BadParameter("give a file with --from, or --remove; nothing was done")
    with open_store(choose_graph(uri, store), read_only=False, actor=actor) as graph:
        announce("policy set", graph)
        made = graph.set_policy(file)
    if json:
        say_json(made.to_dict())
    else:
        say(f"policy version {made.version} {'removed the policy' if remove else 'set'}")


def show(
    uri: Uri = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="An earlier version.")
    ] = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show the policy that a graph keeps.

    Example: omnigraphdb policy show people.omni
    """
    with open_store(choose_graph(uri, store)) as graph:
        found = graph.policy(version)
    if json:
        say_json({"policy": None if found is None else found.to_dict()})
    elif found is None or found.text is None:
        note("the graph keeps no policy")
    else:
        note(
            f"version {found.version}, {found.created_at.isoformat()}, by {found.actor or 'nobody named'}"
        )
        say(found.text.rstrip("\n"))


def _load(place: str | None, policy: Path | None, kind: str) -> "PolicyEngine":
    """The policy of the graph that is named, else that of the file."""
    from omnigraphdb.policy import PolicyEngine

    if kind not in ("graph", "server"):
        raise typer.BadParameter(f"'{kind}' is neither graph nor server", param_hint="--kind")
    if place is not None:
        engine = _load_kept(place, kind)
    elif policy is None:
        raise typer.BadParameter("name a graph, or a file with --policy; nothing was read")
    elif kind == "graph":
        engine = PolicyEngine.load_graph(policy)
    else:
        engine = PolicyEngine.load_server(policy)
    for warning in engine.rules.warnings:
        warn(warning)
    return engine


def _load_kept(place: str, kind: str) -> "PolicyEngine":
    from omnigraphdb.errors import NotFoundError

    if kind != "graph":
        raise typer.BadParameter("a graph keeps no policy of a server", param_hint="--kind")
    with open_store(choose_graph(place)) as graph:
        found = graph.policy()
    if found is None:
        raise NotFoundError(
            "the graph keeps no policy",
            hint="keep one with `omnigraphdb policy set`, or name a file with --policy",
        )
    return found.load()
