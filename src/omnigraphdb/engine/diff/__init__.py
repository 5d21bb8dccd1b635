"""Comparing two versions of a table: the rows that may differ, those that do, and in which columns."""
