"""The registry of migration codes: family, tier, severity, meaning and the way out."""

from enum import StrEnum
from types import MappingProxyType

from omnigraphdb.values import dataclass


class Family(StrEnum):
    """The subject of a code; the middle part of `OG-MF-103`."""

    DESTRUCTIVE = "DS"
    MAYBE_FAIL = "MF"
    CONSTRAINT_DELETION = "CD"
    BACKWARD_INCOMPATIBLE = "BC"
    NAMING = "NM"
    OWNERSHIP = "OW"
    NON_LINEAR = "NL"
    VECTOR = "VE"
    EDGE = "ED"
    LOCK = "LK"


class Tier(StrEnum):
    """The condition under which a change may run: none, a scan, or an explicit flag."""

    SAFE = "safe"
    VALIDATED = "validated"
    DESTRUCTIVE = "destructive"


class Severity(StrEnum):
    """The default weight of a code in reports."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


class Code(StrEnum):
    """Every migration code; a published code never changes its meaning."""

    DROP_GRAPH = "OG-DS-101"
    DROP_NODE_TYPE = "OG-DS-102"
    DROP_EDGE_TYPE = "OG-DS-103"
    DROP_PROPERTY = "OG-DS-104"
    DROP_VECTOR = "OG-DS-105"
    REQUIRED_PROPERTY = "OG-MF-103"
    BECOMES_REQUIRED = "OG-MF-104"
    TYPE_CHANGE = "OG-MF-106"
    NEW_CONSTRAINT = "OG-MF-107"
    CONSTRAINT_REMOVED = "OG-CD-101"
    CONSTRAINT_MOVED = "OG-CD-102"
    INTERFACE_RENAMED = "OG-BC-101"
    INTERFACE_REMOVED = "OG-BC-102"
    IMPLEMENTS_CHANGED = "OG-BC-103"
    ANNOTATION_CHANGED = "OG-BC-104"
    UNUSABLE_HINT = "OG-BC-105"
    UNCLASSIFIED = "OG-BC-199"
    EMBED_CHANGED = "OG-VE-101"
    ENDPOINTS_CHANGED = "OG-ED-101"
    CARDINALITY_CHANGED = "OG-ED-102"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the registry; `instead` is the supported way to the goal of the change."""

    code: Code
    tier: Tier
    meaning: str
    instead: str
    severity: Severity = Severity.ERROR

    @property
    def family(self) -> Family:
        """The family named by the middle part of the code."""
        return Family(self.code.split("-")[1])


_NEW_TYPE = "declare a new type, load the data into it, then drop the old one"

_ENTRIES = (
    Entry(
        code=Code.DROP_GRAPH,
        tier=Tier.DESTRUCTIVE,
        meaning="drop a populated graph",
        instead="export the graph first",
    ),
    Entry(
        code=Code.DROP_NODE_TYPE,
        tier=Tier.DESTRUCTIVE,
        meaning="drop a populated node type",
        instead="a soft drop keeps the rows readable in earlier versions",
    ),
    Entry(
        code=Code.DROP_EDGE_TYPE,
        tier=Tier.DESTRUCTIVE,
        meaning="drop a populated edge type",
        instead="a soft drop keeps the edges readable in earlier versions",
    ),
    Entry(
        code=Code.DROP_PROPERTY,
        tier=Tier.DESTRUCTIVE,
        meaning="drop a property of a populated type",
        instead="a soft drop keeps the values readable in earlier versions",
    ),
    Entry(
        code=Code.DROP_VECTOR,
        tier=Tier.DESTRUCTIVE,
        meaning="drop a populated vector property",
        instead="a soft drop keeps the vectors readable in earlier versions",
    ),
    Entry(
        code=Code.REQUIRED_PROPERTY,
        tier=Tier.VALIDATED,
        meaning="required property without a default",
        instead="declare the property nullable (add `?` to its type) and fill it with updates",
    ),
    Entry(
        code=Code.BECOMES_REQUIRED,
        tier=Tier.VALIDATED,
        meaning="nullable property becomes required",
        instead="keep the property nullable",
    ),
    Entry(
        code=Code.TYPE_CHANGE,
        tier=Tier.DESTRUCTIVE,
        meaning="property type change",
        instead="add a nullable property of the new type under another name, fill it, "
        "then drop the old one; an enum may gain values in place",
    ),
    Entry(
        code=Code.NEW_CONSTRAINT,
        tier=Tier.VALIDATED,
        meaning="new key, unique, range or check constraint on an existing type",
        instead=f"leave the constraint out, or {_NEW_TYPE}",
    ),
    Entry(
        code=Code.CONSTRAINT_REMOVED,
        tier=Tier.DESTRUCTIVE,
        meaning="a constraint or index is removed",
        instead=f"keep the constraint and the properties it names, or {_NEW_TYPE}",
    ),
    Entry(
        code=Code.CONSTRAINT_MOVED,
        tier=Tier.SAFE,
        meaning="a constraint moves between its property and the type body",
        instead="spell the constraint where the accepted schema has it; both spellings mean the same",
    ),
    Entry(
        code=Code.INTERFACE_RENAMED,
        tier=Tier.DESTRUCTIVE,
        meaning="an interface is renamed",
        instead="keep the name of the interface",
    ),
    Entry(
        code=Code.INTERFACE_REMOVED,
        tier=Tier.DESTRUCTIVE,
        meaning="an interface is removed",
        instead="keep the interface; one without implementers costs nothing",
    ),
    Entry(
        code=Code.IMPLEMENTS_CHANGED,
        tier=Tier.DESTRUCTIVE,
        meaning="a node type implements other interfaces, or a property is declared elsewhere",
        instead="keep `implements` and the place of the declaration; "
        "a new node type may implement anything",
    ),
    Entry(
        code=Code.ANNOTATION_CHANGED,
        tier=Tier.SAFE,
        meaning="an opaque annotation changes",
        instead="keep the annotation as it was; @description and @instruction may change freely",
    ),
    Entry(
        code=Code.UNUSABLE_HINT,
        tier=Tier.DESTRUCTIVE,
        meaning="a rename hint names nothing it can continue",
        instead="let the hint name one accepted declaration of the same kind and owner that "
        "nothing else continues, or remove it",
    ),
    Entry(
        code=Code.UNCLASSIFIED,
        tier=Tier.DESTRUCTIVE,
        meaning="a change the planner does not know",
        instead="take this part of the change back",
    ),
    Entry(
        code=Code.EMBED_CHANGED,
        tier=Tier.DESTRUCTIVE,
        meaning="the source or model of an embedding changes",
        instead="add a new vector property with the new binding, fill it, then drop the old one",
    ),
    Entry(
        code=Code.ENDPOINTS_CHANGED,
        tier=Tier.DESTRUCTIVE,
        meaning="an edge type gets other endpoints",
        instead="declare a new edge type, load its edges, then drop the old one",
    ),
    Entry(
        code=Code.CARDINALITY_CHANGED,
        tier=Tier.VALIDATED,
        meaning="an edge type gets another cardinality",
        instead="keep @card, or declare a new edge type, load its edges, then drop the old one",
    ),
)

REGISTRY = MappingProxyType({entry.code: entry for entry in _ENTRIES})
"""Every code with its meaning."""
