"""Branch merge: base, plan per table, row comparison, conflicts, one commit."""
