"""The file of rules: read as YAML, checked whole, every problem told at once."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omnigraphdb.errors import PolicyConfigError, did_you_mean, suggestion
from omnigraphdb.policy.actions import BranchScope, PolicyAction, PolicyKind
from omnigraphdb.values import dataclass

VERSION = 1
RESERVED_PREFIX = "omnigraph:"
_KEYS = ("version", "kind", "groups", "protected_branches", "rules")
_RULE_KEYS = ("id", "allow")
_ALLOW_KEYS = ("actors", "actions", "branch_scope", "target_branch_scope", "queries")
_SCOPED: Mapping[str, Callable[[PolicyAction], bool]] = {
    "branch_scope": lambda action: action.uses_branch_scope,
    "target_branch_scope": lambda action: action.uses_target_branch_scope,
    "queries": lambda action: action.uses_queries,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: a group may do some actions, on some branches or with some stored queries."""

    id: str
    group: str
    actions: tuple[PolicyAction, ...]
    branch_scope: BranchScope = BranchScope.ANY
    target_branch_scope: BranchScope = BranchScope.ANY
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRules:
    """A whole file: the members of each group, the protected branches, the allowed actions."""

    name: str
    kind: PolicyKind
    groups: Mapping[str, tuple[str, ...]]
    protected_branches: frozenset[str]
    rules: tuple[Rule, ...]
    warnings: tuple[str, ...] = ()

    @property
    def actors(self) -> tuple[str, ...]:
        """The members of all groups, once each."""
        return tuple(dict.fromkeys(actor for members in self.groups.values() for actor in members))


def read_source(source: str | Path, what: str = "policy") -> tuple[str, str]:
    """Read the name and the text of a policy: a path names a file, a text is the policy itself."""
    if isinstance(source, str):
        return "policy", source
    try:
        return str(source), source.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PolicyConfigError(
            str(source), [f"the file cannot be read: {reason}"], what
        ) from error


def read_rules(source: str | Path, kind: PolicyKind) -> PolicyRules:
    """Read a policy; every problem of it is in the error."""
    name, text = read_source(source)
    document = read_mapping(name, text)
    checked = _Checked(name, kind)
    rules = checked.read(document)
    if checked.problems:
        raise PolicyConfigError(name, checked.problems)
    return rules


