"""A mutation: insert, update and delete statements."""

from omnigraph.catalog.model import EdgeType, NodeType, Property
from omnigraph.compile.check.assignments import (
    ENDS,
    Target,
    check_assignments,
    check_where,
    find_target,
)
from omnigraph.compile.check.context import Context
from omnigraph.compile.checked import (
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedStatement,
    CheckedUpdate,
    VariableKind,
)
from omnigraph.language.query import tree


def check_mutation(
    query: tree.Query, statements: tuple[tree.Statement, ...], context: Context
) -> CheckedMutation:
    """Check a mutation; what it returns counts only when nothing was reported."""
    checked = [
        _check_statement(statement, context)
        for statement in statements
        if not context.findings.full
    ]
    _refuse_mixture(query, statements, context)
    return CheckedMutation(
        name=query.name.text,
        params=context.params,
        statements=tuple(statement for statement in checked if statement is not None),
        description=query.description,
        instruction=query.instruction,
    )


def _refuse_mixture(
    query: tree.Query, statements: tuple[tree.Statement, ...], context: Context
) -> None:
    deletes = [isinstance(statement, tree.Delete) for statement in statements]
    if not deletes or all(deletes) or not any(deletes):
        return
    other = next(s for s, d in zip(statements, deletes, strict=True) if d != deletes[0])
    context.findings.report(
        "T29",
        other.type_name.span,
        f"query '{query.name.text}' mixes inserts or updates with deletes, which one mutation cannot"
        " do; no changes were made. Split it: first the inserts and updates, then the deletes. To"
        " publish both at once, run the two on a branch and merge it",
    )


def _check_statement(statement: tree.Statement, context: Context) -> CheckedStatement | None:
    target = find_target(statement.type_name, context)
    if target is None:
        return None
    match statement:
        case tree.Insert():
            return _check_insert(statement, target, context)
        case tree.Update():
            return _check_update(statement, target, context)
        case tree.Delete():
            return _check_delete(statement, target, context)


# ---- statements


def _check_insert(statement: tree.Insert, target: Target, context: Context) -> CheckedInsert:
    assigned = check_assignments(statement.assignments, target, context)
    _require_all(statement, target, context)
    return CheckedInsert(type_name=target.name, kind=target.kind, assignments=assigned)


def _check_update(statement: tree.Update, target: Target, context: Context) -> CheckedUpdate | None:
    if isinstance(target.table, EdgeType):
        context.findings.report(
            "T16",
            statement.type_name.span,
            f"'{target.name}' is an edge type, and edges cannot be updated;"
            " delete the edge and insert another",
            type_name=target.name,
        )
        return None
    assigned = check_assignments(statement.assignments, target, context)
    _refuse_keys(statement, target.table, context)
    predicate = check_where(statement.predicate, target, context)
    if predicate is None:
        return None
    return CheckedUpdate(type_name=target.name, assignments=assigned, where=predicate)


def _check_delete(statement: tree.Delete, target: Target, context: Context) -> CheckedDelete | None:
    predicate = check_where(statement.predicate, target, context)
    if predicate is None:
        return None
    return CheckedDelete(type_name=target.name, kind=target.kind, where=predicate)


def _require_all(statement: tree.Insert, target: Target, context: Context) -> None:
    given = {assignment.name.text for assignment in statement.assignments}
    ends = list(ENDS) if target.kind is VariableKind.EDGE else []
    needed = [*ends, *(name for name, p in target.properties.items() if _is_needed(p, given))]
    missing = [name for name in needed if name not in given]
    if missing:
        others = f" (also missing: {', '.join(missing[1:])})" if missing[1:] else ""
        context.findings.report(
            "T12",
            statement.type_name.span,
            f"insert of '{target.name}' does not assign '{missing[0]}', which is required{others}",
            type_name=target.name,
            property_name=missing[0],
        )


def _is_needed(declared: Property, given: set[str]) -> bool:
    embedded = declared.embed is not None and declared.embed.source in given
    return not declared.type.nullable and not embedded


def _refuse_keys(statement: tree.Update, node: NodeType, context: Context) -> None:
    key = node.key.columns if node.key else ()
    for assignment in statement.assignments:
        if assignment.name.text in key:
            context.findings.report(
                "W05",
                assignment.name.span,
                f"'{node.name}.{assignment.name.text}' is part of the key, and a key cannot be"
                " updated; delete the entity and insert it under the new key",
                type_name=node.name,
                property_name=assignment.name.text,
            )
