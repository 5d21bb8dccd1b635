"""A policy that a graph stores: read, checked, and refused if nobody could change it again."""

from pathlib import Path

from omnigraphdb.errors import PolicyConfigError
from omnigraphdb.policy.actions import PolicyAction
from omnigraphdb.policy.engine import PolicyEngine
from omnigraphdb.policy.rules import read_source

TEXT_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a policy that a graph keeps: a thousand rules for a thousand actors take a tenth of it."""


def read_kept(source: str | Path) -> str:
    """Read the text of a policy to be kept; every problem of it is in the error."""
    name, text = read_source(source)
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise PolicyConfigError(name, [f"it has more than {TEXT_BYTES_MAX} bytes"])
    rules = PolicyEngine.load_graph(source).rules.rules
    if not any(PolicyAction.POLICY_CHANGE in rule.actions for rule in rules):
        raise PolicyConfigError(
            name, ["no rule allows policy_change, so that nobody could ever change the policy"]
        )
    return text
