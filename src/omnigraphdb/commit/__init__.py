"""From a prepared write to a visible one."""
