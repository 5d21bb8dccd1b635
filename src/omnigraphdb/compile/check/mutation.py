"""A mutation: insert, upsert, update and delete statements, for the entities that they name or for the rows of an origin."""

from collections.abc import Mapping

from omnigraphdb.catalog.mixed import split_types
from omnigraphdb.catalog.model import Property
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.catalog.values import item_type
from omnigraphdb.compile.check.assignments import check_assignments
from omnigraphdb.compile.check.context import Bound, Context, Scope
from omnigraphdb.compile.check.expressions import check_parameter
from omnigraphdb.compile.check.old_row import reads_row, refuse_row_in_blocks, split_values
from omnigraphdb.compile.check.read import add_demands, check_stages
from omnigraphdb.compile.check.row import check_returning, check_where, open_row, refuse_blocks
from omnigraphdb.compile.check.target import ENDS, Target, find_target
from omnigraphdb.compile.checked import (
    ITEM,
    ROW,
    TARGET,
    Assign,
    AssignedValue,
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedRead,
    CheckedStatement,
    CheckedUpdate,
    CheckedUpsert,
    Column,
    Const,
    EntityRef,
    Field,
    Origin,
    Pattern,
    Variable,
    VariableKind,
)
from omnigraphdb.language.diagnostics import list_alternatives, nearest_name
from omnigraphdb.language.query import tree
from omnigraphdb.values import dataclass, replace

_TEXT = PropertyType(scalar=Scalar.STRING)
_ONE = Const(value=1, type=PropertyType(scalar=Scalar.I64))
_COUNTED = Column(name="#row", expr=_ONE, type=_ONE.type)
"""The column that is read of a match when only the number of its rows matters."""


def check_mutation(
    query: tree.Query, statements: tuple[tree.Statement, ...], context: Context
) -> CheckedMutation:
    """Check a mutation; the result is complete only when nothing was reported."""
    checked = [
        _check_statement(query, statement, context)
        for statement in statements
        if not context.findings.full
    ]
    _refuse_mixture(query, statements, context)
    valid = tuple(statement for statement in checked if statement is not None)
    if len(valid) == len(statements):
        _refuse_late_matches(statements, valid, context)
        _require_equal_columns(statements, valid, context)
    return CheckedMutation(
        name=query.name.text,
        params=context.params,
        statements=valid,
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
        _name_of(other).span,
        f"query '{query.name.text}' mixes inserts or updates with deletes, which one mutation cannot"
        " do; no changes were made. Split it: first the inserts and updates, then the deletes. To"
        " publish both at once, run the two on a branch and merge it",
    )


def _name_of(statement: tree.Statement) -> tree.Name:
    match statement:
        case tree.Insert() | tree.Upsert():
            return statement.type_name
        case tree.Update() | tree.Delete():
            return statement.target


def _refuse_late_matches(
    written: tuple[tree.Statement, ...], checked: tuple[CheckedStatement, ...], context: Context
) -> None:
    """Refuse a match of a type that an earlier statement writes: a match sees the graph before the mutation."""
    changed: set[str] = set()
    for statement, write in zip(written, checked, strict=True):
        read = _list_types(write.origin) if isinstance(write.origin, CheckedRead) else set()
        late = sorted(read & changed)
        if late and statement.origin is not None:
            context.findings.report(
                "T75",
                statement.origin.span,
                f"this match reads '{late[0]}', which an earlier statement writes; a match sees the graph as it"
                " was before the mutation",
                label="put the statement with the match first, or make two mutations",
                type_name=late[0],
            )
        if not isinstance(write, CheckedDelete):
            changed.add(write.type_name)


def _list_types(read: CheckedRead) -> set[str]:
    hops = (hop.edge for pattern in _list_patterns(read.patterns) for hop in pattern.hops)
    names = {name for variable in read.variables.values() for name in variable.types}
    return names.union(*map(split_types, hops))


def _list_patterns(patterns: tuple[Pattern, ...]) -> list[Pattern]:
    all_patterns = list(patterns)
    for pattern in patterns:
        all_patterns += _list_patterns(pattern.nested)
    return all_patterns


def _require_equal_columns(
    written: tuple[tree.Statement, ...], checked: tuple[CheckedStatement, ...], context: Context
) -> None:
    """Require that all statements that return something return the same columns."""
    first: list[tuple[str, PropertyType]] | None = None
    for statement, write in zip(written, checked, strict=True):
        if not write.returning:
            continue
        shape = [(c.name, replace(c.type, nullable=True, enum_values=())) for c in write.returning]
        first = first or shape
        if shape != first:
            listed = ", ".join(f"{name}: {type_.required()}" for name, type_ in first)
            context.findings.report(
                "T74",
                statement.returning[0].span,
                f"the statements of a mutation return the same columns; the first returns {listed}",
            )


