"""The rules about a schema as a whole: names that clash, and ends that do not exist."""

from collections.abc import Collection

from omnigraph.errors import shorten
from omnigraph.language.diagnostics import Findings
from omnigraph.language.schema import tree


def check_whole(findings: Findings, schema: tree.SchemaTree) -> None:
    """Report declarations that clash or that refer to nothing."""
    _names_once(findings, schema)
    edges = [found for found in schema.declarations if isinstance(found, tree.EdgeDecl)]
    nodes = dict.fromkeys(
        found.name.text for found in schema.declarations if isinstance(found, tree.NodeDecl)
    )
    others = {found.name.text for found in schema.declarations} - nodes.keys()
    _edge_names_differ(findings, edges)
    for edge in edges:
        for end in (edge.source, edge.target):
            if end.text not in nodes:
                _unknown_end(findings, edge, end, nodes, others)


def keyword_of(declaration: tree.Declaration) -> str:
    """`interface`, `node` or `edge`."""
    match declaration:
        case tree.InterfaceDecl():
            return "interface"
        case tree.NodeDecl():
            return "node"
        case tree.EdgeDecl():
            return "edge"


def _names_once(findings: Findings, schema: tree.SchemaTree) -> None:
    first: dict[tuple[str, str], tree.Declaration] = {}
    for declaration in schema.declarations:
        keyword, name = keyword_of(declaration), declaration.name
        before = first.setdefault((keyword, name.text), declaration)
        if before is not declaration:
            findings.report(
                "S020",
                name.span,
                f"{keyword} '{shorten(name.text)}' is declared twice",
                type_name=name.text,
                earlier=before.name.span,
                fix="remove or rename one of them",
            )


def _edge_names_differ(findings: Findings, edges: Collection[tree.EdgeDecl]) -> None:
    first: dict[str, tree.Name] = {}
    for edge in edges:
        before = first.setdefault(edge.name.text.lower(), edge.name)
        if before.text != edge.name.text:
            findings.report(
                "S023",
                edge.name.span,
                f"edges '{shorten(before.text)}' and '{shorten(edge.name.text)}' differ only by "
                "case, which queries ignore",
                type_name=edge.name.text,
                earlier=before.span,
                fix="give one of them another name",
            )


def _unknown_end(
    findings: Findings,
    edge: tree.EdgeDecl,
    end: tree.Name,
    nodes: Collection[str],
    others: Collection[str],
) -> None:
    is_other = end.text in others
    why = "is not a node type; edges connect nodes" if is_other else "is not declared"
    findings.report(
        "S022",
        end.span,
        f"edge '{shorten(edge.name.text)}' names '{shorten(end.text)}', which {why}",
        type_name=edge.name.text,
        near=None if is_other else (end.text, nodes),
    )
