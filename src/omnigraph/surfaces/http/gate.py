"""The gate: whether an actor may do something; the one place where policies will be asked."""

from enum import StrEnum

from omnigraph.errors import NotFoundError, PolicyDenied
from omnigraph.policy.actions import PolicyAction
from omnigraph.values import dataclass


class RuntimeState(StrEnum):
    """Who is let in: everyone, or actors with a token, who may only read."""

    OPEN = "Open"
    DEFAULT_DENY = "DefaultDeny"


@dataclass(frozen=True, slots=True)
class Gate:
    """The state of a server, and whether it writes at all."""

    state: RuntimeState
    read_only: bool = False

    def require(self, action: PolicyAction, *, writes: bool = False) -> None:
        """Refuse what may not be done."""
        if action is PolicyAction.GRAPH_LIST:
            raise PolicyDenied("no policy of the server allows to list its graphs", action=action)
        if self.state is RuntimeState.DEFAULT_DENY and action is not PolicyAction.READ:
            if action is PolicyAction.INVOKE_QUERY:
                # A denied query looks like an unknown one.
                raise unknown_query()
            raise PolicyDenied(
                f"the server has tokens and no policy, so that actors may only read; this is '{action}'",
                action=action,
            )
        if self.read_only and writes:
            raise PolicyDenied(f"the server is read-only; this is '{action}'", action=action)


def unknown_query() -> NotFoundError:
    """The refusal of a stored query that is not there, or that the actor may not see."""
    return NotFoundError("stored query not found")