# ---- where the rows of a statement come from


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """The origin of a statement while it is checked, and the names that its values may use."""

    scope: Scope
    match: CheckedRead | None = None
    block_count: int = 0
    """The number of blocks of the match itself; the values may add blocks."""
    item: str | None = None
    """The name of an item of a list."""
    origin: Origin | None = None

    def complete(
        self,
        assignments: tuple[Assign, ...],
        target: EntityRef | None = None,
        parts: tuple[Column, ...] = (),
    ) -> CheckedRead | None:
        """Return the match with the columns that the statement takes from it, and `parts` of values."""
        if self.match is None:
            return None
        columns = [
            Column(name=assignment.property, expr=assignment.value, type=assignment.value.type)
            for assignment in assignments
            # A value that is the same for all rows needs no column.
            if not isinstance(assignment.value, AssignedValue) and not reads_row(assignment)
        ]
        columns += parts
        if target is not None:
            columns.append(Column(name=TARGET, expr=target, type=target.type))
        columns = columns or [_COUNTED]
        read = replace(
            self.match, columns=tuple(columns), blocks=tuple(self.scope.blocks[self.block_count :])
        )
        return add_demands(read)


def _open_input(query: tree.Query, statement: tree.Statement, context: Context) -> _Input | None:
    match statement.origin:
        case None:
            return _Input(scope=Scope())
        case tree.Matched() as matched:
            before = set(context.variables)
            stages, pattern, scope = check_stages(matched, context)
            own = {n: v for n, v in context.variables.items() if n not in before and n != ROW}
            read = CheckedRead(
                name=query.name.text,
                params=context.params,
                pattern=pattern,
                variables=own,
                columns=(),
                stages=stages,
            )
            return _Input(scope=scope, match=read, block_count=len(scope.blocks))
        case tree.Unnest() as unnest:
            return _open_list(statement, unnest, context)


def _open_list(statement: tree.Statement, unnest: tree.Unnest, context: Context) -> _Input | None:
    """Open a list parameter: the fields of its items are named `$item.field`, or `$item` when these are scalars."""
    parameter, item = unnest.parameter, unnest.item
    declared = context.params.get(parameter.text)
    problem = None
    if declared is None:
        alternatives = list_alternatives(parameter.text, context.params, "parameters")
        problem = f"'${parameter.text}' is not a declared parameter{alternatives}"
    elif not declared.type.is_list:
        problem = f"'${parameter.text}' is {declared.type}, and unnest takes a list"
    elif item.text in context.params:
        problem = f"'${item.text}' is a parameter of this query; give the items another name"
    elif isinstance(statement, tree.Update | tree.Delete):
        problem = "unnest stands before an insert or an upsert; entities are found by a match"
    if problem is not None or declared is None:
        context.findings.report("T72", unnest.span, str(problem))
        return None
    reference = tree.VariableExpr(name=parameter.text, span=parameter.span)
    name = f"${item.text}"
    scalars = {f"{name}.{part}": Field(f"#{part}", type_) for part, type_ in declared.type.fields}
    scalars = scalars or {name: Field(ITEM, item_type(declared.type))}
    return _Input(
        scope=Scope(parent=Scope(scalars=scalars)),
        item=item.text,
        origin=check_parameter(reference, context),
    )


def _read_item(expr: tree.Expr, inputs: _Input, context: Context) -> tree.Expr | None:
    """Read `$item` and `$item.field` as the values of a list; return None when a field is unknown and is reported."""
    assert inputs.scope.parent is not None
    scalars = inputs.scope.parent.scalars or {}
    wrong: list[tree.Expr] = []

    def read(leaf: tree.Expr) -> tree.Expr:
        match leaf:
            case tree.PropertyExpr(variable=variable, property=name) if variable == inputs.item:
                written = f"${variable}.{name}"
            case tree.VariableExpr(name=name) if name == inputs.item:
                written = f"${name}"
            case _:
                return leaf
        if written not in scalars:
            near = nearest_name(written, scalars)
            message = f"an item of the list has no '{written}'{list_alternatives(written, scalars, 'it has')}"
            context.findings.report("T72", leaf.span, message, fix=near)
            wrong.append(leaf)
        return tree.AliasExpr(name=written, span=leaf.span)

    rewritten = tree.change_leaves(expr, read)
    return None if wrong else rewritten


