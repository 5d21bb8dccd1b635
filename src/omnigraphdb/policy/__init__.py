"""May this actor do this? Rules in a file, decided by Cedar; callers never see Cedar's objects.

actions   the actions of requests, and the branches that they name
rules     the file of rules: read, checked, every problem at once
cedar     the rules as Cedar policies, and one decision
engine    one loaded policy: decides, explains, guards
cases     expectations of a policy, run as tests
grants    the rights that a policy gives, as a table
kept      a policy that a graph stores
"""

from omnigraphdb.policy.actions import PolicyAction, ResourceScope
from omnigraphdb.policy.cases import read_cases, run_cases
from omnigraphdb.policy.engine import Decision, PolicyChecker, PolicyEngine
from omnigraphdb.policy.grants import list_grants

__all__ = [
    "Decision",
    "PolicyAction",
    "PolicyChecker",
    "PolicyEngine",
    "ResourceScope",
    "list_grants",
    "read_cases",
    "run_cases",
]