def read_mapping(name: str, text: str) -> Mapping[str, Any]:
    """Read YAML whose keys are all different: of two equal keys YAML would keep the last without a word."""
    import yaml

    # The loader written in C reads a thousand rules six times faster.
    plain: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(plain):  # type: ignore[misc]
        """YAML's plain types, with duplicate keys refused."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
            repeated = [key for key, times in Counter(map(str, keys)).items() if times > 1]
            if repeated:
                line = node.start_mark.line + 1
                raise PolicyConfigError(
                    name, [f"key '{repeated[0]}' is given twice in the mapping of line {line}"]
                )
            return dict(super().construct_mapping(node, deep=deep))

    try:
        document = yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise PolicyConfigError(name, [f"{where}{error.problem or 'not YAML'}"]) from error
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise PolicyConfigError(name, [f"the text is not YAML: {error}"]) from error
    if not isinstance(document, Mapping):
        raise PolicyConfigError(name, ["the file holds no mapping of keys"])
    return document


def list_unknown_keys(
    mapping: Mapping[Any, Any], names: Sequence[str], where: str
) -> Iterator[str]:
    """List the problems of keys that mean nothing: a misspelt scope must never widen a right."""
    for key in mapping:
        if key not in names:
            near = suggestion(did_you_mean(str(key), names)) or f"; there are {', '.join(names)}"
            yield f"{where}unknown key '{key}'{near}"


class _Checked:
    """A reader of one file that gathers its problems."""

    def __init__(self, name: str, kind: PolicyKind) -> None:
        self.name, self.kind = name, kind
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def read(self, document: Mapping[str, Any]) -> PolicyRules:
        self.problems += list_unknown_keys(document, _KEYS, "")
        if document.get("version") != VERSION:
            self.problems.append(f"version must be {VERSION}, it is {document.get('version')!r}")
        if document.get("kind", self.kind) != self.kind:
            self.problems.append(
                f"the file says kind '{document['kind']}' and is used as a {self.kind} policy"
            )
        groups = self._groups(document.get("groups"))
        protected = self._texts(document.get("protected_branches"), "protected_branches: ")
        rules = self._rules(document.get("rules"), groups)
        self._warn_of_unused(groups, frozenset(protected), rules)
        return PolicyRules(
            name=self.name,
            kind=self.kind,
            groups=groups,
            protected_branches=frozenset(protected),
            rules=rules,
            warnings=tuple(self.warnings),
        )

    def _groups(self, section: Any) -> dict[str, tuple[str, ...]]:
        groups: dict[str, tuple[str, ...]] = {}
        for name, members in self._mapping(section, "groups").items():
            where = f"group '{name}': "
            if not isinstance(name, str) or not name.strip():
                self.problems.append(f"groups: a group has the blank name {name!r}")
                continue
            actors = self._texts(members, where)
            if not actors:
                self.problems.append(f"{where}it has no members")
            reserved = [actor for actor in actors if actor.startswith(RESERVED_PREFIX)]
            self.problems += [f"{where}the actor '{actor}' is reserved" for actor in reserved]
            unique = tuple(dict.fromkeys(actors))
            self.warnings += [
                f"{where}'{actor}' is listed more than once" for actor in list_repeated(actors)
            ]
            groups[name] = unique
        return groups

    def _rules(self, section: Any, groups: Mapping[str, Any]) -> tuple[Rule, ...]:
        if section is not None and not isinstance(section, list):
            self.problems.append("rules: it is a list of rules")
            return ()
        rules = [self._rule(number, entry, groups) for number, entry in enumerate(section or [], 1)]
        valid_rules = tuple(rule for rule in rules if rule is not None)
        ids = [rule.id for rule in valid_rules]
        self.problems += [
            f"rule '{id_}': the id is used more than once" for id_ in list_repeated(ids)
        ]
        return valid_rules

    def _rule(self, number: int, entry: Any, groups: Mapping[str, Any]) -> Rule | None:
        if not isinstance(entry, Mapping):
            self.problems.append(f"rule {number}: it is a mapping of id and allow")
            return None
        id_ = entry.get("id")
        has_id = isinstance(id_, str) and bool(id_.strip())
        where = f"rule '{id_}': " if has_id else f"rule {number}: "
        if not has_id:
            self.problems.append(f"{where}its id is blank")
        self.problems += list_unknown_keys(entry, _RULE_KEYS, where)
        allow = self._mapping(entry.get("allow"), f"{where}allow")
        self.problems += list_unknown_keys(allow, _ALLOW_KEYS, where)
        actions = self._actions(allow.get("actions"), where)
        self._require_scopes(allow, actions, where)
        group = self._group(allow.get("actors"), groups, where)
        scopes = {
            key: self._scope(allow[key], f"{where}{key}")
            for key in ("branch_scope", "target_branch_scope")
            if key in allow
        }
        queries = self._texts(allow["queries"], f"{where}queries: ") if "queries" in allow else ()
        if "queries" in allow and not queries:
            self.problems.append(f"{where}queries names no stored query")
        if not has_id or group is None or not actions:
            return None
        return Rule(id=str(id_), group=group, actions=actions, queries=queries, **scopes)

    def _group(self, section: Any, groups: Mapping[str, Any], where: str) -> str | None:
        actors = self._mapping(section, f"{where}actors")
        self.problems += list_unknown_keys(actors, ("group",), f"{where}actors: ")
        group = actors.get("group")
        if not isinstance(group, str):
            self.problems.append(f"{where}actors names no group, as in {{ group: team }}")
            return None
        if group not in groups:
            near = suggestion(did_you_mean(group, groups))
            self.problems.append(f"{where}group '{group}' is not defined{near}")
            return None
        return group

    def _actions(self, section: Any, where: str) -> tuple[PolicyAction, ...]:
        names = self._texts(section, f"{where}actions: ")
        if not names:
            self.problems.append(f"{where}actions is empty")
        action_names = [action.value for action in PolicyAction]
        for name in names:
            if name not in action_names:
                near = (
                    suggestion(did_you_mean(name, action_names))
                    or f"; there are {', '.join(action_names)}"
                )
                self.problems.append(f"{where}unknown action '{name}'{near}")
        self.problems += [f"{where}action '{name}' is given twice" for name in list_repeated(names)]
        actions = tuple(PolicyAction(name) for name in dict.fromkeys(names) if name in action_names)
        foreign = [action for action in actions if action.resource_kind is not self.kind]
        self.problems += [
            f"{where}action '{action}' belongs in a {action.resource_kind} policy, this is a {self.kind} policy"
            for action in foreign
        ]
        if PolicyAction.ADMIN in actions:
            self.warnings.append(f"{where}action 'admin' has no effect")
        return actions

    def _require_scopes(
        self, allow: Mapping[str, Any], actions: Sequence[PolicyAction], where: str
    ) -> None:
        if "branch_scope" in allow and "target_branch_scope" in allow:
            self.problems.append(f"{where}give branch_scope or target_branch_scope, not both")
        for key, is_used in _SCOPED.items():
            wrong = [action for action in actions if key in allow and not is_used(action)]
            self.problems += [
                f"{where}{key} means nothing for action '{action}'" for action in wrong
            ]

    def _scope(self, text: Any, where: str) -> BranchScope:
        scopes = [scope.value for scope in BranchScope]
        if text in scopes:
            return BranchScope(text)
        near = suggestion(did_you_mean(str(text), scopes)) or f"; it is one of {', '.join(scopes)}"
        self.problems.append(f"{where}: unknown scope {text!r}{near}")
        return BranchScope.PROTECTED

    def _mapping(self, section: Any, where: str) -> Mapping[Any, Any]:
        if isinstance(section, Mapping):
            return section
        if section is not None:
            self.problems.append(f"{where}: it is a mapping, not {type(section).__name__}")
        return {}

    def _texts(self, section: Any, where: str) -> tuple[str, ...]:
        """Read a list of texts that are not blank."""
        if section is None:
            return ()
        if not isinstance(section, list):
            self.problems.append(f"{where}a list is wanted, not {type(section).__name__}")
            return ()
        wrong = [text for text in section if not isinstance(text, str) or not text.strip()]
        self.problems += [f"{where}{text!r} is blank or no text" for text in wrong]
        return tuple(text for text in section if isinstance(text, str) and text.strip())

    def _warn_of_unused(
        self, groups: Mapping[str, Any], protected: frozenset[str], rules: Sequence[Rule]
    ) -> None:
        used = {rule.group for rule in rules}
        self.warnings += [
            f"group '{group}' is used by no rule" for group in groups if group not in used
        ]
        if not protected:
            self.warnings += [
                f"rule '{rule.id}': it speaks of protected branches, and protected_branches is empty"
                for rule in rules
                if {rule.branch_scope, rule.target_branch_scope} != {BranchScope.ANY}
            ]
        self.warnings += _list_shadowed(rules)
        self.warnings += _list_lone_invocations(rules)


def list_repeated(names: Sequence[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _list_shadowed(rules: Sequence[Rule]) -> Iterator[str]:
    """Name the rules that an earlier rule of the same group makes needless."""
    by_group: dict[str, list[Rule]] = {}
    for rule in rules:
        earlier = by_group.setdefault(rule.group, [])
        broader = next((other for other in earlier if _covers(other, rule)), None)
        if broader is not None:
            yield f"rule '{rule.id}': rule '{broader.id}' allows all of it already"
        earlier.append(rule)


def _covers(broad: Rule, narrow: Rule) -> bool:
    return (
        set(narrow.actions) <= set(broad.actions)
        and broad.branch_scope in (BranchScope.ANY, narrow.branch_scope)
        and broad.target_branch_scope in (BranchScope.ANY, narrow.target_branch_scope)
        and (
            not broad.queries
            or (bool(narrow.queries) and set(narrow.queries) <= set(broad.queries))
        )
    )


def _list_lone_invocations(rules: Sequence[Rule]) -> Iterator[str]:
    """Name the groups that may invoke queries and neither read nor change."""
    granted: dict[str, set[PolicyAction]] = {}
    for rule in rules:
        granted.setdefault(rule.group, set()).update(rule.actions)
    for group, actions in granted.items():
        if PolicyAction.INVOKE_QUERY in actions and not actions & {
            PolicyAction.READ,
            PolicyAction.CHANGE,
        }:
            yield f"group '{group}' may invoke_query, and neither read nor change"
