"""The explorer: a page that shows a graph and its changes, built from `ui/` and sent as it is."""
