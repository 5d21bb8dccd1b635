"""Comparing two versions of a table: which rows may differ, which do, and in what."""
