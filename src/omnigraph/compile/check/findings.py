"""What the checker has to say about one query, in the order it noticed."""

from collections.abc import Iterable
from dataclasses import field
from itertools import islice

from omnigraph.errors import did_you_mean, suggestion
from omnigraph.language.source import Diagnostic, Span, Stage
from omnigraph.limits import NAMES_SHOWN_MAX, PROBLEMS_SHOWN_MAX, SUGGESTION_CANDIDATES_MAX
from omnigraph.values import dataclass


@dataclass(slots=True)
class Findings:
    """A list that grows while a query is checked; the first entry leads the error."""

    query_name: str
    found: list[Diagnostic] = field(default_factory=list)

    def report(
        self,
        code: str,
        span: Span,
        message: str,
        *,
        label: str | None = None,
        fix: str | None = None,
        type_name: str | None = None,
        property_name: str | None = None,
    ) -> None:
        """Add one error; past the bound of a report it is dropped."""
        if self.full:
            return
        self.found.append(
            Diagnostic(
                message=message,
                code=code,
                stage=Stage.TYPECHECK,
                span=span,
                label=label,
                fix=fix,
                query_name=self.query_name,
                type_name=type_name,
                property=property_name,
            )
        )

    @property
    def full(self) -> bool:
        """Whether anything more would be dropped."""
        return len(self.found) >= PROBLEMS_SHOWN_MAX


def alternatives(name: str, known: Iterable[str], there: str) -> str:
    """What to say after a wrong name: the near ones, else all there are, else nothing."""
    names = list(islice(known, SUGGESTION_CANDIDATES_MAX))
    close = _close(name, names)
    if close or not names:
        return suggestion(close)
    more = ", …" if len(names) > NAMES_SHOWN_MAX else ""
    return f"; {there}: {', '.join(sorted(names)[:NAMES_SHOWN_MAX])}{more}"


def best(name: str, known: Iterable[str]) -> str | None:
    """The one name that was probably meant, to offer as a fix."""
    close = _close(name, list(islice(known, SUGGESTION_CANDIDATES_MAX)))
    return close[0] if close else None


def _close(name: str, names: list[str]) -> list[str]:
    # Every one-letter name is one slip away from every other, which suggests nothing.
    return did_you_mean(name, names) if len(name) > 1 else []
