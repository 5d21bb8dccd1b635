"""What every part of the checker needs to know about the query at hand."""

from collections.abc import Mapping

from omnigraph.catalog.model import Catalog
from omnigraph.compile.check.scope import Namer
from omnigraph.compile.checked import Parameter, Variable
from omnigraph.language.diagnostics import Findings
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of one check: schema, parameters, findings, names, and the dialect."""

    catalog: Catalog
    params: Mapping[str, Parameter]
    findings: Findings
    namer: Namer
    variables: dict[str, Variable]
    extended: bool = False
