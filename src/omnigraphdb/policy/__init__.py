"""May this actor do this? Rules in a file, decided by Cedar; callers never see Cedar's objects.

actions   what can be asked, and about which branches
rules     the file of rules: read, checked, every problem at once
cedar     the rules as Cedar policies, and one decision
engine    one loaded policy: decides, explains, guards
cases     expectations of a policy, run as tests
grants    what a policy allows, as a table
kept      a policy that is to be kept in a graph
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
