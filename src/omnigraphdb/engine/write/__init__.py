"""Writers: functions from a view to a plan."""
