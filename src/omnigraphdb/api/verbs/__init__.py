"""Verbs of a graph: each is declared once, with its arguments, its rights and its places on the surfaces."""
