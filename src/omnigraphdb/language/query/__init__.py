"""The query language: `.gq` text and its tree."""
