"""Reading: a plan becomes columns of dense numbers, and those become rows at the very end."""
