"""Comparing two versions of a table: the rows that may differ, the rows that do differ, and in which columns."""
