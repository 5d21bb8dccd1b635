"""From a query tree to a plan: names and types are checked, parameters bound, operators chosen."""