def _prepare_values(
    written: tuple[tree.PropertyMatch, ...], inputs: _Input, context: Context
) -> tuple[tree.PropertyMatch, ...]:
    """Return the values of a statement in the words of its origin; values with an error are reported and left out."""
    if inputs.match is not None:
        return written
    prepared = []
    for assignment in written:
        value: tree.Expr | None = assignment.value
        if inputs.item is not None:
            value = _read_item(assignment.value, inputs, context)
        if value is not None and not refuse_blocks(assignment.value, context):
            prepared.append(replace(assignment, value=value))
    return tuple(prepared)


# ---- statements


def _check_statement(
    query: tree.Query, statement: tree.Statement, context: Context
) -> CheckedStatement | None:
    inputs = _open_input(query, statement, context)
    if inputs is None:
        return None
    match statement:
        case tree.Insert():
            return _check_insert(statement, inputs, context)
        case tree.Upsert():
            return _check_upsert(statement, inputs, context)
        case tree.Update():
            return _check_update(statement, inputs, context)
        case tree.Delete():
            return _check_delete(statement, inputs, context)


def _check_insert(statement: tree.Insert, inputs: _Input, context: Context) -> CheckedInsert | None:
    target = find_target(statement.type_name, context)
    if target is None:
        return None
    written = _prepare_values(statement.assignments, inputs, context)
    assigned = check_assignments(written, target, inputs.scope, context)
    _require_all(statement.type_name, "insert", statement.assignments, target, context)
    if statement.if_absent and target.kind is VariableKind.NODE:
        _require_key("if absent", statement.type_name, target, context)
    return CheckedInsert(
        type_name=target.name,
        kind=target.kind,
        assignments=assigned,
        if_absent=statement.if_absent,
        origin=inputs.complete(assigned) or inputs.origin,
        returning=check_returning(statement.returning, target, context, flag=statement.if_absent),
    )


def _check_upsert(statement: tree.Upsert, inputs: _Input, context: Context) -> CheckedUpsert | None:
    target = find_target(statement.type_name, context)
    if target is None or not _require_key("upsert", statement.type_name, target, context):
        return None
    key_values = _prepare_values(statement.key, inputs, context)
    key = check_assignments(key_values, target, inputs.scope, context)
    _check_key(statement, target, context)
    row = _add_row(inputs.scope, target, context)
    written = _prepare_values(statement.assignments, inputs, context)
    assigned = check_assignments(written, target, row, context)
    _refuse_keys(statement.assignments, target, context)
    assignments = (*statement.key, *statement.assignments)
    _require_all(statement.type_name, "upsert", assignments, target, context)
    parts: tuple[Column, ...] = ()
    if inputs.match is not None:
        refuse_row_in_blocks(statement, inputs.scope.blocks[inputs.block_count :], context)
        assigned, parts = split_values(assigned)
    return CheckedUpsert(
        type_name=target.name,
        key=key,
        assignments=assigned,
        origin=inputs.complete((*key, *assigned), parts=parts) or inputs.origin,
        returning=check_returning(statement.returning, target, context, flag=True),
    )


def _add_row(scope: Scope, target: Target, context: Context) -> Scope:
    """Add `$.p` to the names of an origin: the row that has the key, NULL where there is none."""
    row = open_row(target, context, nullable=True)
    return Scope(parent=scope.parent, names={**scope.names, **row.names}, blocks=scope.blocks)


def _require_key(word: str, name: tree.Name, target: Target, context: Context) -> bool:
    if target.key:
        return True
    context.findings.report(
        "T73",
        name.span,
        f"'{target.name}' has no key, and {word} finds an entity by its key",
        label="declare a key (@key), or find the entity with a match",
        type_name=target.name,
    )
    return False


def _check_key(statement: tree.Upsert, target: Target, context: Context) -> None:
    names = [assignment.name.text for assignment in statement.key]
    if sorted(names) != sorted(target.key):
        listed = ", ".join(target.key)
        context.findings.report(
            "T73",
            statement.type_name.span,
            f"upsert of '{target.name}' names its key in the first braces, {listed}, and everything else behind 'set'",
            fix=f"upsert {target.name} {{ {', '.join(f'{name}: …' for name in target.key)} }} set {{ … }}",
            type_name=target.name,
        )


# ---- updates and deletes


def _check_update(statement: tree.Update, inputs: _Input, context: Context) -> CheckedUpdate | None:
    subject = _find_written(statement, inputs, context)
    if subject is None:
        return None
    target, entity = subject
    _refuse_keys(statement.assignments, target, context)
    _refuse_ends(statement.assignments, target, context)
    if entity is None:
        row = open_row(target, context)
        written = _prepare_values(statement.assignments, inputs, context)
        assigned = check_assignments(written, target, row, context)
        assert statement.where is not None
        where = check_where(statement.where, target, row, context)
        origin = None
    else:
        inputs.scope.names[ROW] = Bound(context.variables[entity.variable])
        assigned = check_assignments(statement.assignments, target, inputs.scope, context)
        where, origin = None, inputs.complete(assigned, entity)
    return CheckedUpdate(
        type_name=target.name,
        kind=target.kind,
        assignments=assigned,
        where=where,
        origin=origin,
        returning=check_returning(statement.returning, target, context, flag=False),
    )


