"""The steps of a schema change, the plan they form, and how both are shown."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from omnigraphdb.catalog.diff.codes import REGISTRY, Code, Tier
from omnigraphdb.display import Displayable, Grid, Report, count_of
from omnigraphdb.errors import InternalError, UnsupportedSchemaChange
from omnigraphdb.ids import TableKey
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, derived, wire


class StepKind(StrEnum):
    """Kinds of steps; the last kind says that a change cannot be done."""

    ADD_TYPE = "add_type"
    RENAME_TYPE = "rename_type"
    ADD_PROPERTY = "add_property"
    RENAME_PROPERTY = "rename_property"
    ADD_CONSTRAINT = "add_constraint"
    EXTEND_ENUM = "extend_enum"
    UPDATE_TYPE_METADATA = "update_type_metadata"
    UPDATE_PROPERTY_METADATA = "update_property_metadata"
    DROP_PROPERTY = "drop_property"
    DROP_TYPE = "drop_type"
    UNSUPPORTED_CHANGE = "unsupported_change"


class TypeKind(StrEnum):
    """The three namespaces of a schema."""

    INTERFACE = "interface"
    NODE = "node"
    EDGE = "edge"

    @property
    def noun(self) -> str:
        """The name of a declaration of this kind in messages."""
        return "interface" if self is TypeKind.INTERFACE else f"{self} type"


class DropMode(StrEnum):
    """Modes of a drop: history keeps the dropped data until cleanup, or loses it with the apply."""

    SOFT = "soft"
    HARD = "hard"

    @property
    def tier(self) -> Tier:
        """The condition under which a drop of this mode may run."""
        return Tier.SAFE if self is DropMode.SOFT else Tier.DESTRUCTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Value):
    """One change of a plan; facts that do not apply are None.

    A type is named by its new name, and so is a property. Of a drop, `code` is information about what is
    at risk; of an unsupported change, the reason it is refused.
    """

    kind: StepKind
    type_kind: TypeKind
    type_name: str
    property_name: str | None = field(default=None, metadata=wire(omit=True))
    from_: str | None = field(default=None, metadata=wire("from", omit=True))
    to: str | None = field(default=None, metadata=wire(omit=True))
    mode: DropMode | None = field(default=None, metadata=wire(omit=True))
    added_values: tuple[str, ...] | None = field(default=None, metadata=wire(omit=True))
    constraint: str | None = field(default=None, metadata=wire(omit=True))
    entity: str | None = field(default=None, metadata=wire(omit=True))
    reason: str | None = field(default=None, metadata=wire(omit=True))
    code: Code | None = field(default=None, metadata=wire(omit=True))
    tier: Tier = Tier.SAFE

    def __str__(self) -> str:
        return f"{self.kind} {_render_step(self)}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A type under its new name: the maker of the steps about it."""

    kind: TypeKind
    name: str

    def step(self, kind: StepKind, property_name: str | None = None, **facts: Any) -> Step:
        """Make a step that can be done."""
        return Step(
            kind=kind,
            type_kind=self.kind,
            type_name=self.name,
            property_name=property_name,
            **facts,
        )

    def refuse(self, code: Code, why: str, property_name: str | None = None, **facts: Any) -> Step:
        """Make the step that says no; `why` continues a sentence that starts with the subject."""
        entity, subject = f"{self.kind}:{self.name}", f"{self.kind.noun} '{self.name}'"
        if property_name is not None:
            entity += f".{property_name}"
            subject = f"property '{self.name}.{property_name}'"
        return self.step(
            StepKind.UNSUPPORTED_CHANGE,
            property_name,
            entity=entity,
            reason=f"{subject} {why}",
            code=code,
            tier=REGISTRY[code].tier,
            **facts,
        )


