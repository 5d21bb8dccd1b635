"""What is wrong with a schema, gathered while it is resolved and told in the order of the checks."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from itertools import islice

from omnigraph.errors import did_you_mean, shorten, suggestion
from omnigraph.language.source import Diagnostic, Source, Span, Stage
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.values import dataclass

_ORDER = (
    "S003 S010 S012 S013 S021 S024",
    "S030 S031 S032",
    "S040 S041 S042 S044 S045",
    "S050 S051 S052 S053 S054 S055 S056 S057 S058 S059 S060 S061 S062",
    "S020 S022 S023",
)
"""The checks in order: one declaration, interfaces, annotations, constraints, the catalog."""

_COMPARED_NAMES_MAX = 500
_COMPARED_CHARS_MAX = 80

_STEP = {code: step for step, codes in enumerate(_ORDER) for code in codes.split()}


@dataclass(slots=True)
class Findings:
    """The findings about one schema text.

    `stored` reads a schema that was accepted before some rules existed: those are skipped.
    """

    source: Source
    stored: bool = False
    found: list[Diagnostic] = field(default_factory=list)
    _counts: Counter[int] = field(default_factory=Counter)

    def report(
        self,
        code: str,
        span: Span,
        message: str,
        *,
        owner: str | None = None,
        property_name: str | None = None,
        label: str | None = None,
        fix: str | None = None,
        earlier: Span | None = None,
        near: tuple[str, Iterable[str]] | None = None,
        later: bool = False,
    ) -> None:
        """Add one error.

        `earlier` is where the other half of a clash stands, `near` a name and those it may have meant;
        `later` marks a rule that stored schemas need not obey.
        """
        if later and self.stored:
            return
        step = _STEP[code]
        self._counts[step] += 1
        if self._counts[step] > PROBLEMS_SHOWN_MAX:
            return
        first = f"; the other stands at {self._place(earlier)}" if earlier else ""
        meant = _meant(*near) if near else []
        self.found.append(
            Diagnostic(
                code=code,
                stage=Stage.TYPECHECK,
                message=message + first + suggestion(meant),
                span=span,
                label=label,
                fix=fix or (f"write {meant[0]}" if meant else None),
                type_name=owner,
                property=property_name,
            )
        )

    def ordered(self) -> list[Diagnostic]:
        """The findings in the order of the checks, then of the text; as many as a report shows."""
        found = sorted(self.found, key=lambda d: (_STEP[d.code or ""], d.span))
        return found[:PROBLEMS_SHOWN_MAX]

    def _place(self, span: Span) -> str:
        at = self.source.position(span.start)
        return f"line {at.line}, column {at.column}"

    def written(self, span: Span, otherwise: object) -> str:
        """What the text says there, for a message; a tree without places has only its value."""
        text = self.source.text[span.start : span.end]
        return shorten(text) if text else str(otherwise)


def _meant(name: str, known: Iterable[str]) -> list[str]:
    """Names close to one; of very many only the first are compared, for the time it takes."""
    return did_you_mean(name[:_COMPARED_CHARS_MAX], islice(known, _COMPARED_NAMES_MAX))