def _check_delete(statement: tree.Delete, inputs: _Input, context: Context) -> CheckedDelete | None:
    subject = _find_written(statement, inputs, context)
    if subject is None:
        return None
    target, entity = subject
    where = None
    if statement.where is not None:
        where = check_where(statement.where, target, open_row(target, context), context)
    return CheckedDelete(
        type_name=target.name,
        kind=target.kind,
        where=where,
        origin=None if entity is None else inputs.complete((), entity),
        returning=check_returning(statement.returning, target, context, flag=False),
    )


def _find_written(
    statement: tree.Update | tree.Delete, inputs: _Input, context: Context
) -> tuple[Target, EntityRef | None] | None:
    """Find the target of an update or delete: a type, or a variable of the match."""
    name = statement.target
    word = "update" if isinstance(statement, tree.Update) else "delete"
    if statement.where is not None:
        if inputs.match is not None:
            message = f"behind a match, {word} names one of its variables, and the match has the conditions"
            context.findings.report("T70", name.span, message, fix=f"{word} $v")
            return None
        target = find_target(name, context)
        return None if target is None else (target, None)
    bound = inputs.scope.find(name.text)
    if bound is None:
        bound_names = [bound_name for bound_name in inputs.scope.visible() if bound_name]
        reason = list_alternatives(name.text, bound_names, "bound here") if bound_names else ""
        message = f"'${name.text}' is not a variable of a match before this {word}{reason}"
        context.findings.report(
            "T70", name.span, message, fix=f"match {{ ${name.text}: Type }} {word} ${name.text}"
        )
        return None
    if bound.variable is None:
        return None
    return _find_entity(name, bound.variable, context)


def _find_entity(
    name: tree.Name, variable: Variable, context: Context
) -> tuple[Target, EntityRef] | None:
    tables: Mapping[str, object] = context.catalog.nodes
    if variable.kind is VariableKind.EDGE:
        tables = context.catalog.edges
    if variable.type_name not in tables:
        message = f"'${name.text}' stands for entities of several types; bind one type to write it"
        context.findings.report("T70", name.span, message)
        return None
    table = (
        context.catalog.edges[variable.type_name]
        if variable.kind is VariableKind.EDGE
        else context.catalog.nodes[variable.type_name]
    )
    entity = EntityRef(
        variable=variable.name,
        type=replace(_TEXT, nullable=variable.nullable),
        span=name.span,
    )
    return Target(table), entity


# ---- rules of properties


def _require_all(
    name: tree.Name,
    word: str,
    assignments: tuple[tree.PropertyMatch, ...],
    target: Target,
    context: Context,
) -> None:
    assigned = {assignment.name.text for assignment in assignments}
    ends = list(ENDS) if target.kind is VariableKind.EDGE else []
    needed = [*ends, *(name for name, p in target.properties.items() if _is_needed(p, assigned))]
    missing = [name for name in needed if name not in assigned]
    if missing:
        others = f" (also missing: {', '.join(missing[1:])})" if missing[1:] else ""
        context.findings.report(
            "T12",
            name.span,
            f"{word} of '{target.name}' does not assign '{missing[0]}', which is required{others}",
            type_name=target.name,
            property_name=missing[0],
        )


def _is_needed(declared: Property, assigned: set[str]) -> bool:
    embedded = declared.embed is not None and declared.embed.source in assigned
    return not declared.type.nullable and not embedded


def _refuse_keys(
    assignments: tuple[tree.PropertyMatch, ...], target: Target, context: Context
) -> None:
    for assignment in assignments:
        if assignment.name.text in target.key:
            context.findings.report(
                "W05",
                assignment.name.span,
                f"'{target.name}.{assignment.name.text}' is part of the key, and a key cannot be"
                " updated; delete the entity and insert it under the new key",
                type_name=target.name,
                property_name=assignment.name.text,
                fix="delete the entity, then insert it under the new key",
            )


def _refuse_ends(
    assignments: tuple[tree.PropertyMatch, ...], target: Target, context: Context
) -> None:
    if target.kind is not VariableKind.EDGE:
        return
    for assignment in assignments:
        if assignment.name.text in ENDS:
            context.findings.report(
                "T16",
                assignment.name.span,
                f"'{target.name}.{assignment.name.text}' is an end of an edge, and ends cannot be updated;"
                " delete the edge and insert another",
                type_name=target.name,
                property_name=assignment.name.text,
            )