@dataclass(frozen=True, slots=True)
class SchemaPlan(Displayable, Value):
    """The steps that turn the accepted schema into the desired one, in order; decided, not done."""

    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = field(default=(), metadata=wire(omit=True))

    @property
    def refusals(self) -> tuple[Step, ...]:
        """The steps that cannot be done, in order."""
        return tuple(s for s in self.steps if s.kind is StepKind.UNSUPPORTED_CHANGE)

    @derived
    def supported(self) -> bool:
        """Whether every step can be done."""
        return not self.refusals

    @derived
    def step_count(self) -> int:
        """The number of steps."""
        return len(self.steps)

    def _report(self) -> Report:
        """Draw the steps in order, and whether all of them can be done."""
        verdict = "supported" if self.supported else "not supported"
        grid = Grid(columns=("step",), rows=[[str(step)] for step in self.steps])
        return Report(
            title=f"Schema plan: {count_of(self.step_count, 'step')}, {verdict}",
            grids=(grid,) if self.steps else (),
            notes=self.warnings,
        )

    def __str__(self) -> str:
        return render(self)


def render(plan: SchemaPlan) -> str:
    """Show a plan to people: the verdict, then one line per step in order."""
    lines = [f"supported: {'yes' if plan.supported else 'no'}"]
    lines += [f"  {step}" for step in plan.steps] or ["  no changes"]
    lines += [f"warning: {text}" for text in plan.warnings]
    return "\n".join(lines)


def _render_step(step: Step) -> str:
    """Render the subject of a step and its change."""
    subject = f"{step.type_kind} {step.type_name}"
    match step.kind:
        case StepKind.ADD_TYPE | StepKind.UPDATE_TYPE_METADATA:
            return subject
        case StepKind.RENAME_TYPE:
            return f"{step.type_kind} {step.from_} -> {step.to}"
        case StepKind.ADD_PROPERTY | StepKind.UPDATE_PROPERTY_METADATA:
            return f"{subject}.{step.property_name}"
        case StepKind.RENAME_PROPERTY:
            return f"{subject}.{step.from_} -> {step.to}"
        case StepKind.ADD_CONSTRAINT:
            return f"{subject} {step.constraint}"
        case StepKind.EXTEND_ENUM:
            return f"{subject}.{step.property_name} + {', '.join(step.added_values or ())}"
        case StepKind.DROP_PROPERTY:
            return f"{subject}.{step.property_name} {_drop_note(step)}"
        case StepKind.DROP_TYPE:
            return f"{subject} {_drop_note(step)}"
        case StepKind.UNSUPPORTED_CHANGE:
            instead = f"; instead: {REGISTRY[step.code].instead}" if step.code else ""
            return f"{step.entity} [{step.code}, {step.tier}] {step.reason}{instead}"


def _drop_note(step: Step) -> str:
    return f"({step.mode}, {step.tier})" + (f" [{step.code}]" if step.code else "")


def first_refusal(
    plan: SchemaPlan, rows: Mapping[TableKey, int] | None = None
) -> UnsupportedSchemaChange:
    """Build the error of applying a plan that is not supported; the first refusal leads.

    `rows` are the row counts of the accepted tables, so that the message can say what is at risk.
    """
    refusals = plan.refusals
    if not refusals:
        raise InternalError("a supported plan was taken for a refused one; no changes were made")
    first, more = refusals[0], len(refusals) - 1
    code = Code(first.code or Code.UNCLASSIFIED)
    others = f"; {more} more refused in this plan" if more else ""
    return UnsupportedSchemaChange(
        f"[{code}] {first.reason}{_at_risk(plan, first, rows or {})}; no changes were made{others}",
        details={"unsupported_changes": [step.to_dict() for step in refusals]},
        hint=REGISTRY[code].instead,
        code=str(code),
    )


def _at_risk(plan: SchemaPlan, step: Step, rows: Mapping[TableKey, int]) -> str:
    count = rows.get(TableKey(f"{step.type_kind}:{_accepted_name(plan, step)}"))
    match count:
        case None:
            return ""
        case 1:
            return "; 1 row is stored"
        case _:
            return f"; {count} rows are stored"


def _accepted_name(plan: SchemaPlan, step: Step) -> str:
    """Return the name under which the type of a step is stored today."""
    for other in plan.steps:
        is_same_type = (other.type_kind, other.type_name) == (step.type_kind, step.type_name)
        if is_same_type and other.kind is StepKind.RENAME_TYPE and other.from_ is not None:
            return other.from_
    return step.type_name
