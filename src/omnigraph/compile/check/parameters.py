"""The parameters a query declares."""

from collections.abc import Mapping, Sequence

from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.check.scope import ANONYMOUS
from omnigraph.compile.checked import Parameter
from omnigraph.language.diagnostics import Findings
from omnigraph.language.query import tree

DIMENSION_MAX = 2**31 - 1
RESERVED_PREFIX = "__"

_SCALARS = {str(scalar): scalar for scalar in Scalar}


def parameters(declared: Sequence[tree.Param], report: Findings) -> Mapping[str, Parameter]:
    """Check the declared parameters; one whose type is wrong stays, so that its uses are understood."""
    found: dict[str, Parameter] = {}
    for param in declared:
        name = param.name.text
        if name in found:
            message = f"parameter '${name}' is declared twice; one of them must go"
            report.report("T31", param.name.span, message)
            continue
        problem = _declaration_problem(param)
        if problem is not None:
            report.report("T28", param.span, f"parameter '${name}' {problem}")
        found[name] = Parameter(name=name, type=_type(param.type), span=param.span)
    return found


def _declaration_problem(param: tree.Param) -> str | None:
    written = param.type
    if param.name.text.startswith(RESERVED_PREFIX):
        return f"begins with '{RESERVED_PREFIX}', and such names are reserved"
    if param.name.text == ANONYMOUS:
        return "stands for nobody: '$_' is the anonymous variable"
    if written.dimension is not None:
        if 1 <= written.dimension <= DIMENSION_MAX:
            return None
        return f"has dimension {written.dimension}; a Vector has 1 to {DIMENSION_MAX}"
    if written.scalar not in _SCALARS:
        return f"has the unknown type '{written.scalar}'; types are {', '.join(Scalar)}"
    if written.is_list and written.scalar == Scalar.BLOB:
        return "is a list of Blob, which does not exist"
    return None


def _type(written: tree.ParamType) -> PropertyType:
    if written.dimension is not None:
        return PropertyType(
            scalar=Scalar.F32, dimension=written.dimension, nullable=written.nullable
        )
    return PropertyType(
        scalar=_SCALARS.get(written.scalar or "", Scalar.STRING),
        is_list=written.is_list,
        nullable=written.nullable,
    )
